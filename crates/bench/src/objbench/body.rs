//! The bytes that are written, and the proof that they came back.

use bytes::Bytes;

use super::ObjbenchError;

/// Objects whose bodies differ; later ones begin anew.
const DISTINCT: usize = 1 << 20;

/// The bodies of all objects of a run: windows into one buffer of random bytes, so that making one costs nothing, comparing one costs a
/// pass over memory, none can be compressed, and no two of a run are the same.
#[derive(Clone)]
pub(super) struct Bodies {
    bytes: Bytes,
}

impl Bodies {
    /// Bodies of up to `largest` bytes, different in each run.
    pub fn new(largest: usize, seed: u64) -> Result<Bodies, ObjbenchError> {
        let length = largest.saturating_add(DISTINCT);
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(length + 8).map_err(|_| ObjbenchError::Memory { bytes: length as u64 })?;
        // Zero would stay zero.
        let mut state = seed.max(1);
        while bytes.len() < length {
            // Marsaglia's xorshift64*: as fast as memory, and without a pattern that a store could compress.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        Ok(Bodies { bytes: Bytes::from(bytes) })
    }

    /// The body of object number `index`.
    pub fn body(&self, index: usize, length: usize) -> Bytes {
        let start = Self::start(index);
        let end = start.saturating_add(length).min(self.bytes.len());
        self.bytes.slice(start.min(end)..end)
    }

    /// Whether `found` is what lies at `offset` of object number `index`, `length` bytes long.
    pub fn matches(&self, found: &[u8], index: usize, offset: usize, length: usize) -> bool {
        let start = Self::start(index).saturating_add(offset);
        self.bytes.get(start..start.saturating_add(length)).is_some_and(|expected| expected == found)
    }

    /// An odd factor reaches every start once, and neighbours lie far apart.
    fn start(index: usize) -> usize {
        index.wrapping_mul(0x9e37_79b1) % DISTINCT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_differ_and_are_recognised() {
        let bodies = Bodies::new(5000, 42).unwrap();
        let first = bodies.body(0, 5000);
        assert_eq!(first.len(), 5000);
        assert!(bodies.matches(&first, 0, 0, 5000));
        assert!(bodies.matches(&first[100..300], 0, 100, 200));
        for (found, why) in [
            (bodies.body(1, 5000), "another object"),
            (first.slice(..4999), "too short"),
            (Bytes::from([&first[1..], &first[..1]].concat()), "shifted"),
            (Bodies::new(5000, 43).unwrap().body(0, 5000), "another run"),
        ] {
            assert!(!bodies.matches(&found, 0, 0, 5000), "{why}");
        }
        let starts: std::collections::HashSet<usize> = (0..DISTINCT).map(Bodies::start).collect();
        assert_eq!(starts.len(), DISTINCT);
    }
}
