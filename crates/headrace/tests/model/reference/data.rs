//! What happens to the bytes of open files.

use headrace_testbed::pattern;
use rustix::io::Errno;

use super::{Expect, Id, Open, Reference, Step, done};
use crate::op::{Falloc, Op};
use crate::real::Outcome;

impl Reference {
    pub(super) fn data_step(&mut self, op: &Op, real: &Outcome) -> Step<Expect> {
        let skipped = || Ok(Expect::Exactly(Outcome::Skipped));
        let slot = match *op {
            Op::Write { slot, .. }
            | Op::Read { slot, .. }
            | Op::MapWrite { slot, .. }
            | Op::MapRead { slot, .. } => slot,
            Op::Ftruncate { slot, .. }
            | Op::Fallocate { slot, .. }
            | Op::Seek { slot, .. }
            | Op::Fsync { slot, .. } => slot,
            Op::Copy { to, .. } => to,
            _ => return Ok(Expect::Skip),
        };
        let Some(Open { id, append }) = self.slots[slot] else { return skipped() };
        let size = self.content(id).size();
        match *op {
            Op::Write { offset, len, seed, .. } => {
                let offset = if append { size } else { offset };
                self.content_mut(id).write(offset, &pattern(seed, len as usize));
                self.modified(id);
                done()
            }
            Op::Read { offset, len, .. } => {
                self.accessed(id);
                Ok(Expect::Exactly(Outcome::Bytes(self.content(id).read(offset, len))))
            }
            Op::MapRead { offset, len, .. } => {
                self.accessed(id);
                let bytes = self.content(id).read(offset, len);
                Ok(Expect::Exactly(if bytes.is_empty() { Outcome::Skipped } else { Outcome::Bytes(bytes) }))
            }
            Op::MapWrite { offset, len, seed, .. } => {
                let len = size.saturating_sub(offset).min(len);
                if len == 0 {
                    return skipped();
                }
                self.content_mut(id).write(offset, &pattern(seed, len as usize));
                self.accessed(id);
                self.modified(id);
                done()
            }
            Op::Ftruncate { size, .. } => {
                self.content_mut(id).truncate(size);
                self.modified(id);
                done()
            }
            Op::Fallocate { mode, offset, len, .. } => self.fallocate(id, mode, offset, len, real),
            Op::Copy { from, from_offset, to_offset, len, .. } => {
                let Some(Open { id: from, .. }) = self.slots[from] else { return skipped() };
                self.copy(from, id, append, (from_offset, to_offset, len), real)
            }
            Op::Seek { offset, hole, .. } => Ok(self.seek(id, offset, hole, real)),
            Op::Fsync { .. } => done(),
            _ => Ok(Expect::Skip),
        }
    }

    fn fallocate(&mut self, id: Id, mode: Falloc, offset: u64, len: u64, real: &Outcome) -> Step<Expect> {
        // Some file systems set the time before they find that they have to refuse.
        self.modified(id);
        let content = self.content_mut(id);
        let size = content.size();
        match mode {
            Falloc::Allocate => content.extend(offset + len),
            Falloc::KeepSize => {}
            Falloc::Punch | Falloc::ZeroKeepSize => content.zero(offset, len),
            Falloc::Zero => {
                content.zero(offset, len);
                content.extend(offset + len);
            }
            // A file system need not have these two.
            Falloc::Collapse | Falloc::Insert if *real == Outcome::Failed(Errno::OPNOTSUPP) => {
                return Ok(Expect::Skip);
            }
            Falloc::Collapse if offset + len >= size => return Err(Errno::INVAL),
            Falloc::Collapse => content.collapse(offset, len),
            Falloc::Insert if offset >= size => return Err(Errno::INVAL),
            Falloc::Insert => content.insert(offset, len),
        }
        done()
    }

    /// `range` is (from offset, to offset, length). A short copy is allowed, none at all is not.
    fn copy(
        &mut self,
        from: Id,
        to: Id,
        append: bool,
        range: (u64, u64, u64),
        real: &Outcome,
    ) -> Step<Expect> {
        let (from_offset, to_offset, len) = range;
        if append {
            return Err(Errno::BADF);
        }
        let len = self.content(from).size().saturating_sub(from_offset).min(len);
        if from == to && to_offset + len > from_offset && to_offset < from_offset + len {
            return Err(Errno::INVAL);
        }
        let copied = match *real {
            Outcome::Number(n) if n <= len && (n > 0 || len == 0) => n,
            _ => return Ok(Expect::Exactly(Outcome::Number(len))),
        };
        let bytes = self.content(from).read(from_offset, copied);
        self.content_mut(to).write(to_offset, &bytes);
        self.accessed(from);
        self.modified(to);
        Ok(Expect::Skip)
    }

    /// Where data begins and ends is for the file system to say, as long as it calls nothing a hole that is not zero.
    fn seek(&self, id: Id, offset: u64, hole: bool, real: &Outcome) -> Expect {
        let content = self.content(id);
        let size = content.size();
        let wrong = |why: String| Expect::Wrong(why);
        if offset >= size {
            return Expect::Exactly(Outcome::Failed(Errno::NXIO));
        }
        let data = content.first_data(offset).filter(|at| *at < size);
        let answer = match real {
            Outcome::Number(at) => Ok(*at),
            Outcome::Failed(errno) => Err(*errno),
            _ => return wrong("neither a position nor an error".into()),
        };
        match (answer, hole) {
            (Ok(at), true) if at < offset || at > size => wrong(format!("outside of {offset}..={size}")),
            (Ok(at), true) if content.first_data(at) == Some(at) && at < size => wrong("data there".into()),
            (Ok(at), false) if at < offset || at >= size => wrong(format!("outside of {offset}..{size}")),
            (Ok(at), false) if data.is_some_and(|data| data < at) => {
                wrong(format!("data before, at {data:?}"))
            }
            (Ok(_), _) => Expect::Skip,
            (Err(Errno::NXIO), false) if data.is_none() => Expect::Skip,
            _ => wrong(format!("size {size}, next data {data:?}")),
        }
    }
}
