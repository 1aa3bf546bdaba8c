//! Metrics of real mounts: that they follow the conventions, agree with what was done, and are for the owner alone.

mod documents;
mod exposition;
mod scrape;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use headrace_testbed::process::wait_until;
use headrace_testbed::volume::native_only;
use headrace_testbed::writer::own_descriptors;
use headrace_testbed::{Backing, MountOptions, Run, TestVolume, pattern};
use rustix::process::Signal;

use exposition::Exposition;
use scrape::{over_socket, over_tcp, socket, status};

const LIMIT: Duration = Duration::from_secs(60);

/// Files that are written and read again.
const FILES: usize = 20;
/// The size of each: more than goes into the metadata, and whole pages.
const SIZE: usize = 256 << 10;

#[test]
fn they_agree_with_what_was_done() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    let before = over_socket(&mounted);
    for n in 0..FILES {
        fs::write(mounted.join(n.to_string()), pattern(n as u64, SIZE)).unwrap();
    }
    for n in 0..7 {
        fs::metadata(mounted.join(format!("missing-{n}"))).unwrap_err();
    }
    fs::create_dir_all(mounted.join("full/of")).unwrap();
    for _ in 0..3 {
        fs::remove_dir(mounted.join("full")).unwrap_err();
    }
    volume.command(&["flush"]).arg(mounted.path()).ok();
    let after = over_socket(&mounted);
    let grew = |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    let bytes = (FILES * SIZE) as f64;

    assert_eq!(grew("headrace_fuse_written_bytes_total", &[]), bytes);
    assert_eq!(grew("headrace_fuse_requests_total", &[("operation", "create")]), FILES as f64);
    // A name is looked up before its file is created, too. That it does not exist is an answer, which the kernel remembers.
    assert!(grew("headrace_fuse_requests_total", &[("operation", "lookup")]) >= (7 + FILES) as f64);
    assert_eq!(grew("headrace_fuse_request_errors_total", &[("operation", "lookup")]), 0.0);
    let full = [("operation", "rmdir"), ("errno", "ENOTEMPTY")];
    assert_eq!(grew("headrace_fuse_request_errors_total", &full), 3.0);
    let durations = "headrace_fuse_request_duration_seconds_count";
    assert_eq!(grew(durations, &[]), grew("headrace_fuse_requests_total", &[]), "each is timed");
    let sent = grew("headrace_store_sent_bytes_total", &[]);
    assert!(sent >= bytes && sent < 2.0 * bytes, "{sent} bytes were sent for {bytes}");
    assert!(grew("headrace_store_http_requests_total", &[("operation", "put")]) >= 1.0);
    assert!(grew("headrace_metadata_transactions_total", &[]) >= FILES as f64);
    assert!(grew("headrace_metadata_commit_duration_seconds_count", &[]) >= 1.0);

    // From the store, for nothing is cached now.
    let mounted = mounted.remount();
    let before = over_socket(&mounted);
    for n in 0..FILES {
        assert_eq!(fs::read(mounted.join(n.to_string())).unwrap(), pattern(n as u64, SIZE));
    }
    let after = over_socket(&mounted);
    let grew = |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    assert_eq!(grew("headrace_fuse_read_bytes_total", &[]), bytes);
    let received = grew("headrace_store_received_bytes_total", &[]);
    assert!(received >= bytes && received < 2.0 * bytes, "{received} bytes came for {bytes}");
    let gets = grew("headrace_store_requests_total", &[("operation", "get")]);
    for timed in ["headrace_store_request_duration_seconds_count", "headrace_store_first_byte_seconds_count"]
    {
        let timed = grew(timed, &[("operation", "get")]);
        // Upkeep may be asking something at this moment.
        assert!(gets >= 1.0 && (timed - gets).abs() <= 1.0, "{timed} of {gets}");
    }
    assert_eq!(after.sum("headrace_store_errors_total", &[]), 0.0);
    assert_eq!(after.sum("headrace_store_retries_total", &[]), 0.0);
    mounted.unmount();
}

