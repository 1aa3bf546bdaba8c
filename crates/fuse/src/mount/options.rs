//! The usual `-o` options.

use rustix::mount::MountFlags;

use super::MountError;

/// When reading a file updates its access time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AtimeOption {
    /// Not said.
    #[default]
    Unset,
    /// Never.
    NoAtime,
    /// When it is older than the last change, or a day old.
    RelAtime,
    /// Always.
    StrictAtime,
}

/// What `-o` said about the mount itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MountOptions {
    /// `ro`.
    pub read_only: bool,
    /// `suid` or `nosuid`; by default suid for root and nosuid for anyone else.
    pub suid: Option<bool>,
    /// `dev` or `nodev`; by default dev for root and nodev for anyone else.
    pub dev: Option<bool>,
    /// `noexec`.
    pub noexec: bool,
    /// `noatime`, `relatime`, `strictatime`, `atime`. The kernel leaves access times to the file system: hand this on.
    pub atime: AtimeOption,
    /// `nodiratime`.
    pub nodiratime: bool,
    /// `sync`.
    pub sync: bool,
    /// `dirsync`.
    pub dirsync: bool,
    /// `lazytime`.
    pub lazytime: bool,
    /// `allow_other`: users other than the one who mounts may use it.
    pub allow_other: bool,
    /// `fsname=`: the source shown in the mount table.
    pub fsname: Option<String>,
    /// `subtype=`: the type shown in the mount table, after "fuse.".
    pub subtype: Option<String>,
}

/// A list of options taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParsedOptions {
    /// Those of the mount.
    pub mount: MountOptions,
    /// Those that are not known here, in order, for the caller to judge.
    pub others: Vec<String>,
}

impl ParsedOptions {
    /// Takes apart a comma-separated list; `\,` is a comma within a value. Later options win.
    pub fn parse(list: &str) -> Result<ParsedOptions, MountError> {
        let mut parsed = ParsedOptions::default();
        for option in split(list) {
            if !parsed.mount.apply(&option)? {
                parsed.others.push(option);
            }
        }
        Ok(parsed)
    }
}

impl MountOptions {
    /// Applies one option; false if it is not one of the mount's.
    pub fn apply(&mut self, option: &str) -> Result<bool, MountError> {
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (option, None),
        };
        if let Some(value) = value {
            match key {
                "fsname" => self.fsname = Some(text(option, value)?),
                "subtype" => self.subtype = Some(subtype(option, value)?),
                "comment" => {}
                _ => return Ok(key.starts_with("x-")),
            }
            return Ok(true);
        }
        match key {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "suid" => self.suid = Some(true),
            "nosuid" => self.suid = Some(false),
            "dev" => self.dev = Some(true),
            "nodev" => self.dev = Some(false),
            "exec" => self.noexec = false,
            "noexec" => self.noexec = true,
            "atime" => self.atime = AtimeOption::Unset,
            "noatime" => self.atime = AtimeOption::NoAtime,
            "relatime" => self.atime = AtimeOption::RelAtime,
            "strictatime" => self.atime = AtimeOption::StrictAtime,
            "norelatime" | "nostrictatime" => {}
            "nodiratime" => self.nodiratime = true,
            "diratime" => self.nodiratime = false,
            "sync" => self.sync = true,
            "async" => self.sync = false,
            "dirsync" => self.dirsync = true,
            "lazytime" => self.lazytime = true,
            "nolazytime" => self.lazytime = false,
            "allow_other" => self.allow_other = true,
            // Permissions are always the kernel's to check.
            "default_permissions" => {}
            // For mount(8) and fstab, not for us.
            "" | "defaults" | "auto" | "noauto" | "nofail" | "_netdev" | "group" | "nogroup" | "nouser"
            | "nousers" | "owner" | "noowner" => {}
            // By fstab's rules these three also mean noexec, nosuid and nodev, unless said otherwise after.
            "user" | "users" => {
                self.noexec = true;
                self.suid = Some(false);
                self.dev = Some(false);
            }
            _ => return Ok(key.starts_with("x-") || key.starts_with("user=")),
        }
        Ok(true)
    }

    /// The type in the mount table.
    pub fn fs_type(&self) -> String {
        format!("fuse.{}", self.subtype.as_deref().unwrap_or(super::DEFAULT_SUBTYPE))
    }

    /// The source in the mount table.
    pub fn source(&self) -> &str {
        self.fsname.as_deref().unwrap_or(super::DEFAULT_SUBTYPE)
    }

    /// Flags for mount(2), by root.
    pub(super) fn flags(&self) -> MountFlags {
        let mut flags = MountFlags::empty();
        flags.set(MountFlags::RDONLY, self.read_only);
        flags.set(MountFlags::NOSUID, self.suid == Some(false));
        flags.set(MountFlags::NODEV, self.dev == Some(false));
        flags.set(MountFlags::NOEXEC, self.noexec);
        flags.set(MountFlags::NOATIME, self.atime == AtimeOption::NoAtime);
        flags.set(MountFlags::RELATIME, self.atime == AtimeOption::RelAtime);
        flags.set(MountFlags::STRICTATIME, self.atime == AtimeOption::StrictAtime);
        flags.set(MountFlags::NODIRATIME, self.nodiratime);
        flags.set(MountFlags::SYNCHRONOUS, self.sync);
        flags.set(MountFlags::DIRSYNC, self.dirsync);
        flags.set(MountFlags::LAZYTIME, self.lazytime);
        flags
    }

    /// The same as a list for `fusermount3`. An ordinary user gets nosuid and nodev whatever was said.
    pub(super) fn helper_list(&self, max_read: u32) -> String {
        let mut list = vec!["nosuid".to_owned(), "nodev".to_owned(), "default_permissions".to_owned()];
        list.push(if self.read_only { "ro" } else { "rw" }.to_owned());
        for (set, name) in [
            (self.noexec, "noexec"),
            (self.atime == AtimeOption::NoAtime, "noatime"),
            (self.sync, "sync"),
            (self.dirsync, "dirsync"),
            (self.allow_other, "allow_other"),
        ] {
            if set {
                list.push(name.to_owned());
            }
        }
        list.push(format!("max_read={max_read}"));
        list.push(format!("fsname={}", escape(self.source())));
        list.push(format!("subtype={}", self.subtype.as_deref().unwrap_or(super::DEFAULT_SUBTYPE)));
        list.join(",")
    }
}

