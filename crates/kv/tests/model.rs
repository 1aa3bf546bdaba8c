//! Random histories against an ordered map: transactions, aborts, scans both ways, forced commits, reopening.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{Engine, EngineExt, KvError, Read, Stop, Txn, prefix_end};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Bounds {
    start: Vec<u8>,
    end: Vec<u8>,
    limit: usize,
}

#[derive(Clone, Debug)]
enum Op {
    Transact {
        writes: Vec<Write>,
        look: Bounds,
        abort: bool,
    },
    View {
        key: Vec<u8>,
        look: Bounds,
    },
    /// Waits for the newest transaction, which empties the memtables.
    Durable,
    /// Asks for a commit and goes on, so that what follows meets a frozen memtable.
    Nudge,
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        // Few different ones, so that they meet; short, so that one is often a prefix of another.
        8 => prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff)], 1..4),
        1 => Just(vec![7; 511]),
    ]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let edge = || {
        prop_oneof![
            4 => key(),
            1 => Just(Vec::new()),
            1 => Just(prefix_end(&[])),
        ]
    };
    let any = (edge(), edge(), prop_oneof![1 => 0..5usize, 3 => Just(usize::MAX)])
        .prop_map(|(start, end, limit)| Bounds { start, end, limit });
    let all = Just(Bounds { start: Vec::new(), end: prefix_end(&[]), limit: usize::MAX });
    let prefix = key().prop_map(|p| Bounds { start: p.clone(), end: prefix_end(&p), limit: usize::MAX });
    prop_oneof![any, all, prefix]
}

fn write() -> impl Strategy<Value = Write> {
    let value = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        // Longer than a page.
        1 => any::<u8>().prop_map(|b| vec![b; 9000]),
    ];
    prop_oneof![
        3 => (key(), value).prop_map(|(k, v)| Write::Put(k, v)),
        2 => key().prop_map(Write::Delete),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop::collection::vec(write(), 0..8), bounds(), prop::bool::weighted(0.2))
            .prop_map(|(writes, look, abort)| Op::Transact { writes, look, abort }),
        4 => (key(), bounds()).prop_map(|(key, look)| Op::View { key, look }),
        1 => Just(Op::Durable),
        2 => Just(Op::Nudge),
        1 => Just(Op::Reopen),
    ]
}

fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        // Small enough to be outgrown.
        map_size: 1 << 18,
        freeze_bytes: 16 << 10,
        freeze_age: Duration::from_millis(5),
        max_pending_bytes: 64 << 10,
        max_transaction_bytes: 1 << 20,
        ..EmbeddedOptions::default()
    }
}

fn open(dir: &Path) -> EmbeddedEngine {
    EmbeddedEngine::open(dir, options()).expect("open")
}

fn expected(model: &Model, look: &Bounds, reverse: bool) -> Pairs {
    let inside = model.iter().filter(|(k, _)| **k >= look.start && **k < look.end);
    let pairs = inside.map(|(k, v)| (k.clone(), v.clone()));
    let pairs: Vec<_> = if reverse { pairs.rev().collect() } else { pairs.collect() };
    pairs.into_iter().take(look.limit.max(1)).collect()
}

fn seen(read: &dyn Read, look: &Bounds, reverse: bool) -> Result<Pairs, KvError> {
    let mut pairs = Vec::new();
    let mut visit = |k: &[u8], v: &[u8]| {
        pairs.push((k.to_vec(), v.to_vec()));
        if pairs.len() >= look.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    if reverse {
        read.scan_reverse(&look.start, &look.end, &mut visit)?;
    } else {
        read.scan(&look.start, &look.end, &mut visit)?;
    }
    Ok(pairs)
}

fn check(read: &dyn Read, model: &Model, key: &[u8], look: &Bounds) -> Result<(), KvError> {
    assert_eq!(read.get(key)?.as_deref(), model.get(key).map(|v| &v[..]), "get {key:?}");
    for reverse in [false, true] {
        assert_eq!(seen(read, look, reverse)?, expected(model, look, reverse), "{look:?} reverse={reverse}");
    }
    Ok(())
}

fn apply(txn: &mut dyn Txn, model: &mut Model, writes: &[Write]) {
    for write in writes {
        match write {
            Write::Put(k, v) => {
                txn.put(k, v);
                model.insert(k.clone(), v.clone());
            }
            Write::Delete(k) => {
                txn.delete(k);
                model.remove(k);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_an_ordered_map(ops in prop::collection::vec(op(), 1..60)) {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut engine = open(dir.path());
        let mut model = Model::new();
        let mut commits = 0;
        let everything = Bounds { start: Vec::new(), end: prefix_end(&[]), limit: usize::MAX };
        for op in ops {
            match op {
                Op::Transact { writes, look, abort } => {
                    let mut next = model.clone();
                    let result = engine.transact(&mut |txn| {
                        next = model.clone();
                        apply(txn, &mut next, &writes);
                        let key = writes.first().map_or(&[9][..], |w| match w { Write::Put(k, _) | Write::Delete(k) => k });
                        check(txn, &next, key, &look)?;
                        if abort { Err(Stop::Abort) } else { Ok(()) }
                    });
                    match result {
                        Ok(seq) => {
                            prop_assert!(!abort);
                            commits += u64::from(!writes.is_empty());
                            prop_assert_eq!(seq.0, commits);
                            model = next;
                        }
                        Err(Stop::Abort) => prop_assert!(abort),
                        Err(Stop::Kv(e)) => return Err(TestCaseError::fail(e.to_string())),
                    }
                }
                Op::View { key, look } => {
                    engine.view_with(|read| check(read, &model, &key, &look)).expect("view");
                }
                Op::Durable => {
                    block_on(engine.durable(engine.position())).expect("durable");
                    prop_assert_eq!(engine.stats().pending_bytes, 0);
                }
                Op::Nudge => drop(engine.durable(engine.position())),
                Op::Reopen => {
                    engine.close().expect("close");
                    engine = open(dir.path());
                    prop_assert_eq!(engine.position().0, commits);
                    engine.view_with(|read| check(read, &model, &[1], &everything)).expect("view");
                }
            }
        }
        engine.view_with(|read| check(read, &model, &[0], &everything)).expect("view");
    }
}
