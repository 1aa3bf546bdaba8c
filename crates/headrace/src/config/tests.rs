//! Precedence, names and messages, as a user meets them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::file::ConfigFile;
use super::*;
use crate::cli::values::{ByteSize, Switch};
use proptest::prelude::*;

fn no_environment(_: &str) -> Option<OsString> {
    None
}

fn environment(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + use<> {
    let map: HashMap<String, OsString> = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    move |name| map.get(name).cloned()
}

fn config_file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

fn flags(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (key, value) in pairs {
        settings.set(key, value).unwrap();
    }
    settings
}

#[test]
fn each_source_overrides_the_one_below() {
    let (_dir, path) = config_file(
        r#"
        [defaults]
        memory = "1G"
        endpoint = "http://defaults"
        region = "defaults"
        profile = "defaults"
        threads = 3
        [volume."s3://bucket/vol/"]
        endpoint = "http://volume"
        region = "volume"
        profile = "volume"
        [volume."s3://bucket/other"]
        memory = "7G"
        "#,
    );
    let env = environment(&[("HEADRACE_REGION", "environment"), ("HEADRACE_PROFILE", "environment")]);
    let merged = resolve(flags(&[("profile", "flag")]), Some("s3://bucket/vol"), Some(path), &env).unwrap();
    assert_eq!(merged.store.profile.as_deref(), Some("flag"));
    assert_eq!(merged.store.region.as_deref(), Some("environment"));
    assert_eq!(merged.store.endpoint.as_deref(), Some("http://volume"));
    assert_eq!(merged.mount.memory, Some(ByteSize(1 << 30)));
    assert_eq!(merged.mount.threads.map(|t| t.0), Some(3));
}

#[test]
fn the_users_file_is_laid_over_the_systems_and_a_named_one_stands_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join(".config/headrace")).unwrap();
    std::fs::write(dir.path().join(".config/headrace/config.toml"), "[defaults]\nregion = \"mine\"\n")
        .unwrap();
    let home = dir.path().to_str().unwrap();
    let env = environment(&[("HOME", home)]);
    let merged = resolve(Settings::default(), None, None, &env).unwrap();
    assert_eq!(merged.store.region.as_deref(), Some("mine"));

    let (_other, path) = config_file("[defaults]\nprofile = \"named\"\n");
    let named = path.to_str().unwrap();
    let env = environment(&[("HOME", home), ("HEADRACE_CONFIG", named)]);
    let merged = resolve(Settings::default(), None, None, &env).unwrap();
    assert_eq!((merged.store.region, merged.store.profile.as_deref()), (None, Some("named")));
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let failure =
        resolve(Settings::default(), None, Some("/no/such/config.toml".into()), &no_environment).unwrap_err();
    assert!(failure.message().contains("/no/such/config.toml"));
    assert_eq!(failure.exit_code(), Exit::Usage);
}

#[test]
fn a_flag_can_switch_off_what_the_file_switches_on() {
    let (_dir, path) = config_file("[defaults]\nread-only = true\nallow_other = true\n");
    let merged = resolve(flags(&[("read-only", "false")]), None, Some(path), &no_environment).unwrap();
    assert_eq!(merged.mount.read_only, Some(Switch(false)));
    assert_eq!(merged.mount.allow_other, Some(Switch(true)));
}

#[test]
fn unknown_keys_name_file_line_key_and_the_nearest() {
    let text = "[defaults]\nmemory = \"1G\"\n\nendpiont = \"http://x\"\n";
    let failure = ConfigFile::parse(text, "/etc/headrace/config.toml").unwrap_err();
    assert_eq!(failure.message(), "/etc/headrace/config.toml line 4: unknown key \"endpiont\"");
    assert_eq!(failure.advice(), Some("Did you mean \"endpoint\"?"));

    let failure = ConfigFile::parse("\nmemory = \"1G\"\n", "f").unwrap_err();
    assert_eq!(failure.message(), "f line 2: unknown key \"memory\"");
    assert!(failure.advice().unwrap().contains("[defaults]"));
}

#[test]
fn bad_values_name_file_line_and_reason() {
    let failure = ConfigFile::parse("[defaults]\n\nmemory = \"lots\"\n", "f").unwrap_err();
    assert_eq!(
        failure.message(),
        "f line 3: memory: \"lots\" is not a size; write it like 65536, 64K, 16MiB or 1.5G"
    );
    let failure = ConfigFile::parse("[defaults]\nmemory = [1]\n", "f").unwrap_err();
    assert!(failure.message().starts_with("f line 2: expected a string"), "{failure}");
    let failure = ConfigFile::parse("[defaults\n", "f").unwrap_err();
    assert!(failure.message().starts_with("f line 1: "), "{failure}");
}

