//! Every kind of damage is found, and nothing that reads it panics.

use headrace_kv::{EngineExt, Txn};
use headrace_layout::{InodeNo, SegmentId};
use proptest::prelude::*;

use super::fixture::*;
use crate::record::{Counters, Entry, Flags, InlineRecord, Inode, SegmentRecord};
use crate::*;

/// What the sample volume has.
struct Sample {
    fx: Fixture,
    dir: InodeNo,
    /// Two names, data in segment 1, an inline value, an attribute.
    file: InodeNo,
    /// Unlinked.
    orphan: InodeNo,
    inline: u64,
}

/// Known, and dead.
const DEAD: u128 = 2;

fn sample() -> Sample {
    let fx = Fixture::in_memory();
    let dir = fx.dir(ROOT, "dir");
    let file = fx.file(dir, "file");
    fx.ns.link(file, ROOT, b"link").unwrap();
    fx.write(file, 0, 100, 1);
    fx.write_inline(file, 100, 50, 1);
    fx.ns.setxattr(file, b"user.a", b"1", XattrMode::Set, false).unwrap();
    let orphan = fx.file(ROOT, "orphan");
    fx.write(orphan, 0, 10, DEAD);
    fx.ns.truncate(orphan, 0, false).unwrap();
    fx.ns.unlink(ROOT, b"orphan").unwrap();
    let inline = fx.ns.inline_backlog(None, 1).unwrap()[0].id;
    fx.assert_consistent();
    Sample { fx, dir, file, orphan, inline }
}

impl Sample {
    fn plant(&self, change: impl Fn(&mut dyn Txn)) {
        let planted = self.fx.ns.engine().transact_with(|txn| {
            change(txn);
            Ok::<(), MetaError>(())
        });
        planted.unwrap();
    }

    fn change_inode(&self, ino: InodeNo, change: impl Fn(&mut Inode)) {
        self.plant(|txn| {
            let mut inode = Inode::load(txn, ino).unwrap().unwrap();
            change(&mut inode);
            txn.put(&key::inode(ino), &inode.encode());
        });
    }

    #[track_caller]
    fn assert_found(&self, kind: ProblemKind) {
        let problems = self.fx.problems();
        assert!(problems.iter().any(|problem| problem.kind == kind), "{kind:?} is not among {problems:#?}");
    }
}

/// Plants damage into a fresh sample and expects a kind of problem.
#[track_caller]
fn expect(plant: impl Fn(&Sample) -> ProblemKind) {
    let sample = sample();
    let kind = plant(&sample);
    sample.assert_found(kind);
}

#[test]
fn damaged_names_are_found() {
    expect(|s| {
        s.plant(|txn| txn.delete(&key::inode(s.file)));
        ProblemKind::MissingInode(s.file)
    });
    expect(|s| {
        s.plant(|txn| txn.delete(&key::inode(ROOT)));
        ProblemKind::MissingInode(ROOT)
    });
    expect(|s| {
        s.plant(|txn| {
            let mut entry = Entry::load(txn, s.dir, b"file").unwrap().unwrap();
            entry.kind = Kind::Fifo;
            txn.put(&key::entry(s.dir, b"file"), &entry.encode());
            txn.put(&key::position(s.dir, entry.cookie), &entry.encode_position(b"file"));
        });
        ProblemKind::WrongKind(s.file)
    });
    expect(|s| {
        s.plant(|txn| txn.delete(&key::position(s.dir, 3)));
        ProblemKind::Index(s.dir)
    });
    expect(|s| {
        s.plant(|txn| txn.delete(&key::entry(s.dir, b"file")));
        ProblemKind::Index(s.dir)
    });
    expect(|s| {
        s.change_inode(s.dir, |inode| inode.next_cookie = 3);
        ProblemKind::Cookie(s.dir)
    });
    expect(|s| {
        s.plant(|txn| {
            let entry = Entry { ino: s.file, kind: Kind::File, cookie: 3 };
            txn.put(&key::entry(s.file, b"x"), &entry.encode());
        });
        ProblemKind::Stray(s.file)
    });
}

