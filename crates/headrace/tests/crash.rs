//! `kill -9` of the daemon in the middle of work: everything that was acknowledged as durable is there afterwards.
//!
//! `HEADRACE_CRASH_ROUNDS` sets the number of kills per store.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headrace_testbed::mount::force_unmount;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Rng, TestVolume, env_number, pattern};

const WRITERS: u64 = 3;

/// What one writer knows to be durable. Kept in this process, which outlives the daemon.
#[derive(Default)]
struct Acknowledged {
    /// Content by name, of files whose last change was acknowledged.
    files: BTreeMap<String, Vec<u8>>,
    /// Names that were removed, acknowledged by a sync of the directory.
    gone: Vec<String>,
    /// The change under way when the daemon died: these names may be in either state.
    in_flight: Vec<String>,
    count: u64,
}

struct Writer {
    dir: PathBuf,
    rng: Rng,
    number: u64,
    state: Acknowledged,
}

impl Writer {
    /// One change, made durable and recorded. Any error means that the daemon is gone.
    fn step(&mut self) -> std::io::Result<()> {
        self.number += 1;
        let existing = self.pick();
        self.state.in_flight.clear();
        match (self.rng.below(10), existing) {
            (0..=3, _) | (_, None) => self.create(),
            (4..=5, Some(name)) => self.overwrite(&name),
            (6, Some(name)) => self.append(&name),
            (7..=8, Some(name)) => self.rename(&name),
            (_, Some(name)) => self.remove(&name),
        }?;
        self.state.in_flight.clear();
        self.state.count += 1;
        Ok(())
    }

    fn pick(&mut self) -> Option<String> {
        let files = self.state.files.len() as u64;
        let index = if files == 0 { return None } else { self.rng.below(files) };
        self.state.files.keys().nth(index as usize).cloned()
    }

    fn content(&mut self) -> Vec<u8> {
        let len = match self.rng.below(10) {
            0..=5 => self.rng.below(20_000),
            6..=8 => self.rng.below(300_000),
            _ => self.rng.below(6 << 20),
        };
        pattern(self.rng.next_u64(), len as usize)
    }

    fn sync_dir(&self) -> std::io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn create(&mut self) -> std::io::Result<()> {
        let (name, content) = (format!("file-{}", self.number), self.content());
        self.state.in_flight = vec![name.clone()];
        let mut file = OpenOptions::new().write(true).create_new(true).open(self.dir.join(&name))?;
        file.write_all(&content)?;
        file.sync_all()?;
        self.sync_dir()?;
        self.state.files.insert(name, content);
        Ok(())
    }

    fn overwrite(&mut self, name: &str) -> std::io::Result<()> {
        let piece = self.content();
        let old = self.state.files[name].len() as u64;
        let offset = self.rng.below(old + 5_000);
        self.state.in_flight = vec![name.to_string()];
        let file = OpenOptions::new().write(true).open(self.dir.join(name))?;
        file.write_all_at(&piece, offset)?;
        file.sync_data()?;
        let content = self.state.files.get_mut(name).expect("picked from there");
        let end = offset as usize + piece.len();
        if !piece.is_empty() {
            content.resize(content.len().max(end), 0);
            content[offset as usize..end].copy_from_slice(&piece);
        }
        Ok(())
    }

    fn append(&mut self, name: &str) -> std::io::Result<()> {
        let piece = self.content();
        self.state.in_flight = vec![name.to_string()];
        let mut file = OpenOptions::new().append(true).open(self.dir.join(name))?;
        file.write_all(&piece)?;
        file.sync_all()?;
        self.state.files.get_mut(name).expect("picked from there").extend_from_slice(&piece);
        Ok(())
    }