#[test]
fn store_options_come_from_every_source_and_in_order() {
    let (_dir, path) = config_file("[defaults]\nstore-option = { a = \"file\", b = 1 }\n");
    let env = environment(&[("HEADRACE_STORE_OPTION", "a=env,c=2")]);
    let merged = resolve(flags(&[("store-option", "a=flag")]), None, Some(path), &env).unwrap();
    let all: Vec<_> = merged.store.store_option.iter().map(|o| format!("{}={}", o.key, o.value)).collect();
    // Later ones override earlier ones.
    assert_eq!(all, ["a=file", "b=1", "a=env", "c=2", "a=flag"]);
}

#[test]
fn the_nearest_cache_directories_count_and_no_others() {
    let (_dir, path) = config_file("[defaults]\ncache-dir = [\"/a\", \"/b\"]\ncache-size = \"1G\"\n");
    let dirs = |flags: Settings, env: &[(&str, &str)]| {
        let merged = resolve(flags, None, Some(path.clone()), &environment(env)).unwrap();
        assert!(merged.cache.cache_size.is_some());
        merged.cache.cache_dir
    };
    assert_eq!(dirs(Settings::default(), &[]), [PathBuf::from("/a"), "/b".into()]);
    let env = [("HEADRACE_CACHE_DIR", "/c:/d")];
    assert_eq!(dirs(Settings::default(), &env), [PathBuf::from("/c"), "/d".into()]);
    assert_eq!(dirs(flags(&[("cache-dir", "/e")]), &env), [PathBuf::from("/e")]);
    let option = flags(&[("options", "cache-dir=/f,cache-dir=/g,cache-size=off")]);
    assert_eq!(dirs(option, &env), [PathBuf::from("/f"), "/g".into()]);
    let failure = ConfigFile::parse("[defaults]\ncache-dir = { a = 1 }\n", "f").unwrap_err();
    assert!(failure.message().starts_with("f line 2: "), "{failure}");
    let failure = ConfigFile::parse("[defaults]\ncache-free = \"150%\"\n", "f").unwrap_err();
    assert!(failure.message().contains("0% to 100%"), "{failure}");
}

#[test]
fn environment_variables_that_do_not_fit_are_named() {
    let env = environment(&[("HEADRACE_MEMORY", "x")]);
    let failure = resolve(Settings::default(), None, None, &env).unwrap_err();
    assert!(failure.message().starts_with("the environment variable HEADRACE_MEMORY: "), "{failure}");
    assert_eq!(failure.exit_code(), Exit::Usage);
}

#[test]
fn mount_options_set_settings_and_a_flag_beats_them() {
    let mut layer =
        flags(&[("options", "ro,noatime,memory=2G,region=x,_netdev,x-systemd.automount"), ("region", "y")]);
    options::expand(&mut layer, "-o").unwrap();
    assert_eq!(layer.mount.read_only, Some(Switch(true)));
    assert_eq!(layer.mount.memory, Some(ByteSize(2 << 30)));
    assert_eq!(layer.store.region.as_deref(), Some("y"));
    // What mount(8) put there for itself does no harm.
    assert_eq!(layer.mount.options, ["noatime", "_netdev", "x-systemd.automount"]);
}

#[test]
fn the_last_of_contradicting_mount_options_counts() {
    let mut layer = flags(&[("options", "ro,allow_other"), ("options", "rw,allow_other=no")]);
    options::expand(&mut layer, "-o").unwrap();
    assert_eq!(layer.mount.read_only, Some(Switch(false)));
    assert_eq!(layer.mount.allow_other, Some(Switch(false)));
}

#[test]
fn mount_option_values_may_hold_escaped_commas() {
    assert_eq!(options::split(r"a=1\,2,b,,c=\\"), ["a=1,2", "b", r"c=\"]);
}

#[test]
fn unknown_mount_options_are_refused_with_a_hint() {
    let mut layer = flags(&[("options", "noatme")]);
    let failure = options::expand(&mut layer, "-o").unwrap_err();
    assert_eq!(failure.message(), "-o: unknown option \"noatme\"");
    assert_eq!(failure.advice(), Some("Did you mean \"noatime\"?"));
    let mut layer = flags(&[("options", "memory")]);
    assert!(options::expand(&mut layer, "-o").unwrap_err().message().contains("is not a size"));
}

proptest! {
    #[test]
    fn no_file_makes_the_parser_panic(text in "\\PC{0,200}") {
        let _ = ConfigFile::parse(&text, "f");
    }

    #[test]
    fn no_section_makes_the_parser_panic(key in "[a-z-]{1,20}", value in "\\PC{0,40}") {
        let _ = ConfigFile::parse(&format!("[defaults]\n{key} = {value}\n"), "f");
    }

    #[test]
    fn no_option_string_makes_the_parser_panic(text in "\\PC{0,80}") {
        let mut layer = Settings::default();
        layer.mount.options.push(text);
        let _ = options::expand(&mut layer, "-o");
    }
}
