//! The extent map against a model that keeps every byte's origin, and its decoder against hostile bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::checksum::crc32c;

const CHUNK_END: u32 = CHUNK_SIZE as u32;
const RUN_LEN: u32 = 600;

/// Where one byte comes from: (source, offset in the source).
type Origin = (u64, u32);
type Model = BTreeMap<u32, Origin>;

/// Sources 0..4 are runs (odd ones with frame lengths), others inline values.
fn data(source: u64, skip: u32) -> ExtentData {
    if source >= 4 {
        return ExtentData::Inline { id: source, skip };
    }
    let frames = (source % 2 == 1).then(|| Arc::from([100u32, 20, 300].as_slice()));
    let segment = SegmentId(u128::from(source / 2) << 90);
    ExtentData::Segment(SegmentSlice {
        segment,
        run_offset: 64 + 5000 * source as u32,
        run_len: RUN_LEN,
        skip,
        frames,
    })
}

fn origin(data: &ExtentData) -> Origin {
    match data {
        ExtentData::Segment(slice) => (u64::from(slice.run_offset - 64) / 5000, slice.skip),
        ExtentData::Inline { id, skip } => (*id, *skip),
    }
}

fn bytes_of(extents: &[Extent]) -> Model {
    let mut model = Model::new();
    for extent in extents {
        let (source, skip) = origin(&extent.data);
        for i in 0..extent.len {
            assert!(model.insert(extent.start + i, (source, skip + i)).is_none(), "overlap");
        }
    }
    model
}

fn taken(model: &mut Model, start: u32, end: u32) -> Model {
    let mut rest = model.split_off(&start);
    let mut above = rest.split_off(&end.max(start));
    model.append(&mut above);
    rest
}

#[derive(Clone, Debug)]
enum Step {
    Insert { start: u32, len: u32, source: u64, skip: u32 },
    Punch { start: u32, end: u32 },
    Slice { start: u32, end: u32 },
    Collapse { start: u32, end: u32 },
    Open { at: u32, by: u32 },
}

fn position() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..500u32, 2 => CHUNK_END - 500..CHUNK_END]
}

fn step() -> impl Strategy<Value = Step> {
    let insert = (position(), 1..80u32, 0..6u64, 0..500u32).prop_map(|(start, len, source, skip)| {
        Step::Insert { start, len: len.min(CHUNK_END - start), source, skip }
    });
    // Sources laid out so that neighbours often continue each other.
    let aligned = (0..50u32, 1..8u32, 0..6u64).prop_map(|(block, blocks, source)| Step::Insert {
        start: block * 10,
        len: blocks * 10,
        source,
        skip: block * 10,
    });
    let range = || (position(), 0..100u32).prop_map(|(start, len)| (start, start + len));
    prop_oneof![
        4 => insert,
        4 => aligned,
        2 => range().prop_map(|(start, end)| Step::Punch { start, end }),
        1 => range().prop_map(|(start, end)| Step::Slice { start, end }),
        1 => range().prop_map(|(start, end)| Step::Collapse { start, end }),
        1 => (position(), 0..60u32).prop_map(|(at, by)| Step::Open { at, by }),
    ]
}

fn run(map: &mut ExtentMap, model: &mut Model, step: Step) {
    match step {
        Step::Insert { start, len, source, skip } => {
            let old = taken(model, start, start + len);
            let displaced = map.insert(Extent { start, len, data: data(source, skip) });
            assert_eq!(bytes_of(&displaced), old);
            model.extend((0..len).map(|i| (start + i, (source, skip + i))));
        }
        Step::Punch { start, end } => {
            assert_eq!(bytes_of(&map.punch(start, end)), taken(model, start, end));
        }
        Step::Slice { start, end } => {
            let expected = model.range(start..end.max(start)).map(|(k, v)| (*k, *v)).collect::<Model>();
            assert_eq!(bytes_of(&map.slice(start, end)), expected);
        }
        Step::Collapse { start, end } => {
            let mut tail = map.split_off(end);
            assert!(tail.offset_by(start.min(CHUNK_END)).is_empty() || end < start);
            map.punch(start, CHUNK_END);
            map.append(tail);
            let above = model.split_off(&end);
            taken(model, start, CHUNK_END);
            model.extend(above.into_iter().map(|(at, origin)| (at - (end - start), origin)));
        }
        Step::Open { at, by } => {
            let mut tail = map.split_off(at);
            let over_chunk = tail.offset_by(at);
            assert!(over_chunk.is_empty());
            let over = tail.offset_by(by);
            map.append(tail);
            let above = model.split_off(&at);
            let mut moved: Model = above.into_iter().map(|(k, origin)| (k + by, origin)).collect();
            let lost = moved.split_off(&CHUNK_END);
            assert_eq!(bytes_of(over.extents()), lost.into_iter().map(|(k, o)| (k - CHUNK_END, o)).collect());
            model.append(&mut moved);
        }
    }
}

