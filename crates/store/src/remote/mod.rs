//! Stores behind a network, through the client library, with our own retries, limits and words for what went wrong.

mod attempts;
mod aws;
mod client;
mod direct;
mod failure;
mod ini;
mod operator;
mod progress;
mod retry;
mod transport;
mod upload;

use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use headrace_flow::backoff::Policy;
use headrace_metrics::Collection;
use opendal::options::{ListOptions, WriteOptions};
use opendal::raw::oio::ListDyn;
use opendal::raw::{OpList, Service};
use opendal::{Buffer, EntryMode, Operator};

use self::failure::Failure;
use self::retry::{Control, Limits, Operation};
use crate::error::{ErrorKind, StoreError};
use crate::{
    Body, Environment, Location, MAX_OBJECT, ObjectMeta, ObjectStore, Sink, StoreHealth, StoreOptions, key,
};

/// A store reached through the client library.
pub(crate) struct RemoteStore {
    operator: Operator,
    url: String,
    control: Control,
}

impl RemoteStore {
    /// Builds the client; sends nothing.
    pub(crate) fn open(
        location: &Location,
        options: &StoreOptions,
        environment: &Environment,
    ) -> Result<RemoteStore, StoreError> {
        let url = location.to_string();
        let built = operator::build(location, options, environment)
            .map_err(|(kind, why)| StoreError::new(kind, "open", &url, why))?;
        let policy = Policy { deadline: options.deadline, ..Policy::default() };
        let limits = Limits { policy, request_timeout: options.request_timeout };
        Ok(RemoteStore { operator: built.operator, url, control: Control::new(limits, built.blame) })
    }

    fn target(&self, key: &str) -> String {
        format!("{}/{key}", self.url)
    }

    fn refuse(
        &self,
        kind: ErrorKind,
        operation: &'static str,
        key: &str,
        why: impl Into<String>,
    ) -> StoreError {
        StoreError::new(kind, operation, self.target(key), why)
    }

    fn check(&self, operation: &'static str, key: &str) -> Result<(), StoreError> {
        key::check(key).map_err(|why| self.refuse(ErrorKind::Unsupported, operation, key, why))
    }