#[test]
fn damaged_links_are_found() {
    for nlink in [0, 1, 3] {
        expect(|s| {
            s.change_inode(s.file, |inode| inode.nlink = nlink);
            ProblemKind::LinkCount(s.file)
        });
    }
    expect(|s| {
        s.change_inode(s.dir, |inode| inode.nlink = 3);
        ProblemKind::LinkCount(s.dir)
    });
    expect(|s| {
        s.change_inode(s.file, |inode| inode.home = ROOT);
        ProblemKind::Home(s.file)
    });
    expect(|s| {
        s.plant(|txn| txn.delete(&key::link(s.file, ROOT, b"link")));
        ProblemKind::Link(s.file)
    });
    expect(|s| {
        s.plant(|txn| txn.put(&key::link(s.file, s.dir, b"other"), &[]));
        ProblemKind::Link(s.file)
    });
    expect(|s| {
        s.plant(|txn| txn.delete(&key::orphan(s.orphan)));
        ProblemKind::Unreachable(s.orphan)
    });
    expect(|s| {
        s.plant(|txn| txn.put(&key::orphan(s.file), &[]));
        ProblemKind::Orphan(s.file)
    });
    expect(|s| {
        s.plant(|txn| txn.put(&key::orphan(InodeNo(99)), &[]));
        ProblemKind::Orphan(InodeNo(99))
    });
    expect(|s| {
        s.plant(|txn| txn.put(&key::unsettled(s.file), &[]));
        ProblemKind::Orphan(s.file)
    });
}

#[test]
fn damaged_trees_are_found() {
    expect(|s| {
        // Two directories in each other, with every other record in order.
        let a = s.fx.dir(s.dir, "a");
        s.fx.dir(a, "b");
        s.change_inode(s.dir, |inode| inode.home = a);
        ProblemKind::DirectoryShape(s.dir)
    });
    expect(|s| {
        s.plant(|txn| {
            let entry = Entry { ino: s.dir, kind: Kind::Directory, cookie: 7 };
            txn.put(&key::entry(ROOT, b"again"), &entry.encode());
        });
        ProblemKind::DirectoryShape(s.dir)
    });
}

#[test]
fn damaged_figures_are_found() {
    expect(|s| {
        s.plant(|txn| txn.delete(&key::usage(s.dir)));
        ProblemKind::DirectoryTotals(s.dir)
    });
    expect(|s| {
        s.plant(|txn| {
            let totals = DirTotals { files: 7, ..DirTotals::default() };
            txn.put(&key::usage(s.dir), &totals.encode());
        });
        ProblemKind::DirectoryTotals(s.dir)
    });
    let changes: [fn(&mut Counters); 5] = [
        |counters| counters.inodes += 1,
        |counters| counters.bytes += 1,
        |counters| counters.inline_bytes += 1,
        |counters| counters.next_ino = 3,
        |counters| counters.next_inline = 1,
    ];
    for change in changes {
        expect(|s| {
            s.plant(|txn| {
                let mut counters = Counters::load(txn).unwrap();
                change(&mut counters);
                txn.put(key::COUNTERS, &counters.encode());
            });
            ProblemKind::Counters
        });
    }
    expect(|s| {
        s.plant(|txn| txn.delete(key::COUNTERS));
        ProblemKind::Counters
    });
    expect(|s| {
        s.change_inode(s.file, |inode| inode.allocated += 1);
        ProblemKind::Allocated(s.file)
    });
}

#[test]
fn damaged_contents_are_found() {
    expect(|s| {
        s.change_inode(s.file, |inode| inode.size = 120);
        ProblemKind::PastEnd(s.file)
    });
    expect(|s| {
        s.plant(|txn| {
            let map = txn.get(&key::chunk(s.file, 0)).unwrap().unwrap().into_owned();
            txn.put(&key::chunk(s.dir, 0), &map);
        });
        ProblemKind::Stray(s.dir)
    });
    expect(|s| {
        s.plant(|txn| txn.put(&key::xattr(InodeNo(99), b"user.a"), b""));
        ProblemKind::Stray(InodeNo(99))
    });
    for flag in [Flags::XATTRS, Flags::ACCESS_ACL] {
        expect(|s| {
            s.change_inode(s.file, |inode| {
                let on = inode.flags.has(flag);
                inode.flags.set(flag, !on);
            });
            ProblemKind::Xattr(s.file)
        });
    }
    expect(|s| {
        s.plant(|txn| {
            txn.delete(&key::packing(s.inline));
            txn.delete(&key::inline(s.file, s.inline));
        });
        ProblemKind::MissingInline(s.file)
    });
    expect(|s| {
        s.plant(|txn| txn.delete(&key::inline(s.file, s.inline)));
        ProblemKind::Inline(s.file)
    });
    expect(|s| {
        s.plant(|txn| txn.put(&key::inline(s.file, 77), b"left behind"));
        ProblemKind::Inline(s.file)
    });
    expect(|s| {
        s.plant(|txn| {
            let mut record = InlineRecord::load(txn, s.inline).unwrap().unwrap();
            record.live = 1;
            txn.put(&key::packing(s.inline), &record.encode());
        });
        ProblemKind::Inline(s.file)
    });
}

