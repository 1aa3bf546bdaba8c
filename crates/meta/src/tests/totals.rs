use super::fixture::*;
use crate::*;

fn totals(files: u64, directories: u64, bytes: u64, allocated: u64) -> DirTotals {
    DirTotals { files, directories, bytes, allocated }
}

#[test]
fn a_directory_knows_what_is_in_it() {
    each(|fx| {
        let dir = fx.dir(ROOT, "dir");
        let of = |dir| fx.ns.directory_totals(dir).unwrap();
        assert_eq!(of(dir), totals(0, 0, 0, 0));
        let file = fx.file(dir, "file");
        fx.write(file, 1000, 500, 1);
        fx.make(dir, "link", Kind::Symlink);
        fx.dir(dir, "sub");
        assert_eq!(of(dir), totals(2, 1, 1506, 500));
        assert_eq!(of(ROOT), totals(0, 1, 0, 0));
        fx.ns.truncate(file, 1100, false).unwrap();
        assert_eq!(of(dir), totals(2, 1, 1106, 100));
        fx.ns.unlink(dir, b"file").unwrap();
        assert_eq!(of(dir), totals(1, 1, 6, 0));
        assert_eq!(fx.ns.statfs().unwrap(), Totals { inodes: 5, bytes: 100 });
        fx.write(file, 0, 500, 2);
        assert_eq!(of(dir), totals(1, 1, 6, 0));
        fx.ns.reclaim(file).unwrap();
        assert_eq!(fx.ns.statfs().unwrap(), Totals { inodes: 4, bytes: 0 });
        refused!(fx.ns.directory_totals(file), MetaError::NotFound);
    });
}

#[test]
fn a_tree_is_summed_by_its_directories() {
    each(|fx| {
        let mut dir = ROOT;
        for depth in 0..10 {
            for number in 0..3 {
                let file = fx.file(dir, &format!("f{number}"));
                fx.write(file, 0, 10, depth * 3 + number + 1);
            }
            fx.dir(dir, "empty");
            dir = fx.dir(dir, "deeper");
        }
        let mut calls = 0;
        let sum = fx.ns.tree_totals(ROOT, &mut |_| calls += 1).unwrap();
        assert_eq!(sum, totals(30, 20, 300, 300));
        assert_eq!(calls, 21);
    });
}

#[test]
fn absurd_lengths_do_not_break_the_sums() {
    each(|fx| {
        for number in 0..70 {
            let file = fx.file(ROOT, &number.to_string());
            fx.ns.truncate(file, MAX_FILE_SIZE, false).unwrap();
        }
        for number in 0..70 {
            fx.ns.unlink(ROOT, number.to_string().as_bytes()).unwrap();
        }
        assert_eq!(fx.ns.directory_totals(ROOT).unwrap(), DirTotals::default());
    });
}
