//! Frames as they come: plain bytes of each as soon as it is whole and right.

use bytes::{Bytes, BytesMut};

use super::{CRC_LEN, Codec, Frame, FrameError, Frames, open};
use crate::SegmentSlice;
use crate::checksum::{FrameChecksum, joint};
use crate::compression::Compression;

/// Decodes what [`Codec::decode`] decodes, from stored bytes that come piece by piece. Nothing of a frame is given out before its
/// checksum was found right.
#[derive(Debug)]
pub struct Decoder {
    codec: Codec,
    slice: SegmentSlice,
    checksum: FrameChecksum,
    /// Plain bytes asked for that have not been given out, relative to the slice.
    from: u32,
    len: u32,
    /// Stored bytes of the frame at hand that have come.
    parts: Vec<Bytes>,
    have: usize,
    /// That frame, once it has begun.
    frame: Option<Frame>,
    /// Plain bytes given out.
    given: u64,
    sums: Vec<(u64, u32)>,
}

impl Codec {
    /// A decoder of plain bytes `[slice.skip + from, + len)` of this slice's run, to be fed with [`Codec::stored_range`] of the same.
    pub fn decoder(&self, slice: &SegmentSlice, from: u32, len: u32) -> Decoder {
        Decoder {
            codec: self.clone(),
            slice: slice.clone(),
            checksum: FrameChecksum::new(slice.segment),
            from,
            len,
            parts: Vec::new(),
            have: 0,
            frame: None,
            given: 0,
            sums: Vec::new(),
        }
    }
}

impl Decoder {
    /// Takes the next stored bytes and adds to `out` the plain bytes of all frames that are whole now, in order. A volume that
    /// neither compresses nor encrypts shares the memory of `stored`.
    ///
    /// # Errors
    /// A frame is not what it should be, or there are more bytes than were asked for. What is in `out` is right all the same; the
    /// decoder is of no more use.
    pub fn feed(&mut self, mut stored: Bytes, out: &mut Vec<Bytes>) -> Result<(), FrameError> {
        while !stored.is_empty() {
            let frame = match self.frame.take() {
                Some(frame) => frame,
                None => self.next_frame()?.ok_or_else(|| self.truncated(self.have + stored.len()))?,
            };
            let missing = frame.stored_len.saturating_sub(self.have);
            let piece = stored.split_to(missing.min(stored.len()));
            self.have += piece.len();
            self.parts.push(piece);
            if self.have < frame.stored_len {
                self.frame = Some(frame);
                break;
            }
            let parts = std::mem::take(&mut self.parts);
            self.have = 0;
            let before = out.len();
            let sum = self.decode(&frame, parts, out)?;
            self.sums.extend(sum.map(|sum| (self.given, sum)));
            let given = out[before..].iter().map(|piece| piece.len() as u32).sum::<u32>();
            self.given += u64::from(given);
            self.from += given;
            self.len = self.len.saturating_sub(given);
        }
        Ok(())
    }

    /// What is known, without reading them again, of plain bytes given out since the last call: the crc32c of [`joint::LEN`] of them, and how
    /// many were given out before these. In order. Nothing is known in a volume that compresses or encrypts.
    pub fn sums(&mut self) -> impl Iterator<Item = (u64, u32)> {
        self.sums.drain(..)
    }

    /// Plain bytes asked for that have not been given out.
    #[cfg(test)]
    fn missing(&self) -> u32 {
        self.len
    }

    /// The end of the stored bytes.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if there should be more.
    pub fn finish(self) -> Result<(), FrameError> {
        if self.len == 0 { Ok(()) } else { Err(self.truncated(self.have)) }
    }

    fn truncated(&self, got: usize) -> FrameError {
        let stored = self.codec.stored_range(&self.slice, self.from, self.len);
        FrameError::Truncated {
            segment: self.slice.segment,
            offset: stored.start,
            expected: stored.end - stored.start,
            got: got as u64,
        }
    }