/// What must hold of every map, built or decoded.
fn check(map: &ExtentMap) {
    for extent in map.extents() {
        assert_eq!(extent.defect(), None);
    }
    for pair in map.extents().windows(2) {
        assert!(pair[0].end() <= pair[1].start);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn behaves_like_an_array_of_bytes(steps in prop::collection::vec(step(), 1..40)) {
        let (mut map, mut model) = (ExtentMap::default(), Model::new());
        for step in steps {
            run(&mut map, &mut model, step);
            check(&map);
            prop_assert_eq!(&bytes_of(map.extents()), &model);
            prop_assert_eq!(map.covered(), model.len() as u64);
            prop_assert_eq!(map.is_empty(), model.is_empty());
            for pair in map.extents().windows(2) {
                prop_assert!(!pair[0].continued_by(&pair[1]), "not merged: {:?}", pair);
            }
        }
        let encoded = map.encode();
        prop_assert_eq!(ExtentMap::decode(&encoded).unwrap(), map.clone());
        prop_assert_eq!(map.slice(0, CHUNK_END), map.clone().into_extents());
    }

    #[test]
    fn decoding_noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200), version: bool) {
        prop_assert!(noise.len() >= 4 || ExtentMap::decode(&noise).is_err());
        if let Ok(map) = ExtentMap::decode(&noise) { check(&map); }
        // With a checksum that fits, the parser itself is reached.
        let mut sealed = noise;
        if version && !sealed.is_empty() { sealed[0] = 1; }
        seal(&mut sealed);
        if let Ok(map) = ExtentMap::decode(&sealed) { check(&map); }
    }

    #[test]
    fn decoding_mutations_is_refused_or_sound(
        steps in prop::collection::vec(step(), 1..20),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (mut map, mut model) = (ExtentMap::default(), Model::new());
        for step in steps { run(&mut map, &mut model, step); }
        let good = map.encode();
        let mut bad = good.clone();
        for (at, value) in mutations {
            let at = at.index(bad.len());
            bad[at] = value;
        }
        prop_assert_eq!(ExtentMap::decode(&bad).is_ok(), bad == good);
        bad.truncate(bad.len() - 4);
        seal(&mut bad);
        if let Ok(map) = ExtentMap::decode(&bad) {
            check(&map);
            prop_assert_eq!(ExtentMap::decode(&map.encode()).unwrap(), map);
        }
    }
}

