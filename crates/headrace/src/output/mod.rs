//! What the program writes for its user: results on standard output, all else on standard error.

pub mod human;
pub mod progress;
pub mod screen;
pub mod table;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// Writes a result. A reader that went away (`headrace du | head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(drop)
}

/// Writes one of many results: whether to go on, that is, whether the reader is still there.
pub fn print_on(text: &str) -> Result<ControlFlow<()>, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(e) => Err(Failure::new("cannot write to standard output").because(&e)),
    }
}

/// Writes a result as JSON, indented, with a newline at the end.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|e| Failure::new("cannot write JSON").because(&e))?;
    text.push('\n');
    print(&text)
}

/// Writes one of many results as JSON on a line of its own; like [`print_on`].
pub fn print_json_line(value: &impl Serialize) -> Result<ControlFlow<()>, Failure> {
    let mut text = serde_json::to_string(value).map_err(|e| Failure::new("cannot write JSON").because(&e))?;
    text.push('\n');
    print_on(&text)
}

/// Says something to the person at the terminal. Nothing can be done if that fails.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says why the program ends.
pub fn say_failure(failure: &Failure) {
    say(&format!("headrace: {failure}"));
}

/// A path for a person: control characters and bytes that are not UTF-8 are escaped, so that a hostile name can neither
/// break a line nor drive the terminal.
pub fn path(path: &Path) -> String {
    name(path.as_os_str().as_bytes())
}

/// Like [`path`], for raw bytes.
pub fn name(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c.is_control() => out.extend(c.escape_default()),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_on_one_line() {
        assert_eq!(name(b"plain"), "plain");
        assert_eq!(name("né".as_bytes()), "né");
        assert_eq!(name(b"a\nb\x1b[2J\xff\\"), "a\\nb\\u{1b}[2J\\xff\\\\");
    }
}
