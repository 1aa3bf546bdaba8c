//! From an error of the client library and what was seen on the wire to one kind and one readable line.

use std::error::Error as _;
use std::time::Duration;

use headrace_flow::backoff;

use super::transport::{Exchange, RangeFault, is_missing_bucket, is_unknown_caller};
use crate::error::{ErrorKind, one_line};

/// What errors name: never a secret.
#[derive(Debug, Clone, Default)]
pub(super) struct Blame {
    /// `bucket "name"`, `container "name"`, ...
    pub(super) bucket: String,
    /// The address asked, if it was given.
    pub(super) endpoint: Option<String>,
    /// Where the credentials came from, or where they were looked for.
    pub(super) credentials: String,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) retry_after: Option<Duration>,
    /// It is the bucket that is missing, not an object.
    pub(super) whole_store: bool,
    /// The store said no without saying why, as it does in the answer to a HEAD.
    pub(super) unexplained: bool,
    /// It may be an accident on the way: worth asking again a few times, though the answer looks final.
    pub(super) suspect: bool,
    pub(super) why: String,
    library: Option<Box<opendal::Error>>,
}

impl From<opendal::Error> for Failure {
    fn from(error: opendal::Error) -> Failure {
        Failure { library: Some(Box::new(error)), ..Failure::new(ErrorKind::Transient, String::new()) }
    }
}

impl Failure {
    fn new(kind: ErrorKind, why: String) -> Failure {
        Failure {
            kind,
            retry_after: None,
            whole_store: false,
            unexplained: false,
            suspect: false,
            why,
            library: None,
        }
    }

    pub(super) fn corrupt(why: String) -> Failure {
        Failure::new(ErrorKind::Corrupt, why)
    }

    /// The answer has another length than was asked for.
    pub(super) fn wrong_length(why: String) -> Failure {
        Failure { suspect: true, ..Failure::corrupt(why) }
    }

    pub(super) fn throttled(why: String) -> Failure {
        Failure::new(ErrorKind::Throttled, why)
    }

    /// Nothing has moved for `quiet`, after so many bytes in either direction.
    pub(super) fn stalled(quiet: Duration, moved: u64) -> Failure {
        let seconds = quiet.as_secs_f64();
        let why = match moved {
            0 => format!("no answer within {seconds:.1} s"),
            moved => format!("no answer within {seconds:.1} s, after {moved} bytes"),
        };
        Failure::new(ErrorKind::Transient, why)
    }

    /// The line that a person reads.
    pub(super) fn detail(&self) -> String {
        self.why.clone()
    }

    /// What it means for trying again.
    pub(super) fn class(&self) -> backoff::Failure {
        match self.kind {
            ErrorKind::Transient => backoff::Failure::Transient,
            ErrorKind::Throttled => backoff::Failure::Throttled,
            _ => backoff::Failure::Permanent,
        }
    }

    /// Puts in words what happened, with the notes of the exchange.
    pub(super) fn explained(mut self, exchange: &Exchange, blame: &Blame) -> Failure {
        let server = exchange.server.as_deref().or(blame.endpoint.as_deref()).unwrap_or("the store");
        let Some(library) = self.library.take() else {
            if self.kind == ErrorKind::Transient {
                self.why = format!("{server}: {}", self.why);
            }
            return self;
        };
        let mut failure = match exchange.status.filter(|status| *status >= 300) {
            Some(status) => of_answer(&library, status, server, exchange, blame),
            None => of_transport(&library, server, exchange, blame),
        };
        failure.retry_after = exchange.retry_after;
        failure
    }
}

