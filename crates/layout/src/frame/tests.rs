use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::segment::HEADER_LEN;
use crate::testing::{FRAME, SEGMENT, VOLUME, codec, codecs, mixed_bytes};
use crate::{InodeNo, SegmentBuilder};

/// One run of `plain` in a segment of its own.
fn stored_run(codec: &Codec, id: SegmentId, plain: &[u8]) -> (Bytes, SegmentSlice) {
    let mut builder = SegmentBuilder::new(codec, VOLUME, id);
    let slice = builder.push_run(InodeNo(9), 0, &[plain]).unwrap();
    (builder.finish(), slice)
}

fn read(
    codec: &Codec,
    object: &Bytes,
    slice: &SegmentSlice,
    from: u32,
    len: u32,
) -> Result<Vec<u8>, FrameError> {
    let range = codec.stored_range(slice, from, len);
    let stored = object.slice(range.start as usize..range.end as usize);
    Ok(codec.decode(slice, from, len, stored)?.concat())
}

#[test]
fn a_codec_needs_the_key_its_volume_needs() {
    let mut superblock = Superblock::new(VOLUME, "v", 0);
    assert_eq!(Codec::new(&superblock, Some(DataKey::generate())).unwrap_err(), CryptoError::KeyUnexpected);
    superblock.encryption = Some(crate::Encryption::new("A".repeat(80)));
    assert_eq!(Codec::new(&superblock, None).unwrap_err(), CryptoError::KeyMissing);
}

#[test]
fn codec_and_builder_can_go_to_other_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    fn sent<T: Send>() {}
    shared::<Codec>();
    sent::<SegmentBuilder>();
}

#[test]
fn whole_runs_round_trip_at_the_edges_of_frames() {
    for codec in codecs() {
        for len in [1, 2, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME, 3 * FRAME + 17] {
            let plain = mixed_bytes(len as usize, u64::from(len));
            let (object, slice) = stored_run(&codec, SEGMENT, &plain);
            assert_eq!((slice.run_offset as usize, slice.run_len, slice.skip), (HEADER_LEN, len, 0));
            assert_eq!(read(&codec, &object, &slice, 0, len).unwrap(), plain);
            let range = codec.stored_range(&slice, 0, len);
            assert!(range.end - range.start <= codec.max_stored_len(u64::from(len)));
        }
    }
}

#[test]
fn only_the_frames_needed_are_fetched() {
    let codec = codec(Compression::None, false);
    let (_, slice) = stored_run(&codec, SEGMENT, &mixed_bytes(4 * FRAME as usize, 1));
    let stride = u64::from(FRAME) + 4;
    let head = HEADER_LEN as u64;
    assert_eq!(codec.stored_range(&slice, 0, 1), head..head + stride);
    assert_eq!(codec.stored_range(&slice, FRAME - 1, 2), head..head + 2 * stride);
    assert_eq!(codec.stored_range(&slice, 3 * FRAME, FRAME), head + 3 * stride..head + 4 * stride);
    assert!(codec.stored_range(&slice, 5, 0).is_empty());
}

#[test]
fn plain_volumes_are_read_without_copying() {
    let codec = codec(Compression::None, false);
    let (object, slice) = stored_run(&codec, SEGMENT, &mixed_bytes(3 * FRAME as usize, 1));
    let range = codec.stored_range(&slice, 10, 2 * FRAME);
    let stored = object.slice(range.start as usize..range.end as usize);
    for piece in codec.decode(&slice, 10, 2 * FRAME, stored.clone()).unwrap() {
        assert!(stored.as_ptr_range().contains(&piece.as_ptr()));
    }
}

#[test]
fn encrypted_frames_are_opened_in_place_when_nothing_else_holds_them() {
    let codec = codec(Compression::None, true);
    let plain = mixed_bytes(2 * FRAME as usize, 1);
    let (object, slice) = stored_run(&codec, SEGMENT, &plain);
    let range = codec.stored_range(&slice, 0, slice.run_len);
    let stored = Bytes::from(object[range.start as usize..range.end as usize].to_vec());
    let memory = stored.as_ptr_range();
    let pieces = codec.decode(&slice, 0, slice.run_len, stored).unwrap();
    assert!(pieces.iter().all(|piece| memory.contains(&piece.as_ptr())));
    // A shared buffer stays as it is for the others.
    let shared = object.clone();
    read(&codec, &object, &slice, 0, slice.run_len).unwrap();
    assert_eq!(shared, object);
    assert_eq!(read(&codec, &object, &slice, 0, slice.run_len).unwrap(), plain);
}

