//! Where a mount keeps on local disks what it fetched: decided from settings before the volume is open.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headrace_store::Location;
use headrace_vfs::{CacheDirectory, CacheOptions, FreeSpace};
use uuid::Uuid;

use crate::cli::cache::{CacheFree, CacheSize, Expiry};
use crate::cli::settings::CacheSettings;
use crate::failure::{Context, Failure};
use crate::output;

/// Most directories; nobody has more disks for this.
const MOST_DIRECTORIES: usize = 64;
/// Space left to others unless something else is asked for.
const DEFAULT_FREE: FreeSpace = FreeSpace::Part(0.1);

/// A cache for whatever volume is to be opened.
#[derive(Debug, Clone, PartialEq)]
pub struct CachePlan {
    /// Directories in which each volume has one of its own; absolute.
    pub directories: Vec<PathBuf>,
    /// Bytes in all of them together; `None`: as many as `free` allows.
    pub size: Option<u64>,
    /// Space that is kept free on each disk.
    pub free: FreeSpace,
    /// What nobody has used for so long is dropped.
    pub expire: Option<Duration>,
}

impl CachePlan {
    /// What `settings` ask for; `None` for no cache. `default` is where to cache if nobody says.
    pub fn new(
        settings: &CacheSettings,
        location: &Location,
        default: Option<PathBuf>,
    ) -> Result<Option<CachePlan>, Failure> {
        let size = match settings.cache_size {
            Some(CacheSize::Off) => return Ok(None),
            Some(CacheSize::Bytes(bytes)) => Some(bytes),
            None => None,
        };
        let asked_for = size.is_some() || !settings.cache_dir.is_empty();
        if location.local_path().is_some() && !asked_for {
            return Ok(None);
        }
        let directories = match (settings.cache_dir.as_slice(), default) {
            ([], Some(default)) => vec![default],
            ([], None) if asked_for => {
                return Err(Failure::usage("cannot choose a directory for the cache: HOME is not set")
                    .advise("Give one with --cache-dir."));
            }
            // Nobody asked for a cache, and a mount does without.
            ([], None) => return Ok(None),
            (given, _) => checked(given, location)?,
        };
        Ok(Some(CachePlan {
            directories,
            size,
            free: settings.cache_free.map_or(DEFAULT_FREE, |CacheFree(free)| free),
            expire: settings.cache_expire.and_then(|Expiry(expire)| expire),
        }))
    }

    /// The cache of one volume: a directory named by its id in each of the directories.
    pub fn of_volume(&self, volume: Uuid) -> CacheOptions {
        let limit = self.size.map(|size| size / self.directories.len().max(1) as u64);
        let directory = |base: &PathBuf| CacheDirectory { path: of_volume(base, volume), limit };
        CacheOptions {
            directories: self.directories.iter().map(directory).collect(),
            free: self.free,
            expire: self.expire,
        }
    }
}

/// Where a volume may have been cached as far as settings tell, whatever they say of its size now: in the directories that are given, and where
/// it is if nobody says.
pub fn directories_of(settings: &CacheSettings, volume: Uuid) -> Vec<PathBuf> {
    let mut bases = settings.cache_dir.clone();
    bases.extend(default_directory().filter(|default| !settings.cache_dir.contains(default)));
    bases.iter().map(|base| of_volume(base, volume)).collect()
}

/// The directory of a volume in one that is for all of them.
fn of_volume(base: &Path, volume: Uuid) -> PathBuf {
    base.join(volume.to_string())
}

/// Where to cache if nobody says; `None` if there is no such place.
pub fn default_directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/cache/headrace"));
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("headrace"))
}

/// The directories that were given, absolute: none twice, none that cannot be one, none within the volume itself.
fn checked(given: &[PathBuf], location: &Location) -> Result<Vec<PathBuf>, Failure> {
    if given.len() > MOST_DIRECTORIES {
        return Err(Failure::usage(format!(
            "--cache-dir is given {} times: at most {MOST_DIRECTORIES}",
            given.len()
        )));
    }
    let mut directories: Vec<PathBuf> = Vec::with_capacity(given.len());
    for path in given {
        let shown = output::path(path);
        if path.as_os_str().is_empty() {
            return Err(Failure::usage("the cache directory (--cache-dir) has no name"));
        }
        let path = std::path::absolute(path).context(|| format!("cannot use the cache directory {shown}"))?;
        if let Some(file) = not_a_directory(&path) {
            return Err(Failure::usage(format!("the cache directory {shown} cannot be used: {file}")));
        }
        if location.local_path().is_some_and(|volume| path.starts_with(volume)) {
            return Err(Failure::usage(format!(
                "the cache directory {shown} lies within the volume's own directory"
            ))
            .advise("Choose one outside of it, best on another disk."));
        }
        if directories.contains(&path) {
            return Err(Failure::usage(format!("the cache directory {shown} is given twice")));
        }
        directories.push(path);
    }
    Ok(directories)
}