    /// Begins an operation that moves `bytes`.
    fn begin<'a>(&'a self, operation: &'static str, key: &'a str, bytes: u64) -> Operation<'a> {
        Operation::begin(operation, &self.control, bytes, Box::new(move || self.target(key)))
    }

    /// One attempt to read `range`, or all if it is `None`.
    async fn read_once(&self, key: &str, range: Option<Range<u64>>) -> Result<Bytes, Failure> {
        let expected = range.as_ref().map(|range| range.end - range.start);
        let reader = self.operator.reader(key).await?;
        let open = match range {
            Some(range) => reader.into_stream(range).await,
            None => reader.into_stream(..).await,
        };
        let mut stream = open?;
        let mut first: Option<Bytes> = None;
        let mut body = BytesMut::new();
        let mut length = 0u64;
        while let Some(buffer) = stream.next().await {
            for chunk in buffer? {
                length = length.saturating_add(chunk.len() as u64);
                if length > expected.unwrap_or(MAX_OBJECT) {
                    return Err(match expected {
                        Some(expected) => {
                            Failure::wrong_length(format!("asked for {expected} bytes and got more"))
                        }
                        None => Failure::corrupt(format!(
                            "more than the {MAX_OBJECT} bytes that are read at once"
                        )),
                    });
                }
                match first.take() {
                    // An answer in one piece needs no copy.
                    None if body.is_empty() => first = Some(chunk),
                    None => body.extend_from_slice(&chunk),
                    Some(earlier) => {
                        // The length asked for is ours; one a server claims is not trusted with memory.
                        body.reserve(expected.unwrap_or(0) as usize);
                        body.extend_from_slice(&earlier);
                        body.extend_from_slice(&chunk);
                    }
                }
            }
        }
        match expected {
            Some(expected) if expected != length => Err(Failure::wrong_length(format!(
                "asked for {expected} bytes and got {length}: the object is shorter"
            ))),
            _ => Ok(first.unwrap_or_else(|| body.freeze())),
        }
    }

    /// One attempt to read what `left` says; it says less with every byte that was handed over.
    async fn stream_once(
        &self,
        key: &str,
        left: &mut Range<u64>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let expected = left.end - left.start;
        let reader = self.operator.reader(key).await?;
        let mut stream = reader.into_stream(left.clone()).await?;
        while let Some(buffer) = stream.next().await {
            for chunk in buffer? {
                let length = chunk.len() as u64;
                if length > left.end - left.start {
                    return Err(Failure::wrong_length(format!("asked for {expected} bytes and got more")));
                }
                left.start += length;
                sink.bytes(chunk);
            }
        }
        match left.end - left.start {
            0 => Ok(()),
            missing => Err(Failure::wrong_length(format!(
                "asked for {expected} bytes and got {}: the object is shorter",
                expected - missing
            ))),
        }
    }

    /// Checks a range to read; its length.
    fn check_range(&self, key: &str, range: &Range<u64>) -> Result<u64, StoreError> {
        let Some(length) = range.end.checked_sub(range.start) else {
            return Err(self.refuse(ErrorKind::Unsupported, "get", key, "the range ends before it begins"));
        };
        if length > MAX_OBJECT {
            let why = format!("{length} bytes are more than the {MAX_OBJECT} that are read at once");
            return Err(self.refuse(ErrorKind::Unsupported, "get", key, why));
        }
        Ok(length)
    }

    async fn stream(&self, key: &str, mut left: Range<u64>, sink: &mut dyn Sink) -> Result<(), StoreError> {
        self.check("get", key)?;
        let length = self.check_range(key, &left)?;
        if length == 0 {
            return Ok(());
        }
        let mut operation = self.begin("get", key, length);
        loop {
            match operation.attempt(self.stream_once(key, &mut left, sink)).await {
                Ok(()) => return Ok(()),
                Err(failure) => {
                    sink.interrupted(failure.kind);
                    operation.after(failure).await?;
                    sink.resumed();
                }
            }
        }
    }

    async fn read(&self, key: &str, range: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        self.check("get", key)?;
        let length = range.as_ref().map(|range| self.check_range(key, range)).transpose()?;
        if length == Some(0) {
            return Ok(Bytes::new());
        }
        let length = length.unwrap_or(0);
        let mut operation = self.begin("get", key, length);
        loop {
            match operation.attempt(self.read_once(key, range.clone())).await {
                Ok(body) => return Ok(body),
                Err(failure) => operation.after(failure).await?,
            }
        }
    }

    async fn write(&self, key: &str, body: Body, absent: bool) -> Result<(), StoreError> {
        self.check("put", key)?;
        let length = body.len() as u64;
        if length > MAX_OBJECT {
            let why = format!("{length} bytes are more than the {MAX_OBJECT} that an object may have");
            return Err(self.refuse(ErrorKind::Unsupported, "put", key, why));
        }
        if absent && !self.operator.info().capability().write_with_if_not_exists {
            let why = "this kind of store cannot write an object only if there is none";
            return Err(self.refuse(ErrorKind::Unsupported, "put", key, why));
        }
        // Always one request: the services take 5 GB and more, it is atomic, and no failure leaves parts behind that cost money.
        let options = WriteOptions { if_not_exists: absent, ..WriteOptions::default() };
        let mut operation = self.begin("put", key, length);
        loop {
            let write = async {
                let body = Buffer::from(body.shared());
                self.operator.write_options(key, body, options.clone()).await.map_err(Failure::from)
            };
            let failure = match operation.attempt(write).await {
                Ok(_) => return Ok(()),
                Err(failure) => failure,
            };
            // The answer to an earlier attempt may have been lost after it took effect: what we find may be ours.
            if absent
                && failure.kind == ErrorKind::AlreadyExists
                && operation.ambiguous()
                && self.holds(key, &body.to_bytes()).await?
            {
                return Ok(());
            }
            operation.after(failure).await?;
        }
    }

    /// Whether the object has this body.
    async fn holds(&self, key: &str, body: &Bytes) -> Result<bool, StoreError> {
        let found = match body.len() as u64 {
            0 => self.read(key, None).await,
            length => self.read(key, Some(0..length)).await,
        };
        match found {
            // One byte more would also begin like it.
            Ok(found) => Ok(found == *body && self.head_now(key).await?.size == body.len() as u64),
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Corrupt) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn head_now(&self, key: &str) -> Result<ObjectMeta, StoreError> {
        self.check("head", key)?;
        let mut operation = self.begin("head", key, 0);
        loop {
            let stat = async { self.operator.stat(key).await.map_err(Failure::from) };
            match operation.attempt(stat).await {
                Ok(found) => {
                    let modified = found.last_modified().map(Into::into);
                    return Ok(ObjectMeta { key: key.to_owned(), size: found.content_length(), modified });
                }
                // The answer to a HEAD does not say whether the object, the bucket or the caller is not known; that to a GET does.
                Err(failure) if failure.unexplained => {
                    let failure = match operation.attempt(self.read_once(key, Some(0..1))).await {
                        Err(explained) if explained.kind != ErrorKind::Corrupt => explained,
                        _ => failure,
                    };
                    operation.after(failure).await?;
                }
                Err(failure) => operation.after(failure).await?,
            }
        }
    }

    async fn delete_now(&self, key: &str) -> Result<(), StoreError> {
        self.check("delete", key)?;
        let mut operation = self.begin("delete", key, 0);
        loop {
            let delete = async { self.operator.delete(key).await.map_err(Failure::from) };
            match operation.attempt(delete).await {
                Ok(()) => return Ok(()),
                Err(failure) if failure.kind == ErrorKind::NotFound && !failure.whole_store => return Ok(()),
                Err(failure) => operation.after(failure).await?,
            }
        }
    }

    /// The next object of a list. The lister keeps its place when a page fails, so a page can be asked for again.
    async fn list_next(&self, list: &mut Listing<'_>) -> Result<Option<ObjectMeta>, StoreError> {
        let mut operation = self.begin("list", list.prefix, 0);
        loop {
            let next = async {
                if list.lister.is_none() {
                    let all = ListOptions { recursive: true, ..ListOptions::default() };
                    let path = if list.prefix.is_empty() { "/" } else { list.prefix };
                    let lister =
                        self.operator.service().list(self.operator.context(), path, OpList::from(all))?;
                    list.lister = Some(lister);
                }
                match &mut list.lister {
                    Some(lister) => Ok(lister.next_dyn().await?),
                    None => Ok(None),
                }
            };
            let entry = match operation.attempt(next).await {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(None),
                Err(failure) => {
                    operation.after(failure).await?;
                    continue;
                }
            };
            let (path, found) = entry.into_parts();
            // Directories are an invention of the library, and a store may answer more than was asked.
            if found.mode() == EntryMode::DIR || !path.starts_with(list.prefix) || path.ends_with('/') {
                continue;
            }
            let modified = found.last_modified().map(Into::into);
            return Ok(Some(ObjectMeta { key: path, size: found.content_length(), modified }));
        }
    }
}