#[test]
fn damaged_segments_are_found() {
    let segment = SegmentId(1);
    let change = |s: &Sample, id: SegmentId, change: fn(&mut SegmentRecord)| {
        s.plant(|txn| {
            let mut record = SegmentRecord::load(txn, id).unwrap().unwrap();
            change(&mut record);
            txn.put(&key::segment(id), &record.encode());
        });
    };
    expect(|s| {
        s.plant(|txn| txn.delete(&key::segment(segment)));
        ProblemKind::UnknownSegment(segment)
    });
    expect(|s| {
        change(s, segment, |record| record.live += 1);
        ProblemKind::SegmentLive(segment)
    });
    let sample = sample();
    change(&sample, segment, |record| record.live -= 1);
    let problems = sample.fx.problems();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].severity, Severity::Error, "it would be deleted too early");
    expect(|s| {
        change(s, segment, |record| record.dead_since = Some(Time::default()));
        ProblemKind::DeadQueue(segment)
    });
    expect(|s| {
        change(s, SegmentId(DEAD), |record| record.dead_since = None);
        ProblemKind::DeadQueue(SegmentId(DEAD))
    });
    expect(|s| {
        s.plant(|txn| txn.put(&key::dead(Time::default(), segment), &[]));
        ProblemKind::DeadQueue(segment)
    });
}

#[test]
fn what_cannot_be_read_is_reported_by_its_key() {
    for key in [&b"?what"[..], b"I short", b"Sother", b"C1234567890123456", &key::inode(InodeNo(50))] {
        expect(|s| {
            s.plant(|txn| txn.put(key, b"nonsense"));
            ProblemKind::Undecodable
        });
    }
}

/// Calls everything that reads; answers and errors are both fine.
fn read_everything(s: &Sample) {
    let ns = &s.fx.ns;
    for ino in [ROOT, s.dir, s.file, s.orphan] {
        let _ = ns.getattr(ino);
        let _ = ns.parent(ino);
        let _ = ns.readlink(ino);
        let _ = ns.readdir(ino, 0, true, &mut |_| true);
        let _ = ns.listxattr(ino);
        let _ = ns.getxattr(ino, b"user.a");
        let _ = ns.extents(ino, 0);
        let _ = ns.seek(ino, 0, true);
        let _ = ns.directory_totals(ino);
        let _ = ns.setattr(ino, &SetAttr { uid: Some(1), mode: Some(0), ..SetAttr::default() });
        let _ = ns.collapse(ino, 0, 4096);
        let _ = ns.insert(ino, 0, 4096);
        let _ = ns.clone_range(ino, 0, ino, 1 << 20, 150);
        let _ = ns.punch(ino, 10, 20);
        let _ = ns.truncate(ino, 50, true);
    }
    let _ = ns.lookup(s.dir, b"file");
    let _ = ns.statfs();
    let _ = ns.tree_totals(ROOT, &mut |_| {});
    let _ = ns.inline_backlog(None, 1 << 20);
    let _ = ns.segments(None, 10);
    let _ = ns.dead_segments(Time::now(), 10);
    let _ = ns.segment_users(SegmentId(1));
    let _ = ns.orphans();
    let _ = ns.rename(ROOT, b"dir", s.dir, b"x", RenameMode::Replace);
    let _ = ns.rename(s.dir, b"file", ROOT, b"dir", RenameMode::Exchange);
    let _ = ns.unlink(ROOT, b"link");
    let _ = ns.unlink(s.dir, b"file");
    let _ = ns.rmdir(ROOT, b"dir");
    let _ = ns.forget_segments(&[SegmentId(1), SegmentId(DEAD)]);
    let _ = ns.reclaim(s.orphan);
    let _ = ns.reclaim(s.file);
    let _ = ns.check(&mut |_| {});
}

/// Every key and value of the sample.
fn everything(s: &Sample) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let read = s.fx.ns.view(|read| {
        read.scan(&[0], &[255], &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(())
    });
    read.unwrap();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_anywhere_is_survived(victim: prop::sample::Index, at: prop::sample::Index, bit in 0..8u32,
                                   how in 0..4u8, noise in prop::collection::vec(any::<u8>(), 0..40)) {
        let sample = sample();
        let all = everything(&sample);
        let (key, mut value) = victim.get(&all).clone();
        match how {
            0 if !value.is_empty() => {
                let at = at.index(value.len());
                value[at] ^= 1 << bit;
            }
            1 => value.truncate(at.index(value.len() + 1)),
            2 => value = noise,
            _ => {}
        }
        sample.plant(|txn| if how == 3 { txn.delete(&key) } else { txn.put(&key, &value) });
        read_everything(&sample);
    }
}