#[test]
fn every_bit_flip_in_a_frame_is_noticed() {
    for codec in codecs() {
        let mut plain = b"headrace ".repeat(40);
        plain.extend_from_slice(&mixed_bytes(200, 3));
        let (object, slice) = stored_run(&codec, SEGMENT, &plain);
        let range = codec.stored_range(&slice, 0, slice.run_len);
        let (start, end) = (range.start as usize, range.end as usize);
        for bit in start * 8..end * 8 {
            let mut bad = object.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let error =
                codec.decode(&slice, 0, slice.run_len, Bytes::from(bad).slice(start..end)).unwrap_err();
            assert_eq!(error, FrameError::Checksum { segment: SEGMENT, offset: HEADER_LEN as u64 });
        }
    }
}

/// Bytes changed on purpose, with the checksum (which is no secret) mended.
#[test]
fn tampering_with_encrypted_frames_is_noticed() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd { level: 3 }] {
        let codec = codec(compression, true);
        let (object, slice) = stored_run(&codec, SEGMENT, &b"headrace ".repeat(20));
        let range = codec.stored_range(&slice, 0, slice.run_len);
        let frame = &object[range.start as usize..range.end as usize];
        let checksum = FrameChecksum::new(SEGMENT);
        for bit in 0..(frame.len() - CRC_LEN) * 8 {
            let mut bad = frame.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            bad.truncate(frame.len() - CRC_LEN);
            let crc = checksum.of(slice.run_offset, &bad);
            bad.extend_from_slice(&crc.to_le_bytes());
            let error = codec.decode(&slice, 0, slice.run_len, bad.into()).unwrap_err();
            assert_eq!(error, FrameError::Decrypt { segment: SEGMENT, offset: range.start });
        }
    }
}

#[test]
fn misplaced_frames_are_refused() {
    for codec in codecs() {
        // Equal bytes, so that frames have equal lengths whatever the method.
        let plain =
            [b"equal content of both frames ".repeat(200), vec![]].concat()[..FRAME as usize].repeat(2);
        let (object, slice) = stored_run(&codec, SEGMENT, &plain);
        let first = codec.stored_range(&slice, 0, FRAME);
        let second = codec.stored_range(&slice, FRAME, FRAME);
        let at = |range: &Range<u64>| object.slice(range.start as usize..range.end as usize);
        assert_eq!(at(&first).len(), at(&second).len());
        let error = codec.decode(&slice, 0, FRAME, at(&second)).unwrap_err();
        assert_eq!(error, FrameError::Checksum { segment: SEGMENT, offset: first.start });
        let other = SegmentId(SEGMENT.0 ^ 1);
        let (foreign, _) = stored_run(&codec, other, &plain);
        let swapped = foreign.slice(first.start as usize..first.end as usize);
        let error = codec.decode(&slice, 0, FRAME, swapped).unwrap_err();
        assert!(error.to_string().contains(&SEGMENT.to_string()), "{error}");
    }
}

#[test]
fn another_volumes_key_does_not_decrypt() {
    let ours = codec(Compression::None, true);
    let mut theirs = ours.clone();
    theirs.key = Some(Arc::new(DataKey::from_test_bytes([8; 32])));
    let (object, slice) = stored_run(&theirs, SEGMENT, &[1; 100]);
    let error = read(&ours, &object, &slice, 0, 100).unwrap_err();
    assert!(matches!(error, FrameError::Decrypt { .. }));
}

#[test]
fn cut_and_surplus_bytes_are_refused() {
    for codec in codecs() {
        let (object, slice) = stored_run(&codec, SEGMENT, &mixed_bytes(2 * FRAME as usize, 5));
        let range = codec.stored_range(&slice, 0, slice.run_len);
        let stored = object.slice(range.start as usize..range.end as usize);
        for len in [0, 1, 4, stored.len() / 2, stored.len() - 1] {
            let error = codec.decode(&slice, 0, slice.run_len, stored.slice(..len)).unwrap_err();
            assert!(matches!(error, FrameError::Truncated { got, .. } if got == len as u64));
        }
        let surplus = object.slice(range.start as usize..range.end as usize + 1);
        assert!(codec.decode(&slice, 0, slice.run_len, surplus).is_err());
    }
}