/// A long listing asks for two attributes of each file. The label is not to be one of them where no kernel reads labels, but what is set is had.
#[test]
fn a_long_listing_asks_for_labels_once() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    fs::create_dir(mounted.join("d")).unwrap();
    for n in 0..100 {
        fs::write(mounted.join(format!("d/{n}")), b"x").unwrap();
    }
    let mounted = mounted.remount();
    let before = over_socket(&mounted);
    let listed = Run::new("ls").arg("-l").arg(mounted.join("d")).ok();
    let asked = [("operation", "getxattr")];
    let asked = over_socket(&mounted).sum("headrace_fuse_requests_total", &asked)
        - before.sum("headrace_fuse_requests_total", &asked);
    assert_eq!(listed.lines().count(), 101, "{listed}");
    assert!(asked <= 110.0, "{asked} attributes of 100 files");

    let get = |name: &str| {
        let mut value = [0; 64];
        rustix::fs::lgetxattr(mounted.join("d/7"), name, &mut value[..]).map(|len| value[..len].to_vec())
    };
    assert_eq!(get("security.other"), Err(rustix::io::Errno::NODATA));
    if fs::read_to_string("/proc/filesystems").unwrap().contains("selinuxfs") {
        return;
    }
    assert_eq!(get("security.selinux"), Err(rustix::io::Errno::OPNOTSUPP));
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::lsetxattr(mounted.join("d/7"), "security.selinux", b"a:b:c:s0", flags).unwrap();
    assert_eq!(get("security.selinux").as_deref(), Ok(&b"a:b:c:s0"[..]));
    mounted.unmount();
}

#[test]
fn they_follow_the_conventions() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    for n in 0..FILES {
        fs::write(mounted.join(n.to_string()), pattern(n as u64, 5000)).unwrap();
    }
    let mounted = mounted.remount();
    for n in 0..FILES {
        fs::read(mounted.join(n.to_string())).unwrap();
    }
    let found = over_socket(&mounted);
    assert_eq!(found.mistakes(), Vec::<String>::new());
    assert_eq!(documents::undocumented(&found), Vec::<String>::new());
    // What dashboards and alerts rely on.
    for name in [
        "headrace_build_info",
        "headrace_cache_hits_total",
        "headrace_dirty_bytes",
        "headrace_log_lag_seconds",
        "headrace_log_lag_transactions",
        "headrace_memory_bytes",
        "headrace_memory_limit_bytes",
        "headrace_store_pause_seconds",
        "headrace_waiting_writers",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    ] {
        assert!(found.has(name), "{name}");
    }
    assert_eq!(found.sum("headrace_log_state", &[("state", "ok")]), 1.0);
    mounted.unmount();
}

#[test]
fn what_is_under_way_ends() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    let server = volume.s3().expect("a server");
    let under_way =
        ["headrace_store_in_flight_requests", "headrace_store_in_flight_bytes", "headrace_dirty_bytes"];
    server.freeze();
    let writer = {
        let path = mounted.join("file");
        std::thread::spawn(move || {
            // The programs that look meanwhile must not wait for what was written.
            own_descriptors();
            fs::write(&path, pattern(1, 40 << 20)).unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
        })
    };
    let seen = wait_until(LIMIT, || {
        let found = over_socket(&mounted);
        under_way.iter().all(|name| found.sum(name, &[]) > 0.0).then_some(())
    });
    server.thaw();
    assert!(seen.is_some(), "requests that nobody answers are under way");
    writer.join().unwrap();
    volume.command(&["flush"]).arg(mounted.path()).ok();
    let idle = wait_until(LIMIT, || {
        let found = over_socket(&mounted);
        let gauges = ["headrace_fuse_requests_in_flight", "headrace_store_in_flight_requests"];
        let more = ["headrace_store_in_flight_bytes", "headrace_dirty_bytes", "headrace_waiting_writers"];
        gauges.iter().chain(&more).all(|name| found.sum(name, &[]) == 0.0).then_some(())
    });
    assert!(idle.is_some(), "something is under way although nothing is done");
    mounted.unmount();
}

