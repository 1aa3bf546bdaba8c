//! Whether a store does what it should: what a volume depends on (the probe that `format` runs too), and what else users and tools expect.

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use headrace_store::{Capabilities, ErrorKind, MAX_OBJECT, ObjectStore, StoreError};

use super::body::Bodies;
use super::outcome::Check;

/// Objects of the check of long lists: S3 answers with 1,000 a page.
const MORE_THAN_A_PAGE: usize = 1100;
/// Requests at a time where many objects are written.
const AT_A_TIME: usize = 50;
/// Bytes of the large object: more than a single request of most tools.
pub(super) const LARGE: usize = 64 << 20;

/// Keys that some servers and proxies mix up: signs with a meaning in URLs, in XML, in patterns or for a file system, letters beyond
/// ASCII, names that look like paths or like encoded ones.
const ODD_KEYS: [&str; 14] = [
    "with space",
    "a+b",
    "a%20b",
    "100%",
    "a&b=c",
    "a?b#c",
    "quote\"s'",
    "<tag>",
    "tilde~star*",
    "(round)[square]{curly}",
    "back\\slash",
    "ünïcödé-日本-😀",
    ".hidden",
    "...",
];

/// Whether a thing works: `None` if it does, else what happens instead.
type Verdict = Result<Option<String>, StoreError>;

pub(super) struct Checks<'a> {
    pub store: &'a dyn ObjectStore,
    /// Ends with a slash.
    pub prefix: String,
    pub bodies: &'a Bodies,
    /// Leave out what writes much.
    pub quick: bool,
}

/// What the probe saw, as checks.
pub(super) fn of_probe(found: &Capabilities) -> Vec<Check> {
    let check = |name, passed: bool, required, detail: &str| Check {
        name,
        passed,
        required,
        detail: (!passed).then(|| detail.to_owned()),
    };
    vec![
        check(
            "read, overwrite and delete are seen at once",
            found.read_after_write,
            true,
            "an old state is read",
        ),
        check("ranged get", found.range, true, "the bytes are not those asked for"),
        check("object of 8 MiB", found.multipart, true, "it does not come back as written"),
        check(
            "list is complete",
            found.complete_list,
            true,
            "objects are missing, or deleted ones are shown",
        ),
        check("list is in order", found.ordered_list, false, "not in the order of the keys' bytes"),
        check(
            "conditional put, of eight writers one wins",
            found.conditional_put,
            false,
            "not honoured: a second mount of a volume cannot be kept out",
        ),
    ]
}

