//! Where the body of an answer ends: RFC 9112, sections 6 and 7.

use bytes::{Buf, Bytes, BytesMut};

/// Most bytes of the line that begins a chunk, and of the lines after the last one.
const MOST_LINE: usize = 16 << 10;

/// What is left of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks that say how long they are.
    Chunked(Chunk),
    /// All until the connection is closed.
    UntilClose,
}

/// Where among the chunks we are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Before the line with a size.
    Size,
    /// Within one, with so many bytes to come.
    Data(u64),
    /// Before the end of line that ends it.
    End,
    /// After the last one, among lines that nobody needs.
    Trailer,
    /// After all.
    Over,
}

/// What could be taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The next bytes; never none.
    Bytes(Bytes),
    /// Nothing until more is received.
    More,
    /// Nothing, ever.
    End,
}

impl Framing {
    /// A body in chunks.
    pub(super) fn chunked() -> Framing {
        Framing::Chunked(Chunk::Size)
    }

    /// Length of all that is left, if it was announced.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Framing::Length(left) => Some(*left),
            _ => None,
        }
    }

    /// Bytes that are sure to come.
    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Framing::Length(left) | Framing::Chunked(Chunk::Data(left)) => Some(*left),
            _ => None,
        }
    }

    /// Whether nothing more belongs to it.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Framing::Length(0) | Framing::Chunked(Chunk::Over))
    }

    /// Takes what of the body `buffer` begins with.
    pub(super) fn take(&mut self, buffer: &mut BytesMut) -> Result<Taken, &'static str> {
        match self {
            Framing::Length(0) => Ok(Taken::End),
            Framing::Length(left) => Ok(some(buffer, left)),
            Framing::UntilClose => Ok(some(buffer, &mut { u64::MAX })),
            Framing::Chunked(chunk) => chunk.take(buffer),
        }
    }

    /// Takes what is no data off the beginning of `buffer`, so that the end is seen with the last byte that is. What is wrong there
    /// shows when more is taken.
    pub(super) fn look_ahead(&mut self, buffer: &mut BytesMut) {
        if let Framing::Chunked(chunk) = self {
            let _ = chunk.advance(buffer);
        }
    }
}

/// As much of `left` as there is.
fn some(buffer: &mut BytesMut, left: &mut u64) -> Taken {
    let here = usize::try_from(*left).map_or(buffer.len(), |left| left.min(buffer.len()));
    if here == 0 {
        return Taken::More;
    }
    *left -= here as u64;
    Taken::Bytes(buffer.split_to(here).freeze())
}

impl Chunk {
    fn take(&mut self, buffer: &mut BytesMut) -> Result<Taken, &'static str> {
        self.advance(buffer)?;
        Ok(match self {
            Chunk::Data(left) => some(buffer, left),
            Chunk::Over => Taken::End,
            _ => Taken::More,
        })
    }

    /// Goes on to the next byte of data, or to the end, as far as `buffer` has what is between.
    fn advance(&mut self, buffer: &mut BytesMut) -> Result<(), &'static str> {
        loop {
            *self = match self {
                Chunk::Size => match httparse::parse_chunk_size(buffer) {
                    Ok(httparse::Status::Complete((line, size))) => {
                        buffer.advance(line);
                        if size == 0 { Chunk::Trailer } else { Chunk::Data(size) }
                    }
                    Ok(httparse::Status::Partial) if buffer.len() <= MOST_LINE => return Ok(()),
                    _ => return Err("a chunk of the answer has no valid size"),
                },
                Chunk::Data(0) => Chunk::End,
                Chunk::End => match buffer.get(..2) {
                    Some(b"\r\n") => {
                        buffer.advance(2);
                        Chunk::Size
                    }
                    Some(_) => return Err("a chunk of the answer does not end where it should"),
                    None => return Ok(()),
                },
                Chunk::Trailer => match buffer.iter().position(|byte| *byte == b'\n') {
                    Some(end) => {
                        let line = buffer.split_to(end + 1);
                        if line.trim_ascii().is_empty() { Chunk::Over } else { Chunk::Trailer }
                    }
                    None if buffer.len() <= MOST_LINE => return Ok(()),
                    None => return Err("the end of the answer does not end"),
                },
                Chunk::Data(_) | Chunk::Over => return Ok(()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All of a body that is received in pieces of `step` bytes, and what is left over.
    fn all(mut framing: Framing, sent: &[u8], step: usize) -> Result<(Vec<u8>, bool, Vec<u8>), &'static str> {
        let (mut body, mut buffer) = (Vec::new(), BytesMut::new());
        let mut coming = sent.chunks(step.max(1));
        loop {
            match framing.take(&mut buffer)? {
                Taken::Bytes(bytes) => {
                    assert!(!bytes.is_empty());
                    body.extend_from_slice(&bytes);
                }
                Taken::End => {
                    return Ok((body, true, [&buffer[..], &coming.collect::<Vec<_>>().concat()].concat()));
                }
                Taken::More => match coming.next() {
                    Some(next) => buffer.extend_from_slice(next),
                    None => return Ok((body, false, buffer.to_vec())),
                },
            }
        }
    }

    proptest! {
        #[test]
        fn chunks_are_put_together(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            step in 1usize..50,
            trailer in any::<bool>(),
        ) {
            let mut sent = Vec::new();
            for (at, chunk) in chunks.iter().enumerate() {
                let extension = if at % 2 == 0 { ";name=value" } else { "" };
                sent.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
                sent.extend_from_slice(chunk);
                sent.extend_from_slice(b"\r\n");
            }
            sent.extend_from_slice(if trailer { b"0\r\nx: y\r\n\r\n" } else { b"0\r\n\r\n" });
            let whole = (chunks.concat(), true, Vec::new());
            prop_assert_eq!(all(Framing::chunked(), &sent, step), Ok(whole.clone()));
            // Of all that is cut short, none is taken for whole.
            let (body, over, _) = all(Framing::chunked(), &sent[..sent.len() - 1], step).unwrap();
            prop_assert!(!over && whole.0.starts_with(&body));
        }

        #[test]
        fn a_length_is_kept(sent in proptest::collection::vec(any::<u8>(), 0..90), length in 0usize..100, step in 1usize..50) {
            let (body, over, rest) = all(Framing::Length(length as u64), &sent, step).unwrap();
            prop_assert_eq!(over, length <= sent.len());
            prop_assert_eq!(&body[..], &sent[..length.min(sent.len())]);
            prop_assert_eq!(&rest[..], &sent[length.min(sent.len())..]);
        }

        #[test]
        fn nothing_that_comes_makes_it_panic(sent in proptest::collection::vec(any::<u8>(), 0..90), step in 1usize..50) {
            let _ = all(Framing::chunked(), &sent, step);
        }
    }

    #[test]
    fn all_until_it_is_closed() {
        assert_eq!(all(Framing::UntilClose, b"abc", 2), Ok((b"abc".to_vec(), false, Vec::new())));
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        for wrong in [
            &b"x\r\n"[..],
            b"-1\r\n",
            b"3\r\nabcd\r\n",
            b"fffffffffffffffff\r\n",
            &[b'1', b';'].repeat(MOST_LINE),
        ] {
            assert!(all(Framing::chunked(), wrong, 7).is_err(), "{wrong:?}");
        }
        let endless = [b"0\r\nx: ", &b"y".repeat(MOST_LINE)[..]].concat();
        assert!(all(Framing::chunked(), &endless, 999).is_err());
    }
}
