//! The one error type of all stores.

/// What can go wrong, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No such object (or bucket).
    NotFound,
    /// Wrong credentials or no permission.
    Denied,
    /// The store asks for less; already retried.
    Throttled,
    /// The network or the store failed; already retried until the deadline.
    Transient,
    /// The answer is not what was asked for: wrong length, wrong checksum.
    Corrupt,
    /// A conditional put found an object there.
    AlreadyExists,
    /// The store has no room.
    Full,
    /// The store cannot do this, or the request or configuration is wrong.
    Unsupported,
}

impl ErrorKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [ErrorKind; 8] = [
        ErrorKind::NotFound,
        ErrorKind::Denied,
        ErrorKind::Throttled,
        ErrorKind::Transient,
        ErrorKind::Corrupt,
        ErrorKind::AlreadyExists,
        ErrorKind::Full,
        ErrorKind::Unsupported,
    ];

    /// What it is called in metrics.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not_found",
            ErrorKind::Denied => "denied",
            ErrorKind::Throttled => "throttled",
            ErrorKind::Transient => "transient",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::AlreadyExists => "already_exists",
            ErrorKind::Full => "full",
            ErrorKind::Unsupported => "unsupported",
        }
    }
}

/// A failed operation: what, on which object, why.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{operation} {target}: {detail}")]
pub struct StoreError {
    /// By what the caller can do.
    pub kind: ErrorKind,
    /// "get", "put", ...
    pub operation: &'static str,
    /// Store and key; never holds credentials.
    pub target: String,
    /// The cause; never holds credentials.
    pub detail: String,
}

impl StoreError {
    /// A new error. `target` is escaped, so that a hostile name cannot break the line it is printed on.
    pub(crate) fn new(
        kind: ErrorKind,
        operation: &'static str,
        target: impl AsRef<str>,
        detail: impl Into<String>,
    ) -> StoreError {
        StoreError { kind, operation, target: one_line(target.as_ref(), 1200), detail: detail.into() }
    }
}

/// `text` on one line: control characters escaped, cut after `limit` characters.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit));
    for (at, character) in text.trim().chars().enumerate() {
        if at >= limit {
            line.push('…');
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_by_their_numbers() {
        for (number, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn an_error_stays_on_one_line() {
        let error = StoreError::new(ErrorKind::NotFound, "get", "dir/a\nb\u{1b}[31m", "no such object");
        assert_eq!(error.to_string(), "get dir/a\\nb\\u{1b}[31m: no such object");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }
}
