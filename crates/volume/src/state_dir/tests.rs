use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

fn base(variables: &[(&str, &str)], root: bool) -> Option<PathBuf> {
    let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
    default_base(&find, root)
}

#[test]
fn base_follows_the_documented_order() {
    let all = [("HEADRACE_STATE_DIR", "/s"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(base(&all, true), Some("/s".into()));
    assert_eq!(base(&all[1..], true), Some("/var/lib/headrace".into()));
    assert_eq!(base(&all[1..], false), Some("/x/headrace".into()));
    assert_eq!(base(&all[2..], false), Some("/h/.local/state/headrace".into()));
    assert_eq!(
        base(&[("HEADRACE_STATE_DIR", "relative"), ("HOME", "/h")], false).unwrap(),
        PathBuf::from("/h/.local/state/headrace")
    );
    assert_eq!(base(&[], false), None);
}

#[test]
fn local_volumes_keep_metadata_beside_their_data_unless_a_base_is_given() {
    let uuid = Uuid::nil();
    let local = Path::new("/data/vol");
    assert_eq!(candidates(Some(local), None, uuid).unwrap()[0], PathBuf::from("/data/vol/meta"));
    let given = candidates(Some(local), Some(Path::new("/s")), uuid).unwrap();
    assert_eq!(given, [PathBuf::from(format!("/s/{uuid}"))]);
}

#[test]
fn a_new_directory_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(&dir.path().join("a/b")).unwrap();
    assert_eq!(fs::metadata(state.path()).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::metadata(dir.path().join("a")).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn links_files_and_open_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real");
    StateDir::create(&real).unwrap();
    let link = dir.path().join("link");
    symlink(&real, &link).unwrap();
    assert!(StateDir::create(&link).unwrap_err().to_string().contains("symbolic link"));
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    assert!(StateDir::open(&file).unwrap_err().to_string().contains("not a directory"));
    fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(StateDir::open(&real).unwrap_err().to_string().contains("chmod 700"));
    assert_eq!(StateDir::open(&dir.path().join("none")).unwrap(), None);
}

#[test]
fn another_owner_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(&dir.path().join("s")).unwrap();
    let meta = fs::symlink_metadata(state.path()).unwrap();
    assert!(refusal(&meta, meta.uid() + 1).unwrap().contains("belongs to user"));
    assert_eq!(refusal(&meta, meta.uid()), None);
}

#[test]
fn a_linked_or_open_engine_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(&dir.path().join("s")).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, state.engine()).unwrap();
    assert!(StateDir::open(state.path()).unwrap_err().to_string().contains("symbolic link"));
    fs::remove_file(state.engine()).unwrap();
    fs::create_dir(state.engine()).unwrap();
    fs::set_permissions(state.engine(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(StateDir::open(state.path()).unwrap_err().to_string().contains("chmod 700"));
}

#[test]
fn engines_are_built_beside_and_set_aside_under_names_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(&dir.path().join("s")).unwrap();
    let now = SystemTime::UNIX_EPOCH;
    let mut aside = Vec::new();
    for n in 0..3 {
        let building = state.restoring().unwrap();
        fs::create_dir(&building).unwrap();
        fs::write(building.join("data"), [n]).unwrap();
        // What was cut short is not used.
        let building = state.restoring().unwrap();
        assert!(!building.exists());
        fs::create_dir(&building).unwrap();
        fs::write(building.join("data"), [n]).unwrap();
        state.finish_restoring().unwrap();
        assert!(state.has_engine().unwrap());
        aside.push(state.set_aside(now).unwrap());
        assert!(!state.has_engine().unwrap());
    }
    for (n, path) in aside.iter().enumerate() {
        assert_eq!(fs::read(path.join("data")).unwrap(), [n as u8]);
        assert!(path.to_str().unwrap().contains("set-aside-1970-01-01T000000Z"));
    }
    state.set_copy(&CopyMark { position: 7, number: Some(3) }).unwrap();
    assert_eq!(state.copy().unwrap(), Some(CopyMark { position: 7, number: Some(3) }));
    assert_eq!(state.remove().unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn removal_keeps_what_is_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(&dir.path().join("s")).unwrap();
    state.mark_incomplete().unwrap();
    DirBuilder::new().mode(0o700).create(state.engine()).unwrap();
    fs::write(state.engine().join("data"), b"x").unwrap();
    fs::write(state.path().join("theirs"), b"x").unwrap();
    assert_eq!(state.remove().unwrap(), [state.path().join("theirs")]);
    assert!(state.path().join("theirs").exists());
    fs::remove_file(state.path().join("theirs")).unwrap();
    assert_eq!(state.remove().unwrap(), Vec::<PathBuf>::new());
    assert!(!state.path().exists());
}
