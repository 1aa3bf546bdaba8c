//! `headrace mount`

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use headrace_fuse::mount::AtimeOption;
use headrace_fuse::{MountConfig, MountOptions};
use headrace_vfs::{AtimePolicy, VfsOptions, Writeback};

use super::{Call, open};
use crate::cli::url;
use crate::cli::values::{Durable, on};
use crate::config::Settings;
use crate::daemon::cache_plan::{self, CachePlan};
use crate::daemon::serve::{self, Plan};
use crate::daemon::{allocator, background, runtime_dir};
use crate::failure::{Context, Failure};
use crate::logging::file::LogFile;
use crate::logging::{self, Target, Verbosity};
use crate::output::{self, progress::Progress};

/// What to mount.
pub struct What {
    /// The volume.
    pub url: String,
    /// Where.
    pub mountpoint: PathBuf,
    /// Create what is missing.
    pub create: bool,
    /// Stay in the foreground.
    pub foreground: bool,
}

/// Runs the command.
pub fn run(call: &Call, what: What) -> Result<(), Failure> {
    let settings = call.settings(Some(&what.url))?;
    if call.background_child {
        background::leave_session();
        return in_background(&settings, &what).inspect_err(|failure| {
            // The parent has found nothing wrong with the settings, so this is rare: a log that cannot be opened.
            if !failure.message().is_empty() {
                let _ = background::report(&background::Report::Failed(failure.into()));
            }
        });
    }
    if what.foreground {
        logging::start(&settings.process, Verbosity::Daemon, Target::Stderr)?;
        let plan = plan(&settings, &what)?;
        return serve(plan);
    }
    logging::start(&settings.process, Verbosity::Command, Target::Stderr)?;
    // Mistakes in usage are found here, with the exit code they deserve.
    let plan = plan(&settings, &what)?;
    let bar = Progress::new(&format!("mounting {}", plan.location));
    let ready = background::start(&call.args, &mut super::progress::of_daemon(&bar))?;
    drop(bar);
    for warning in &ready.warnings {
        output::say(&format!("headrace: warning: {warning}"));
    }
    if io::stderr().is_terminal() {
        let created = if ready.created { "created and " } else { "" };
        output::say(&format!("{} is {created}mounted on {}", plan.location, output::path(&plan.mountpoint)));
    }
    Ok(())
}

/// In the process that stays.
fn in_background(settings: &Settings, what: &What) -> Result<(), Failure> {
    let path = match &settings.mount.log_file {
        Some(path) => path.clone(),
        None => logging::default_file(&url::default_name(&what.url))?,
    };
    let log = LogFile::open(&path)?;
    logging::start(&settings.process, Verbosity::Daemon, Target::File(log.clone()))?;
    let mut plan = plan(settings, what)?;
    plan.log = Some(log);
    plan.background = true;
    serve(plan)
}

fn serve(plan: Plan) -> Result<(), Failure> {
    allocator::limit(plan.vfs.memory);
    allocator::trim_in_background();
    raise_file_limit();
    let runtime = super::runtime()?;
    let result = runtime.block_on(serve::serve(plan));
    // What still runs waits for a mount that others hold; it has nothing left to write.
    runtime.shutdown_background();
    result
}

/// Takes as many file descriptors as may be had: cached files take one each, and connections to the store must not go without.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

/// How new files are written back, if they are.
fn writeback(settings: &Settings, sync: bool) -> Result<Option<Writeback>, Failure> {
    let mount = &settings.mount;
    if !on(mount.writeback) {
        return Ok(None);
    }
    if sync {
        return Err(Failure::usage("--writeback and -o sync exclude each other")
            .advise("With -o sync every write waits for the store."));
    }
    if mount.durable.is_some_and(|durable| durable == Durable::Bucket) {
        return Err(Failure::usage("--writeback and --durable bucket exclude each other")
            .advise("With --durable bucket every fsync waits for the store."));
    }
    if mount.upload_rate.is_some_and(|rate| rate.0 == 0) {
        return Err(Failure::usage("--upload-rate 0 would never store anything"));
    }
    Ok(Some(Writeback {
        limit: mount.writeback_size.map(|size| size.0),
        rate: mount.upload_rate.map(|rate| rate.0),
    }))
}

