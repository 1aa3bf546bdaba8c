//! Where the program under test and the external test tools are.

use std::path::{Path, PathBuf};

/// The repository's root directory.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/testbed is two levels below the root").to_path_buf()
}

/// Cargo's target directory: the one this test itself was built into.
pub fn target_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("CARGO_TARGET_DIR") {
        let dir = PathBuf::from(dir);
        return if dir.is_absolute() { dir } else { repository().join(dir) };
    }
    repository().join("target")
}

/// The `headrace` binary under test: `$HEADRACE_BIN`, else the newest of `target/{ci,release,debug}/headrace`.
///
/// # Panics
/// When there is none: the message says how to build it.
pub fn headrace() -> PathBuf {
    if let Some(path) = std::env::var_os("HEADRACE_BIN") {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "HEADRACE_BIN={} is not a file", path.display());
        return path;
    }
    let built = ["ci", "release", "debug"].map(|profile| target_dir().join(profile).join("headrace"));
    let newest = built
        .into_iter()
        .filter_map(|path| Some((std::fs::metadata(&path).ok()?.modified().ok()?, path)))
        .max_by_key(|(modified, _)| *modified);
    match newest {
        Some((_, path)) => path,
        None => panic!("no headrace binary under {}: run `make build-ci` first", target_dir().display()),
    }
}

/// An external tool: from `target/tools/bin` (where `scripts/install-test-tools` puts them), else from `PATH`.
///
/// # Panics
/// When it is in neither place: a missing tool fails a test, so that no check is skipped without being seen.
pub fn tool(name: &str) -> PathBuf {
    find_tool(name).unwrap_or_else(|| panic!("{name} is not installed: run scripts/install-test-tools"))
}

/// As [`tool`], `None` when it is not installed.
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let ours = repository().join("target/tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::iter::once(ours)
        .chain(std::env::split_paths(&path))
        .chain(sbin)
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
}
