//! What was deleted and is kept: listed, brought back, deleted for good, for commands.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use headrace_vfs::{Deleted, Kind, RestoreError, Time, Vfs, Wanted};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use super::control::protocol::{PROGRESS_INTERVAL, Step};
use super::control::server::Steps;
use super::handler::{Daemon, blocking, to_value};
use crate::failure::{Context, Exit, Failure};
use crate::output;

/// Entries of a list sent together.
const PART: usize = 256;

/// Some of what was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// In no order.
    pub entries: Vec<Entry>,
}

/// Something deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path that it had, from the root of the volume; `None` if its directory is gone for good.
    pub path: Option<Vec<u8>>,
    /// Its name.
    pub name: Vec<u8>,
    /// Its inode, which tells it from others of that path.
    pub version: u64,
    /// "file", "directory" or "symlink".
    pub kind: String,
    /// Length, bytes.
    pub size: u64,
    /// Bytes of data that it holds.
    pub held: u64,
    /// Owner.
    pub uid: u32,
    /// When it was deleted, RFC 3339.
    pub deleted: String,
    /// Until when it is kept, RFC 3339.
    pub until: String,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Back {
    /// Where it is now.
    pub path: PathBuf,
    /// Its inode.
    pub version: u64,
    /// "file", "directory" or "symlink".
    pub kind: String,
    /// When it had been deleted, RFC 3339; `None` of a directory that was there, into which came what had been deleted in it.
    pub deleted: Option<String>,
    /// Files and links that came back.
    pub files: u64,
    /// Directories, with those above it that were missing.
    pub directories: u64,
    /// Bytes of data that they hold.
    pub bytes: u64,
    /// Older ones of names in it, which stay in the trash.
    pub older: u64,
    /// Others that stay in the trash, because something has their name.
    pub taken: u64,
    /// Others that were deleted under the same path.
    pub others: u64,
}

/// What was deleted for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emptied {
    /// Files, links and directories.
    pub files: u64,
    /// Bytes of data that they held.
    pub bytes: u64,
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        _ => "file",
    }
    .to_owned()
}

/// To the second, as far as that format goes.
fn text(time: Time) -> String {
    let last = 253_402_300_799;
    let secs = time.secs.clamp(0, last);
    humantime::format_rfc3339_seconds(SystemTime::from(Time { secs, nanos: 0 })).to_string()
}

fn entry(deleted: Deleted) -> Entry {
    let Deleted { path, kept, attr } = deleted;
    Entry {
        path,
        name: kept.name,
        version: kept.ino.0,
        kind: kind(attr.kind),
        size: attr.size,
        held: attr.allocated,
        uid: attr.uid,
        deleted: text(kept.deleted),
        until: text(kept.until),
    }
}

/// The bytes of a path from the root.
fn joined(names: &[Vec<u8>]) -> Vec<u8> {
    names.iter().flat_map(|name| std::iter::once(b'/').chain(name.iter().copied())).collect()
}

/// Whether a path is another or below it.
fn is_at_or_below(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Lists what was deleted at or below a path.
pub async fn list(vfs: &Arc<Vfs>, below: Vec<Vec<u8>>, steps: &Steps) -> Result<Value, Failure> {
    let (sender, mut parts) = mpsc::channel::<Part>(2);
    let vfs = Arc::clone(vfs);
    let walk = blocking(move || {
        let top = joined(&below);
        let mut part = Part::default();
        vfs.deleted(&mut |deleted| {
            // What has lost its directory belongs to the whole volume only.
            if deleted.path.as_deref().map_or(top.is_empty(), |path| is_at_or_below(path, &top)) {
                part.entries.push(entry(deleted));
            }
            part.entries.len() < PART || sender.blocking_send(std::mem::take(&mut part)).is_ok()
        })
        .context(|| "cannot list what was deleted".to_owned())?;
        let _ = sender.blocking_send(part);
        Ok(())
    });
    tokio::pin!(walk);
    let mut walked = None;
    loop {
        tokio::select! {
            // Parts first: the last ones are there when the walk has ended.
            biased;
            part = parts.recv() => match part {
                Some(part) => {
                    if !steps.part(&part).await? {
                        return Ok(Value::Null);
                    }
                }
                None => {
                    match walked { Some(result) => result?, None => walk.await? }
                    return Ok(Value::Null);
                }
            },
            result = &mut walk, if walked.is_none() => walked = Some(result),
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                steps.send(Step { what: "looking".into(), done: 0, total: 0, bytes: false });
            }
        }
    }
}

