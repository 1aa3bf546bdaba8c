//! The whole tree against the model: names, attributes, contents, links.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use headrace_testbed::tree::xattrs;
use rustix::fs::{AtFlags, CWD};

use crate::real::{self, Outcome};
use crate::reference::{Expect, Id, Kind, ROOT, Reference};

/// How much of a file is compared at a time.
const STEP: u64 = 1 << 20;

/// Compares everything below `root` with the model. Reading changes access times: from then on the model does not know them.
pub fn whole_tree(model: &mut Reference, root: &Path) -> Result<(), String> {
    // Each inode number must stand for one node of the model, and the other way round.
    let mut inodes = BTreeMap::new();
    node(model, ROOT, root, &mut inodes)
}

fn node(model: &mut Reference, id: Id, path: &Path, inodes: &mut BTreeMap<u64, Id>) -> Result<(), String> {
    let fail = |what: String| Err(format!("{path:?}: {what}"));
    let meta = path.symlink_metadata().map_err(|error| format!("{path:?}: {error}"))?;
    let known = *inodes.entry(meta.ino()).or_insert(id);
    if known != id {
        return fail(format!("shares inode {} with another file", meta.ino()));
    }
    if id != ROOT {
        let real =
            rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| format!("{path:?}: {e}"))?;
        let real = Outcome::Stat(real::stat(real));
        match model.stat(id, &real) {
            Expect::Exactly(expected) if expected != real => {
                return fail(format!("is {real:?}, not {expected:?}"));
            }
            Expect::Wrong(why) => return fail(why),
            _ => {}
        }
    }
    let found = xattrs(path);
    if found != model.xattrs(id) {
        return fail(format!("extended attributes are {found:?}, not {:?}", model.xattrs(id)));
    }
    model.accessed(id);
    match model.node(id).kind.clone() {
        Kind::File(content) => {
            let file = File::open(path).map_err(|error| format!("{path:?}: {error}"))?;
            let mut offset = 0;
            while offset < content.size() {
                let real = real::read_at(&file, offset, STEP)
                    .map_err(|error| format!("{path:?} at {offset}: {error}"))?;
                let expected = content.read(offset, STEP);
                if real != expected {
                    let at = real
                        .iter()
                        .zip(&expected)
                        .position(|(a, b)| a != b)
                        .unwrap_or(real.len().min(expected.len()));
                    return fail(format!(
                        "content differs at {} (read {} of {} bytes from {offset})",
                        offset + at as u64,
                        real.len(),
                        expected.len()
                    ));
                }
                offset += STEP;
            }
        }
        Kind::Dir(entries) => {
            let Ok(Outcome::Names(names)) = real::list(path) else { return fail("cannot be listed".into()) };
            let listed: Vec<_> = names.iter().map(|(name, _)| name.as_str()).collect();
            let expected: Vec<_> = entries.keys().map(String::as_str).collect();
            if listed != expected {
                return fail(format!("lists {listed:?}, not {expected:?}"));
            }
            for (name, child) in &entries {
                node(model, *child, &path.join(name), inodes)?;
            }
        }
        Kind::Symlink(target) => {
            let real = path.read_link().map_err(|error| format!("{path:?}: {error}"))?;
            if real.as_os_str() != target.as_str() {
                return fail(format!("points to {real:?}"));
            }
        }
        Kind::Fifo => {}
    }
    Ok(())
}

/// The tree that all threads share: each append exactly once and in its thread's order, each name there.
pub fn shared_tree(models: &[Reference], shared: &Path) -> Result<(), String> {
    let log = std::fs::read_to_string(shared.join("log")).map_err(|error| format!("log: {error}"))?;
    let mut seen = vec![Vec::new(); models.len()];
    for line in log.lines() {
        let parsed =
            line.split_once(' ').and_then(|(t, n)| Some((t.parse::<usize>().ok()?, n.parse::<u64>().ok()?)));
        let Some((thread, counter)) = parsed.filter(|(thread, _)| *thread < models.len()) else {
            return Err(format!("log: torn or lost append: {line:?}"));
        };
        seen[thread].push(counter);
    }
    let mut names = vec!["log".to_string(), "target".to_string()];
    let mut links = 1;
    for (thread, model) in models.iter().enumerate() {
        let [appends, creates, linked] = &model.shared;
        if seen[thread] != *appends {
            return Err(format!(
                "log: thread {thread} appended {appends:?}, the file has {:?}",
                seen[thread]
            ));
        }
        names.extend(creates.iter().chain(linked).map(|counter| format!("{thread}-{counter}")));
        links += linked.len() as u64;
    }
    names.sort();
    let Ok(Outcome::Names(listed)) = real::list(shared) else {
        return Err("shared tree cannot be listed".into());
    };
    let listed: Vec<_> = listed.into_iter().map(|(name, _)| name).collect();
    if listed != names {
        return Err(format!("shared tree lists {listed:?}, not {names:?}"));
    }
    let found = std::fs::metadata(shared.join("target")).map_err(|error| format!("target: {error}"))?.nlink();
    if found != links {
        return Err(format!("target has {found} links, not {links}"));
    }
    Ok(())
}
