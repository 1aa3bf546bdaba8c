use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::checksum::crc32c;
use crate::testing::{FRAME, SEGMENT, VOLUME, codec, codecs, mixed_bytes};
use crate::{Codec, Compression, DataKey, ExtentMap, InodeNo, SegmentId, SegmentSlice};

/// Reads the index as one would with two ranged reads.
fn index_of(codec: &Codec, object: &Bytes) -> SegmentIndex {
    let footer = &object[object.len() - SegmentIndex::footer_len()..];
    let (offset, len) = SegmentIndex::parse_footer(footer).unwrap();
    SegmentIndex::decode(codec, &object[offset as usize..(offset + len) as usize]).unwrap()
}

fn sample(codec: &Codec) -> (Bytes, Vec<(u64, Vec<u8>)>) {
    let mut builder = SegmentBuilder::new(codec, VOLUME, SEGMENT);
    let mut runs = Vec::new();
    for (i, len) in [5usize, 100, 9000, 4096].into_iter().enumerate() {
        let plain = mixed_bytes(len, i as u64);
        builder.push_run(InodeNo(10 + i as u64), i as u64 * 1_000_000, &[&plain]).unwrap();
        runs.push((10 + i as u64, plain));
    }
    assert_eq!(builder.runs(), 4);
    (builder.finish(), runs)
}

#[test]
fn everything_is_found_again_from_the_object_alone() {
    for codec in codecs() {
        let (object, runs) = sample(&codec);
        let header = SegmentHeader::decode(&object[..HEADER_LEN]).unwrap();
        assert_eq!((header.volume, header.segment), (VOLUME, SEGMENT));
        assert_eq!((header.frame_size, header.encrypted), (FRAME, codec.is_encrypted()));
        let index = index_of(&codec, &object);
        assert_eq!((index.volume, index.id, index.runs.len()), (VOLUME, SEGMENT, runs.len()));
        for (i, (run, (ino, plain))) in index.runs.iter().zip(&runs).enumerate() {
            assert_eq!((run.ino, run.file_offset), (InodeNo(*ino), i as u64 * 1_000_000));
            let range = codec.stored_range(&run.slice, 0, run.slice.run_len);
            let stored = object.slice(range.start as usize..range.end as usize);
            assert_eq!(codec.decode(&run.slice, 0, run.slice.run_len, stored).unwrap().concat(), *plain);
        }
    }
}

proptest! {
    #[test]
    fn shared_runs_make_the_same_object(runs in proptest::collection::vec(proptest::collection::vec(0usize..10_000, 0..6), 1..6), seed: u64) {
        for codec in codecs().into_iter().filter(|codec| !codec.is_encrypted()) {
            let (mut copied, mut shared) = (SegmentBuilder::new(&codec, VOLUME, SEGMENT), SegmentBuilder::for_shared(&codec, VOLUME, SEGMENT));
            for (i, lengths) in runs.iter().enumerate() {
                let pieces: Vec<Bytes> = lengths.iter().map(|len| mixed_bytes(*len, seed ^ *len as u64).into()).collect();
                let slices: Vec<&[u8]> = pieces.iter().map(|piece| &piece[..]).collect();
                let (ino, at) = (InodeNo(2 + i as u64), i as u64 * 77_777);
                prop_assert_eq!(copied.push_run(ino, at, &slices).unwrap(), shared.push_shared_run(ino, at, &pieces).unwrap());
                prop_assert_eq!(copied.stored_len(), shared.stored_len());
            }
            let pieces = shared.finish_pieces();
            prop_assert_eq!(copied.finish(), Bytes::from(pieces.concat()));
        }
    }
}

#[test]
fn the_length_is_known_beforehand() {
    for codec in codecs() {
        let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
        assert!(builder.is_empty());
        for i in 0..200u64 {
            builder.push_run(InodeNo(i << 20), i << 30, &[&mixed_bytes(50 + i as usize, i)]).unwrap();
        }
        let expected = builder.stored_len();
        let object = builder.finish();
        assert_eq!(object.len(), expected);
        let footer = SegmentFooter::decode(&object[object.len() - FOOTER_LEN..]).unwrap();
        assert_eq!((footer.stored_len as usize, footer.segment), (expected, SEGMENT));
    }
}

