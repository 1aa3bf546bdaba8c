//! The one object store behind all subjects, and the network before it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use headrace_netlab::{Conditions, Counters, Fault, NetLab};
use headrace_testbed::{HybridServer, S3Server, s3};
use serde::{Deserialize, Serialize};

use crate::failure::{Context, Result};

/// A network to measure on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The loopback interface as it is.
    Loopback,
    /// 20 ms to the first byte, 90 MB/s per connection.
    Slow,
}

impl Profile {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Loopback => "loopback",
            Profile::Slow => "slow",
        }
    }

    /// What a person reads.
    pub fn title(self) -> &'static str {
        match self {
            Profile::Loopback => "loopback",
            Profile::Slow => "20 ms to the first byte, 90 MB/s per connection",
        }
    }

    /// Its conditions.
    pub fn conditions(self) -> Conditions {
        match self {
            Profile::Loopback => Conditions::default(),
            Profile::Slow => Conditions::slow(),
        }
    }
}

/// Buckets on the server, one for each kind of data.
pub const BUCKETS: [&str; 3] = ["headrace", "juicefs", "objects"];

/// The server and its network. All requests pass the network, so that all are counted in the same way; its processor time is
/// nobody's.
#[derive(Debug)]
pub struct Server {
    // Ended before the store that it stands before.
    lab: NetLab,
    store: Store,
}

#[derive(Debug)]
enum Store {
    Hybrid(HybridServer),
    Plain(S3Server),
}

impl Store {
    /// The cheaper one if it is installed: what a server takes of the machine is missing to all subjects.
    fn start(dir: &Path) -> Store {
        match HybridServer::start(dir) {
            Ok(hybrid) => Store::Hybrid(hybrid),
            Err(error) => {
                eprintln!("compare: versitygw without nginx: {error}");
                Store::Plain(S3Server::start())
            }
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Store::Hybrid(hybrid) => hybrid.address(),
            Store::Plain(plain) => plain.address(),
        }
    }

    fn gateway(&self) -> &S3Server {
        match self {
            Store::Hybrid(hybrid) => hybrid.gateway(),
            Store::Plain(plain) => plain,
        }
    }
}

impl Server {
    /// Starts both; the objects are kept below `dir`. What is read is sent as cheaply as this machine can.
    pub fn start(dir: &Path) -> Result<Server> {
        Server::before(Store::start(dir))
    }

    /// The same without nginx, which only adds to the cost of what is stored.
    pub fn start_to_store(dir: &Path) -> Result<Server> {
        Server::before(Store::Plain(S3Server::start_in(dir)))
    }

    fn before(store: Store) -> Result<Server> {
        let data = store.gateway().bucket_dir();
        for bucket in BUCKETS {
            let dir = data.with_file_name(bucket);
            std::fs::create_dir(&dir).context(|| format!("creating the bucket {}", dir.display()))?;
        }
        let lab = NetLab::start(store.address(), Conditions::default())
            .context(|| "starting the network".into())?;
        Ok(Server { lab, store })
    }

    /// Where the objects of a bucket are files.
    pub fn bucket_dir(&self, bucket: &str) -> PathBuf {
        self.store.gateway().bucket_dir().with_file_name(bucket)
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.lab.endpoint()
    }

    /// Key id and secret key.
    pub fn credentials(&self) -> (&'static str, &'static str) {
        (s3::ACCESS_KEY, s3::SECRET_KEY)
    }

    /// Changes the network.
    pub fn set(&self, profile: Profile) -> Result<()> {
        self.lab.set(profile.conditions()).context(|| format!("setting the network to {}", profile.name()))
    }

    /// Changes the network to any other.
    pub fn set_conditions(&self, conditions: Conditions) -> Result<()> {
        self.lab.set(conditions).context(|| "setting the network".into())
    }

    /// Spoils the next requests so, one each; what an earlier call has left is forgotten.
    pub fn spoil_next(&self, faults: &[Fault]) {
        self.lab.spoil_next(faults);
    }

    /// What has passed so far.
    pub fn counters(&self) -> Counters {
        self.lab.counters()
    }

    /// What serves, for the report.
    pub fn describe(&self) -> String {
        match self.store {
            Store::Hybrid(_) => "nginx for GETs before versitygw, same machine".into(),
            Store::Plain(_) => "versitygw, same machine".into(),
        }
    }
}

/// What these requests cost at the list prices of S3 Standard in us-east-1: $0.005 for 1,000 PUT, COPY, POST and LIST, $0.0004 for
/// 1,000 GET, HEAD and others; deletions are free. Transfer within a region is free and not counted, nor is storage.
pub fn dollars(counters: &Counters) -> f64 {
    counters.operations.iter().map(|(operation, traffic)| traffic.requests as f64 * price(operation)).sum()
}

fn price(operation: &str) -> f64 {
    const WRITE: f64 = 0.005 / 1000.0;
    const READ: f64 = 0.000_4 / 1000.0;
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| operation.starts_with(prefix));
    if starts(&["Delete", "Abort"]) {
        0.0
    } else if starts(&["Put", "Copy", "Post", "List", "Create", "Upload", "Complete"]) {
        WRITE
    } else {
        READ
    }
}

#[cfg(test)]
mod tests {
    use headrace_netlab::Traffic;

    use super::*;

    #[test]
    fn requests_are_priced_by_what_they_are() {
        let mut counters = Counters::default();
        for (operation, requests) in
            [("GetObject", 1000), ("ListObjectsV2", 1000), ("UploadPart", 1000), ("DeleteObject", 9)]
        {
            counters.operations.insert(operation.into(), Traffic { requests, ..Traffic::default() });
        }
        assert!((dollars(&counters) - 0.0104).abs() < 1e-9);
    }
}