impl Checks<'_> {
    /// Tries one thing after the other; `begin` hears which. An error of one is its verdict: the others are still tried.
    pub async fn run(&self, begin: impl Fn(&'static str)) -> Vec<Check> {
        let mut checks = Vec::new();
        macro_rules! check {
            ($name:literal, $required:expr, $work:expr) => {
                begin($name);
                let detail = $work.await.unwrap_or_else(|error: StoreError| Some(error.to_string()));
                checks.push(Check { name: $name, passed: detail.is_none(), required: $required, detail });
            };
        }
        check!("get, head and range of a missing object say so", true, self.missing());
        check!("empty object", true, self.empty());
        check!("head tells size and time", false, self.head());
        check!("ranges at the edges", true, self.edges());
        check!("list of a prefix is of that prefix only", true, self.prefixes());
        check!("odd keys", false, self.odd_keys());
        check!("long keys", true, self.long_keys());
        check!("objects \"a\" and \"a/b\" side by side", false, self.nested());
        check!("of racing overwrites one is left, whole", true, self.overwrites());
        if !self.quick {
            check!("list of 1,100 objects", true, self.long_list());
            check!("object of 64 MiB", true, self.large());
        }
        checks
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    async fn missing(&self) -> Verdict {
        let key = self.key("missing");
        let results = [
            ("get", self.store.get(&key).await.map(drop)),
            ("head", self.store.head(&key).await.map(drop)),
            ("ranged get", self.store.get_range(&key, 0..10).await.map(drop)),
        ];
        for (name, result) in results {
            match result {
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Ok(Some(format!("{name}: {error}"))),
                Ok(()) => return Ok(Some(format!("{name} finds something"))),
            }
        }
        Ok(None)
    }

    async fn empty(&self) -> Verdict {
        let key = self.key("empty");
        self.store.put(&key, Bytes::new()).await?;
        let found = self.store.get(&key).await?;
        let size = self.store.head(&key).await?.size;
        Ok((!found.is_empty() || size != 0)
            .then(|| format!("{} bytes are read, head says {size}", found.len())))
    }

    async fn head(&self) -> Verdict {
        let key = self.key("head");
        self.store.put(&key, self.bodies.body(0, 12_345)).await?;
        let found = self.store.head(&key).await?;
        if found.size != 12_345 {
            return Ok(Some(format!("12345 bytes were written, head says {}", found.size)));
        }
        Ok(found.modified.is_none().then(|| "no time".to_owned()))
    }

    async fn edges(&self) -> Verdict {
        let key = self.key("edges");
        let size = 1_000_003;
        self.store.put(&key, self.bodies.body(1, size)).await?;
        for (start, end) in [(0, 1), (size - 1, size), (0, size), (size - 70_000, size), (65_535, 65_537)] {
            let found = self.store.get_range(&key, start as u64..end as u64).await?;
            if !self.bodies.matches(&found, 1, start, end - start) {
                return Ok(Some(format!("bytes {start} to {end} are not those written")));
            }
        }
        if !self.store.get_range(&key, 5..5).await?.is_empty() {
            return Ok(Some("a range of nothing has bytes".to_owned()));
        }
        let beyond = [(size - 10, size + 10), (size, size + 1), (size + 100, size + 200)];
        for (start, end) in beyond {
            if self.store.get_range(&key, start as u64..end as u64).await.is_ok() {
                return Ok(Some(format!("bytes {start} to {end} of {size} are made up")));
            }
        }
        Ok(None)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut keys = Vec::new();
        let mut objects = self.store.list(prefix);
        while let Some(object) = objects.next().await {
            keys.push(object?.key);
            if keys.len() > 10 * MORE_THAN_A_PAGE {
                break;
            }
        }
        keys.sort();
        Ok(keys)
    }

    async fn prefixes(&self) -> Verdict {
        let keys = ["p/a", "p/b/c", "p-q", "pq/a"].map(|name| self.key(&format!("prefixes/{name}")));
        for key in &keys {
            self.store.put(key, Bytes::from_static(b"x")).await?;
        }
        for (prefix, expected) in [("p/", &[0, 1][..]), ("p/b/", &[1]), ("p", &[0, 1, 2, 3]), ("none/", &[])]
        {
            let found = self.list(&self.key(&format!("prefixes/{prefix}"))).await?;
            let mut expected: Vec<&String> = expected.iter().filter_map(|at| keys.get(*at)).collect();
            expected.sort();
            if found.iter().ne(expected.iter().copied()) {
                return Ok(Some(format!(
                    "list of \"{prefix}\" has {} objects, not {}",
                    found.len(),
                    expected.len()
                )));
            }
        }
        Ok(None)
    }

    async fn odd_keys(&self) -> Verdict {
        let mut wrong = Vec::new();
        let keys = ODD_KEYS.map(|name| self.key(&format!("odd/{name}")));
        let body = |key: &str| Bytes::from(key.as_bytes().to_vec());
        for (key, name) in keys.iter().zip(ODD_KEYS) {
            if let Err(error) = self.store.put(key, body(key)).await {
                wrong.push(format!("{name} (put: {})", error.detail));
            }
        }
        let listed = self.list(&self.key("odd/")).await?;
        for (key, name) in keys.iter().zip(ODD_KEYS) {
            if wrong.iter().any(|said| said.starts_with(name)) {
                continue;
            }
            match self.store.get(key).await {
                Ok(found) if found == body(key) => {}
                Ok(_) => wrong.push(format!("{name} (another's content)")),
                Err(error) => wrong.push(format!("{name} (get: {})", error.detail)),
            }
            if !listed.contains(key) {
                wrong.push(format!("{name} (not listed)"));
            }
        }
        Ok((!wrong.is_empty()).then(|| wrong.join(", ")))
    }

    /// As long as this program makes them, and a part as long as a file's name can be.
    async fn long_keys(&self) -> Verdict {
        let part = "k".repeat(255);
        let short = self.key(&part);
        let mut long = self.key(&["l".repeat(255), part].join("/"));
        long.truncate(700);
        for (key, at) in [(short, 2), (long, 3)] {
            self.store.put(&key, self.bodies.body(at, 100)).await?;
            if !self.bodies.matches(&self.store.get(&key).await?, at, 0, 100) {
                return Ok(Some(format!("the object with a key of {} bytes has another content", key.len())));
            }
        }
        Ok(None)
    }

    /// Possible in an object store, not in a directory; a volume does not need it.
    async fn nested(&self) -> Verdict {
        let keys = ["nested/a", "nested/a/b"].map(|name| self.key(name));
        for key in &keys {
            if let Err(error) = self.store.put(key, Bytes::from(key.clone())).await {
                return Ok(Some(error.detail));
            }
        }
        for key in &keys {
            if self.store.get(key).await? != key.as_bytes() {
                return Ok(Some("one has taken the other's place".to_owned()));
            }
        }
        Ok(None)
    }

    async fn overwrites(&self) -> Verdict {
        let key = self.key("overwritten");
        let (first, size) = (100, 200_000);
        for _ in 0..3 {
            let writers = (0..8).map(|writer| self.store.put(&key, self.bodies.body(first + writer, size)));
            join_all(writers).await.into_iter().collect::<Result<Vec<()>, _>>()?;
            let found = self.store.get(&key).await?;
            if !(0..8).any(|writer| self.bodies.matches(&found, first + writer, 0, size)) {
                return Ok(Some("what is read is none of the objects that were written".to_owned()));
            }
        }
        Ok(None)
    }

    async fn long_list(&self) -> Verdict {
        let mut keys: Vec<String> =
            (0..MORE_THAN_A_PAGE).map(|at| self.key(&format!("long/{at:05}"))).collect();
        let puts = futures::stream::iter(&keys).map(|key| self.store.put(key, Bytes::from_static(b"l")));
        let results: Vec<_> = puts.buffer_unordered(AT_A_TIME).collect().await;
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
        keys.sort();
        let found = self.list(&self.key("long/")).await?;
        if found == keys {
            return Ok(None);
        }
        Ok(Some(format!("{} objects were written, {} are listed", keys.len(), found.len())))
    }

    async fn large(&self) -> Verdict {
        const { assert!(LARGE as u64 <= MAX_OBJECT) };
        let key = self.key("large");
        self.store.put(&key, self.bodies.body(5, LARGE)).await?;
        for (start, length) in [(0, LARGE), (LARGE - 1000, 1000), (LARGE / 2 - 3, 4096)] {
            let found = self.store.get_range(&key, start as u64..(start + length) as u64).await?;
            if !self.bodies.matches(&found, 5, start, length) {
                return Ok(Some(format!("{length} bytes at {start} are not those written")));
            }
        }
        self.store.delete(&key).await?;
        Ok(None)
    }
}
