//! Held against a plain array of bytes per layer.

use super::*;
use proptest::prelude::*;

const SPACE: u64 = 5 * BLOCK;

#[derive(Clone, Debug)]
enum Op {
    Write { offset: u64, len: u64 },
    Take { max: u64 },
    CommitOldest,
    Discard { start: u64, end: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let offset = prop_oneof![0..SPACE - 1, (0..SPACE / 4096).prop_map(|p| p * 4096)];
    let len = prop_oneof![1u64..200, Just(4096), Just(BLOCK), 1..2 * BLOCK];
    prop_oneof![
        6 => (offset.clone(), len.clone()).prop_map(|(offset, len)| Op::Write { offset, len: len.min(SPACE - offset) }),
        2 => (1..3 * BLOCK).prop_map(|max| Op::Take { max }),
        1 => Just(Op::CommitOldest),
        1 => (offset, len).prop_map(|(start, len)| Op::Discard { start, end: (start + len).min(SPACE) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn behaves_like_layers_of_bytes(ops in prop::collection::vec(op(), 1..60)) {
        let mut buffer = DirtyBuffer::default();
        // What a reader must see where the buffer has something; and what was committed underneath.
        let mut seen: Vec<Option<u8>> = vec![None; SPACE as usize];
        let mut stored: Vec<Option<u8>> = seen.clone();
        let mut taken: Vec<Batch> = Vec::new();
        // What the budget counts.
        let mut charged = 0;
        for (i, op) in ops.into_iter().enumerate() {
            let stamp = (i % 250 + 1) as u8;
            match op {
                Op::Write { offset, len } => {
                    let before = buffer.charge();
                    buffer.write(offset, &Bytes::from(vec![stamp; len as usize]));
                    charged = charged + buffer.charge() - before;
                    seen[offset as usize..(offset + len) as usize].fill(Some(stamp));
                }
                Op::Take { max } => {
                    if let Some(batch) = buffer.take_batch(max) {
                        prop_assert!(batch.len() <= max.max(BLOCK));
                        taken.push(batch);
                    }
                }
                Op::CommitOldest => {
                    if !taken.is_empty() {
                        let batch = taken.remove(0);
                        for (offset, data) in batch.pieces.iter() {
                            for (i, b) in data.iter().enumerate() {
                                stored[*offset as usize + i] = Some(*b);
                            }
                        }
                        let released = buffer.committed(batch.id);
                        prop_assert!(released <= charged);
                        charged -= released;
                    }
                }
                Op::Discard { start, end } => {
                    if taken.is_empty() {
                        let (before, after) = buffer.discard(start, end);
                        charged = charged + after - before;
                        for at in start as usize..end as usize {
                            seen[at] = None;
                            stored[at] = None;
                        }
                    }
                }
            }
            prop_assert_eq!(charged, buffer.charge());
            let mut combined = stored.clone();
            let mut last = 0;
            for (offset, data) in buffer.overlay(0, SPACE) {
                prop_assert!(offset >= last && !data.is_empty());
                last = offset + data.len() as u64;
                for (i, b) in data.iter().enumerate() {
                    combined[offset as usize + i] = Some(*b);
                }
            }
            prop_assert!(combined == seen, "after operation {}", i);
            let middle = buffer.overlay(SPACE / 3, SPACE / 2);
            prop_assert!(middle.iter().all(|(o, d)| *o >= SPACE / 3 && o + d.len() as u64 <= SPACE / 2));
        }
        for batch in taken {
            buffer.committed(batch.id);
        }
        while let Some(batch) = buffer.take_batch(u64::MAX) {
            let runs = batch.runs();
            prop_assert_eq!(runs.iter().map(|(_, p)| p.len()).sum::<usize>(), batch.pieces.len());
            buffer.committed(batch.id);
        }
        prop_assert!(buffer.is_clean());
        prop_assert_eq!(buffer.charge(), 0);
        prop_assert_eq!(buffer.pending_len(), 0);
    }
}

#[test]
fn small_appends_share_a_block_and_are_charged_once() {
    let mut buffer = DirtyBuffer::default();
    for i in 0..1000u64 {
        buffer.write(i * 10, &Bytes::from(vec![i as u8; 10]));
    }
    let charge = buffer.charge();
    assert!((10_000..20_000).contains(&charge), "{charge}");
    let batch = buffer.take_batch(u64::MAX).expect("pending");
    assert_eq!(batch.pieces.len(), 1, "contiguous bytes are one piece");
}