fn seal(bytes: &mut Vec<u8>) {
    let crc = crc32c(bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
}

fn segment_extent(start: u32, len: u32, source: u64, skip: u32) -> Extent {
    Extent { start, len, data: data(source, skip) }
}

#[test]
fn putting_back_what_was_punched_gives_the_same_map() {
    let mut map = ExtentMap::default();
    map.insert(segment_extent(0, 500, 1, 0));
    let before = map.clone();
    let removed = map.punch(100, 200);
    assert_eq!(map.len(), 2);
    for extent in removed {
        map.insert(extent);
    }
    assert_eq!(map, before);
}

#[test]
fn runs_that_only_touch_are_not_merged() {
    let mut map = ExtentMap::default();
    map.insert(segment_extent(0, 100, 0, 0));
    map.insert(segment_extent(100, 100, 0, 101));
    map.insert(segment_extent(200, 100, 2, 201));
    assert_eq!(map.len(), 3);
}

#[test]
fn a_shift_hands_over_what_passes_the_chunk() {
    let mut map = ExtentMap::default();
    map.insert(segment_extent(CHUNK_END - 100, 100, 0, 0));
    let over = map.offset_by(40);
    assert_eq!(map.extents(), [segment_extent(CHUNK_END - 60, 60, 0, 0)]);
    assert_eq!(over.extents(), [segment_extent(0, 40, 0, 60)]);
    assert_eq!(map.clone().offset_by(CHUNK_END), map);
}

#[test]
#[should_panic(expected = "passes the end of its chunk")]
fn an_extent_past_the_chunk_is_a_callers_mistake() {
    ExtentMap::default().insert(segment_extent(CHUNK_END - 1, 2, 0, 0));
}

#[test]
fn a_run_is_named_once_however_often_it_is_cut() {
    let mut map = ExtentMap::default();
    let slice = SegmentSlice {
        segment: SegmentId(5),
        run_offset: 64,
        run_len: 512 * 4096,
        skip: 0,
        frames: Some(vec![3000; 512].into()),
    };
    map.insert(Extent { start: 0, len: slice.run_len, data: ExtentData::Segment(slice) });
    let whole = map.encode().len();
    for hole in 0..256 {
        map.punch(hole * 8192, hole * 8192 + 4096);
    }
    assert_eq!(map.len(), 256);
    assert!(map.encode().len() < whole + 256 * 12);
}

/// Pins the stored form. Change the version byte when this has to change.
#[test]
fn the_stored_form_is_pinned() {
    let mut map = ExtentMap::default();
    map.insert(segment_extent(0, 300, 0, 5));
    map.insert(segment_extent(300, 10, 3, 7));
    map.insert(segment_extent(400, 2, 9, 130));
    map.insert(segment_extent(CHUNK_END - 1, 1, 0, 599));
    let hex = hex::encode(map.encode());
    assert_eq!(hex, GOLDEN);
    assert_eq!(ExtentMap::decode(&hex::decode(GOLDEN).unwrap()).unwrap(), map);
    assert_eq!(hex::encode(ExtentMap::default().encode()), EMPTY);
}

const GOLDEN: &str = "01020000000000000000000000000000000000000000040000000000000000000000020040d8040001d875d804036414ac020400ac020105000a02075a0200098201edfcff1f0101d704592169f6";
const EMPTY: &str = "010000007fe12295";

/// Each is well formed but for one thing; the checksum fits.
#[test]
fn impossible_maps_are_refused() {
    let segment = [0u8; 16];
    let with = |tail: &[u8]| {
        let mut bytes = vec![1, 1];
        bytes.extend_from_slice(&segment);
        bytes.extend_from_slice(tail);
        seal(&mut bytes);
        ExtentMap::decode(&bytes)
    };
    // runs: [segment 0, offset 64, length 10, no frames]; extents: [gap 0, length 10, run 1, skip 0].
    assert!(with(&[1, 0, 64, 10, 0, 1, 0, 10, 1, 0]).is_ok());
    let refused: [(&str, &[u8]); 8] = [
        ("empty extent", &[1, 0, 64, 10, 0, 1, 0, 0, 1, 0]),
        ("past the run", &[1, 0, 64, 10, 0, 1, 0, 10, 1, 1]),
        ("unknown run", &[1, 0, 64, 10, 0, 1, 0, 10, 2, 0]),
        ("unknown segment", &[1, 1, 64, 10, 0, 1, 0, 10, 1, 0]),
        ("past the chunk", &[1, 0, 64, 10, 0, 1, 0xff, 0xff, 0xff, 0x1f, 10, 1, 0]),
        ("run past 4 GiB", &[1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 10, 0, 1, 0, 10, 1, 0]),
        ("left over", &[1, 0, 64, 10, 0, 1, 0, 10, 1, 0, 0]),
        ("cut short", &[1, 0, 64, 10, 0, 2, 0, 10, 1, 0]),
    ];
    for (what, tail) in refused {
        assert!(with(tail).is_err(), "{what}");
    }
    let mut newer = vec![2, 0, 0, 0];
    seal(&mut newer);
    assert!(ExtentMap::decode(&newer).unwrap_err().to_string().contains("version 2"));
}
