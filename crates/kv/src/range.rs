//! Bounds of key ranges.

use crate::MAX_KEY_BYTES;

/// The end (excluded) of the range of keys that start with `prefix`: the least key above all of them. For an empty
/// prefix, or one of `0xff` only, that is a bound above every key an engine accepts.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|&b| b != 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![0xff; MAX_KEY_BYTES + 1],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn separates_the_prefix_from_everything_else(
            prefix in prop::collection::vec(prop_oneof![Just(0xffu8), Just(0xfe), any::<u8>()], 0..4),
            key in prop::collection::vec(prop_oneof![Just(0xffu8), Just(0xfe), any::<u8>()], 1..6),
        ) {
            let end = prefix_end(&prefix);
            let inside = key >= prefix && key < end;
            prop_assert_eq!(inside, key.starts_with(&prefix));
        }
    }
}
