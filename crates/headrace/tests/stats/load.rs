//! Programs that keep a mount busy for as long as a test looks.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A program that is killed, with all it started, when this is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        headrace_testbed::process::kill_group(&mut self.0);
    }
}

/// A shell that keeps a mount busy.
pub struct Load(#[allow(dead_code, reason = "held for its end")] Running);

impl Load {
    /// `dd` writes a file and reads it around the kernel's cache, again and again; directories come and go.
    pub fn on(dir: &Path) -> Load {
        let script = "while :; do
            dd if=/dev/zero of=busy bs=64k count=64 conv=fsync status=none
            dd if=busy of=/dev/null bs=64k iflag=direct status=none
            for n in 1 2 3 4 5 6 7 8 9; do mkdir d$n; rmdir d$n; done
        done";
        let child = Command::new("sh")
            .args(["-c", script])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh");
        Load(Running(child))
    }
}
