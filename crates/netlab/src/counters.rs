//! What passed through.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Counts since the start. The difference of two ([`Counters::since`]) is what passed between them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Requests read from clients, with those that met a fault.
    pub requests: u64,
    /// The same by method: `GET`, `PUT`.
    pub methods: BTreeMap<String, u64>,
    /// The same by what they are to S3: `GetObject`, `ListObjectsV2`, `UploadPart`; with their bytes.
    pub operations: BTreeMap<String, Traffic>,
    /// Answers by status, those in the server's place among them. A request without an answer is in none.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests that met a fault.
    pub faults: u64,
    /// Bytes sent to clients, heads and bodies.
    pub bytes_sent: u64,
    /// Bytes received from clients, heads and bodies.
    pub bytes_received: u64,
    /// Processor time of the proxy's own threads, user and system, nanoseconds. Those of the kernel's network code that
    /// the sending thread pays for are in it.
    pub cpu_nanos: u64,
}

/// Requests of one kind and the bodies that went with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Bytes of their answers' bodies that were sent to clients.
    pub bytes_sent: u64,
    /// Bytes of their own bodies that were received from clients.
    pub bytes_received: u64,
}

impl Counters {
    /// Processor time of the proxy's own threads.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos)
    }

    /// Processor seconds for each GiB relayed in either direction; `None` before a byte has passed.
    pub fn cpu_seconds_per_gib(&self) -> Option<f64> {
        let bytes = self.bytes_sent.saturating_add(self.bytes_received);
        (bytes > 0).then(|| self.cpu_nanos as f64 / 1e9 / (bytes as f64 / (1u64 << 30) as f64))
    }

    /// What was added since `earlier`, which must be of the same proxy.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let methods = difference(&self.methods, &earlier.methods, |new, old| new.saturating_sub(*old));
        let statuses = difference(&self.statuses, &earlier.statuses, |new, old| new.saturating_sub(*old));
        let operations = difference(&self.operations, &earlier.operations, |new, old| Traffic {
            requests: new.requests.saturating_sub(old.requests),
            bytes_sent: new.bytes_sent.saturating_sub(old.bytes_sent),
            bytes_received: new.bytes_received.saturating_sub(old.bytes_received),
        });
        Counters {
            connections: self.connections.saturating_sub(earlier.connections),
            requests: self.requests.saturating_sub(earlier.requests),
            methods,
            operations,
            statuses,
            faults: self.faults.saturating_sub(earlier.faults),
            bytes_sent: self.bytes_sent.saturating_sub(earlier.bytes_sent),
            bytes_received: self.bytes_received.saturating_sub(earlier.bytes_received),
            cpu_nanos: self.cpu_nanos.saturating_sub(earlier.cpu_nanos),
        }
    }
}

fn difference<K: Ord + Clone, V: Clone + Default + PartialEq>(
    new: &BTreeMap<K, V>,
    old: &BTreeMap<K, V>,
    subtract: impl Fn(&V, &V) -> V,
) -> BTreeMap<K, V> {
    let none = V::default();
    new.iter()
        .map(|(key, value)| (key.clone(), subtract(value, old.get(key).unwrap_or(&none))))
        .filter(|(_, value)| *value != none)
        .collect()
}