#[test]
fn an_address_is_served_on_request_and_shown() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&MountOptions::default().arg("--metrics=127.0.0.1:0"));
    let status = status(&mounted);
    let address = status["metrics"]["address"].as_str().expect("the status names the address");
    let shown = volume.command(&["status"]).arg(mounted.path()).ok();
    assert!(shown.contains(&format!("http://{address}/metrics")), "{shown}");

    let (head, body) = over_tcp(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(Exposition::parse(&body).has("headrace_build_info"));
    let open = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n";
    let (head, body) = over_tcp(address, open);
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"));
    let (head, _) =
        over_tcp(address, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");

    // A second mount that wants the same port is told so, and leaves nothing behind.
    let other = TestVolume::new(Backing::Local);
    let mount = other.command(&["mount"]).arg(other.url()).arg(other.mount_point());
    let finished = mount.arg(format!("--metrics={address}")).arg("--log-file").arg(other.log_file());
    let finished = finished.limit(LIMIT).fails();
    assert!(finished.stderr.contains(address) && finished.stderr.contains("in use"), "{finished}");
    mounted.unmount();
}

#[test]
fn addresses_that_others_can_reach_are_refused() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    for place in ["0.0.0.0:9567", "[::]:9567", "10.1.2.3:9567"] {
        let mount = volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point());
        let finished = mount.arg("--metrics").arg(place).limit(LIMIT).fails();
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        assert!(finished.stderr.contains(place) && finished.stderr.contains("other machines"), "{finished}");
    }
    let finished = volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point());
    let finished = finished.env("HEADRACE_METRICS", "0.0.0.0:1").limit(LIMIT).fails();
    assert!(finished.stderr.contains("HEADRACE_METRICS"), "{finished}");
}

#[test]
fn other_users_are_refused() {
    if native_only() || !rustix::process::geteuid().is_root() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let path = socket(&mounted);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = || {
        Run::new("curl")
            .args(["--silent", "--show-error", "--max-time", "20", "--unix-socket"])
            .arg(&path)
            .arg("http://localhost/metrics")
            .limit(LIMIT)
    };
    assert!(ask().ok().contains("headrace_build_info"));
    // The modes alone keep strangers out; without them, who asks is looked at.
    let nobody = 65_534;
    ask().as_user(nobody, nobody).fails();
    for above in path.ancestors().skip(1).take_while(|dir| *dir != std::env::temp_dir().as_path()) {
        let mode = fs::metadata(above).unwrap().permissions().mode();
        fs::set_permissions(above, fs::Permissions::from_mode(mode | 0o711)).unwrap();
        if mode & 0o011 == 0o011 {
            break;
        }
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let finished = ask().as_user(nobody, nobody).fails();
    assert!(finished.stdout.is_empty(), "{finished}");
    // It was not the modes: how soon curl notices that the other end has closed differs.
    assert!(volume.log().contains("refused a connection uid=65534"), "{finished}\n{}", volume.log());
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    mounted.unmount();
}

#[test]
fn the_socket_goes_with_the_mount_and_comes_back_after_a_crash() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let path = socket(&mounted);
    mounted.signal_and_wait(Signal::TERM);
    mounted.ended();
    assert!(!path.exists());

    let mounted = volume.mount();
    mounted.kill();
    mounted.abandon();
    assert!(path.exists(), "nobody could remove it");
    let mounted = volume.mount();
    assert!(over_socket(&mounted).has("headrace_build_info"));
    mounted.unmount();
    let mounted = volume.mount_with(&MountOptions::default().option("metrics=off"));
    assert!(!path.exists() && status(&mounted)["metrics"]["socket"].is_null());
    mounted.unmount();
}
