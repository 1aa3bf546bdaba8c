//! Where a store is: a URL, parsed with suspicion.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{ErrorKind, StoreError};
use crate::key;

/// Schemes that name a bucket (or container): scheme, what the bucket is called, name of the service in the client library.
const BUCKET_SCHEMES: &[(&str, &str, &str)] = &[
    ("s3", "bucket", "s3"),
    ("gcs", "bucket", "gcs"),
    ("gs", "bucket", "gcs"),
    ("azblob", "container", "azblob"),
    ("b2", "bucket", "b2"),
    ("cos", "bucket", "cos"),
    ("obs", "bucket", "obs"),
    ("oss", "bucket", "oss"),
];

/// Schemes that name a host.
const HOST_SCHEMES: &[(&str, &str, &str)] = &[("webdav", "server", "webdav")];

/// A parsed URL of a store. It never holds credentials: a URL that does is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location(Place);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    /// An absolute path.
    Local(PathBuf),
    Remote {
        scheme: &'static str,
        service: &'static str,
        /// Bucket, container, or host and port.
        name: String,
        /// Without a slash at either end; may be empty.
        prefix: String,
    },
}

impl Location {
    /// The directory `path`; a relative one is taken from the current directory now, so that a later change of it does no harm.
    pub fn local(path: &Path) -> Result<Location, StoreError> {
        let refuse =
            |why: String| StoreError::new(ErrorKind::Unsupported, "open", path.to_string_lossy(), why);
        if path.as_os_str().is_empty() {
            return Err(refuse(
                "the location is empty; give a directory or a URL such as s3://bucket/prefix".into(),
            ));
        }
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(refuse("a path must not contain a NUL byte".into()));
        }
        let path = std::path::absolute(path)
            .map_err(|error| refuse(format!("cannot make the path absolute: {error}")))?;
        Ok(Location(Place::Local(path.components().collect())))
    }

    /// Whether it is a directory of this machine.
    pub fn is_local(&self) -> bool {
        self.local_path().is_some()
    }

    /// The directory, if it is one of this machine.
    pub fn local_path(&self) -> Option<&Path> {
        match &self.0 {
            Place::Local(path) => Some(path),
            Place::Remote { .. } => None,
        }
    }

    /// The scheme: "file", "s3", ...
    pub fn scheme(&self) -> &'static str {
        match &self.0 {
            Place::Local(_) => "file",
            Place::Remote { scheme, .. } => scheme,
        }
    }

    /// Service of the client library, bucket, prefix.
    pub(crate) fn remote(&self) -> Option<(&'static str, &str, &str)> {
        match &self.0 {
            Place::Local(_) => None,
            Place::Remote { service, name, prefix, .. } => Some((service, name, prefix)),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Local(path) => write!(f, "{}", path.display()),
            Place::Remote { scheme, name, prefix, .. } if prefix.is_empty() => write!(f, "{scheme}://{name}"),
            Place::Remote { scheme, name, prefix, .. } => write!(f, "{scheme}://{name}/{prefix}"),
        }
    }
}

impl FromStr for Location {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Location, StoreError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return parse_plain(text);
        };
        // The text itself may hold a password: until it is known not to, errors name only the scheme.
        let refuse =
            |why: String| StoreError::new(ErrorKind::Unsupported, "open", format!("{scheme}://…"), why);
        if scheme.eq_ignore_ascii_case("file") {
            return parse_file(rest).map_err(refuse)?;
        }
        let known =
            BUCKET_SCHEMES.iter().chain(HOST_SCHEMES).find(|known| known.0.eq_ignore_ascii_case(scheme));
        let Some(&(scheme, what, service)) = known else {
            return Err(unknown_scheme(scheme));
        };
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if name.contains('@') {
            return Err(refuse(format!(
                "credentials do not belong in a URL, where every user sees them in the list of processes; write \
                 {scheme}://{what}/prefix and give them as options, in the environment or in a profile file"
            )));
        }
        let whole = |why: String| StoreError::new(ErrorKind::Unsupported, "open", text, why);
        if rest.contains(['?', '#']) {
            return Err(refuse("a URL of a store has no '?' or '#' part; give settings as options".into()));
        }
        let host = service == "webdav";
        check_name(scheme, what, name, host).map_err(whole)?;
        let prefix = prefix.trim_matches('/');
        if !prefix.is_empty() {
            key::check(prefix).map_err(|why| whole(format!("the prefix is not valid: {why}")))?;
        }
        if prefix.len() > MAX_PREFIX {
            return Err(whole(format!(
                "the prefix has {} bytes, more than the {MAX_PREFIX} allowed",
                prefix.len()
            )));
        }
        Ok(Location(Place::Remote { scheme, service, name: name.to_owned(), prefix: prefix.to_owned() }))
    }
}

/// Longest prefix in bytes: together with the longest key it stays below the 1,024 that S3 allows.
const MAX_PREFIX: usize = 1024 - key::MAX_KEY - 1;

/// Text without "://": a path, unless it looks like a URL gone wrong.
fn parse_plain(text: &str) -> Result<Location, StoreError> {
    if let Some((scheme, _)) = text.split_once(':') {
        let mut schemes = BUCKET_SCHEMES.iter().chain(HOST_SCHEMES).map(|known| known.0).chain(["file"]);
        if let Some(scheme) = schemes.find(|known| known.eq_ignore_ascii_case(scheme)) {
            let why = format!(
                "two slashes are missing: write {scheme}://… (or ./{scheme}:… if a directory is meant)"
            );
            return Err(StoreError::new(ErrorKind::Unsupported, "open", format!("{scheme}:…"), why));
        }
    }
    Location::local(Path::new(text))
}

