//! Files that are opened, mapped, written, truncated, renamed, cached, evicted and passed through at random by many threads, with every
//! byte that anybody reads compared with what it must be.
#![allow(missing_docs)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use headrace_testbed::mapping::SharedMapping;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, Rng, TestVolume, env_number};

const BLOCK: usize = 4096;
/// Blocks of a file, at most.
const BLOCKS: u64 = 600;
const FILES: usize = 12;
const THREADS: u64 = 6;

/// What a file must hold: the version of each block; 0 is zeros.
struct Model {
    id: u64,
    name: String,
    blocks: Vec<u64>,
}

impl Model {
    fn len(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    fn block(&self, at: usize) -> Vec<u8> {
        match self.blocks[at] {
            0 => vec![0; BLOCK],
            version => block(self.id, at, version),
        }
    }
}

fn block(id: u64, at: usize, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    Rng::new(id << 48 ^ (at as u64) << 32 ^ version).fill(&mut bytes);
    bytes
}

struct Storm<'a> {
    dir: &'a Path,
    files: Vec<RwLock<Model>>,
    versions: AtomicU64,
    /// Of the names: two files change theirs.
    renames: Mutex<()>,
    reads: AtomicU64,
}

/// An open file or a mapping that lives on.
enum Kept {
    Open(usize, File),
    Mapped(usize, usize, SharedMapping),
}

impl Storm<'_> {
    fn path(&self, model: &Model) -> PathBuf {
        self.dir.join(&model.name)
    }

    fn check(&self, model: &Model, at: usize, bytes: &[u8], how: &str) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if bytes != model.block(at) {
            let zeros = bytes.iter().all(|byte| *byte == 0);
            let older = (1..=model.blocks[at]).rev().find(|version| block(model.id, at, *version) == bytes);
            panic!(
                "{how}: block {at} of {} is not of version {}: zeros {zeros}, version {older:?}",
                model.name, model.blocks[at]
            );
        }
    }

    fn check_file(&self, model: &Model, file: &File, rng: &mut Rng, how: &str) {
        assert_eq!(file.metadata().unwrap().len() as usize, model.len(), "{how}: length of {}", model.name);
        let mut buffer = vec![0; BLOCK];
        for _ in 0..4 {
            if model.blocks.is_empty() {
                return;
            }
            let at = rng.below(model.blocks.len() as u64) as usize;
            file.read_exact_at(&mut buffer, (at * BLOCK) as u64)
                .unwrap_or_else(|error| panic!("{how}: {error}"));
            self.check(model, at, &buffer, how);
        }
    }

    fn read_whole(&self, model: &Model) {
        let bytes = std::fs::read(self.path(model)).unwrap();
        assert_eq!(bytes.len(), model.len(), "length of {}", model.name);
        bytes.chunks(BLOCK).enumerate().for_each(|(at, bytes)| self.check(model, at, bytes, "read whole"));
    }

    fn write(&self, model: &mut Model, rng: &mut Rng, mapped: bool) {
        let file = OpenOptions::new().read(mapped).write(true).open(self.path(model)).unwrap();
        let room = if mapped { model.blocks.len() as u64 } else { BLOCKS };
        if room == 0 {
            return;
        }
        let mapping = mapped.then(|| SharedMapping::new(&file, model.len()).unwrap());
        let first = rng.below(room) as usize;
        let count = 1 + rng.below(40.min(room - first as u64)) as usize;
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let bytes: Vec<u8> = (first..first + count).flat_map(|at| block(model.id, at, version)).collect();
        if model.blocks.len() < first + count {
            model.blocks.resize(first + count, 0);
        }
        model.blocks[first..first + count].fill(version);
        match mapping {
            Some(mapping) => {
                mapping.write(first * BLOCK, &bytes);
                // What is mapped is others' to see when it is synced or unmapped and closed.
                mapping.sync().unwrap();
            }
            None => file.write_all_at(&bytes, (first * BLOCK) as u64).unwrap(),
        }
        if rng.below(8) == 0 {
            file.sync_all().unwrap();
        }
    }

    fn step(&self, rng: &mut Rng, kept: &mut Vec<Kept>) {
        let which = rng.below(FILES as u64) as usize;
        match rng.below(100) {
            0..20 => self.read_whole(&self.files[which].read().unwrap()),
            20..40 => {
                let model = self.files[which].read().unwrap();
                let file = File::open(self.path(&model)).unwrap();
                self.check_file(&model, &file, rng, "opened now");
                if kept.len() < 6 {
                    kept.push(Kept::Open(which, file));
                }
            }
            40..52 => {
                let model = self.files[which].read().unwrap();
                if !model.blocks.is_empty() && kept.len() < 6 {
                    let file = File::open(self.path(&model)).unwrap();
                    let mapping = SharedMapping::read_only(&file, model.len()).unwrap();
                    kept.push(Kept::Mapped(which, model.blocks.len(), mapping));
                }
            }
            52..72 => {
                if kept.is_empty() {
                    return;
                }
                let one = rng.below(kept.len() as u64) as usize;
                match &kept[one] {
                    Kept::Open(which, file) => {
                        let model = self.files[*which].read().unwrap();
                        self.check_file(&model, file, rng, "open for long");
                    }
                    Kept::Mapped(which, blocks, mapping) => {
                        let model = self.files[*which].read().unwrap();
                        // Behind the end there is nothing to be read.
                        let blocks = (*blocks).min(model.blocks.len());
                        for _ in 0..4.min(blocks) {
                            let at = rng.below(blocks as u64) as usize;
                            self.check(&model, at, &mapping.read(at * BLOCK, BLOCK), "mapped");
                        }
                    }
                }
                if rng.below(3) == 0 {
                    kept.swap_remove(one);
                }
            }
            72..84 => self.write(&mut self.files[which].write().unwrap(), rng, false),
            84..88 => self.write(&mut self.files[which].write().unwrap(), rng, true),
            88..92 => {
                let mut model = self.files[which].write().unwrap();
                let size = rng.below(BLOCKS) as usize;
                model.blocks.resize(size, 0);
                let len = model.len() as u64;
                OpenOptions::new().write(true).open(self.path(&model)).unwrap().set_len(len).unwrap();
            }
            92..96 => {
                let _renames = self.renames.lock().unwrap();
                let other = (which + 1) % FILES;
                let (first, second) = (which.min(other), which.max(other));
                let mut first = self.files[first].write().unwrap();
                let mut second = self.files[second].write().unwrap();
                let (from, to) = (self.path(&first), self.path(&second));
                let aside = self.dir.join("aside");
                std::fs::rename(&from, &aside).unwrap();
                std::fs::rename(&to, &from).unwrap();
                std::fs::rename(&aside, &to).unwrap();
                std::mem::swap(&mut first.name, &mut second.name);
            }
            _ => kept.clear(),
        }
    }
}

