//! Which values share a bucket: four buckets to a power of two, from 2^10 to 2^40.
//!
//! In nanoseconds that is 1 us to 1,100 s; in bytes 1 KiB to 1 TiB. What is smaller is in the first bucket, what is larger in the
//! last. A bucket holds the values *above* the bound before it up to and including its own, as the label `le` of Prometheus wants.

/// Smallest power of two that is a bound.
const FIRST: u32 = 10;
/// Largest power of two that is a bound.
const LAST: u32 = 40;
/// Buckets to a power of two, as a power of two.
const SPLIT: u32 = 2;

/// How many buckets there are, with the one for small values and the one for large.
pub(crate) const BUCKETS: usize = (((LAST - FIRST) << SPLIT) + 2) as usize;

/// The bucket of `value`; always below [`BUCKETS`].
#[inline]
pub(crate) fn bucket_of(value: u64) -> usize {
    // Bounds belong to the bucket below them.
    let value = value.saturating_sub(1);
    if value < 1 << FIRST {
        return 0;
    }
    let power = value.ilog2();
    if power >= LAST {
        return BUCKETS - 1;
    }
    let part = (value >> (power - SPLIT)) & ((1 << SPLIT) - 1);
    1 + ((power - FIRST) << SPLIT) as usize + part as usize
}

/// The largest value of a bucket, `None` for the last, which has no end.
pub(crate) fn upper(bucket: usize) -> Option<u64> {
    let Some(step) = bucket.checked_sub(1) else { return Some(1 << FIRST) };
    if bucket + 1 >= BUCKETS {
        return None;
    }
    let power = FIRST + (step as u32 >> SPLIT);
    let part = step as u64 & ((1 << SPLIT) - 1);
    Some((1 << power) + ((part + 1) << (power - SPLIT)))
}

/// What all values of a bucket are above (the first bucket also holds zero).
pub(crate) fn lower(bucket: usize) -> u64 {
    bucket.checked_sub(1).and_then(upper).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_grow_and_belong_to_the_bucket_below() {
        for bucket in 0..BUCKETS - 1 {
            let bound = upper(bucket).unwrap();
            assert!(bound > lower(bucket));
            assert_eq!(bucket_of(bound), bucket);
            assert_eq!(bucket_of(bound + 1), bucket + 1);
        }
        assert_eq!(upper(BUCKETS - 1), None);
        assert_eq!(lower(BUCKETS - 1), 1 << LAST);
    }

    proptest! {
        #[test]
        fn a_value_lies_within_its_bucket(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let bucket = bucket_of(value);
            prop_assert!(bucket < BUCKETS);
            prop_assert!(value > lower(bucket) || value == 0);
            prop_assert!(upper(bucket).is_none_or(|bound| value <= bound));
        }
    }
}
