//! Prints what is asked for.

/// Prints a line. Whoever reads may stop reading (`| head`): that ends the program, and is no error.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        if writeln!(std::io::stdout(), $($text)*).is_err() {
            std::process::exit(0);
        }
    }};
}

pub(crate) use say;

pub mod plots;
pub mod scenarios;
pub mod sensitivity;
pub mod tables;
pub mod writing;

/// Says what went wrong; the exit status for it.
pub fn fail(error: &dyn std::fmt::Display) -> std::process::ExitCode {
    eprintln!("headrace-sim: {error}");
    std::process::ExitCode::from(2)
}
