//! The table of free pages: by transaction, the pages it freed.

use super::file::DataFile;
use super::seen::Seen;
use super::tree::Value;
use crate::KvError;

/// Checks one entry: a count, then so many page numbers in descending order, none of them met before.
pub(super) fn check(
    file: &DataFile<'_>,
    seen: &mut Seen,
    key: &[u8],
    value: &Value<'_>,
    newest_txn: u64,
) -> Result<(), KvError> {
    let damaged = |detail: &str| file.damaged(&format!("the list of free pages {detail}"));
    let txn = key.try_into().map(u64::from_le_bytes).map_err(|_| damaged("has a key of the wrong length"))?;
    if txn == 0 || txn > newest_txn {
        return Err(damaged("names a transaction that was not"));
    }
    let mut left = None;
    let mut previous = u64::MAX;
    let mut partial = Vec::new();
    value.pieces(file, &mut |piece| {
        partial.extend_from_slice(piece);
        let (numbers, rest) = partial.as_chunks::<8>();
        for number in numbers.iter().map(|n| u64::from_le_bytes(*n)) {
            let Some(count) = left else {
                // The first one; room after the last page is allowed.
                left = Some(number);
                continue;
            };
            if count == 0 {
                break;
            }
            left = Some(count - 1);
            if number >= previous {
                return Err(damaged("is out of order"));
            }
            if !seen.mark(number) {
                return Err(damaged(&format!(
                    "has page {number}, which is in use, free twice, or none at all"
                )));
            }
            previous = number;
        }
        let rest = rest.to_vec();
        partial = rest;
        Ok(())
    })?;
    match left {
        Some(0) => Ok(()),
        _ => Err(damaged("ends early")),
    }
}