fn split(list: &str) -> Vec<String> {
    let mut options = Vec::new();
    let mut option = String::new();
    let mut chars = list.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ (',' | '\\')) => option.push(escaped),
                Some(other) => option.extend(['\\', other]),
                None => option.push('\\'),
            },
            ',' => options.push(std::mem::take(&mut option)),
            other => option.push(other),
        }
    }
    options.push(option);
    options.retain(|option| !option.is_empty());
    options
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

fn text(option: &str, value: &str) -> Result<String, MountError> {
    let reason = match value {
        "" => "a value is needed",
        _ if value.contains(['\0', '\n']) => "control characters are not allowed",
        _ => return Ok(value.to_owned()),
    };
    Err(MountError::Option { option: option.to_owned(), reason })
}

fn subtype(option: &str, value: &str) -> Result<String, MountError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !value.is_empty() && value.chars().all(good) {
        Ok(value.to_owned())
    } else {
        Err(MountError::Option {
            option: option.to_owned(),
            reason: "letters, digits, '-', '_' and '.' are allowed, at least one",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usual_fstab_line() {
        let parsed = ParsedOptions::parse(
            "defaults,ro,noatime,_netdev,x-systemd.automount,x-a=b,fsname=s3://b/p\\,q,memory=1G,nofail,allow_other",
        )
        .unwrap();
        assert!(parsed.mount.read_only && parsed.mount.allow_other);
        assert_eq!(parsed.mount.atime, AtimeOption::NoAtime);
        assert_eq!(parsed.mount.source(), "s3://b/p,q");
        assert_eq!(parsed.others, ["memory=1G"]);
        assert_eq!(parsed.mount.fs_type(), "fuse.headrace");
    }

    #[test]
    fn later_wins_and_root_keeps_suid_and_dev_by_default() {
        let of = |list: &str| ParsedOptions::parse(list).unwrap().mount.flags();
        assert_eq!(of(""), MountFlags::empty());
        assert_eq!(of("ro,rw,noexec,exec,nosuid,suid"), MountFlags::empty());
        assert_eq!(of("nosuid,nodev"), MountFlags::NOSUID | MountFlags::NODEV);
        assert_eq!(of("user"), MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC);
        assert_eq!(of("user,exec,suid,dev"), MountFlags::empty());
    }

    #[test]
    fn bad_values_are_named() {
        for bad in ["subtype=", "subtype=a/b", "fsname=", "subtype=a\\,b"] {
            let error = ParsedOptions::parse(bad).unwrap_err().to_string();
            assert!(error.contains("mount option"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn an_escaped_name_survives(name in "[^\\x00\\n]{1,40}") {
            let list = format!("ro,fsname={},noexec", escape(&name));
            let parsed = ParsedOptions::parse(&list).unwrap();
            prop_assert_eq!(parsed.mount.source(), name);
            prop_assert!(parsed.mount.read_only && parsed.mount.noexec);
        }

        #[test]
        fn any_list_is_taken_apart(list in "\\PC{0,80}") {
            let _ = ParsedOptions::parse(&list);
        }
    }
}
