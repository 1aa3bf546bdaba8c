//! One operation, as it is in an access log.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use headrace_fuse::Operation;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::output;

/// A line of an access log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was read from the kernel: RFC 3339, UTC, with microseconds.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub at: SystemTime,
    /// From then until its answer was sent, nanoseconds.
    pub duration_ns: u64,
    /// What was asked for.
    pub operation: Cow<'static, str>,
    /// The process that asked; 0 for the kernel itself.
    pub pid: u32,
    /// What it is called, as a person may see it.
    pub process: String,
    /// Its thread.
    pub tid: u32,
    /// Its user.
    pub uid: u32,
    /// The inode it was about; for names, that of the directory.
    pub inode: u64,
    /// Where in the file, for operations that say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// File data read, written or copied.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Why it failed: the symbol of an error number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'static, str>>,
}

impl Entry {
    /// How long it took.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}

impl From<&Operation> for Entry {
    fn from(operation: &Operation) -> Entry {
        Entry {
            at: operation.started,
            duration_ns: u64::try_from(operation.duration.as_nanos()).unwrap_or(u64::MAX),
            operation: operation.opcode.name().into(),
            pid: operation.pid,
            process: output::name(operation.process.as_bytes()),
            tid: operation.tid,
            uid: operation.uid,
            inode: operation.node,
            offset: operation.offset,
            bytes: operation.bytes,
            error: operation.error.map(|errno| errno.name().into()),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn write_time<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_micros(*at))
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    let text = <Cow<'de, str>>::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_docs_say_and_is_read_back() {
        let entry = Entry {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_000_001),
            duration_ns: 1500,
            operation: "read".into(),
            pid: 7,
            process: "cat".into(),
            tid: 8,
            uid: 1000,
            inode: 12,
            offset: Some(4096),
            bytes: 0,
            error: Some("EIO".into()),
        };
        let line = serde_json::to_string(&entry).unwrap();
        assert_eq!(
            line,
            r#"{"at":"1970-01-01T00:00:01.000001Z","duration_ns":1500,"operation":"read","pid":7,"process":"cat","tid":8,"uid":1000,"inode":12,"offset":4096,"error":"EIO"}"#
        );
        assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
        assert!(serde_json::from_str::<Entry>(&line.replace("1970", "x")).is_err());
    }
}
