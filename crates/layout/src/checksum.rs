//! crc32c (Castagnoli; iSCSI's parameters, RFC 3720 appendix B.4), the checksum of everything in the format.

pub mod joint;

use crc_fast::{CrcAlgorithm, Digest};

use crate::SegmentId;

/// The crc32c of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The crc32c of `first` and `second`, one after the other.
pub(crate) fn crc32c_joined(first: &[u8], second: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    // A 32-bit algorithm's value is in the low half.
    digest.finalize() as u32
}

/// Checksums of frames of one segment: crc32c over the segment id, the frame's stored offset, and its bytes, so that
/// intact bytes in the wrong place do not pass.
#[derive(Clone, Debug)]
pub(crate) struct FrameChecksum {
    /// State after the segment id.
    seeded: Digest,
}

impl FrameChecksum {
    pub(crate) fn new(segment: SegmentId) -> Self {
        let mut seeded = Digest::new(CrcAlgorithm::Crc32Iscsi);
        seeded.update(&segment.to_bytes());
        FrameChecksum { seeded }
    }

    /// The checksum of a frame stored at `offset`.
    pub(crate) fn of(&self, offset: u32, stored: &[u8]) -> u32 {
        let mut sum = self.begin(offset);
        sum.update(stored);
        sum.value()
    }

    /// The checksum of a frame stored at `offset`, to be made of it piece by piece.
    pub(crate) fn begin(&self, offset: u32) -> FrameSum {
        let mut digest = self.seeded;
        digest.update(&offset.to_be_bytes());
        FrameSum(digest)
    }
}

/// A checksum in the making.
pub(crate) struct FrameSum(Digest);

impl FrameSum {
    /// More of the frame.
    pub(crate) fn update(&mut self, stored: &[u8]) {
        self.0.update(stored);
    }

    /// Of all that has come.
    pub(crate) fn value(&self) -> u32 {
        // A 32-bit algorithm's value is in the low half.
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_frame_checksum_covers_segment_offset_and_bytes() {
        let (segment, offset, bytes) = (SegmentId(0x0123_4567_89ab), 77u32, b"some bytes");
        let sum = FrameChecksum::new(segment).of(offset, bytes);
        let mut all = segment.to_bytes().to_vec();
        all.extend_from_slice(&offset.to_be_bytes());
        all.extend_from_slice(bytes);
        assert_eq!(sum, crc32c(&all));
        assert_ne!(sum, FrameChecksum::new(segment).of(78, bytes));
        assert_ne!(sum, FrameChecksum::new(SegmentId(1)).of(offset, bytes));
    }
}
