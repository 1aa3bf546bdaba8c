//! The forms in which the program is called: by people, by mount(8) and umount(8) as their helper, and by libfuse's
//! mount.fuse3. All become the form people use.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::command::Command;

/// Who called, which decides the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// A person or a script.
    Direct,
    /// mount(8) or umount(8), which expect their own exit codes.
    MountHelper,
}

/// A command line in the form people use.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Run the program with these arguments; the first is its name.
    Run(Vec<OsString>, Caller),
    /// A helper called with "fake": succeed without doing anything.
    Fake,
    /// A helper called wrongly.
    Wrong(String),
}

const MOUNT_NAMES: [&str; 4] =
    ["mount.fuse.headrace", "mount.headrace", "mount.fuse3.headrace", "mount.fuse"];
const UMOUNT_NAMES: [&str; 2] = ["umount.fuse.headrace", "umount.headrace"];

/// Recognises the form of `args`.
pub fn recognise(args: Vec<OsString>) -> Invocation {
    let called =
        args.first().map(OsString::as_os_str).and_then(|a| Path::new(a).file_name()).unwrap_or_default();
    if is_one_of(called, &MOUNT_NAMES) {
        return mount_helper(args.into_iter().skip(1));
    }
    if is_one_of(called, &UMOUNT_NAMES) {
        return umount_helper(args.into_iter().skip(1));
    }
    if let Some(first) = args.get(1) {
        if is_one_of(first, &MOUNT_NAMES) {
            return mount_helper(args.into_iter().skip(2));
        }
        if is_one_of(first, &UMOUNT_NAMES) {
            return umount_helper(args.into_iter().skip(2));
        }
        if is_volume(first) && args.get(2).is_some_and(|second| !second.as_bytes().starts_with(b"-")) {
            // mount.fuse3: headrace SPEC MOUNTPOINT -o OPTIONS
            let mut run = vec![OsString::from("headrace"), "mount".into()];
            run.extend(args.into_iter().skip(1));
            return Invocation::Run(run, Caller::MountHelper);
        }
    }
    let mut run = args;
    // The name under which help and errors speak of the program, whatever the file is called.
    match run.first_mut() {
        Some(name) => *name = "headrace".into(),
        None => run.push("headrace".into()),
    }
    Invocation::Run(run, Caller::Direct)
}

fn is_one_of(word: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|n| word == OsStr::new(n))
}

/// Whether a first argument is a place rather than a command.
fn is_volume(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    !bytes.starts_with(b"-")
        && bytes.contains(&b'/')
        && !Command::names().iter().any(|name| OsStr::new(name) == word)
}

/// `mount.TYPE SPEC MOUNTPOINT [-sfnvrw] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]`
fn mount_helper(args: impl Iterator<Item = OsString>) -> Invocation {
    match helper_arguments(args, "sfnvrw", "otN") {
        Err(message) => Invocation::Wrong(message),
        Ok(helper) if helper.has('f') => Invocation::Fake,
        Ok(helper) if helper.value('N').is_some() => {
            Invocation::Wrong("-N (another mount namespace) is not supported: use nsenter(1)".to_owned())
        }
        Ok(helper) => {
            let [spec, mountpoint] = helper.places.as_slice() else {
                return Invocation::Wrong("expected a volume's URL and a mount point".to_owned());
            };
            let mut run = vec![OsString::from("headrace"), "mount".into()];
            let switches = [('r', "ro"), ('w', "rw")].into_iter().filter(|(s, _)| helper.has(*s));
            let options = helper.values.iter().filter(|(l, _)| *l == 'o').map(|(_, v)| v.clone());
            for option in options.chain(switches.map(|(_, o)| o.into())) {
                run.extend(["-o".into(), option]);
            }
            run.extend(["--".into(), spec.clone(), mountpoint.clone()]);
            Invocation::Run(run, Caller::MountHelper)
        }
    }
}

/// `umount.TYPE MOUNTPOINT [-flnrv] [-N NAMESPACE] [-t TYPE]`
fn umount_helper(args: impl Iterator<Item = OsString>) -> Invocation {
    match helper_arguments(args, "flnrvs", "tN") {
        Err(message) => Invocation::Wrong(message),
        Ok(helper) if helper.value('N').is_some() => {
            Invocation::Wrong("-N (another mount namespace) is not supported: use nsenter(1)".to_owned())
        }
        Ok(helper) => {
            let [mountpoint] = helper.places.as_slice() else {
                return Invocation::Wrong("expected one mount point".to_owned());
            };
            let mut run = vec![OsString::from("headrace"), "umount".into()];
            if helper.has('l') || helper.has('f') {
                run.push("--lazy".into());
            }
            run.extend(["--".into(), mountpoint.clone()]);
            Invocation::Run(run, Caller::MountHelper)
        }
    }
}

#[derive(Default)]
struct HelperArguments {
    switches: Vec<char>,
    values: Vec<(char, OsString)>,
    places: Vec<OsString>,
}

impl HelperArguments {
    fn has(&self, switch: char) -> bool {
        self.switches.contains(&switch)
    }

    fn value(&self, letter: char) -> Option<&OsString> {
        self.values.iter().find(|(l, _)| *l == letter).map(|(_, v)| v)
    }
}