    /// As programs replace a file: write a new one, sync it, rename it over the old one, sync the directory.
    fn rename(&mut self, name: &str) -> std::io::Result<()> {
        let (temporary, content) = (format!("tmp-{}", self.number), self.content());
        self.state.in_flight = vec![temporary.clone()];
        let mut file = OpenOptions::new().write(true).create_new(true).open(self.dir.join(&temporary))?;
        file.write_all(&content)?;
        file.sync_all()?;
        self.state.in_flight = vec![temporary.clone(), name.to_string()];
        std::fs::rename(self.dir.join(&temporary), self.dir.join(name))?;
        self.sync_dir()?;
        self.state.files.insert(name.to_string(), content);
        self.state.gone.push(temporary);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> std::io::Result<()> {
        self.state.in_flight = vec![name.to_string()];
        std::fs::remove_file(self.dir.join(name))?;
        self.sync_dir()?;
        self.state.files.remove(name);
        self.state.gone.push(name.to_string());
        Ok(())
    }

    /// Compares what is there with what was acknowledged; adopts whatever the unacknowledged change has left.
    fn verify(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, content) in &self.state.files {
            if self.state.in_flight.contains(name) {
                continue;
            }
            match std::fs::read(self.dir.join(name)) {
                Ok(found) if found == *content => {}
                Ok(found) => {
                    let at = found.iter().zip(content).position(|(a, b)| a != b);
                    wrong.push(format!(
                        "{name}: {} bytes, not {}; differs at {at:?}",
                        found.len(),
                        content.len()
                    ));
                }
                Err(error) => wrong.push(format!("{name}: {error}")),
            }
        }
        for name in &self.state.gone {
            if self.dir.join(name).exists()
                && !self.state.in_flight.contains(name)
                && !self.state.files.contains_key(name)
            {
                wrong.push(format!("{name}: was removed and is there again"));
            }
        }
        let known = |name: &str| {
            self.state.files.contains_key(name) || self.state.in_flight.iter().any(|n| n == name)
        };
        let listed: Vec<_> = std::fs::read_dir(&self.dir)
            .map(|entries| {
                entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
            })
            .unwrap_or_default();
        wrong.extend(
            listed.iter().filter(|name| !known(name)).map(|name| format!("{name}: nobody made this")),
        );
        for name in std::mem::take(&mut self.state.in_flight) {
            match std::fs::read(self.dir.join(&name)) {
                Ok(content) => self.state.files.insert(name, content),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.state.files.remove(&name),
                Err(error) => {
                    wrong.push(format!(
                        "{name}: {error} (its last change was not acknowledged, but it must be readable)"
                    ));
                    None
                }
            };
        }
        wrong
    }
}

fn crash(backing: Backing, default_rounds: u64) {
    if native_only() {
        return;
    }
    let rounds = env_number("HEADRACE_CRASH_ROUNDS", default_rounds);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock after 1970");
    let seed = env_number("HEADRACE_CRASH_SEED", clock.as_micros() as u64);
    println!("crash on {backing:?}: {rounds} rounds; HEADRACE_CRASH_SEED={seed}");
    let mut rng = Rng::new(seed);
    let volume = TestVolume::new(backing);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|n| Writer {
            dir: volume.mount_point().join(format!("writer-{n}")),
            rng: Rng::new(rng.next_u64()),
            number: 0,
            state: Acknowledged::default(),
        })
        .collect();
    {
        let mounted = volume.mount();
        for writer in &writers {
            std::fs::create_dir(&writer.dir).unwrap();
        }
        mounted.unmount();
    }
    for round in 1..=rounds {
        // In every third round, the mount that died stays behind, and mounting has to deal with it.
        let mounted = volume.mount();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let stop = &stop;
                scope.spawn(move || while !stop.load(Ordering::Relaxed) && writer.step().is_ok() {});
            }
            // Long enough for some work, short and random enough to meet every stage of it.
            std::thread::sleep(Duration::from_millis(100 + rng.below(1_500)));
            mounted.kill();
            stop.store(true, Ordering::Relaxed);
        });
        mounted.abandon();
        if round % 3 != 0 {
            force_unmount(&volume.mount_point());
        }
        let mounted = volume.mount();
        let wrong: Vec<_> = writers.iter_mut().flat_map(|writer| complaints(writer, seed)).collect();
        assert!(wrong.is_empty(), "round {round}:\n{}", wrong.join("\n"));
        mounted.unmount();
        volume.assert_clean();
    }
    let acknowledged: u64 = writers.iter().map(|writer| writer.state.count).sum();
    println!("crash on {backing:?}: {acknowledged} acknowledged changes over {rounds} kills, all there");
    assert!(acknowledged > rounds * 5, "only {acknowledged} changes: the kills came before any work");
}

fn complaints(writer: &mut Writer, seed: u64) -> Vec<String> {
    let dir: &Path = &writer.dir.clone();
    writer
        .verify()
        .into_iter()
        .map(|what| format!("HEADRACE_CRASH_SEED={seed}: {}: {what}", dir.display()))
        .collect()
}

#[test]
fn acknowledged_changes_survive_a_kill_on_the_local_store() {
    crash(Backing::Local, 15);
}

#[test]
fn acknowledged_changes_survive_a_kill_on_s3() {
    crash(Backing::S3, 6);
}