#[test]
fn slices_that_do_not_fit_the_volume_are_refused() {
    let (plain, packed) = (codec(Compression::None, false), codec(Compression::Lz4, false));
    let (object, slice) = stored_run(&plain, SEGMENT, &[1; 5000]);
    let (_, packed_slice) = stored_run(&packed, SEGMENT, &[1; 5000]);
    let bad = |codec: &Codec, slice: &SegmentSlice, from, len| {
        assert!(codec.stored_range(slice, from, len).is_empty());
        matches!(codec.decode(slice, from, len, object.slice(..0)), Err(FrameError::BadSlice { .. }))
    };
    assert!(bad(&plain, &slice, 0, 5001));
    assert!(bad(&plain, &slice, u32::MAX, u32::MAX));
    assert!(bad(&plain, &packed_slice, 0, 10));
    assert!(bad(&packed, &slice, 0, 10));
    let with_frames = |frames: &[u32]| SegmentSlice { frames: Some(frames.into()), ..packed_slice.clone() };
    for frames in [&[][..], &[50], &[50, 50, 50], &[5, 50], &[u32::MAX, 50], &[50, FRAME + 6]] {
        assert!(bad(&packed, &with_frames(frames), 0, 5000), "{frames:?}");
    }
    assert!(bad(&plain, &SegmentSlice { run_offset: u32::MAX - 5000, ..slice.clone() }, 0, 5000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_part_of_any_run_reads_back(
        lens in prop::collection::vec(1..20_000usize, 1..5),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..10),
        seed: u64,
    ) {
        for codec in codecs() {
            let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
            let runs: Vec<_> = lens.iter().enumerate().map(|(i, len)| {
                let plain = mixed_bytes(*len, seed ^ i as u64);
                let (head, tail) = plain.split_at(len / 3);
                let slice = builder.push_run(InodeNo(i as u64), 0, &[head, &[], tail]).unwrap();
                (plain, slice)
            }).collect();
            let object = builder.finish();
            for (run, start, len) in &cuts {
                let (plain, slice) = &runs[run.index(runs.len())];
                let start = start.index(plain.len());
                let len = len.index(plain.len() - start + 1);
                // The same bytes, however the start is shared out between `skip` and `from`.
                for skip in [0, start / 2, start] {
                    let part = SegmentSlice { skip: skip as u32, ..slice.clone() };
                    let got = read(&codec, &object, &part, (start - skip) as u32, len as u32).unwrap();
                    prop_assert_eq!(&got, &plain[start..start + len]);
                }
            }
        }
    }

    #[test]
    fn noise_never_panics(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        numbers in (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()),
        small: bool,
        frames in prop::option::of(prop::collection::vec(0..400u32, 0..4)),
    ) {
        let (run_offset, mut run_len, mut skip, mut from, mut len) = numbers;
        if small {
            run_len %= 3 * FRAME;
            (skip, from, len) = (skip % 300, from % 300, len % 300);
        }
        for codec in codecs() {
            let frames = frames.as_deref().map(Arc::from);
            let slice = SegmentSlice { segment: SEGMENT, run_offset, run_len, skip, frames };
            let range = codec.stored_range(&slice, from, len);
            prop_assert!(range.end <= u64::from(u32::MAX) || range.is_empty());
            let wanted = (range.end - range.start) as usize;
            let mut stored = noise.clone();
            prop_assert!(wanted <= 4 && len == 0 || codec.decode(&slice, from, len, stored.clone().into()).is_err());
            // With a checksum that fits, what is behind it is reached.
            if wanted > CRC_LEN && wanted < 10_000 {
                stored.resize(wanted - CRC_LEN, 1);
                let crc = FrameChecksum::new(SEGMENT).of(range.start as u32, &stored);
                stored.extend_from_slice(&crc.to_le_bytes());
                if let Ok(pieces) = codec.decode(&slice, from, len, stored.into()) {
                    prop_assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), len as usize);
                }
            }
        }
    }
}
