//! All figures of this process at one moment.

use headrace_fuse::Session;
use headrace_metrics::{Collection, Snapshot, Unit};
use headrace_vfs::Vfs;

use super::process;

/// Takes them down, layer by layer.
pub fn gather(session: &Session, vfs: &Vfs) -> Snapshot {
    let mut into = Collection::new();
    session.collect(&mut into);
    vfs.collect(&mut into);
    let help = "Always 1; the labels say which version this is";
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    into.gauges("headrace_build_info", help, Unit::None).gauge(&version, 1.0);
    process::collect(&mut into);
    Snapshot::new(into)
}