/// The store answered with an error.
fn of_answer(
    library: &opendal::Error,
    status: u16,
    server: &str,
    exchange: &Exchange,
    blame: &Blame,
) -> Failure {
    let code = exchange.code.as_deref().unwrap_or("");
    let said = match (code, exchange.message.as_deref()) {
        ("", None) => format!("status {status}"),
        ("", Some(message)) => format!("status {status}: {message}"),
        (code, None) => format!("status {status} {code}"),
        (code, Some(message)) => format!("status {status} {code}: {message}"),
    };
    let bucket = &blame.bucket;
    if is_missing_bucket(code)
        || (status == 404
            && exchange.message.as_deref().is_some_and(|message| message.contains("bucket does not exist")))
    {
        let why =
            format!("{bucket} does not exist at {server}; create it, or check the URL and the endpoint");
        return Failure { whole_store: true, ..Failure::new(ErrorKind::NotFound, why) };
    }
    match library.kind() {
        opendal::ErrorKind::ConditionNotMatch | opendal::ErrorKind::AlreadyExists => {
            return Failure::new(ErrorKind::AlreadyExists, "an object is there already".to_owned());
        }
        opendal::ErrorKind::RateLimited => {
            return Failure::new(ErrorKind::Throttled, format!("{server} asks for fewer requests ({said})"));
        }
        _ => {}
    }
    let (kind, why) = match (status, code) {
        (_, "QuotaExceeded" | "XMinioStorageFull" | "XMinioStorageQuotaExceeded" | "InsufficientStorage")
        | (507, _) => (ErrorKind::Full, format!("{server} has no room left ({said})")),
        (_, "RequestTimeTooSkewed") => {
            (ErrorKind::Denied, format!("the clock of this machine is wrong, says {server} ({said}); set it"))
        }
        (_, "ExpiredToken" | "TokenRefreshRequired") => {
            (ErrorKind::Denied, format!("the credentials have expired ({said}); {}", renew(blame)))
        }
        (_, "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException")
        | (301 | 308, _) => (
            ErrorKind::Unsupported,
            format!(
                "{bucket} is in another region or at another endpoint ({said}); give the right --region or --endpoint"
            ),
        ),
        (401, _) => denied(server, &said, blame),
        (_, code) if is_unknown_caller(code) => denied(server, &said, blame),
        (403, _) => (
            ErrorKind::Denied,
            format!(
                "{server} refuses access ({said}); allow reading, writing, deleting and listing in {bucket}, or use other \
                 credentials ({})",
                blame.credentials
            ),
        ),
        // A HEAD has no body to say whether it is the object or the bucket that is missing.
        (404, "") => (ErrorKind::NotFound, format!("no such object (or {bucket} does not exist)")),
        (404 | 410, _) => (ErrorKind::NotFound, "no such object".to_owned()),
        (416, _) => (ErrorKind::Corrupt, "the object is shorter than the range asked for".to_owned()),
        // The body did not arrive as it was sent; what went wrong on the way may go right the next time.
        (
            _,
            "BadDigest"
            | "InvalidDigest"
            | "XAmzContentChecksumMismatch"
            | "XAmzContentSHA256Mismatch"
            | "IncompleteBody"
            | "RequestTimeout"
            | "Md5Mismatch"
            | "Crc64Mismatch",
        ) => (ErrorKind::Transient, format!("{server} did not receive the body as it was sent ({said})")),
        (429, _) | (503, "SlowDown" | "") | (_, "SlowDown" | "ServerBusy" | "TooManyRequests") => {
            (ErrorKind::Throttled, format!("{server} asks for fewer requests ({said})"))
        }
        (501 | 505, _) | (_, "NotImplemented") => {
            (ErrorKind::Unsupported, format!("{server} cannot do this ({said})"))
        }
        (408 | 499 | 500..=599, _) => (ErrorKind::Transient, format!("{server} failed ({said})")),
        _ if library.is_temporary() => (ErrorKind::Transient, format!("{server} failed ({said})")),
        _ => (ErrorKind::Unsupported, format!("{server} does not accept the request ({said})")),
    };
    let unexplained = (400..500).contains(&status) && code.is_empty() && exchange.message.is_none();
    Failure { unexplained, ..Failure::new(kind, why) }
}

fn denied(server: &str, said: &str, blame: &Blame) -> (ErrorKind, String) {
    (ErrorKind::Denied, format!("{server} does not accept the credentials ({said}); {}", renew(blame)))
}

fn renew(blame: &Blame) -> String {
    format!("give valid ones; used were: {}", blame.credentials)
}