    fn next_frame(&self) -> Result<Option<Frame>, FrameError> {
        let frames: Frames<'_> = self.codec.frames(&self.slice, self.from, self.len)?;
        Ok(frames.iter().next())
    }

    /// Adds the bytes wanted of a frame whose stored bytes are `parts`; their crc32c, if it is known.
    fn decode(
        &self,
        frame: &Frame,
        parts: Vec<Bytes>,
        out: &mut Vec<Bytes>,
    ) -> Result<Option<u32>, FrameError> {
        let codec = &self.codec;
        if codec.key.is_none() && codec.compression == Compression::None {
            return self.pass_on(frame, parts, out);
        }
        let mut whole = match <[Bytes; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => {
                let mut joined = BytesMut::with_capacity(frame.stored_len);
                parts.iter().for_each(|part| joined.extend_from_slice(part));
                joined.freeze()
            }
        };
        codec.verify(&self.slice, &self.checksum, frame, &whole)?;
        whole.truncate(whole.len().saturating_sub(CRC_LEN));
        let plain = match &codec.key {
            None => {
                let body = 0..whole.len();
                codec.expand(&self.slice, frame, &whole, body)?
            }
            Some(key) => {
                let sealer = key.for_segment(self.slice.segment);
                let mut bytes = whole.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                let body = open(&self.slice, &sealer, frame, &mut bytes)?;
                codec.expand(&self.slice, frame, &bytes.freeze(), 0..body)?
            }
        };
        out.push(plain);
        Ok(None)
    }

