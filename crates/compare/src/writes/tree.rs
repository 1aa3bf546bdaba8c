//! A tree of files like that of a program's sources: as large, as deep, and as well to compress.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use headrace_testbed::Rng;

use crate::failure::{Context, Result};
use crate::worker::{self, Job, Work};

/// Median of sizes, bytes; the mean is some three times as much.
const MEDIAN: f64 = 4096.0;
/// Of the logarithms of sizes: exp(s*s/2) = 3.
const SPREAD: f64 = 1.48;
const LARGEST: f64 = (1 << 20) as f64;
/// Files to a directory.
const EACH: u64 = 14;
/// Of so many files one is a symbolic link, and one may be executed.
const LINKS: u64 = 100;
const EXECUTABLES: u64 = 50;
/// Bytes of text that files are cut from.
const TEXT: usize = 256 << 10;
/// Different words of it.
const WORDS: u64 = 700;
/// Making one, with its archive and its repository, takes no longer.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(600);

/// A tree, as files, as an archive, and as a repository.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Has `tree`, `tree.tar` and `repository`.
    pub dir: PathBuf,
    /// Files and links, without directories.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// What [`sum`] prints in it.
    pub sum: String,
}

impl Tree {
    /// Makes one in an empty directory, the same each time.
    pub fn make(dir: &Path, files: u64) -> Result<Tree> {
        let root = dir.join("tree");
        let bytes = fill(&root, files)?;
        let script = format!(
            r#"export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=C GIT_AUTHOR_EMAIL=c@example.com
            export GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.com
            umask 022
            tar -c -f tree.tar tree
            git init --quiet --bare --initial-branch=main repository
            git="git --git-dir=repository --work-tree=tree -c gc.auto=0 -c core.fsync=none -c pack.threads=1"
            $git add --all
            $git commit --quiet --message one
            $git repack -a -d --quiet
            {}"#,
            sum("tree")
        );
        let prints = dir.join("sum");
        let script = format!("{{ {script}\n}} > {prints:?}");
        let work = Work::Program { script, dir: dir.to_owned(), prints: None };
        worker::perform(&Job { work, limit: LIMIT }).context(|| "making a tree".into())?;
        let sum = fs::read_to_string(&prints).context(|| format!("reading {}", prints.display()))?;
        Ok(Tree { dir: dir.to_owned(), files, bytes, sum: sum.trim().to_owned() })
    }
}

/// A script that reads all of a tree, with its names and modes, and prints a sum of it.
pub fn sum(tree: &str) -> String {
    format!(
        "cd {tree}\ntar -c --sort=name --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
         --exclude=./.git . | cksum"
    )
}

/// Writes the files. Gives their bytes.
fn fill(root: &Path, files: u64) -> Result<u64> {
    let mut rng = Rng::new(0x7265_6561);
    let text = text(&mut rng);
    let mut bytes = 0;
    for n in 0..files {
        let path = root.join(place(n));
        let named = || format!("writing {}", path.display());
        if n.is_multiple_of(EACH)
            && let Some(parent) = path.parent()
        {
            fs::create_dir_all(parent).context(named)?;
        }
        if n % LINKS == LINKS / 2 {
            symlink(format!("f{:06}.rs", n - 1), &path).context(named)?;
            continue;
        }
        let body = body(&mut rng, &text, n);
        fs::write(&path, &body).context(named)?;
        let mode = if n % EXECUTABLES == 7 { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).context(named)?;
        bytes += body.len() as u64;
    }
    Ok(bytes)
}

/// Three or four directories deep.
fn place(n: u64) -> PathBuf {
    let dir = n / EACH;
    let mut path = PathBuf::from(format!("part-{:02}", dir / 200));
    path.push(format!("module-{:02}", dir / 10 % 20));
    if !dir.is_multiple_of(10) {
        path.push(format!("sub-{}", dir % 10));
    }
    path.push(format!("f{n:06}.rs"));
    path
}

/// Log-normal: half of the files below the median, few large.
fn size(rng: &mut Rng) -> usize {
    let mut unit = || (rng.below(1 << 32) as f64 + 0.5) / (1u64 << 32) as f64;
    // Box and Muller.
    let normal = (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
    (MEDIAN * (SPREAD * normal).exp()).clamp(1.0, LARGEST) as usize
}

fn body(rng: &mut Rng, text: &[u8], n: u64) -> Vec<u8> {
    let len = size(rng);
    let mut body = format!("// File {n}.\n").into_bytes();
    while body.len() < len {
        let start = rng.below(text.len() as u64) as usize;
        let end = (start + len - body.len()).min(text.len()).min(start + 2_000);
        body.extend_from_slice(&text[start..end]);
    }
    body.truncate(len);
    body
}

/// Lines of words.
fn text(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(TEXT + 80);
    while text.len() < TEXT {
        let indent = 4 * rng.below(4) as usize;
        text.resize(text.len() + indent, b' ');
        for _ in 0..1 + rng.below(9) {
            // Rare ones less often.
            let word = rng.below(WORDS).min(rng.below(WORDS)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let letters = 2 + (word >> 8) % 8;
            text.extend((0..letters).map(|letter| b'a' + ((word >> (16 + 5 * letter)) % 26) as u8));
            text.push(b' ');
        }
        text.extend_from_slice(b";\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_sources() {
        let mut rng = Rng::new(1);
        let mut sizes: Vec<usize> = (0..20_000).map(|_| size(&mut rng)).collect();
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        let large = sizes.iter().filter(|size| **size > 100 << 10).count();
        assert!((3_800..4_400).contains(&median), "{median}");
        assert!((10_000..14_000).contains(&mean), "{mean}");
        assert!((100..1_000).contains(&large), "{large}");
    }

    #[test]
    fn a_tree_is_the_same_each_time_and_no_change_goes_unseen() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = Tree::make(one.path(), 120).unwrap();
        assert_eq!(Tree::make(other.path(), 120).unwrap().sum, made.sum);
        let seen = || {
            let (script, dir) = (sum("tree"), one.path().to_owned());
            let work = Work::Program { script, dir, prints: Some(made.sum.clone()) };
            worker::perform(&Job { work, limit: LIMIT }).is_ok()
        };
        assert!(seen());
        let path = one.path().join("tree").join(place(11));
        let mut body = fs::read(&path).unwrap();
        body[0] ^= 1;
        fs::write(&path, &body).unwrap();
        assert!(!seen(), "a byte");
        body[0] ^= 1;
        fs::write(&path, &body).unwrap();
        assert!(seen());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!seen(), "a mode");
        fs::remove_file(&path).unwrap();
        assert!(!seen(), "a name");
    }
}
