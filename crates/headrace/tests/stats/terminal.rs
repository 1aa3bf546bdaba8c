//! A real terminal: tmux, with a server of its own.

use std::path::PathBuf;
use std::time::Duration;

use headrace_testbed::process::wait_until;
use headrace_testbed::{Run, TestVolume};

/// How long something may take to appear; a machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the shell in the terminal says when the program has ended, before its exit status.
const ENDED: &str = "the-program-ended-with";

/// A window in which a program runs. Gone with everything in it when dropped.
pub struct Terminal<'v> {
    volume: &'v TestVolume,
    socket: PathBuf,
}

impl<'v> Terminal<'v> {
    /// Runs `headrace ARGS` in a window of this size. When it has ended, the shell says how, and how the terminal is set.
    pub fn run(volume: &'v TestVolume, (width, height): (u16, u16), args: &[&str]) -> Terminal<'v> {
        let socket =
            volume.scratch().join(format!("tmux-{width}x{height}-{}", args.join("-").replace('/', "_")));
        // A socket's path is short.
        let socket = socket.with_file_name(format!(
            "tmux-{}",
            headrace_testbed::sha256_hex(socket.as_os_str().as_encoded_bytes(),).get(..8).unwrap_or_default()
        ));
        let terminal = Terminal { volume, socket };
        let script = "echo the-shell-was-here; \"$@\"; code=$?
            stty -a | grep -o -w -e -icanon -e -echo -e icanon -e echo | tr '\\n' ' '
            echo \"the-program\"\"-ended-with $code\"; exec sleep 1000";
        terminal
            .tmux()
            .args([
                "-f",
                "/dev/null",
                "new-session",
                "-d",
                "-x",
                &width.to_string(),
                "-y",
                &height.to_string(),
            ])
            .args(["sh", "-c", script, "sh"])
            .arg(headrace_testbed::headrace())
            .args(args)
            .ok();
        terminal
    }

    fn tmux(&self) -> Run {
        let run = Run::new("tmux").envs(&self.volume.env()).env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        run.limit(PATIENCE).arg("-u").arg("-S").arg(&self.socket)
    }

    /// What is on it now.
    pub fn shown(&self) -> String {
        self.tmux().args(["capture-pane", "-p"]).ok()
    }

    /// Types.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux().arg("send-keys").args(keys).ok();
    }

    /// Changes the size of the window.
    pub fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.tmux().args(["resize-window", "-x", &width, "-y", &height]).ok();
    }

    /// Waits until what is on it is as wanted; gives it.
    #[track_caller]
    pub fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let found = wait_until(PATIENCE, || Some(self.shown()).filter(|shown| wanted(shown)));
        match found {
            Some(shown) => shown,
            None => panic!("the terminal never showed {what}:\n{}", self.shown()),
        }
    }

    /// Waits for the end of the program: what is left on the screen. The terminal must be as it was.
    #[track_caller]
    pub fn ended(&self, code: i32) -> String {
        let shown = self.until("the end of the program", |shown| shown.contains(ENDED));
        assert!(shown.contains(&format!("{ENDED} {code}\n")), "{shown}");
        assert!(
            shown.contains("icanon") && !shown.contains("-icanon"),
            "the terminal is still raw:\n{shown}"
        );
        assert!(!shown.contains("-echo"), "the terminal does not show what is typed:\n{shown}");
        assert!(shown.contains("the-shell-was-here"), "what was on the screen before is gone:\n{shown}");
        shown
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux().arg("kill-server").finish();
    }
}