/// From settings to a plan, without touching the volume.
fn plan(settings: &Settings, what: &What) -> Result<Plan, Failure> {
    let mut options = MountOptions::default();
    for option in &settings.mount.options {
        options.apply(option).context(|| "-o".to_owned())?;
    }
    options.read_only = on(settings.mount.read_only);
    options.allow_other = on(settings.mount.allow_other);
    let mountpoint = std::path::absolute(&what.mountpoint)
        .context(|| format!("cannot use the mount point {}", output::path(&what.mountpoint)))?;
    let vfs = VfsOptions {
        memory: settings.mount.memory.map_or_else(default_memory, |size| size.0),
        atime: match options.atime {
            AtimeOption::NoAtime => AtimePolicy::NoAtime,
            AtimeOption::StrictAtime => AtimePolicy::StrictAtime,
            AtimeOption::RelAtime | AtimeOption::Unset => AtimePolicy::RelAtime,
        },
        read_only: options.read_only,
        sync: options.sync,
        trash: settings.mount.trash.and_then(|keep| keep.0),
        writeback: writeback(settings, options.sync)?,
        scrub: settings.mount.scrub.map(|rate| rate.0).unwrap_or_default(),
        labels: runs_selinux(),
        fixed_reads: settings.mount.fixed_reads.map(|fixed| fixed.0),
        ..VfsOptions::default()
    };
    if vfs.memory < MIN_MEMORY {
        return Err(Failure::usage(format!(
            "--memory is too small: {} are needed",
            output::human::bytes(MIN_MEMORY)
        )));
    }
    let mut open = open::open_options(settings, Some(&mountpoint), options.read_only)?;
    open.memory = Some(vfs.memory);
    let location = open::location(&what.url)?;
    let cache = CachePlan::new(&settings.cache, &location, cache_plan::default_directory())?;
    Ok(Plan {
        location,
        mountpoint,
        open,
        create: what.create.then(|| open::format_options(settings, &what.url)),
        vfs,
        cache,
        mount: MountConfig {
            options,
            threads: settings.mount.threads.map(|t| t.0),
            io_uring: on(settings.mount.io_uring),
            ..MountConfig::default()
        },
        metrics: settings.mount.metrics,
        runtime_dir: runtime_dir::own(settings.process.runtime_dir.as_deref()),
        log: None,
        background: false,
    })
}

/// Less cannot hold the segments being built.
const MIN_MEMORY: u64 = 64 << 20;

/// An eighth of the memory this process may use, from 128 MiB to 1 GiB.
fn default_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    share(machine.min(cgroup_limit().unwrap_or(u64::MAX)))
}

fn share(memory: u64) -> u64 {
    (memory / 8).clamp(128 << 20, 1 << 30)
}

/// The limit of a container, as cgroup v2 shows it from inside.
fn cgroup_limit() -> Option<u64> {
    std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

/// Whether the kernel labels files for SELinux. It lists the file system by which SELinux is spoken to only where that was started.
fn runs_selinux() -> bool {
    std::fs::read_to_string("/proc/filesystems").is_ok_and(|known| known.contains("selinuxfs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options;
    use crate::failure::Exit;

    fn plan_for(pairs: &[(&str, &str)], create: bool) -> Result<Plan, Failure> {
        let mut settings = Settings::default();
        for (key, value) in pairs {
            settings.set(key, value).unwrap();
        }
        options::expand(&mut settings, "-o")?;
        let what = What { url: "/no/vol".into(), mountpoint: "/no/mnt".into(), create, foreground: false };
        plan(&settings, &what)
    }

    #[test]
    fn mount_options_reach_kernel_and_file_system() {
        let plan =
            plan_for(&[("options", "ro,noatime,nosuid,sync,allow_other,memory=100M,threads=3")], false)
                .unwrap();
        assert!(plan.vfs.read_only && plan.open.read_only && plan.mount.options.read_only);
        assert!(plan.mount.options.allow_other && plan.vfs.sync);
        assert_eq!(plan.vfs.atime, AtimePolicy::NoAtime);
        assert_eq!(plan.mount.options.suid, Some(false));
        assert_eq!((plan.vfs.memory, plan.mount.threads), (100 << 20, Some(3)));
    }

    #[test]
    fn defaults_are_sensible() {
        let plan = plan_for(&[], true).unwrap();
        assert!(!plan.vfs.read_only && !plan.mount.options.allow_other);
        assert_eq!(plan.vfs.atime, AtimePolicy::RelAtime);
        assert!(plan.vfs.memory >= 128 << 20);
        assert_eq!(plan.create.and_then(Result::ok).map(|c| c.name), Some("vol".to_owned()));
        assert_eq!((share(1 << 30), share(4 << 30), share(u64::MAX)), (128 << 20, 512 << 20, 1 << 30));
    }

    #[test]
    fn mistakes_are_mistakes_in_usage() {
        for pairs in [
            [("options", "subtype=a/b")],
            [("memory", "1M")],
            [("access-key-id", "half")],
            [("options", "cache-dir=/dev/null")],
        ] {
            assert_eq!(plan_for(&pairs, false).unwrap_err().exit_code(), Exit::Usage, "{pairs:?}");
        }
    }

    #[test]
    fn a_cache_can_be_asked_for_by_mount_options() {
        assert_eq!(plan_for(&[], false).unwrap().cache, None);
        let options = "cache-dir=/no/a,cache-dir=/no/b,cache-size=1G,cache-free=5%,cache-expire=1h";
        let cache = plan_for(&[("options", options)], false).unwrap().cache.unwrap();
        assert_eq!(cache.directories, [PathBuf::from("/no/a"), "/no/b".into()]);
        assert_eq!((cache.size, cache.free), (Some(1 << 30), headrace_vfs::FreeSpace::Part(0.05)));
        let off = plan_for(&[("options", options), ("cache-size", "off")], false).unwrap();
        assert_eq!(off.cache, None);
    }

    #[test]
    fn options_for_a_new_volume_matter_only_when_there_is_none() {
        let plan = plan_for(&[("encrypt", "true")], true).unwrap();
        assert_eq!(plan.create.unwrap().unwrap_err().exit_code(), Exit::Usage);
    }
}
