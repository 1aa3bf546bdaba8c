//! What is put, in pieces.

use std::sync::Arc;

use bytes::Bytes;

/// The bytes of an object in pieces that follow each other, so that what is in memory here and there need not be copied together.
/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Body {
    pieces: Arc<[Bytes]>,
    len: usize,
}

impl Body {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, in order; none is empty.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    pub(crate) fn shared(&self) -> Arc<[Bytes]> {
        Arc::clone(&self.pieces)
    }

    /// All of it in one piece: a copy, if there are several.
    pub fn to_bytes(&self) -> Bytes {
        match &*self.pieces {
            [] => Bytes::new(),
            [only] => only.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

impl FromIterator<Bytes> for Body {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Body {
        let pieces: Arc<[Bytes]> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        Body { len: pieces.iter().map(Bytes::len).sum(), pieces }
    }
}

impl From<Bytes> for Body {
    fn from(whole: Bytes) -> Body {
        Body::from_iter([whole])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_they_were_and_empty_ones_are_left_out() {
        let body = Body::from_iter([&b"ab"[..], b"", b"cde"].map(Bytes::from_static));
        assert_eq!((body.len(), body.pieces().len()), (5, 2));
        assert_eq!(body.to_bytes(), "abcde");
        assert!(Body::from(Bytes::new()).is_empty() && Body::default().to_bytes().is_empty());
    }
}
