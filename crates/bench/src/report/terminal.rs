//! Colours on a terminal.

use std::io::IsTerminal;

/// How a piece of text stands out. Colour only repeats what the text says: it can always be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// As is.
    #[default]
    Plain,
    /// A heading.
    Bold,
    /// Of less importance.
    Dim,
    /// As it should be, or better than what it was compared with.
    Good,
    /// Worth a look.
    Warning,
    /// Failed, or worse than what it was compared with.
    Bad,
}

impl Style {
    fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Bold => Some("1"),
            Style::Dim => Some("2"),
            Style::Good => Some("32"),
            Style::Warning => Some("33"),
            Style::Bad => Some("31"),
        }
    }

    /// `text` with the codes (ECMA-48) of this style around it, if `colour`.
    pub fn paint(self, text: &str, colour: bool) -> String {
        match self.code() {
            Some(code) if colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// Whether what goes to `stream` should be coloured: a terminal that can, and nobody who objects (`NO_COLOR`, see no-color.org).
pub fn colour_wanted(stream: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    stream.is_terminal() && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_painted_only_when_wanted() {
        assert_eq!(Style::Bad.paint("x", true), "\x1b[31mx\x1b[0m");
        assert_eq!(Style::Bad.paint("x", false), "x");
        assert_eq!(Style::Plain.paint("x", true), "x");
        assert_eq!(Style::Bold.paint("", true), "");
    }
}
