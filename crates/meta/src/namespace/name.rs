//! Which names are names.

use crate::{MAX_NAME, MetaError, Result};

/// Any bytes but NUL and '/', 1 to 255 of them. "." and ".." pass: what they mean depends on the operation.
pub(super) fn check(name: &[u8]) -> Result<()> {
    if name.is_empty() {
        return Err(MetaError::NotFound);
    }
    if name.len() > MAX_NAME {
        return Err(MetaError::NameTooLong);
    }
    if name.iter().any(|&byte| byte == 0 || byte == b'/') {
        return Err(MetaError::Invalid("a name holds NUL or '/'"));
    }
    Ok(())
}

/// Whether it is "." or "..".
pub(super) fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// A name that is about to be given to something.
pub(crate) fn check_new(name: &[u8]) -> Result<()> {
    check(name)?;
    if is_dots(name) { Err(MetaError::Exists) } else { Ok(()) }
}