/// The part of a `file:` URL after `//` (RFC 8089).
fn parse_file(rest: &str) -> Result<Result<Location, StoreError>, String> {
    let path = match rest.split_once('/') {
        Some(("" | "localhost", path)) => path,
        _ => return Err("a file URL needs an absolute path: write file:///directory".into()),
    };
    if path.contains(['?', '#']) {
        return Err(
            "a file URL has no '?' or '#' part; write them as %3F and %23, or give the plain path".into()
        );
    }
    let mut bytes = vec![b'/'];
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err("a '%' in a file URL must be followed by two hexadecimal digits".into()),
        }
    }
    use std::os::unix::ffi::OsStringExt;
    Ok(Location::local(&PathBuf::from(std::ffi::OsString::from_vec(bytes))))
}

fn unknown_scheme(scheme: &str) -> StoreError {
    let known: Vec<_> = BUCKET_SCHEMES.iter().chain(HOST_SCHEMES).map(|known| known.0).collect();
    let hint = match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => {
            "; for a server that speaks S3 write s3://bucket/prefix and give this address as the endpoint"
        }
        _ => "",
    };
    let why = format!("unknown kind of store; known are a directory, file, {}{hint}", known.join(", "));
    StoreError::new(ErrorKind::Unsupported, "open", format!("{scheme}://…"), why)
}

fn check_name(scheme: &str, what: &str, name: &str, host: bool) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("the {what} is missing: write {scheme}://{what}/prefix"));
    }
    if let (false, Some((_, port))) = (host, name.split_once(':')) {
        return Err(format!(
            "'{}' is not a {what} name; if ':{}' is the port of a server, give its address as the endpoint",
            name,
            port.chars().take(8).collect::<String>()
        ));
    }
    let allowed = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') || (host && matches!(c, ':' | '[' | ']'))
    };
    if name.len() > 255 || !name.chars().all(allowed) || name.starts_with(['.', '-']) {
        return Err(format!("this is not a {what} name: letters, digits, '-', '_' and '.' are allowed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        text.parse::<Location>().map(|location| location.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_people_write_is_understood() {
        let here = std::env::current_dir().unwrap();
        let below = |name: &str| here.join(name).display().to_string();
        for (text, expected) in [
            ("s3://bucket", "s3://bucket".to_owned()),
            ("s3://bucket/", "s3://bucket".to_owned()),
            ("S3://Bucket.name_1/a/b/", "s3://Bucket.name_1/a/b".to_owned()),
            ("gs://bucket/prefix", "gs://bucket/prefix".to_owned()),
            ("azblob://container/a b", "azblob://container/a b".to_owned()),
            ("webdav://host:8080/dav", "webdav://host:8080/dav".to_owned()),
            ("s3://bucket/a@b", "s3://bucket/a@b".to_owned()),
            ("/a/b/", "/a/b".to_owned()),
            ("file:///a%20b/c", "/a b/c".to_owned()),
            ("file://localhost/a", "/a".to_owned()),
            ("./a", below("a")),
            ("volume", below("volume")),
            ("./s3:x", below("s3:x")),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        assert!("./a".parse::<Location>().unwrap().is_local());
        assert!(!"s3://a".parse::<Location>().unwrap().is_local());
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, part) in [
            ("", "empty"),
            ("s3://", "bucket is missing"),
            ("s3:///prefix", "bucket is missing"),
            ("azblob:///x", "container is missing"),
            ("s3:/bucket/x", "two slashes are missing"),
            ("ftp://host/x", "unknown kind of store"),
            ("https://s3.example.com/bucket", "as the endpoint"),
            ("s3://bucket:9000/x", "as the endpoint"),
            ("s3://bucket/../x", "'..'"),
            ("s3://bucket//a//b", "'//'"),
            ("s3://bucket/a\nb", "control characters"),
            ("s3://bu cket/a", "not a bucket name"),
            ("s3://../a", "not a bucket name"),
            ("s3://bucket/a?region=x", "'?'"),
            ("file://host/a", "absolute path"),
            ("file:///a%2", "hexadecimal"),
            ("file:///a%00", "NUL"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "{error:?}");
        }
    }

    #[test]
    fn credentials_in_a_url_are_refused_and_not_repeated() {
        for text in [
            "s3://AKIAX:topsecret@bucket/a",
            "s3://topsecret@bucket",
            "gs://a:topsecret@b?x",
            "webdav://u:topsecret@host/x",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("list of processes"), "{error}");
            assert!(!error.contains("topsecret") && !error.contains("AKIAX"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*") {
            let _ = parse(&text);
        }

        /// What is printed means the same place again.
        #[test]
        fn display_and_parse_agree(text in "(s3|gcs|file|webdav|oss)://[a-z.:@/%?-]{0,20}") {
            if let Ok(location) = text.parse::<Location>() {
                let printed = location.to_string();
                prop_assert_eq!(printed.parse::<Location>().unwrap(), location);
            }
        }
    }
}