#[test]
fn no_stale_byte_no_zeros_and_no_error() {
    if native_only() {
        return;
    }
    let operations = env_number("HEADRACE_STORM", 6_000);
    let volume = TestVolume::new(Backing::Local);
    let cache = volume.scratch().join("disk").display().to_string();
    let args = ["--cache-dir", &cache, "--cache-size", "12M", "--cache-free", "64M"];
    let options = args.iter().fold(MountOptions::default(), |options, arg| options.arg(arg));
    let mounted = volume.mount_with(&options);
    let dir = mounted.path();
    let files = (0..FILES).map(|id| {
        let name = format!("file{id}");
        File::create(dir.join(&name)).unwrap();
        RwLock::new(Model { id: id as u64, name, blocks: Vec::new() })
    });
    let storm = Storm {
        dir: &dir,
        files: files.collect(),
        versions: AtomicU64::new(1),
        renames: Mutex::default(),
        reads: AtomicU64::new(0),
    };
    let seed = env_number("HEADRACE_SEED", 0xcac4e);
    let over = AtomicBool::new(false);
    let passed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let storm = &storm;
                scope.spawn(move || {
                    let (mut rng, mut kept) = (Rng::new(seed + thread), Vec::new());
                    for _ in 0..operations / THREADS {
                        storm.step(&mut rng, &mut kept);
                    }
                })
            })
            .collect();
        // Whole files come and go, so that they are passed through, and are not.
        let (volume, over, passed, dir) = (&volume, &over, &passed, &dir);
        scope.spawn(move || {
            let mut rng = Rng::new(seed + 1000);
            while !over.load(Ordering::Relaxed) {
                let file = dir.join(format!("file{}", rng.below(FILES as u64)));
                let what: &[&str] = if rng.below(4) == 0 { &["warmup", "--evict"] } else { &["warmup"] };
                // Names change meanwhile, and room is short.
                let _ = volume.command(what).arg(&file).finish();
                let status = volume.command(&["status", "--json"]).arg(dir).ok();
                let status: serde_json::Value = serde_json::from_str(&status).unwrap();
                passed.fetch_max(status["cache"]["passed_through"].as_u64().unwrap(), Ordering::Relaxed);
            }
        });
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        over.store(true, Ordering::Relaxed);
        for ended in ended {
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        }
    });
    for model in &storm.files {
        storm.read_whole(&model.read().unwrap());
    }
    println!("{} blocks compared, seed {seed}", storm.reads.load(Ordering::Relaxed));
    assert!(passed.load(Ordering::Relaxed) > 0, "no file was ever passed through");
    let mounted = mounted.remount();
    for model in &storm.files {
        storm.read_whole(&model.read().unwrap());
    }
    mounted.unmount();
    volume.assert_clean();
}