/// Reads short options as getopt does: `switches` stand alone and may be joined, `valued` take the rest of the word or
/// the next one.
fn helper_arguments(
    mut args: impl Iterator<Item = OsString>,
    switches: &str,
    valued: &str,
) -> Result<HelperArguments, String> {
    let mut found = HelperArguments::default();
    while let Some(arg) = args.next() {
        let bytes = arg.as_bytes();
        if bytes == b"--" {
            found.places.extend(args.by_ref());
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            for (i, byte) in bytes.iter().enumerate().skip(1) {
                let letter = char::from(*byte);
                if switches.contains(letter) {
                    found.switches.push(letter);
                } else if valued.contains(letter) {
                    let rest = &bytes[i + 1..];
                    let value = if rest.is_empty() {
                        args.next().ok_or_else(|| format!("-{letter} needs a value"))?
                    } else {
                        OsStr::from_bytes(rest).to_owned()
                    };
                    found.values.push((letter, value));
                    break;
                } else {
                    return Err(format!("unknown option \"{}\"", crate::output::name(bytes)));
                }
            }
        } else {
            found.places.push(arg);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recognise_words(words: &[&str]) -> Invocation {
        recognise(words.iter().map(OsString::from).collect())
    }

    fn run(words: &[&str], caller: Caller) -> Invocation {
        Invocation::Run(words.iter().map(OsString::from).collect(), caller)
    }

    #[test]
    fn people_are_taken_by_their_word() {
        assert_eq!(
            recognise_words(&["/usr/bin/headrace", "mount", "/srv/vol", "/mnt"]),
            run(&["headrace", "mount", "/srv/vol", "/mnt"], Caller::Direct)
        );
        assert_eq!(recognise_words(&["headrace"]), run(&["headrace"], Caller::Direct));
        assert_eq!(recognise_words(&[]), run(&["headrace"], Caller::Direct));
        assert_eq!(recognise_words(&["headrace", "mnt/x"]), run(&["headrace", "mnt/x"], Caller::Direct));
    }

    #[test]
    fn mount_8_calls_the_helper_by_its_name() {
        for name in ["/sbin/mount.fuse.headrace", "mount.headrace"] {
            assert_eq!(
                recognise_words(&[
                    name,
                    "s3://b/p",
                    "/mnt",
                    "-sv",
                    "-o",
                    "rw,noatime",
                    "-t",
                    "fuse.headrace"
                ]),
                run(
                    &["headrace", "mount", "-o", "rw,noatime", "--", "s3://b/p", "/mnt"],
                    Caller::MountHelper
                )
            );
        }
        assert_eq!(
            recognise_words(&["headrace", "mount.fuse", "/srv/vol", "/mnt", "-no", "ro"]),
            run(&["headrace", "mount", "-o", "ro", "--", "/srv/vol", "/mnt"], Caller::MountHelper)
        );
        assert_eq!(
            recognise_words(&["mount.headrace", "-r", "/srv/vol", "/mnt"]),
            run(&["headrace", "mount", "-o", "ro", "--", "/srv/vol", "/mnt"], Caller::MountHelper)
        );
    }

    #[test]
    fn libfuse_calls_the_program_with_url_and_mount_point() {
        assert_eq!(
            recognise_words(&["headrace", "s3://b/p", "/mnt", "-o", "rw,dev,suid"]),
            run(&["headrace", "mount", "s3://b/p", "/mnt", "-o", "rw,dev,suid"], Caller::MountHelper)
        );
    }

    #[test]
    fn umount_8_calls_the_helper_by_its_name() {
        assert_eq!(
            recognise_words(&["/sbin/umount.fuse.headrace", "/mnt", "-l"]),
            run(&["headrace", "umount", "--lazy", "--", "/mnt"], Caller::MountHelper)
        );
    }

    #[test]
    fn fake_does_nothing() {
        assert_eq!(recognise_words(&["mount.headrace", "/srv/vol", "/mnt", "-fn"]), Invocation::Fake);
    }

    #[test]
    fn helpers_called_wrongly_say_so() {
        for words in [
            &["mount.headrace"][..],
            &["mount.headrace", "/srv/vol"],
            &["mount.headrace", "/srv/vol", "/mnt", "-o"],
            &["mount.headrace", "/srv/vol", "/mnt", "-Z"],
            &["mount.headrace", "/srv/vol", "/mnt", "-N", "1"],
            &["umount.headrace"],
            &["umount.headrace", "/a", "/b"],
        ] {
            assert!(matches!(recognise_words(words), Invocation::Wrong(_)), "{words:?}");
        }
    }

    #[test]
    fn a_mount_point_like_an_option_stays_a_mount_point() {
        assert_eq!(
            recognise_words(&["mount.headrace", "--", "/srv/vol", "-o"]),
            run(&["headrace", "mount", "--", "/srv/vol", "-o"], Caller::MountHelper)
        );
    }

    proptest! {
        #[test]
        fn no_command_line_makes_it_panic(words in proptest::collection::vec("\\PC{0,12}", 0..6), helper: bool) {
            let mut args: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            if helper {
                args.insert(0, "mount.headrace".into());
            }
            let _ = recognise(args);
        }
    }
}