    /// Nothing but a checksum was added to it: its pieces are what is wanted, where they are.
    fn pass_on(
        &self,
        frame: &Frame,
        parts: Vec<Bytes>,
        out: &mut Vec<Bytes>,
    ) -> Result<Option<u32>, FrameError> {
        let slice = &self.slice;
        let body = frame.stored_len.saturating_sub(CRC_LEN);
        let mut sum = self.checksum.begin(frame.offset);
        let place = sum.value();
        let mut crc = [0; CRC_LEN];
        let mut at = 0;
        for part in &parts {
            let of_body = body.saturating_sub(at).min(part.len());
            sum.update(&part[..of_body]);
            for (n, byte) in part[of_body..].iter().enumerate() {
                if let Some(place) = crc.get_mut((at + of_body + n).saturating_sub(body)) {
                    *place = *byte;
                }
            }
            at += part.len();
        }
        let offset = u64::from(frame.offset);
        if sum.value() != u32::from_le_bytes(crc) {
            return Err(FrameError::Checksum { segment: slice.segment, offset });
        }
        if body != frame.plain_len {
            return Err(FrameError::Decompress { segment: slice.segment, offset });
        }
        let mut at = 0;
        for part in parts {
            let from = frame.wanted.start.clamp(at, at + part.len()) - at;
            let to = frame.wanted.end.clamp(at, at + part.len()) - at;
            at += part.len();
            if from < to {
                out.push(part.slice(from..to));
            }
        }
        // Where the frame belongs is in its checksum, and not in that of its bytes.
        let whole = body == joint::LEN && frame.wanted == (0..body);
        Ok(whole.then(|| joint::joint(place, sum.value())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{FRAME, SEGMENT, VOLUME, codec, codecs, mixed_bytes};
    use crate::{InodeNo, SegmentBuilder};

    fn stored_run(codec: &Codec, plain: &[u8]) -> (Bytes, SegmentSlice) {
        let mut builder = SegmentBuilder::new(codec, VOLUME, SEGMENT);
        let slice = builder.push_run(InodeNo(9), 0, &[plain]).unwrap();
        (builder.finish(), slice)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn however_the_bytes_come_they_are_the_same(
            len in 1u32..5 * FRAME,
            place in any::<prop::sample::Index>(),
            wanted in any::<prop::sample::Index>(),
            cuts in proptest::collection::vec(1usize..3 * FRAME as usize, 1..40),
        ) {
            for codec in codecs() {
                let plain = mixed_bytes(len as usize, u64::from(len));
                let (object, slice) = stored_run(&codec, &plain);
                let from = place.index(len as usize) as u32;
                let count = 1 + wanted.index((len - from) as usize) as u32;
                let range = codec.stored_range(&slice, from, count);
                let mut stored = object.slice(range.start as usize..range.end as usize);
                let mut decoder = codec.decoder(&slice, from, count);
                let (mut out, mut sums) = (Vec::new(), Vec::new());
                for cut in cuts.iter().cycle() {
                    if stored.is_empty() {
                        break;
                    }
                    decoder.feed(stored.split_to((*cut).min(stored.len())), &mut out).unwrap();
                    let given: usize = out.iter().map(Bytes::len).sum();
                    prop_assert_eq!(decoder.missing() as usize, count as usize - given);
                    sums.extend(decoder.sums());
                }
                decoder.finish().unwrap();
                let out = out.concat();
                for (at, sum) in sums {
                    prop_assert_eq!(sum, crate::checksum::crc32c(&out[at as usize..][..joint::LEN]));
                }
                prop_assert_eq!(out, &plain[from as usize..(from + count) as usize]);
            }
        }

        #[test]
        fn a_flipped_bit_is_never_given_out(bit in any::<prop::sample::Index>(), cut in 1usize..3 * FRAME as usize) {
            for codec in codecs() {
                let plain = mixed_bytes(3 * FRAME as usize, 3);
                let (object, slice) = stored_run(&codec, &plain);
                let range = codec.stored_range(&slice, 0, 3 * FRAME);
                let mut stored = object[range.start as usize..range.end as usize].to_vec();
                let bit = bit.index(stored.len() * 8);
                stored[bit / 8] ^= 1 << (bit % 8);
                let mut decoder = codec.decoder(&slice, 0, 3 * FRAME);
                let mut out = Vec::new();
                let fed = stored.chunks(cut).try_for_each(|piece| decoder.feed(Bytes::copy_from_slice(piece), &mut out));
                prop_assert!(fed.is_err());
                let given = out.concat();
                prop_assert_eq!(&given[..], &plain[..given.len()]);
            }
        }
    }

    #[test]
    fn too_few_and_too_many_bytes_are_told() {
        let codec = codec(Compression::None, false);
        let (object, slice) = stored_run(&codec, &mixed_bytes(2 * FRAME as usize, 1));
        let range = codec.stored_range(&slice, 0, FRAME);
        let (start, end) = (range.start as usize, range.end as usize);
        let mut decoder = codec.decoder(&slice, 0, FRAME);
        decoder.feed(object.slice(start..end - 1), &mut Vec::new()).unwrap();
        assert!(matches!(decoder.finish(), Err(FrameError::Truncated { .. })));
        let mut decoder = codec.decoder(&slice, 0, FRAME);
        let error = decoder.feed(object.slice(start..end + 1), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, FrameError::Truncated { .. }), "{error}");
    }

    #[test]
    fn plain_volumes_are_decoded_where_the_bytes_are() {
        let codec = codec(Compression::None, false);
        let (object, slice) = stored_run(&codec, &mixed_bytes(3 * FRAME as usize, 1));
        let range = codec.stored_range(&slice, 10, 2 * FRAME);
        let stored = object.slice(range.start as usize..range.end as usize);
        let (first, second) = (stored.slice(..1000), stored.slice(1000..));
        let mut out = Vec::new();
        let mut decoder = codec.decoder(&slice, 10, 2 * FRAME);
        decoder.feed(first, &mut out).unwrap();
        decoder.feed(second, &mut out).unwrap();
        assert!(out.iter().all(|piece| stored.as_ptr_range().contains(&piece.as_ptr())));
    }
}
