//! The head of a request, as it is sent, and that of an answer, as RFC 9112 has it.

use bytes::{Buf, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version};

use super::framing::Framing;

/// Most bytes of a head; S3 allows 8 KiB of headers.
const MOST: usize = 64 << 10;
/// Most lines of it.
const MOST_LINES: usize = 100;

/// A GET as it goes out.
pub(super) fn request(uri: &Uri, host: &HeaderValue, agent: &HeaderValue, headers: &HeaderMap) -> Vec<u8> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut sent = Vec::with_capacity(1024);
    sent.extend_from_slice(b"GET ");
    sent.extend_from_slice(path.as_bytes());
    sent.extend_from_slice(b" HTTP/1.1\r\n");
    let mut line = |name: &str, value: &HeaderValue| {
        sent.extend_from_slice(name.as_bytes());
        sent.extend_from_slice(b": ");
        sent.extend_from_slice(value.as_bytes());
        sent.extend_from_slice(b"\r\n");
    };
    line("host", host);
    line("user-agent", agent);
    line("accept", &HeaderValue::from_static("*/*"));
    let ours = ["host", "user-agent", "accept"];
    for (name, value) in headers.iter().filter(|(name, _)| !ours.contains(&name.as_str())) {
        line(name.as_str(), value);
    }
    sent.extend_from_slice(b"\r\n");
    sent
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Whether the connection may serve another request after this answer.
    pub(super) keeps: bool,
}

impl Head {
    /// Takes the head off the beginning of `buffer`; `None` while it is not complete. Interim answers (1xx) are passed over.
    pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<Head>, &'static str> {
        loop {
            let mut lines = [httparse::EMPTY_HEADER; MOST_LINES];
            let mut parsed = httparse::Response::new(&mut lines);
            let length = match parsed.parse(buffer) {
                Ok(httparse::Status::Complete(length)) => length,
                Ok(httparse::Status::Partial) if buffer.len() > MOST => {
                    return Err("the head of the answer does not end");
                }
                Ok(httparse::Status::Partial) => return Ok(None),
                Err(_) => return Err("the answer is not HTTP"),
            };
            let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
            let status = status.ok_or("the answer has no valid status")?;
            let version = if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
            let mut headers = HeaderMap::with_capacity(parsed.headers.len());
            for line in parsed.headers.iter() {
                let name = HeaderName::from_bytes(line.name.as_bytes());
                let value = HeaderValue::from_bytes(line.value);
                let (Ok(name), Ok(value)) = (name, value) else {
                    return Err("the answer has a header that is none");
                };
                headers.append(name, value);
            }
            buffer.advance(length);
            if !status.is_informational() {
                return Head::of(status, version, headers).map(Some);
            }
        }
    }

    /// Where the body ends: RFC 9112, section 6.3.
    fn of(status: StatusCode, version: Version, headers: HeaderMap) -> Result<Head, &'static str> {
        let length = content_length(&headers)?;
        let coded = headers.contains_key(TRANSFER_ENCODING);
        let framing = if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            Framing::Length(0)
        } else if coded {
            let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
            let only = codings.next().filter(|_| codings.next().is_none());
            match only.is_some_and(|only| only.as_bytes().eq_ignore_ascii_case(b"chunked")) {
                true => Framing::chunked(),
                false => return Err("the answer has a transfer coding that is not known"),
            }
        } else {
            length.map_or(Framing::UntilClose, Framing::Length)
        };
        let closes = headers.get_all(CONNECTION).iter().any(|value| {
            let value = value.to_str().unwrap_or("close");
            value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"))
        });
        // With both, somebody on the way may have understood another end than we do.
        let clear = !(coded && length.is_some());
        let keeps =
            version == Version::HTTP_11 && !closes && clear && !matches!(framing, Framing::UntilClose);
        Ok(Head { status, version, headers, framing, keeps })
    }
}

fn content_length(headers: &HeaderMap) -> Result<Option<u64>, &'static str> {
    let mut found = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let length = digits.and_then(|digits| digits.parse().ok());
        let length = length.ok_or("the answer has a length that is no number")?;
        if found.is_some_and(|before: u64| before != length) {
            return Err("the answer has two lengths");
        }
        found = Some(length);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(text: &str) -> Result<Option<Head>, &'static str> {
        Head::take(&mut BytesMut::from(text))
    }

    fn framed(lines: &str) -> (Framing, bool) {
        let head = take(&format!("HTTP/1.1 206 Partial Content\r\n{lines}\r\n")).unwrap().unwrap();
        (head.framing, head.keeps)
    }

    #[test]
    fn what_is_sent_is_http() {
        let mut headers = HeaderMap::new();
        headers.insert("range", HeaderValue::from_static("bytes=0-9"));
        headers.insert("Host", HeaderValue::from_static("signed:9000"));
        headers.insert("user-agent", HeaderValue::from_static("other"));
        let uri = "http://signed:9000/bucket/a%20b?x=%2F".parse().unwrap();
        let sent = request(
            &uri,
            &HeaderValue::from_static("signed:9000"),
            &HeaderValue::from_static("us"),
            &headers,
        );
        assert_eq!(
            String::from_utf8(sent).unwrap(),
            "GET /bucket/a%20b?x=%2F HTTP/1.1\r\nhost: signed:9000\r\nuser-agent: us\r\naccept: */*\r\nrange: bytes=0-9\r\n\r\n"
        );
    }

    #[test]
    fn a_body_ends_where_the_head_says() {
        assert_eq!(framed("Content-Length: 10\r\n"), (Framing::Length(10), true));
        assert_eq!(framed("content-length: 10\r\ncontent-length: 10\r\n"), (Framing::Length(10), true));
        assert_eq!(framed("Content-Length: 10\r\nConnection: x, Close\r\n"), (Framing::Length(10), false));
        assert_eq!(framed("Transfer-Encoding: Chunked\r\n"), (Framing::chunked(), true));
        assert_eq!(
            framed("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
            (Framing::chunked(), false),
            "not to be trusted with another answer"
        );
        assert_eq!(framed(""), (Framing::UntilClose, false));
        let old = take("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n").unwrap().unwrap();
        assert_eq!((old.framing, old.keeps), (Framing::Length(3), false));
        let none = take("HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap();
        assert_eq!((none.framing, none.keeps), (Framing::Length(0), true));
        for wrong in [
            "Content-Length: -1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: 99999999999999999999999\r\n",
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "a b: c\r\n",
        ] {
            assert!(take(&format!("HTTP/1.1 200 OK\r\n{wrong}\r\n")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let mut buffer = BytesMut::from(
            "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        );
        let head = Head::take(&mut buffer).unwrap().unwrap();
        assert_eq!((head.status, &buffer[..]), (StatusCode::OK, &b"hi"[..]));
    }

    #[test]
    fn a_head_without_an_end_is_given_up() {
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MOST));
        assert!(take(&endless).is_err());
        let lines = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(MOST_LINES + 1));
        assert!(take(&lines).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_comes_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Head::take(&mut BytesMut::from(&bytes[..]));
            let mut told = b"HTTP/1.1 200 OK\r\n".to_vec();
            told.extend_from_slice(&bytes);
            let _ = Head::take(&mut BytesMut::from(&told[..]));
        }

        /// However it is cut up on its way.
        #[test]
        fn a_head_is_complete_at_its_last_byte(cut in 0usize..64) {
            let head = "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\nETag: x\r\n\r\n";
            let cut = cut.min(head.len() - 1);
            prop_assert!(take(&head[..cut]).unwrap().is_none());
            prop_assert!(take(head).unwrap().is_some());
        }
    }
}
