//! Every setting of the program, once: each field is a flag, a key of the configuration file, an environment variable
//! and an `-o` option, all of one name (see [`crate::config`]).

use std::path::PathBuf;

use clap::Args;

use super::cache::{CacheFree, CacheSize, Expiry};
use super::values::{
    ByteSize, Compression, Durable, FixedReads, Keep, Lease, LogFormat, Retention, ScrubRate, Span,
    StoreOption, Switch, Threads,
};
use crate::config::section;
use crate::daemon::metrics::MetricsPlace;

/// The process itself.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "General options")]
pub struct ProcessSettings {
    /// What to log: error, warn, info, debug, trace, or a filter such as "warn,headrace_store=debug"
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,

    /// How log lines are written
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Where mounts are registered and controlled [default: /run/headrace for root, else $XDG_RUNTIME_DIR/headrace]
    #[arg(long, global = true, value_name = "DIR", hide_short_help = true)]
    pub runtime_dir: Option<PathBuf>,
}
section!(ProcessSettings { log, log_format, runtime_dir });

/// How the object store is reached.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Object store options")]
pub struct StoreSettings {
    /// Address of an S3-compatible server, e.g. http://127.0.0.1:9000 [default: the provider's own]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,

    /// Region of the bucket, e.g. eu-central-1 [default: from AWS_REGION or the profile]
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,

    /// Put the bucket's name into the host name (bucket.host) rather than the path (host/bucket)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub virtual_host: Option<Switch>,

    /// Profile to take from ~/.aws/credentials and ~/.aws/config
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,

    /// Access key id; its secret comes from --secret-access-key-file
    ///
    /// Without this flag, credentials come from where the provider's own tools look: AWS_ACCESS_KEY_ID and
    /// AWS_SECRET_ACCESS_KEY, the profile files, the machine's role.
    #[arg(long, value_name = "ID")]
    pub access_key_id: Option<String>,

    /// File that holds the secret access key and nothing else
    ///
    /// There is no flag for the secret itself: every user of the machine can read the command line of every process.
    #[arg(long, value_name = "FILE")]
    pub secret_access_key_file: Option<PathBuf>,

    /// File that holds the session token of temporary credentials and nothing else
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub session_token_file: Option<PathBuf>,

    /// Send no credentials: for public buckets
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub anonymous: Option<Switch>,

    /// Any other option of the object store's library; may be given more than once
    ///
    /// Do not put secrets here: every user of the machine can read the command line of every process. Use the
    /// configuration file, readable by you alone.
    #[arg(long, value_name = "KEY=VALUE", hide_short_help = true)]
    pub store_option: Vec<StoreOption>,

    /// Give up connecting after this long and try again [default: 5s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub connect_timeout: Option<Span>,

    /// Give up one attempt of a request when it makes no progress for this long, and try again [default: 20s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub request_timeout: Option<Span>,

    /// Report an error when a request has not succeeded after this long, all attempts together [default: 60s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub deadline: Option<Span>,
}
section!(StoreSettings {
    endpoint,
    region,
    virtual_host,
    profile,
    access_key_id,
    secret_access_key_file,
    session_token_file,
    anonymous,
    connect_timeout,
    request_timeout,
    deadline,
} lists { store_option });

/// How a volume is opened.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Volume options")]
pub struct VolumeSettings {
    /// File that holds the key of an encrypted volume: 32 bytes, raw, as 64 hexadecimal digits or as base64
    ///
    /// The key itself can be given in the environment variable HEADRACE_KEY instead. Make one with
    /// "head -c 32 /dev/urandom | base64". Whoever loses it loses the volume.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// Where the metadata of volumes in remote stores is kept [default: /var/lib/headrace for root, else
    /// $XDG_STATE_HOME/headrace]
    ///
    /// A volume in a local directory keeps its metadata inside that directory.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// How long another machine has to see no sign of life before it may take the volume over: 2s to 10m [default: 30s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub lease: Option<Lease>,

    /// How far back "restore --at" reaches; what was deleted is kept in the store for so long: 0 to 365days [default: 1h]
    #[arg(long, value_name = "DURATION")]
    pub retention: Option<Retention>,
}
section!(VolumeSettings { key_file, state_dir, lease, retention });

/// What is fixed when a volume is created.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Options for a new volume (they cannot be changed later)")]
pub struct FormatSettings {
    /// Name of the volume, for messages [default: the last part of the URL]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Compression of file data: none, lz4, zstd or zstd:LEVEL [default: none]
    #[arg(long, value_name = "METHOD")]
    pub compression: Option<Compression>,

    /// Encrypt file data with AES-256-GCM; needs --key-file or HEADRACE_KEY
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub encrypt: Option<Switch>,

    /// Smallest piece that is checked, compressed and encrypted on its own: 4K to 1M, a power of two [default: 32K]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub frame_size: Option<ByteSize>,

    /// Size at which an object in the store is complete: 1M to 256M [default: 16M]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub segment_size: Option<ByteSize>,

    /// Data up to this size is first kept in the metadata, then packed: 0 to 64K [default: 64K]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub inline_max: Option<ByteSize>,
}
section!(FormatSettings { name, compression, encrypt, frame_size, segment_size, inline_max });

/// How a volume is mounted.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Mount options")]
pub struct MountSettings {
    /// Mount options as mount(8) takes them, separated by commas; may be given more than once
    ///
    /// Understood are ro, rw, noatime, relatime, strictatime, nodiratime, nosuid, nodev, noexec and their opposites, sync,
    /// dirsync, allow_other, fsname=NAME, subtype=NAME, and every setting of this program as KEY=VALUE (e.g.
    /// "memory=2G,endpoint=http://127.0.0.1:9000"). Unix permissions are always checked.
    #[arg(short = 'o', long, value_name = "OPTIONS")]
    pub options: Vec<String>,

