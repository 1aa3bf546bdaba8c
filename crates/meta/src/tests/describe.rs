//! From inodes back to names.

use headrace_layout::InodeNo;

use super::fixture::*;
use crate::*;

#[test]
fn files_are_found_with_their_directories() {
    each(|fx| {
        let outer = fx.dir(ROOT, "outer");
        let inner = fx.dir(outer, "inner");
        let file = fx.file(inner, "file");
        let link = fx.make(inner, "link", Kind::Symlink);
        let gone = fx.file(ROOT, "gone");
        fx.ns.unlink(ROOT, b"gone").unwrap();
        let (files, above) = fx.ns.describe_files(&[file, link, gone, InodeNo(999)]).unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!((files[0].ino, files[0].parent, &files[0].name[..]), (file, inner, &b"file"[..]));
        let mut above: Vec<_> = above.iter().map(|d| (d.ino, d.parent, d.name.clone())).collect();
        above.sort();
        let expected =
            [(ROOT, ROOT, vec![]), (outer, ROOT, b"outer".to_vec()), (inner, outer, b"inner".to_vec())];
        assert_eq!(above, expected);
        assert_eq!(fx.ns.path_of(link).unwrap().as_deref(), Some(&b"/outer/inner/link"[..]));
        assert_eq!(fx.ns.path_of(ROOT).unwrap().as_deref(), Some(&b"/"[..]));
        assert_eq!(fx.ns.path_of(gone).unwrap(), None);
        fx.ns.reclaim(gone).unwrap();
    });
}

#[test]
fn names_are_found_in_a_large_directory() {
    let fx = Fixture::in_memory();
    let dir = fx.dir(ROOT, "large");
    let other = fx.dir(ROOT, "other");
    let moved = fx.file(other, "moved");
    let files: Vec<_> = (0..12_000).map(|i| fx.file(dir, &format!("f{i}"))).collect();
    for i in (0..12_000).step_by(3) {
        fx.ns.unlink(dir, format!("f{i}").as_bytes()).unwrap();
        fx.ns.reclaim(files[i]).unwrap();
    }
    fx.ns.rename(other, b"moved", dir, b"here", RenameMode::Replace).unwrap();
    for i in [1, 2, 4000, 7_001, 11_999] {
        if i % 3 != 0 {
            let path = fx.ns.path_of(files[i]).unwrap();
            assert_eq!(path, Some(format!("/large/f{i}").into_bytes()));
        }
    }
    assert_eq!(fx.ns.path_of(moved).unwrap().as_deref(), Some(&b"/large/here"[..]));
    let some: Vec<_> = (0..12_000).filter(|i| i % 3 == 1).map(|i| files[i]).collect();
    let (found, _) = fx.ns.describe_files(&some).unwrap();
    assert_eq!(found.len(), some.len());
    fx.assert_consistent();
}
