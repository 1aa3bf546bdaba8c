//! Messages to systemd, where it asked for them.

use std::time::Duration;

use sd_notify::NotifyState;

/// The file system is there.
pub fn ready(what: &str) {
    send(&[NotifyState::Ready, NotifyState::MainPid(std::process::id()), NotifyState::Status(what)]);
}

/// The daemon has begun to end.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Work that must not be cut short goes on: do not kill before `longer` has passed.
pub fn still_working(status: &str, longer: Duration) {
    let micros = u32::try_from(longer.as_micros()).unwrap_or(u32::MAX);
    send(&[NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status(status)]);
}

fn send(states: &[NotifyState<'_>]) {
    // Does nothing, successfully, without NOTIFY_SOCKET.
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
