//! Many small files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use headrace_testbed::Rng;

use super::clock::Clock;
use super::job::{Outcome, SmallAction};
use super::read::WRONG_DATA;
use crate::content::Content;
use crate::dataset::{DataFile, SMALL, small_file};
use crate::failure::{Context, Failure, Result};

/// Does one thing with all of them.
pub fn run(
    action: SmallAction,
    root: &Path,
    under: &str,
    count: u64,
    each: u64,
    limit: Duration,
) -> Result<Outcome> {
    let mut files: Vec<DataFile> = (0..count).map(|n| small_file(under, n, each)).collect();
    let mut clock = Clock::new(limit);
    match action {
        SmallAction::Create => create(root, &files, &mut clock)?,
        SmallAction::List => list(root, under, &files, &mut clock)?,
        SmallAction::Stat => stat(root, &files, &mut clock)?,
        SmallAction::Read => read(root, &files, &mut clock)?,
        SmallAction::ReadShuffled => {
            shuffle(&mut files);
            read(root, &files, &mut clock)?;
        }
        SmallAction::Delete => delete(root, under, &files, &mut clock)?,
    }
    Ok(Clock::outcome(vec![clock]))
}

fn create(root: &Path, files: &[DataFile], clock: &mut Clock) -> Result<()> {
    let content = Content::default();
    let mut buffer = vec![0; SMALL as usize];
    let mut made = None;
    for file in files {
        if clock.over() {
            break;
        }
        let path = file.at(root);
        let parent = path.parent().map(Path::to_path_buf);
        if parent != made {
            if let Some(dir) = &parent {
                clock.timed(|| fs::create_dir_all(dir)).context(|| format!("creating {}", dir.display()))?;
            }
            made = parent;
        }
        clock.aside(|| content.fill(file.id, 0, &mut buffer));
        let once = || File::create(&path).and_then(|mut file| file.write_all(&buffer));
        clock.operation(|| (once(), SMALL)).context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn list(root: &Path, under: &str, files: &[DataFile], clock: &mut Clock) -> Result<()> {
    let mut found = Vec::with_capacity(files.len());
    for dir in directories(root, under, clock)? {
        if clock.over() {
            return Ok(());
        }
        // Each directory is listed whole before it is looked at.
        let names = clock.timed(|| {
            fs::read_dir(&dir).and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<std::io::Result<Vec<_>>>()
            })
        });
        let names = names.context(|| format!("listing {}", dir.display()))?;
        clock.count(names.len());
        found.extend(names.into_iter().map(|name| dir.join(name)));
    }
    found.sort();
    let expected: Vec<_> = files.iter().map(|file| file.at(root)).collect();
    if found != expected {
        return Err(Failure::new(format!(
            "{WRONG_DATA}: {} entries listed, {} are there",
            found.len(),
            expected.len()
        )));
    }
    Ok(())
}

fn stat(root: &Path, files: &[DataFile], clock: &mut Clock) -> Result<()> {
    for file in files {
        if clock.over() {
            break;
        }
        let path = file.at(root);
        let found = clock.operation(|| (fs::symlink_metadata(&path), 0));
        let found = found.context(|| format!("stat of {}", path.display()))?;
        if found.len() != file.len {
            return Err(Failure::new(format!("{WRONG_DATA}: {} has {} bytes", path.display(), found.len())));
        }
    }
    Ok(())
}

fn read(root: &Path, files: &[DataFile], clock: &mut Clock) -> Result<()> {
    let content = Content::default();
    let mut buffer = Vec::with_capacity(2 * SMALL as usize);
    for file in files {
        if clock.over() {
            break;
        }
        let path = file.at(root);
        buffer.clear();
        let mut once = || File::open(&path).and_then(|mut file| file.read_to_end(&mut buffer));
        clock.operation(|| (once(), SMALL)).context(|| format!("reading {}", path.display()))?;
        let right =
            clock.aside(|| buffer.len() as u64 == file.len && content.check(file.id, 0, &buffer).is_ok());
        if !right {
            return Err(Failure::new(format!("{WRONG_DATA}: {} is not what was written", path.display())));
        }
    }
    Ok(())
}

fn delete(root: &Path, under: &str, files: &[DataFile], clock: &mut Clock) -> Result<()> {
    for file in files {
        if clock.over() {
            return Ok(());
        }
        let path = file.at(root);
        clock.operation(|| (fs::remove_file(&path), 0)).context(|| format!("removing {}", path.display()))?;
    }
    for dir in directories(root, under, clock)? {
        clock.timed(|| fs::remove_dir(&dir)).context(|| format!("removing {}", dir.display()))?;
    }
    Ok(())
}

fn directories(root: &Path, under: &str, clock: &mut Clock) -> Result<Vec<std::path::PathBuf>> {
    let top = root.join(under);
    let found = clock.timed(|| {
        fs::read_dir(&top).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()
        })
    });
    found.context(|| format!("listing {}", top.display()))
}

/// Fisher and Yates, the same each time.
fn shuffle(files: &mut [DataFile]) {
    let mut rng = Rng::new(42);
    for n in (1..files.len()).rev() {
        files.swap(n, rng.below(n as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::PER_DIRECTORY;

    #[test]
    fn files_are_made_listed_read_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let limit = Duration::from_secs(20);
        let act = |action| run(action, dir.path(), "many", 1_100, PER_DIRECTORY, limit);
        use SmallAction::{Create, Delete, List, Read, ReadShuffled, Stat};
        for action in [Create, List, Stat, Read, ReadShuffled] {
            assert_eq!(act(action).unwrap().operations, 1_100, "{action:?}");
        }
        fs::write(small_file("many", 7, PER_DIRECTORY).at(dir.path()), vec![0; SMALL as usize]).unwrap();
        let wrong = act(Read).unwrap_err().to_string();
        assert!(wrong.contains(WRONG_DATA) && wrong.contains("f000007"), "{wrong}");
        fs::write(dir.path().join("many/d000/extra"), "x").unwrap();
        assert!(act(List).unwrap_err().to_string().contains("1101 entries"));
        fs::remove_file(dir.path().join("many/d000/extra")).unwrap();
        assert_eq!(act(Delete).unwrap().operations, 1_100);
        assert_eq!(fs::read_dir(dir.path().join("many")).unwrap().count(), 0);
    }
}
