//! Between the client library and HTTP: notes what really happened on the wire, so that errors can say it in words.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use opendal::raw::oio::ReadStream;
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpRedirect, HttpTransport};
use opendal_http_transport_reqwest::ReqwestTransport;
use parking_lot::Mutex;

use super::direct::Direct;
use super::progress::Progress;
use super::upload;
use crate::error::one_line;

tokio::task_local! {
    /// The notes of the attempt that this task is making.
    pub(super) static EXCHANGE: Arc<Mutex<Exchange>>;
}

/// Most bytes of an error's body that are read.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The last request and answer of an attempt.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// How far it has got.
    pub(super) progress: Arc<Progress>,
    /// Scheme, host and port asked.
    pub(super) server: Option<String>,
    /// The answer's status, if there was an answer.
    pub(super) status: Option<u16>,
    /// How long the server asked us to stay away.
    pub(super) retry_after: Option<Duration>,
    /// The service's own code of the error, such as `NoSuchBucket`.
    pub(super) code: Option<String>,
    /// The first line of the service's own message.
    pub(super) message: Option<String>,
    /// What is wrong with the range of the answer.
    pub(super) range: Option<RangeFault>,
}

impl Exchange {
    pub(super) fn new(progress: Arc<Progress>) -> Exchange {
        Exchange { progress, ..Exchange::default() }
    }
}

/// An answer to a ranged get that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeFault {
    /// It begins at another byte: the server does not honour ranges.
    Elsewhere,
    /// So many bytes were asked for, so many are announced.
    Length(u64, u64),
}

/// HTTP that keeps notes in [`EXCHANGE`].
pub(super) struct ObservedTransport {
    client: reqwest::Client,
    transport: ReqwestTransport,
    direct: Option<Direct>,
}

impl ObservedTransport {
    /// Sends by `client`, and what `direct` can send by that.
    pub(super) fn new(client: reqwest::Client, direct: Option<Direct>) -> ObservedTransport {
        ObservedTransport { transport: ReqwestTransport::new(client.clone()), client, direct }
    }

    async fn send(
        &self,
        request: Request<Buffer>,
        server: Option<&str>,
        asked: Option<Asked>,
        progress: &Arc<Progress>,
    ) -> opendal::Result<Response<HttpBody>> {
        if request.body().len() > upload::OBSERVED {
            return upload::send(&self.client, request, Arc::clone(progress)).await;
        }
        let is_plain = request.method() == Method::GET
            && request.body().is_empty()
            && request.extensions().get::<HttpRedirect>().is_none();
        if let (Some(direct), Some(server), Some(asked), true) = (&self.direct, server, asked, is_plain)
            && let Some(answer) = direct.fetch(server, &request, asked.bytes()).await?
        {
            return Ok(answer);
        }
        self.transport.fetch(request).await
    }
}

impl HttpTransport for ObservedTransport {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let uri = request.uri();
        let server = uri.scheme_str().zip(uri.authority()).map(|(scheme, host)| {
            let host = host.port().map_or(host.host().to_owned(), |port| format!("{}:{port}", host.host()));
            format!("{scheme}://{host}")
        });
        let asked = request.headers().get(RANGE).and_then(|range| range.to_str().ok()).and_then(Asked::parse);
        let deleting = request.method() == Method::DELETE;
        let progress = EXCHANGE.try_with(|exchange| Arc::clone(&exchange.lock().progress)).ok();
        let progress = progress.unwrap_or_else(|| Arc::new(Progress::default()));
        let noted = Exchange { server: server.clone(), ..Exchange::new(Arc::clone(&progress)) };
        note(|exchange| *exchange = noted);

        progress.ask();
        let response = self.send(request, server.as_deref(), asked, &progress).await?;
        progress.answer();
        let (parts, body) = response.into_parts();
        let body = body.map_inner(move |body| {
            let seen =
                move |piece: &opendal::Result<Buffer>| progress.moved(piece.as_ref().map_or(0, Buffer::len));
            Box::new(body.inspect(seen))
        });
        let status = parts.status;
        let range = asked
            .filter(|_| status.is_success())
            .and_then(|asked| range_fault(asked, status, &parts.headers));
        note(|exchange| {
            exchange.status = Some(status.as_u16());
            exchange.retry_after = retry_after(&parts.headers);
            exchange.range = range;
        });
        if range.is_some() {
            return Err(Error::new(ErrorKind::Unexpected, "the answer holds another range"));
        }
        if !(status.is_client_error() || status.is_server_error()) {
            return Ok(Response::from_parts(parts, body));
        }
        let body = beginning(body).await?;
        let (code, message) = parse_error(&body.to_bytes());
        // The library takes any "not found" for a deleted object, even if it is the bucket or the user that was not found.
        let misread =
            deleting && status == StatusCode::NOT_FOUND && code.as_deref().is_some_and(is_not_about_objects);
        note(|exchange| (exchange.code, exchange.message) = (code, message));
        if misread {
            return Err(Error::new(ErrorKind::Unexpected, "something other than the object was not found"));
        }
        let length = body.len() as u64;
        let body = HttpBody::new(futures::stream::iter([Ok(body)]), Some(length));
        Ok(Response::from_parts(parts, body))
    }
}

