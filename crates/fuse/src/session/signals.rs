//! Whether a thread that waits for us is about to die.
//!
//! The kernel sends INTERRUPT for any signal, but programs do not expect calls on regular files to fail with EINTR
//! because, say, a timer ticked: no local file system does that. So only a signal that will end the process counts.

/// Whether a signal that ends it is pending for thread `tid`. `None` if that cannot be known.
pub(super) fn dying(tid: u32) -> Option<bool> {
    if tid == 0 {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    deadly(&status)
}

/// Signals whose default action is to be ignored, or to stop or continue the process.
const HARMLESS: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// The same from the text of `/proc/TID/status`; see proc(5).
fn deadly(status: &str) -> Option<bool> {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let pending = mask("SigPnd")? | mask("ShdPnd")?;
    let harmless = HARMLESS.iter().fold(0, |bits, signal| bits | bit(*signal));
    let kept_off = mask("SigBlk")? | mask("SigIgn")? | mask("SigCgt")? | harmless;
    Some(pending & bit(libc::SIGKILL) != 0 || pending & !kept_off != 0)
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: &[i32], shared: &[i32], blocked: &[i32], ignored: &[i32], caught: &[i32]) -> String {
        let mask = |signals: &[i32]| signals.iter().fold(0, |bits, signal| bits | bit(*signal));
        format!(
            "Name:\tcat\nSigQ:\t0/95\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n",
            mask(pending),
            mask(shared),
            mask(blocked),
            mask(ignored),
            mask(caught)
        )
    }

    #[test]
    fn only_signals_that_end_the_process_count() {
        use libc::{SIGALRM, SIGCHLD, SIGINT, SIGKILL, SIGQUIT, SIGTSTP};
        // A fatal SIGINT shows as SIGKILL pending for every thread of the process.
        assert_eq!(deadly(&status(&[SIGKILL], &[SIGINT], &[], &[], &[])), Some(true));
        // One that dumps core does not.
        assert_eq!(deadly(&status(&[], &[SIGQUIT], &[], &[], &[])), Some(true));
        assert_eq!(deadly(&status(&[SIGALRM], &[], &[], &[], &[SIGALRM])), Some(false));
        assert_eq!(deadly(&status(&[], &[SIGINT], &[SIGINT], &[], &[])), Some(false));
        assert_eq!(deadly(&status(&[], &[SIGINT], &[], &[SIGINT], &[])), Some(false));
        assert_eq!(deadly(&status(&[], &[SIGCHLD, SIGTSTP], &[], &[], &[])), Some(false));
        assert_eq!(deadly(&status(&[], &[], &[], &[], &[])), Some(false));
        assert_eq!(deadly("Name:\tcat\n"), None);
    }

    #[test]
    fn this_process_is_fine() {
        assert_eq!(dying(std::process::id()), Some(false));
        assert_eq!(dying(0), None);
    }
}
