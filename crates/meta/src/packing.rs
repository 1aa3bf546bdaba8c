//! Small files whose data still lives in the metadata engine.

use headrace_layout::InodeNo;

/// A range of a file whose bytes are in an inline value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InlineRef {
    /// The file.
    pub ino: InodeNo,
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// The inline value.
    pub id: u64,
    /// Offset of the range within the plain value.
    pub skip: u32,
}