#[test]
fn empty_runs_leave_no_trace() {
    for codec in codecs() {
        let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
        let slice = builder.push_run(InodeNo(1), 0, &[b"", b""]).unwrap();
        assert_eq!(slice.run_len, 0);
        assert!(builder.is_empty());
        assert!(index_of(&codec, &builder.finish()).runs.is_empty());
    }
}

/// The bound is tried with one large piece pushed again and again, so that the test needs little time.
#[test]
fn a_full_segment_refuses_and_stays_whole() {
    let codec = codec(Compression::None, false);
    let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
    let piece = vec![7u8; 32 << 20];
    let mut pushed = 0;
    let full = loop {
        match builder.push_run(InodeNo(1), pushed, &[&piece]) {
            Ok(_) => pushed += piece.len() as u64,
            Err(full) => break full,
        }
    };
    // A whole target of the largest size fits.
    assert_eq!(pushed, 256 << 20);
    assert_eq!(full.plain_len, 32 << 20);
    assert!(builder.fits(1 << 20) && !builder.fits(u64::MAX));
    builder.push_run(InodeNo(2), 0, &[b"still room for a little"]).unwrap();
    let object = builder.finish();
    assert!(object.len() <= MAX_STORED_LEN as usize);
    assert_eq!(index_of(&codec, &object).runs.len(), 9);
}

#[test]
fn encrypted_segments_show_neither_data_nor_inodes() {
    let codec = codec(Compression::None, true);
    let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
    let ino = u64::from_be_bytes(*b"\x01visible");
    builder.push_run(InodeNo(ino), 0, &[b"very secret text"]).unwrap();
    let object = builder.finish();
    let mut needle = Vec::new();
    crate::wire::put_varint(&mut needle, ino);
    let shows = |needle: &[u8]| object.windows(needle.len()).any(|window| window == needle);
    assert!(!shows(b"secret") && !shows(&needle));
    let mut other = codec.clone();
    other.key = Some(std::sync::Arc::new(DataKey::from_test_bytes([8; 32])));
    let (offset, len) = SegmentIndex::parse_footer(&object[object.len() - FOOTER_LEN..]).unwrap();
    let index = &object[offset as usize..(offset + len) as usize];
    assert_eq!(SegmentIndex::decode(&other, index), Err(IndexError::Decrypt { segment: SEGMENT }));
}

#[test]
fn every_bit_flip_outside_the_frames_is_noticed() {
    for codec in codecs() {
        let (object, _) = sample(&codec);
        let footer = object.len() - FOOTER_LEN;
        let (index, len) = SegmentIndex::parse_footer(&object[footer..]).unwrap();
        assert_eq!((index + len) as usize, footer);
        for bit in (0..HEADER_LEN * 8).chain(index as usize * 8..object.len() * 8) {
            let mut bad = object.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let noticed = SegmentHeader::decode(&bad[..HEADER_LEN]).is_err()
                || SegmentFooter::decode(&bad[footer..]).is_err()
                || SegmentIndex::decode(&codec, &bad[index as usize..footer]).is_err();
            assert!(noticed, "bit {bit}");
        }
    }
}

#[test]
fn a_cut_object_has_no_footer() {
    let (object, _) = sample(&codec(Compression::None, false));
    for cut in 1..200 {
        let end = object.len() - cut;
        let error = SegmentFooter::decode(&object[end - FOOTER_LEN..end]).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
    }
    assert!(SegmentFooter::decode(&object[..10]).is_err());
    assert!(SegmentHeader::decode(&object[..10]).is_err());
}

