//! A volume with known contents, of which every case damages a copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use headrace_testbed::{Backing, Run, Site, TestVolume, pattern};
use rustix::io::Errno;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Exit status of `fsck` when it found problems.
pub const PROBLEMS: i32 = 3;

/// The volume.
pub struct Specimen {
    volume: TestVolume,
    pub encrypted: bool,
    files: BTreeMap<String, Vec<u8>>,
    /// Kept as it is.
    pristine: PathBuf,
    /// Another volume with the same key.
    stranger: TestVolume,
}

/// A copy to damage.
pub struct Copy<'s> {
    specimen: &'s Specimen,
    dir: PathBuf,
    pub site: Site,
}

/// What reading everything gave.
#[derive(Debug, Default)]
pub struct Finding {
    pub right: usize,
    /// Files that could not be read.
    pub unreadable: Vec<String>,
    /// Wrong bytes, missing files, errors other than EIO.
    pub wrong: Vec<String>,
}

impl Specimen {
    /// Makes it: large files in segments, small ones packed, in the metadata and in the log; several mounts, so that the log
    /// has several objects and epochs.
    pub fn new(encrypted: bool) -> Specimen {
        let (mut format, mut env) = (vec!["--segment-size", "1M"], Vec::new());
        if encrypted {
            format.push("--encrypt");
            env.push(("HEADRACE_KEY", KEY));
        }
        let new = || TestVolume::with_format_and_env(Backing::Local, &format, &env);
        let (volume, stranger) = (new(), new());
        let mut files = BTreeMap::new();
        for session in 0..3u64 {
            for (volume, ours) in [(&volume, true), (&stranger, false)] {
                let site = Site::at(volume.scratch().join("maker"), "maker", volume.url(), volume.env());
                site.mount(&["--lease", "2s"]);
                for n in 0..14 {
                    let name = format!("file-{session}-{n}");
                    let size = if n < 3 { 700_000 + n * 500_000 } else { 40 * n * n * n } as usize;
                    let content = pattern(session * 100 + n + u64::from(!ours) * 10_000, size);
                    std::fs::write(site.mount_point().join(&name), &content).expect("writing a file");
                    if ours {
                        files.insert(name, content);
                    }
                    if n % 5 == 4 {
                        site.command(&["flush"]).arg(site.mount_point()).ok();
                    }
                }
                site.umount();
            }
        }
        let pristine = volume.scratch().join("pristine");
        std::fs::create_dir(&pristine).expect("a directory");
        copy_tree(&volume.objects_dir(), &pristine.join("vol"));
        copy_tree(&volume.scratch().join("maker/state"), &pristine.join("state"));
        Specimen { volume, encrypted, files, pristine, stranger }
    }

    /// A fresh copy, with the state of the machine that made the volume or without any.
    pub fn copy(&self, with_state: bool) -> Copy<'_> {
        let dir = self.volume.scratch().join("copy");
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).expect("a directory");
        copy_tree(&self.pristine.join("vol"), &dir.join("vol"));
        if with_state {
            copy_tree(&self.pristine.join("state"), &dir.join("state"));
        }
        let url = dir.join("vol").display().to_string();
        let site = Site::at(dir.clone(), "copy", url, self.volume.env()).mounting_with(&["--lease", "2s"]);
        Copy { specimen: self, dir, site }
    }

    /// The objects of the other volume whose keys begin with `prefix`.
    pub fn strange_objects(&self, prefix: &str) -> Vec<PathBuf> {
        files_below(&self.stranger.objects_dir().join(prefix))
    }
}

impl Copy<'_> {
    /// The objects whose keys begin with `prefix`, in order.
    pub fn objects(&self, prefix: &str) -> Vec<PathBuf> {
        files_below(&self.dir.join("vol").join(prefix))
    }

    /// The files of the state directory with this name.
    pub fn state_files(&self, name: &str) -> Vec<PathBuf> {
        let mut files = files_below(&self.site.state_dir());
        files.retain(|path| path.file_name().is_some_and(|found| found == name));
        files
    }

    /// Reads every file of the mount and compares it.
    pub fn read_all(&self) -> Finding {
        let mut finding = Finding::default();
        for (name, content) in &self.specimen.files {
            match std::fs::read(self.site.mount_point().join(name)) {
                Ok(found) if found == *content => finding.right += 1,
                Ok(found) => finding.wrong.push(format!("{name}: {} bytes, and other ones", found.len())),
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    finding.unreadable.push(name.clone())
                }
                Err(error) => finding.wrong.push(format!("{name}: {error}")),
            }
        }
        let count = std::fs::read_dir(self.site.mount_point()).map_or(0, Iterator::count);
        if count != self.specimen.files.len() {
            finding.wrong.push(format!("{count} names, not {}", self.specimen.files.len()));
        }
        finding
    }

    /// Demands that everything is as it was.
    pub fn assert_whole(&self, case: &str) {
        let finding = self.read_all();
        assert!(
            finding.wrong.is_empty() && finding.unreadable.is_empty(),
            "{case}: {finding:?}\n{}",
            self.site.log()
        );
    }

    /// Demands that what is there is as it was, though the newest changes may be missing.
    pub fn assert_as_before(&self, case: &str) {
        let (mut here, mut gone) = (0, 0);
        for (name, content) in &self.specimen.files {
            match std::fs::read(self.site.mount_point().join(name)) {
                Ok(found) => {
                    assert!(found == *content, "{case}: {name} has other bytes");
                    here += 1;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => gone += 1,
                Err(error) => panic!("{case}: {name}: {error}\n{}", self.site.log()),
            }
        }
        assert!(here > gone, "{case}: {here} files are there, {gone} are not");
    }

    /// The volume still takes new files and gives them back, and gives up the new one again.
    pub fn assert_usable(&self, case: &str) {
        let path = self.site.mount_point().join("a new file");
        let content = pattern(1, 2_000_000);
        let used = std::fs::write(&path, &content)
            .and_then(|()| std::fs::File::open(&path)?.sync_all())
            .and_then(|()| std::fs::read(&path))
            .and_then(|found| std::fs::remove_file(&path).map(|()| found));
        match used {
            Ok(found) => assert!(found == content, "{case}: a new file has other bytes"),
            Err(error) => panic!("{case}: a new file: {error}\n{}", self.site.log()),
        }
    }

    /// `fsck --data` of the unmounted copy.
    pub fn fsck(&self) -> Run {
        self.site.command(&["fsck", "--data"]).arg(self.site.url())
    }
}

fn copy_tree(from: &Path, to: &Path) {
    Run::new("cp").arg("-a").arg(from).arg(to).ok();
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .flat_map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { vec![entry.path()] })
        .collect();
    files.sort();
    files
}
