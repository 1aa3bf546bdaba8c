use headrace_layout::InodeNo;
use proptest::prelude::*;

use super::*;
use crate::DirTotals;

fn time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(secs, nanos)| Time { secs, nanos })
}

fn inode() -> impl Strategy<Value = Inode> {
    let numbers = (0u16..64, 0u16..=0o7777, any::<[u32; 4]>(), any::<[u64; 4]>());
    let tail = prop::collection::vec(any::<u8>(), 0..64);
    (1u8..=7, numbers, [time(), time(), time(), time()], tail).prop_map(|(kind, numbers, times, tail)| {
        let kind = Kind::from_byte(kind).expect("in range");
        let (flags, mode, [nlink, uid, gid, rdev], [size, allocated, home, cookie]) = numbers;
        let mut set = Flags::default();
        set.set(flags, true);
        Inode {
            kind,
            flags: set,
            mode,
            nlink,
            uid,
            gid,
            rdev,
            size,
            allocated,
            atime: times[0],
            mtime: times[1],
            ctime: times[2],
            btime: times[3],
            home: InodeNo(home),
            next_cookie: if kind == Kind::Directory { cookie } else { 0 },
            target: if kind == Kind::Symlink { tail } else { Vec::new() },
        }
    })
}

proptest! {
    #[test]
    fn inodes_survive_encoding(inode in inode()) {
        prop_assert_eq!(Inode::decode(&inode.encode()).unwrap(), inode);
    }

    #[test]
    fn the_small_records_survive_encoding(a: u64, b: u64, c: u64, d: u64, e: u64, f: u32, g: u32, h: u32,
                                          time in prop::option::of(time()),
                                          name in prop::collection::vec(any::<u8>(), 1..=255)) {
        let counters = Counters { next_ino: a, next_inline: b, inodes: c, bytes: d, inline_bytes: e };
        prop_assert_eq!(Counters::decode(&counters.encode()).unwrap(), counters);
        let entry = Entry { ino: InodeNo(a), kind: Kind::Fifo, cookie: b };
        prop_assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
        let position = entry.encode_position(&name);
        prop_assert_eq!(Entry::decode_position(&position, b).unwrap(), (entry, &name[..]));
        let inline = InlineRecord { ino: InodeNo(a), offset: b, len: f, sealed: g, live: h };
        prop_assert_eq!(InlineRecord::decode(&inline.encode()).unwrap(), inline);
        let segment = SegmentRecord { stored: a, live: b, dead_since: time };
        prop_assert_eq!(SegmentRecord::decode(&segment.encode()).unwrap(), segment);
        let totals = DirTotals { files: a, directories: b, bytes: c, allocated: d };
        prop_assert_eq!(DirTotals::decode(&totals.encode()).unwrap(), totals);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), versioned: bool) {
        if versioned && let Some(first) = bytes.first_mut() {
            *first = VERSION;
        }
        let _ = Inode::decode(&bytes);
        let _ = Counters::decode(&bytes);
        let _ = Entry::decode(&bytes);
        let _ = Entry::decode_position(&bytes, 3);
        let _ = InlineRecord::decode(&bytes);
        let _ = SegmentRecord::decode(&bytes);
        let _ = DirTotals::decode(&bytes);
    }

    #[test]
    fn damaged_inodes_never_panic(inode in inode(), at: prop::sample::Index, flip in 1u8.., cut: prop::sample::Index) {
        let mut bytes = inode.encode();
        let index = at.index(bytes.len());
        bytes[index] ^= flip;
        let _ = Inode::decode(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = Inode::decode(&bytes);
    }
}