fn crc_end(bytes: &mut Vec<u8>) {
    let crc = crc32c(bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
}

#[test]
fn names_come_back_and_cost_little() {
    for codec in codecs() {
        let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
        let files: Vec<FileRecord> = (0..1000u64)
            .map(|i| FileRecord {
                ino: InodeNo(100_000 + i),
                parent: InodeNo(50_000),
                name: format!("file-{i:07}").into_bytes(),
                mode: 0o644,
                uid: 1000,
                gid: 1000,
                size: 5000,
                mtime_secs: 1_719_000_000,
                mtime_nanos: 123_456_789,
            })
            .collect();
        for file in &files {
            builder.push_run(file.ino, 0, &[b"contents"]).unwrap();
            builder
                .push_moved_run(
                    file.ino,
                    1 << 20,
                    &[b"moved here"],
                    &[
                        RunPart { len: 4, written_ms: 1_717_000_000_000 },
                        RunPart { len: 6, written_ms: 1_718_000_000_000 },
                    ],
                )
                .unwrap();
        }
        let directory = |ino, parent, name: &[u8]| DirectoryRecord {
            ino: InodeNo(ino),
            parent: InodeNo(parent),
            name: name.to_vec(),
            mode: 0o755,
            uid: 0,
            gid: 0,
        };
        let directories = [directory(50_000, 1, b"data"), directory(1, 1, b"")];
        let before = builder.stored_len();
        builder.describe(&files, &directories);
        let stranger = FileRecord { ino: InodeNo(7), ..files[0].clone() };
        builder.describe(&[stranger], &[]);
        let per_file = (builder.stored_len() - before) / files.len();
        assert!(per_file <= 22 + files[0].name.len() + 4, "{per_file} bytes a file");
        let expected = builder.stored_len();
        let object = builder.finish();
        assert_eq!(object.len(), expected);
        let index = index_of(&codec, &object);
        assert_eq!((&index.files[..], &index.directories[..]), (&files[..], &directories[..]));
        let ages: Vec<_> = index.runs[1].ages().collect();
        assert_eq!(ages, [(0, 4, 1_717_000_000_000), (4, 6, 1_718_000_000_000)]);
        let own = SEGMENT.created().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
        assert_eq!(index.runs[0].ages().collect::<Vec<_>>(), [(0, 8, own)]);
    }
}

#[test]
fn names_beyond_the_bound_are_left_out() {
    let codec = codec(Compression::None, false);
    let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
    builder.push_run(InodeNo(2), 0, &[b"x"]).unwrap();
    let directories: Vec<DirectoryRecord> = (0..40_000)
        .map(|i| DirectoryRecord {
            ino: InodeNo(i),
            parent: InodeNo::ROOT,
            name: vec![b'n'; 255],
            mode: 0o755,
            uid: 0,
            gid: 0,
        })
        .collect();
    builder.describe(&[], &directories);
    let object = builder.finish();
    assert!(object.len() < 5 << 20);
    let kept = index_of(&codec, &object).directories;
    assert!(!kept.is_empty() && kept.len() < directories.len());
}

/// An index with one record that has a field of a later version.
#[test]
fn later_fields_are_skipped() {
    let codec = codec(Compression::None, false);
    let mut index = vec![1, 0];
    index.extend_from_slice(VOLUME.as_bytes());
    index.extend_from_slice(&SEGMENT.to_bytes());
    // count 1; record of 11 bytes: inode 5, offset 0, run at 64 of 10 bytes, field 99 of 5 bytes.
    index.extend_from_slice(&[1, 11, 5, 0, 64, 10, 99, 5]);
    index.extend_from_slice(b"name!");
    crc_end(&mut index);
    let runs = SegmentIndex::decode(&codec, &index).unwrap().runs;
    let slice = SegmentSlice { segment: SEGMENT, run_offset: 64, run_len: 10, skip: 0, frames: None };
    assert_eq!(runs, [IndexRun { ino: InodeNo(5), file_offset: 0, slice, parts: Vec::new() }]);
}

/// Pins header, frame, index and footer of every kind of segment that no compressor has a say in.
#[test]
fn the_stored_form_is_pinned() {
    for (compression, encrypted, golden) in [
        (Compression::None, false, PLAIN),
        (Compression::Lz4, false, COMPRESSIBLE),
        (Compression::None, true, ENCRYPTED),
        (Compression::Lz4, true, COMPRESSIBLE_ENCRYPTED),
    ] {
        let codec = codec(compression, encrypted);
        let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
        builder.push_run(InodeNo(300), 70_000, &[b"hello ", b"world"]).unwrap();
        builder.push_run(InodeNo(2), 0, &[b"x"]).unwrap();
        assert_eq!(hex::encode(builder.finish()), golden, "{compression} {encrypted}");
    }
}

const PLAIN: &str = "4844524345534547010000000010000000112233445546778899aabbccddeeff0190123456780123456789abcdeffedc000000000000000000000000bc33437a68656c6c6f20776f726c6462abbe2478763a07d3010000112233445546778899aabbccddeeff0190123456780123456789abcdeffedc0207ac02f0a204400b0402004f014f2b70494844524345454e44010000000190123456780123456789abcdeffedc5400000034000000b800000000000000b62fe889";
const COMPRESSIBLE: &str = "4844524345534547010000000010000000112233445546778899aabbccddeeff0190123456780123456789abcdeffedc000000000000000000000000bc33437a0068656c6c6f20776f726c64ca329c01007855db98e0010000112233445546778899aabbccddeeff0190123456780123456789abcdeffedc020bac02f0a204400b010201100802005001010201062c6c6d5e4844524345454e44010000000190123456780123456789abcdeffedc560000003c000000c20000000000000041cc4ba5";
const ENCRYPTED: &str = "4844524345534547010001000010000000112233445546778899aabbccddeeff0190123456780123456789abcdeffedc000000000000000000000000f5c5bf9b7e78c7b1fef632da24f9840669457ba54ab02cef66a177edb81e82ca2b246258b9888c58a4d90d009351a8e029e3a9509775734f010100112233445546778899aabbccddeeff0190123456780123456789abcdeffedc56fd344860240fb55ec82dc987b49190ad9e2a84b00a0bfff80de3ffc030bd5c57fc4844524345454e44010000000190123456780123456789abcdeffedc7400000044000000e80000000000000037b40f74";
const COMPRESSIBLE_ENCRYPTED: &str = "4844524345534547010001000010000000112233445546778899aabbccddeeff0190123456780123456789abcdeffedc000000000000000000000000f5c5bf9b1675ceb1fdb965c239e78c4ae3653acd78e0a6bc73aa26a506a588e4bb56cc5168f38596cc9dae9f8d414f8e114310b3a1b929ff7f88010100112233445546778899aabbccddeeff0190123456780123456789abcdeffedc56f1344860240fb55ecd2dc8f8bd38f64f7fa086ef628dc47c149ff20508607d999d2d29cf939d6511854844524345454e44010000000190123456780123456789abcdeffedc760000004c000000f2000000000000006bf9ac4f";

proptest! {
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..300), encrypted: bool) {
        let codec = codec(Compression::Lz4, encrypted);
        prop_assert!(SegmentHeader::decode(&noise).is_err());
        prop_assert!(SegmentFooter::decode(&noise).is_err());
        prop_assert!(SegmentIndex::decode(&codec, &noise).is_err());
        // With checksums and heads that fit, the parsers themselves are reached.
        let mut index = vec![1, u8::from(encrypted)];
        index.extend_from_slice(&[0; 32]);
        index.extend_from_slice(&noise);
        crc_end(&mut index);
        let _ = SegmentIndex::decode(&codec, &index);
        let mut footer = b"HDRCEEND\x01\0\0\0".to_vec();
        footer.extend_from_slice(&noise);
        footer.resize(FOOTER_LEN - 4, 0);
        crc_end(&mut footer);
        if let Ok(footer) = SegmentFooter::decode(&footer) {
            prop_assert!(footer.stored_len <= MAX_STORED_LEN);
        }
    }

    #[test]
    fn mutated_indexes_are_refused_or_sound(
        mutations in prop::collection::vec((2..80usize, any::<u8>()), 1..4),
        id: u128,
    ) {
        let codec = codec(Compression::Zstd { level: 1 }, false);
        let (object, _) = sample(&codec);
        let (offset, len) = SegmentIndex::parse_footer(&object[object.len() - FOOTER_LEN..]).unwrap();
        let mut index = object[offset as usize..(offset + len) as usize - 4].to_vec();
        for (at, value) in mutations {
            let at = at % index.len();
            index[at] = value;
        }
        crc_end(&mut index);
        if let Ok(index) = SegmentIndex::decode(&codec, &index) {
            for run in index.runs {
                let slice = SegmentSlice { segment: SegmentId(id), ..run.slice };
                let _ = codec.decode(&slice, 0, slice.run_len.min(1 << 20), Bytes::new());
                // A run from an index can be put into a map and stored.
                let len = slice.run_len.min(crate::CHUNK_SIZE as u32);
                let mut map = ExtentMap::default();
                map.insert(crate::Extent { start: 0, len, data: crate::ExtentData::Segment(slice) });
                prop_assert_eq!(ExtentMap::decode(&map.encode()).unwrap(), map);
            }
        }
    }
}