/// A list under way.
struct Listing<'a> {
    prefix: &'a str,
    lister: Option<Box<dyn ListDyn>>,
    failed: bool,
}

impl ObjectStore for RemoteStore {
    fn url(&self) -> &str {
        &self.url
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.read(key, Some(range)).boxed()
    }

    fn get_range_to<'a>(
        &'a self,
        key: &'a str,
        range: Range<u64>,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.stream(key, range, sink).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.read(key, None).boxed()
    }

    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(key, body, false).boxed()
    }

    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(key, body.into(), true).boxed()
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>> {
        self.head_now(key).boxed()
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.delete_now(key).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>> {
        if let Err(why) = key::check_prefix(prefix) {
            return stream::iter([Err(self.refuse(ErrorKind::Unsupported, "list", prefix, why))]).boxed();
        }
        let list = Listing { prefix, lister: None, failed: false };
        stream::unfold(list, async move |mut list| {
            if list.failed {
                return None;
            }
            let next = self.list_next(&mut list).await;
            list.failed = next.is_err();
            Some((next.transpose()?, list))
        })
        .boxed()
    }

    fn health(&self) -> Option<StoreHealth> {
        Some(self.control.health())
    }

    fn collect(&self, into: &mut Collection) {
        self.control.attempts.collect(into);
    }

    fn deadline(&self) -> Duration {
        self.control.limits.policy.deadline
    }
}

/// How much longer a body of so many bytes may take: a second per 128 KiB, so that sixteen segments share even a slow line.
fn allowance(bytes: u64) -> Duration {
    Duration::from_millis(bytes / 131)
}