/// What is in the way of a directory at `path`; `None` if it is one, or can be made.
fn not_a_directory(path: &Path) -> Option<String> {
    path.ancestors().find_map(|part| match std::fs::metadata(part) {
        Ok(meta) if !meta.is_dir() => Some(format!("{} is not a directory", output::path(part))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::section::Section;
    use crate::failure::Exit;

    fn plan(url: &str, pairs: &[(&str, &str)]) -> Result<Option<CachePlan>, Failure> {
        let mut settings = CacheSettings::default();
        for (key, value) in pairs {
            settings.set(key, value).unwrap();
        }
        CachePlan::new(&settings, &url.parse().unwrap(), Some("/var/cache/headrace".into()))
    }

    #[test]
    fn what_is_far_away_is_cached_and_what_is_here_only_if_asked() {
        let remote = plan("s3://bucket/vol", &[]).unwrap().unwrap();
        assert_eq!(remote.directories, [PathBuf::from("/var/cache/headrace")]);
        assert_eq!((remote.size, remote.free, remote.expire), (None, DEFAULT_FREE, None));
        assert_eq!(plan("/no/vol", &[]), Ok(None));
        assert_eq!(plan("/no/vol", &[("cache-expire", "1h"), ("cache-free", "1G")]), Ok(None));
        assert!(plan("/no/vol", &[("cache-size", "1G")]).unwrap().is_some());
        assert!(plan("/no/vol", &[("cache-dir", "/no/cache")]).unwrap().is_some());
        for url in ["s3://bucket/vol", "/no/vol"] {
            assert_eq!(plan(url, &[("cache-size", "off"), ("cache-dir", "/no/cache")]), Ok(None));
        }
    }

    #[test]
    fn each_volume_has_its_own_directory_on_each_disk_and_an_equal_part() {
        let pairs = [
            ("cache-dir", "/no/a"),
            ("cache-dir", "/no/b"),
            ("cache-size", "3G"),
            ("cache-free", "5G"),
            ("cache-expire", "1h"),
        ];
        let plan = plan("s3://bucket/vol", &pairs).unwrap().unwrap();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let options = plan.of_volume(one);
        let directory =
            |base: &str| CacheDirectory { path: Path::new(base).join(one.to_string()), limit: Some(3 << 29) };
        assert_eq!(options.directories, [directory("/no/a"), directory("/no/b")]);
        assert_eq!(
            (options.free, options.expire),
            (FreeSpace::Bytes(5 << 30), Some(Duration::from_secs(3600)))
        );
        assert!(plan.of_volume(other).directories.iter().all(|d| !options.directories.contains(d)));
    }

    #[test]
    fn directories_that_cannot_be_used_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let (file, below) = (file.to_str().unwrap(), file.join("x"));
        let below = below.to_str().unwrap();
        for (pairs, says) in [
            (&[("cache-dir", file)][..], "is not a directory"),
            (&[("cache-dir", below)], "is not a directory"),
            (&[("cache-dir", "/no/vol/cache")], "within the volume"),
            (&[("cache-dir", "/no/a"), ("cache-dir", "/no/a")], "twice"),
            (&[("cache-dir", "")], "no name"),
        ] {
            let failure = plan("/no/vol", pairs).unwrap_err();
            assert!(failure.message().contains(says), "{failure}");
            assert_eq!(failure.exit_code(), Exit::Usage);
        }
        let many: Vec<String> = (0..65).map(|n| format!("/no/{n}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|path| ("cache-dir", path.as_str())).collect();
        assert!(plan("/no/vol", &many).is_err());
    }

    #[test]
    fn a_volume_is_looked_for_wherever_it_may_be_cached() {
        let mut settings = CacheSettings::default();
        for (key, value) in [("cache-dir", "/no/a"), ("cache-size", "off")] {
            settings.set(key, value).unwrap();
        }
        let volume = Uuid::from_u128(7);
        let mut wanted = vec![Path::new("/no/a").join(volume.to_string())];
        wanted.extend(default_directory().map(|default| default.join(volume.to_string())));
        assert_eq!(directories_of(&settings, volume), wanted);
    }

    #[test]
    fn without_a_place_only_who_asked_for_a_cache_is_refused() {
        let location: Location = "s3://bucket/vol".parse().unwrap();
        assert_eq!(CachePlan::new(&CacheSettings::default(), &location, None), Ok(None));
        let asked = CacheSettings { cache_size: Some(CacheSize::Bytes(1 << 30)), ..CacheSettings::default() };
        assert!(CachePlan::new(&asked, &location, None).unwrap_err().advice().is_some());
    }
}