fn note(change: impl FnOnce(&mut Exchange)) {
    // Requests made outside of an attempt have nobody to read the notes.
    let _ = EXCHANGE.try_with(|exchange| change(&mut exchange.lock()));
}

async fn beginning(mut body: HttpBody) -> opendal::Result<Buffer> {
    let mut chunks = Vec::new();
    let mut length = 0;
    while length < MAX_ERROR_BODY {
        let chunk = body.read().await?;
        if chunk.is_empty() {
            break;
        }
        length += chunk.len();
        chunks.extend(chunk);
    }
    Ok(Buffer::from(chunks))
}

/// Whether a "not found" with this code is about the bucket or the caller.
pub(super) fn is_not_about_objects(code: &str) -> bool {
    is_missing_bucket(code) || is_unknown_caller(code)
}

/// Codes of S3, Azure, OSS and their like for a bucket that does not exist.
pub(super) fn is_missing_bucket(code: &str) -> bool {
    matches!(code, "NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted")
}

/// Codes for credentials that mean nobody; some servers send them with status 404.
pub(super) fn is_unknown_caller(code: &str) -> bool {
    matches!(code, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "AuthenticationFailed")
        || code.contains("User")
        || code.contains("AccessKey")
}

/// What a `Range: bytes=first-last` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    first: u64,
    last: u64,
}

impl Asked {
    fn parse(range: &str) -> Option<Asked> {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some(Asked { first: first.parse().ok()?, last: last.parse().ok()? })
    }

    fn bytes(self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// Whether an answer holds the bytes asked for. A server that ignores ranges sends all, from the start.
fn range_fault(asked: Asked, status: StatusCode, headers: &HeaderMap) -> Option<RangeFault> {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let begin = match status {
        // Some servers leave the header out of a right answer; the checksums above us have the last word.
        StatusCode::PARTIAL_CONTENT => text(CONTENT_RANGE)
            .and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok())
            .unwrap_or(asked.first),
        _ => 0,
    };
    if begin != asked.first {
        return Some(RangeFault::Elsewhere);
    }
    let asked = asked.bytes();
    let announced = text(CONTENT_LENGTH).and_then(|length| length.parse().ok()).unwrap_or(asked);
    (announced != asked).then_some(RangeFault::Length(asked, announced))
}

/// `Retry-After` in seconds; the form with a date is not used by object stores.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Code and message of an error: S3, Azure and their like answer in XML, Google and Backblaze in JSON.
fn parse_error(body: &[u8]) -> (Option<String>, Option<String>) {
    let text = String::from_utf8_lossy(body);
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) {
        let error = json.get("error").filter(|error| error.is_object()).unwrap_or(&json);
        let text = |value: Option<&serde_json::Value>| value.and_then(|value| value.as_str()).and_then(clean);
        let reason = error.pointer("/errors/0/reason").or(error.get("status")).or(error.get("code"));
        return (text(reason), text(error.get("message")));
    }
    (element(&text, "Code"), element(&text, "Message"))
}

fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    let plain =
        value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    clean(&plain.replace("&amp;", "&"))
}

/// The first line, shortened. Later lines of such texts hold request ids and, with some services, what was signed.
fn clean(text: &str) -> Option<String> {
    let line = one_line(text.trim().lines().next()?, 200);
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_services_are_understood() {
        let s3 = b"<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>It &amp; that\nsecond line</Message></Error>";
        assert_eq!(parse_error(s3), (Some("NoSuchBucket".into()), Some("It & that".into())));
        let gcs = br#"{"error":{"code":404,"message":"Gone.","errors":[{"reason":"notFound"}]}}"#;
        assert_eq!(parse_error(gcs), (Some("notFound".into()), Some("Gone.".into())));
        let b2 = br#"{"code":"bad_auth_token","message":"Invalid","status":401}"#;
        assert_eq!(parse_error(b2).1, Some("Invalid".into()));
        for nonsense in
            [&b""[..], b"\xff\xfe", b"<Code>", b"<Code></Code>", b"[1,2", b"null", b"<Message>\n</Message>"]
        {
            assert_eq!(parse_error(nonsense), (None, None), "{nonsense:?}");
        }
    }

    #[test]
    fn an_answer_with_other_bytes_is_noticed() {
        let fault = |status, range: &str, length: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, range.parse().unwrap());
            headers.insert(CONTENT_LENGTH, length.parse().unwrap());
            range_fault(Asked { first: 10, last: 19 }, status, &headers)
        };
        let partial = StatusCode::PARTIAL_CONTENT;
        assert_eq!(fault(partial, "bytes 10-19/30", "10"), None);
        assert_eq!(fault(partial, "nonsense", "10"), None);
        assert_eq!(fault(partial, "bytes 0-9/30", "10"), Some(RangeFault::Elsewhere));
        assert_eq!(fault(partial, "bytes 10-14/15", "5"), Some(RangeFault::Length(10, 5)));
        assert_eq!(
            fault(StatusCode::OK, "", "30"),
            Some(RangeFault::Elsewhere),
            "the whole object in place of a range"
        );
        assert_eq!(range_fault(Asked { first: 0, last: 9 }, StatusCode::OK, &HeaderMap::new()), None);
        assert_eq!(Asked::parse("bytes=10-19").map(|asked| (asked.first, asked.bytes())), Some((10, 10)));
        assert_eq!(Asked::parse("bytes=5-"), None);
    }
}
