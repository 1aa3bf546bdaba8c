//! Paths from a list: one a line, or each ended by a zero byte.

use std::ffi::OsString;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// No path that the kernel takes is longer, bytes.
const LONGEST: u64 = 4096;

/// The paths of a list, whatever bytes they are made of. Empty ones are passed over.
#[derive(Debug)]
pub struct Names<R> {
    list: R,
    end: u8,
}

impl<R: BufRead> Names<R> {
    /// Reads `list`, in which paths end with a zero byte (`null`) or a newline.
    pub fn new(list: R, null: bool) -> Names<R> {
        Names { list, end: if null { 0 } else { b'\n' } }
    }

    /// The next one; what comes to the same as nothing is passed over.
    fn read(&mut self) -> io::Result<Option<PathBuf>> {
        loop {
            let mut name = Vec::new();
            let read = (&mut self.list).take(LONGEST + 1).read_until(self.end, &mut name)?;
            if read == 0 {
                return Ok(None);
            }
            if name.last() == Some(&self.end) {
                name.pop();
            } else if name.len() as u64 > LONGEST {
                self.list.skip_until(self.end)?;
                let shown = crate::output::name(name.get(..64).unwrap_or(&name));
                let message = format!("a path that is longer than {LONGEST} bytes: \"{shown}...\"");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            if !name.is_empty() {
                return Ok(Some(PathBuf::from(OsString::from_vec(name))));
            }
        }
    }
}

impl<R: BufRead> Iterator for Names<R> {
    type Item = io::Result<PathBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;

    fn names(list: &[u8], null: bool) -> Vec<Vec<u8>> {
        Names::new(list, null).map(|name| name.unwrap().as_os_str().as_bytes().to_vec()).collect()
    }

    #[test]
    fn lines_are_paths() {
        assert_eq!(names(b"a\n\n b \nc", false), [&b"a"[..], b" b ", b"c"]);
        assert_eq!(names(b"\xff\xfe\n", false), [b"\xff\xfe"]);
        assert_eq!(names(b"", false), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn with_zero_bytes_a_path_may_hold_newlines() {
        assert_eq!(names(b"a\nb\0\0c\xff\0", true), [&b"a\nb"[..], b"c\xff"]);
    }

    #[test]
    fn a_path_that_is_too_long_is_said_and_the_next_one_read() {
        let longest = vec![b'x'; LONGEST as usize];
        let mut list = [&longest[..], b"x"].concat();
        list.extend_from_slice(b"yz\nb\n");
        list.extend_from_slice(&longest);
        list.extend_from_slice(b"\nc");
        let mut names = Names::new(&list[..], false);
        assert!(names.next().unwrap().unwrap_err().to_string().contains("longer"));
        assert_eq!(names.next().unwrap().unwrap(), PathBuf::from("b"));
        assert_eq!(names.next().unwrap().unwrap().as_os_str().len(), longest.len());
        assert_eq!(names.next().unwrap().unwrap(), PathBuf::from("c"));
        assert!(names.next().is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            paths in prop::collection::vec(prop::collection::vec(1_u8..=255, 1..40), 0..20),
        ) {
            let list: Vec<u8> = paths.iter().flat_map(|path| [&path[..], b"\0"].concat()).collect();
            prop_assert_eq!(names(&list, true), paths);
        }
    }
}