/// There was no answer, or it broke off, or it made no sense.
fn of_transport(library: &opendal::Error, server: &str, exchange: &Exchange, blame: &Blame) -> Failure {
    match exchange.range {
        Some(RangeFault::Elsewhere) => {
            let why = format!(
                "{server} answered with other bytes than the range asked for; it does not honour ranges"
            );
            return Failure::corrupt(why);
        }
        Some(RangeFault::Length(asked, announced)) => {
            let why = format!(
                "asked for {asked} bytes, the store has {announced}: the object was cut short or replaced"
            );
            return Failure::wrong_length(why);
        }
        None => {}
    }
    let cause = root_cause(library);
    // The library's own count of a body that HTTP took for complete.
    if cause.starts_with("reader got too") {
        return Failure::wrong_length(format!("{cause}: the object was cut short or replaced"));
    }
    if cause.contains("certificate") {
        let why = format!(
            "the TLS certificate of {server} is not trusted ({cause}); if it is right, name its authority's file in AWS_CA_BUNDLE"
        );
        return Failure::new(ErrorKind::Unsupported, why);
    }
    match library.kind() {
        opendal::ErrorKind::NotFound => {
            return Failure::new(ErrorKind::NotFound, "no such object".to_owned());
        }
        opendal::ErrorKind::Unsupported => {
            return Failure::new(
                ErrorKind::Unsupported,
                format!("this kind of store cannot do this ({cause})"),
            );
        }
        opendal::ErrorKind::ConfigInvalid => return Failure::new(ErrorKind::Unsupported, cause),
        opendal::ErrorKind::PermissionDenied => {
            return Failure::new(ErrorKind::Denied, format!("{cause}; {}", renew(blame)));
        }
        _ => {}
    }
    if library.message().contains("sign") && exchange.status.is_none_or(|status| status >= 300) {
        let why = format!("no usable credentials ({cause}); searched: {}", blame.credentials);
        return Failure::new(ErrorKind::Denied, why);
    }
    if library.is_temporary() || exchange.status.is_some() {
        let what = if exchange.status.is_some() { "the answer broke off" } else { "cannot be reached" };
        return Failure::new(ErrorKind::Transient, format!("{server}: {what} ({cause})"));
    }
    Failure::new(ErrorKind::Unsupported, format!("{server}: {cause}"))
}

/// The innermost cause, which is where the network's own words are; the outer ones repeat themselves.
fn root_cause(library: &opendal::Error) -> String {
    let mut cause = library.message().to_owned();
    let mut source = library.source();
    // A chain cannot be endless, but a bound costs nothing.
    for _ in 0..16 {
        let Some(error) = source else { break };
        cause = error.to_string();
        source = error.source();
    }
    one_line(&cause, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, code: &str, kind: opendal::ErrorKind) -> Failure {
        let exchange = Exchange {
            server: Some("https://store".into()),
            status: Some(status),
            code: (!code.is_empty()).then(|| code.to_owned()),
            ..Exchange::default()
        };
        let blame = Blame { bucket: "bucket \"b\"".into(), endpoint: None, credentials: "options".into() };
        let error =
            opendal::Error::new(kind, "dump").with_context("url", "https://store/?X-Amz-Signature=secret");
        Failure::from(error).explained(&exchange, &blame)
    }

    #[test]
    fn answers_get_the_kind_that_tells_what_to_do() {
        use opendal::ErrorKind as Library;
        for (status, code, library, kind) in [
            (404, "NoSuchKey", Library::NotFound, ErrorKind::NotFound),
            (404, "XAdminUserNotFound", Library::NotFound, ErrorKind::Denied),
            (404, "NoSuchBucket", Library::ConfigInvalid, ErrorKind::NotFound),
            (403, "SignatureDoesNotMatch", Library::PermissionDenied, ErrorKind::Denied),
            (403, "AccessDenied", Library::PermissionDenied, ErrorKind::Denied),
            (400, "ExpiredToken", Library::Unexpected, ErrorKind::Denied),
            (400, "AuthorizationHeaderMalformed", Library::Unexpected, ErrorKind::Unsupported),
            (412, "PreconditionFailed", Library::ConditionNotMatch, ErrorKind::AlreadyExists),
            (409, "BlobAlreadyExists", Library::ConditionNotMatch, ErrorKind::AlreadyExists),
            (416, "InvalidRange", Library::RangeNotSatisfied, ErrorKind::Corrupt),
            (429, "", Library::RateLimited, ErrorKind::Throttled),
            (503, "SlowDown", Library::RateLimited, ErrorKind::Throttled),
            (500, "InternalError", Library::Unexpected, ErrorKind::Transient),
            (502, "", Library::Unexpected, ErrorKind::Transient),
            (507, "", Library::Unexpected, ErrorKind::Full),
            (501, "NotImplemented", Library::Unexpected, ErrorKind::Unsupported),
            (400, "InvalidArgument", Library::Unexpected, ErrorKind::Unsupported),
        ] {
            let failure = of(status, code, library);
            assert_eq!(failure.kind, kind, "{status} {code}: {}", failure.detail());
            let detail = failure.detail();
            assert!(
                !detail.contains("dump") && !detail.contains("Signature=") && !detail.contains('\n'),
                "{detail}"
            );
        }
    }

    #[test]
    fn a_conflict_that_the_library_calls_temporary_is_tried_again() {
        let exchange = Exchange {
            status: Some(409),
            code: Some("ConditionalRequestConflict".into()),
            ..Exchange::default()
        };
        let error = opendal::Error::new(opendal::ErrorKind::Conflict, "").set_temporary();
        let failure = Failure::from(error).explained(&exchange, &Blame::default());
        assert_eq!(failure.class(), backoff::Failure::Transient);
    }
}