    /// Mount read-only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub read_only: Option<Switch>,

    /// Let other users in; the kernel checks permissions as on any file system
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub allow_other: Option<Switch>,

    /// Ceiling on the memory that the mount takes, 64M at least [default: an eighth of the machine's, 128M to 1G]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,

    /// When fsync, and what else waits for durability, is answered: "local" when the change is on this machine's disk,
    /// "bucket" when it is in the object store as well [default: local]
    #[arg(long, value_name = "WHERE")]
    pub durable: Option<Durable>,

    /// Keep what is deleted for so long, so that "headrace restore-file" can bring it back: a duration such as 7days, or "off"
    /// [default: off]
    ///
    /// Files, symbolic links and directories are kept when their last name goes, also when another file takes their place. They go on
    /// taking space until then. "headrace trash list" shows them, "headrace trash empty" deletes them at once.
    #[arg(long, value_name = "DURATION|off")]
    pub trash: Option<Keep>,

    /// Write new files to this machine's disk first and store them behind that; fsync waits for this disk only
    ///
    /// A new file is one that is empty when it is opened. The loss of this machine loses what is not stored yet: "headrace status" says
    /// how much that is.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub writeback: Option<Switch>,

    /// How much of --writeback may wait on this machine's disk before new files go to the store directly [default: what leaves a
    /// twentieth of the disk free]
    #[arg(long, value_name = "SIZE")]
    pub writeback_size: Option<ByteSize>,

    /// Most bytes a second of --writeback that go to the store, such as 50M [default: as many as it takes]
    #[arg(long, value_name = "RATE")]
    pub upload_rate: Option<ByteSize>,

    /// How fast stored data is read again to find damage early: auto, off, or bytes a second such as 8M [default: auto]
    ///
    /// auto reads a volume in a local directory once in 30 days, at 64K to 8M a second, and leaves remote stores alone, which
    /// charge for reading. Damage is logged with the names of the files, and shown by "headrace status".
    #[arg(long, value_name = "RATE")]
    pub scrub: Option<ScrubRate>,

    /// Where metrics can be asked for, as Prometheus wants them: off, socket, or an address of the loopback interface such as
    /// 127.0.0.1:9567 [default: socket]
    ///
    /// The socket is beside the control socket, for the owner of the mount and root; it is there with an address too. Whoever
    /// can reach an address may read the metrics. Port 0 takes any that is free: "headrace status" shows which.
    #[arg(long, value_name = "WHERE")]
    pub metrics: Option<MetricsPlace>,

    /// Have the kernel's requests come by io_uring in place of /dev/fuse, where the kernel has that and it is switched on
    ///
    /// What programs do with many small files takes about half the time so; reading and writing large ones takes some more processor time. It is
    /// switched on for the whole machine, by root: echo Y > /sys/module/fuse/parameters/enable_uring (Linux 6.14 and later). Where it cannot be
    /// used the mount goes on without it; "headrace status" says why.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub io_uring: Option<Switch>,

    /// Threads that serve the kernel, 1 to 256 [default: from the number of cores]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub threads: Option<Threads>,

    /// For measurements only: read ahead by these numbers instead of what is measured
    #[arg(long, value_name = "WINDOW_MIB:FETCHES:PART_MIB", hide = true)]
    pub fixed_reads: Option<FixedReads>,

    /// Where to log when in the background [default: /var/log/headrace/NAME.log for root, else
    /// $XDG_STATE_HOME/headrace/log/NAME.log]
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
}
section!(MountSettings {
    read_only,
    allow_other,
    memory,
    durable,
    trash,
    writeback,
    writeback_size,
    upload_rate,
    scrub,
    metrics,
    io_uring,
    threads,
    fixed_reads,
    log_file,
} lists { options });

/// What a mount keeps on local disks of what it fetched.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Cache options")]
pub struct CacheSettings {
    /// Directory for the cache, one a disk; may be given more than once [default: /var/cache/headrace for root, else
    /// $XDG_CACHE_HOME/headrace]
    ///
    /// Each volume has a directory of its own in it, named by its id. A volume in a local directory is cached only if this or
    /// --cache-size is given: its data is on a local disk already.
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Vec<PathBuf>,

    /// How much may be cached on local disks, all directories together, in equal parts; or "off" [default: as much as
    /// --cache-free leaves]
    #[arg(long, value_name = "SIZE|off")]
    pub cache_size: Option<CacheSize>,

    /// Space that the cache leaves free on each of its disks, or a part of the disk such as 10% [default: 10%]
    #[arg(long, value_name = "SIZE|PERCENT%")]
    pub cache_free: Option<CacheFree>,

    /// Drop from the cache what nobody has used for so long, or "never" [default: never]
    #[arg(long, value_name = "DURATION")]
    pub cache_expire: Option<Expiry>,
}
section!(CacheSettings { cache_size, cache_free, cache_expire } nearest { cache_dir });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::section::Section;

    fn flags<A: Args>() -> Vec<String> {
        let command = A::augment_args(clap::Command::new("x"));
        command.get_arguments().filter_map(|a| a.get_long()).map(str::to_owned).collect()
    }

    fn assert_same_names<A: Args + Section>() {
        let (mut flags, mut keys) = (flags::<A>(), A::keys());
        flags.sort();
        keys.sort();
        assert_eq!(flags, keys);
    }

    #[test]
    fn every_flag_is_a_key_and_every_key_a_flag() {
        assert_same_names::<ProcessSettings>();
        assert_same_names::<StoreSettings>();
        assert_same_names::<VolumeSettings>();
        assert_same_names::<FormatSettings>();
        assert_same_names::<MountSettings>();
        assert_same_names::<CacheSettings>();
    }
}
