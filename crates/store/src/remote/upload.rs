//! Requests with a large body, sent so that it is seen how far they have got.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use opendal::{Buffer, Error, ErrorKind, HttpBody};

use super::progress::Progress;

/// Smaller bodies fit into the buffers of the connection: there is no progress to see.
pub(super) const OBSERVED: usize = 256 << 10;
/// Bytes handed on at a time.
const PIECE: usize = 128 << 10;
/// Most bytes of an answer to an upload that are read.
const MAX_ANSWER: usize = 64 << 10;

/// Sends a request whose body is worth watching.
pub(super) async fn send(
    client: &reqwest::Client,
    request: Request<Buffer>,
    progress: Arc<Progress>,
) -> opendal::Result<Response<HttpBody>> {
    let (parts, body) = request.into_parts();
    let url = reqwest::Url::parse(&parts.uri.to_string()).map_err(|error| {
        Error::new(ErrorKind::Unexpected, "the request's URL is not valid").set_source(error)
    })?;
    let body = Observed { rest: body, piece: Bytes::new(), progress };
    let sent =
        client.request(parts.method, url).headers(parts.headers).body(reqwest::Body::wrap(body)).send();
    let mut answer = sent.await.map_err(|error| broken("send http request", error))?;
    let mut response = Response::builder().status(answer.status()).version(answer.version());
    if let Some(headers) = response.headers_mut() {
        headers.clone_from(answer.headers());
    }
    let mut chunks = Vec::new();
    let mut length = 0;
    while let Some(chunk) =
        answer.chunk().await.map_err(|error| broken("read data from http response", error))?
    {
        length += chunk.len();
        chunks.push(chunk);
        if length > MAX_ANSWER {
            break;
        }
    }
    let body = Buffer::from(chunks);
    let body = HttpBody::new(futures::stream::iter([Ok(body)]), None);
    response
        .body(body)
        .map_err(|error| Error::new(ErrorKind::Unexpected, "the answer makes no sense").set_source(error))
}

fn broken(what: &'static str, error: reqwest::Error) -> Error {
    Error::new(ErrorKind::Unexpected, what).set_temporary().set_source(error.without_url())
}

/// A body that notes when a piece of it is taken for the wire.
struct Observed {
    /// What comes after `piece`.
    rest: Buffer,
    piece: Bytes,
    progress: Arc<Progress>,
}

impl Body for Observed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while self.piece.is_empty() {
            match self.rest.next() {
                Some(piece) => self.piece = piece,
                None => return Poll::Ready(None),
            }
        }
        let length = self.piece.len().min(PIECE);
        let piece = self.piece.split_to(length);
        self.progress.moved(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.piece.len() + self.rest.len()) as u64)
    }
}