/// Brings back what was deleted.
pub async fn restore(
    daemon: &Arc<Daemon>,
    path: Vec<Vec<u8>>,
    version: Option<u64>,
    to: Option<Vec<Vec<u8>>>,
) -> Result<Value, Failure> {
    let daemon = Arc::clone(daemon);
    let (vfs, session) = (Arc::clone(&daemon.vfs), Arc::clone(&daemon.session));
    let back = blocking(move || {
        let names: Vec<&[u8]> = path.iter().map(Vec::as_slice).collect();
        let new_names: Option<Vec<&[u8]>> = to.as_ref().map(|to| to.iter().map(Vec::as_slice).collect());
        let wanted = Wanted { path: &names, version, to: new_names.as_deref() };
        let restored = vfs.restore_deleted(&wanted, &mut |came| {
            session.name_changed(came.parent, came.name, came.ino, came.held);
        });
        let at = on_mount(&daemon, to.as_ref().unwrap_or(&path));
        let restoration =
            restored.map_err(|error| explain(&error, &daemon, &on_mount(&daemon, &path), &at))?;
        let restored = restoration.restored;
        Ok(Back {
            path: at,
            version: restoration.attr.ino.0,
            kind: kind(restoration.attr.kind),
            deleted: restoration.kept.map(|kept| text(kept.deleted)),
            files: restored.files,
            directories: restored.directories,
            bytes: restored.bytes,
            older: restored.older,
            taken: restored.taken,
            others: restoration.others,
        })
    })
    .await?;
    to_value(&back)
}

fn on_mount(daemon: &Daemon, names: &[Vec<u8>]) -> PathBuf {
    let mut path = daemon.facts.mountpoint.clone();
    path.extend(names.iter().map(|name| Path::new(std::ffi::OsStr::from_bytes(name))));
    path
}

/// Why `path` did not come back as `to`.
fn explain(error: &RestoreError, daemon: &Daemon, path: &Path, to: &Path) -> Failure {
    let (shown, mountpoint) = (output::path(path), output::path(&daemon.facts.mountpoint));
    match error {
        RestoreError::NotThere => {
            let failure = Failure::new(format!("nothing that was deleted as {shown} is in the trash"));
            let off = daemon.vfs.status().trash.keep_secs.is_none();
            let advice = if off {
                "The volume is mounted without --trash: what is deleted is not kept.".to_owned()
            } else {
                format!("\"headrace trash list {mountpoint}\" shows what is.")
            };
            failure.advise(advice).exit(Exit::NotFound)
        }
        RestoreError::NoVersion(version) => {
            Failure::new(format!("there is no version {version} of {shown} in the trash"))
                .advise(format!("\"headrace trash list {shown}\" shows which there are."))
                .exit(Exit::NotFound)
        }
        RestoreError::Taken => Failure::new(format!(
            "cannot restore {shown}: {} exists, or a part of its path is a file",
            output::path(to)
        ))
        .advise("Nothing was changed. Choose another name with --to."),
        RestoreError::NoDirectory => {
            let above = to.parent().unwrap_or(to);
            Failure::new(format!("cannot restore {shown}: there is no directory {}", output::path(above)))
                .advise("Make it first, or choose another place with --to.")
                .exit(Exit::NotFound)
        }
        RestoreError::Failed(error) => Failure::new(format!("cannot restore {shown}")).because(error),
    }
}

/// Deletes for good what is kept.
pub async fn empty(vfs: &Arc<Vfs>, steps: &Steps) -> Result<Value, Failure> {
    let vfs = Arc::clone(vfs);
    let counting = Arc::clone(&vfs);
    let work = blocking(move || vfs.empty_trash().context(|| "cannot empty the trash".to_owned()));
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                let gone = done?;
                return to_value(&Emptied { files: gone.files, bytes: gone.bytes });
            }
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                let inodes = counting.status().inodes;
                let what = format!("deleting for good, {inodes} inodes left in the volume");
                steps.send(Step { what, done: 0, total: 0, bytes: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_path_is_not_what_begins_with_it() {
        assert_eq!(joined(&[b"a".to_vec(), b"b".to_vec()]), b"/a/b");
        assert_eq!(joined(&[]), b"");
        for (path, top, is) in [
            (&b"/a"[..], &b""[..], true),
            (b"/a", b"/a", true),
            (b"/a/b", b"/a", true),
            (b"/ab", b"/a", false),
            (b"/", b"/a", false),
        ] {
            assert_eq!(is_at_or_below(path, top), is, "{path:?} {top:?}");
        }
    }

    #[test]
    fn times_out_of_any_calendar_are_shown_as_its_ends() {
        assert_eq!(text(Time { secs: 1_700_000_000, nanos: 5 }), "2023-11-14T22:13:20Z");
        assert_eq!(text(Time { secs: i64::MAX, nanos: 0 }), "9999-12-31T23:59:59Z");
        assert_eq!(text(Time { secs: i64::MIN, nanos: 0 }), "1970-01-01T00:00:00Z");
    }
}
