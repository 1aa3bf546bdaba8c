//! Which keys are allowed: those that every store can hold unchanged.

/// Segments that begin so belong to the local store itself.
pub(crate) const RESERVED: &str = ".headrace-tmp";

/// Longest key in bytes. S3 allows 1,024 for prefix and key together; the rest is for the prefix.
pub(crate) const MAX_KEY: usize = 800;

/// Longest segment in bytes: the longest file name.
const MAX_SEGMENT: usize = 255;

/// Says what is wrong with a key, if anything.
pub(crate) fn check(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return Err("an empty key is not a valid key".into());
    }
    check_text(key)?;
    // The client library trims these, so that another key would be meant.
    if key.trim() != key {
        return Err("a key must not begin or end with white space".into());
    }
    key.split('/').try_for_each(check_segment)
}

/// The same for the beginning of a key, as given to list: the last segment may be incomplete.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), String> {
    check_text(prefix)?;
    if prefix.trim_start() != prefix {
        return Err("a key must not begin with white space".into());
    }
    match prefix.rsplit_once('/') {
        Some((complete, _)) => complete.split('/').try_for_each(check_segment),
        None => Ok(()),
    }
}

fn check_text(text: &str) -> Result<(), String> {
    if text.len() > MAX_KEY {
        return Err(format!("the key has {} bytes, more than the {MAX_KEY} allowed", text.len()));
    }
    // These do not survive the XML of a list.
    if text.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        return Err("a key must not contain control characters".into());
    }
    Ok(())
}

fn check_segment(segment: &str) -> Result<(), String> {
    match segment {
        "" => Err("a key must not begin or end with '/' or contain '//'".into()),
        "." | ".." => Err(format!("'{segment}' must not be a part of a key")),
        _ if segment.len() > MAX_SEGMENT => {
            Err(format!("a part of the key has {} bytes, more than the {MAX_SEGMENT} allowed", segment.len()))
        }
        _ if segment.starts_with(RESERVED) => Err(format!("names that begin with '{RESERVED}' are reserved")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_leave_the_root_are_refused() {
        for key in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "a\0b",
            "a\nb",
            " a",
            "a ",
            ".headrace-tmp/x",
        ] {
            assert!(check(key).is_err(), "{key:?}");
        }
        for key in ["a", "a/b", "...", "..a", "a b", "segments/0f/x", "é+%20&=?#", "a\\b"] {
            assert_eq!(check(key), Ok(()), "{key:?}");
        }
        for prefix in ["../", "a/../", "/", "a//", "./"] {
            assert!(check_prefix(prefix).is_err(), "{prefix:?}");
        }
        for prefix in ["", "a", "a/", "a/b", "a/.."] {
            assert_eq!(check_prefix(prefix), Ok(()), "{prefix:?}");
        }
    }

    proptest! {
        /// A key that is accepted names a path strictly below the root, the same one after normalisation.
        #[test]
        fn accepted_keys_stay_below_the_root(key in "[a./ \\\\]{0,12}") {
            if check(&key).is_ok() {
                let path = std::path::Path::new(&key);
                prop_assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
                prop_assert_eq!(path.components().count(), key.split('/').count());
                prop_assert_eq!(check_prefix(&key), Ok(()));
            }
        }
    }
}
