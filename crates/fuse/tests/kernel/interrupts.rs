//! Processes that wait for an answer and get a signal.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Mounted, Process, eventually};

fn reader(mounted: &Mounted, name: &str) -> Process {
    fs::write(mounted.path(name), vec![1; 100_000]).unwrap();
    let reads = mounted.fs.counts.reads.load(Ordering::SeqCst);
    let process = Process::spawn(Command::new("cat").arg(mounted.path(name)).stdout(Stdio::null()));
    eventually("the read arrives", || mounted.fs.counts.reads.load(Ordering::SeqCst) > reads);
    process
}

#[test]
fn a_process_stuck_in_a_read_dies_at_once() {
    let mounted = Mounted::new();
    // SIGQUIT would dump core, which the kernel treats otherwise: it does not count as a kill.
    for signal in [Signal::INT, Signal::TERM, Signal::KILL, Signal::QUIT] {
        let mut process = reader(&mounted, "hang.direct");
        let begun = Instant::now();
        process.signal(signal);
        let status = process.finish();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    eventually("the reads were given up", || mounted.fs.counts.given_up.load(Ordering::SeqCst) == 4);
}

#[test]
fn a_process_stuck_on_a_cached_page_dies_at_once() {
    let mounted = Mounted::new();
    fs::write(mounted.path("hang"), vec![1; 100_000]).unwrap();
    rustix::fs::fadvise(File::open(mounted.path("hang")).unwrap(), 0, None, rustix::fs::Advice::DontNeed)
        .unwrap();
    let mut process = Process::spawn(Command::new("cat").arg(mounted.path("hang")).stdout(Stdio::null()));
    eventually("the read arrives", || mounted.fs.counts.reads.load(Ordering::SeqCst) > 0);
    process.signal(Signal::INT);
    assert_eq!(process.finish().signal(), Some(Signal::INT.as_raw()));
    mounted.session.abort().unwrap();
}

#[test]
fn a_signal_that_is_handled_does_not_make_a_read_fail() {
    let mounted = Mounted::new();
    fs::write(mounted.path("slow.direct"), b"late but whole").unwrap();
    // The alarm comes while the read waits. Without restarting, so that an interrupted read would be seen.
    let script = r#"
        use POSIX;
        sigaction(SIGALRM, POSIX::SigAction->new(sub { }));
        open(my $f, '<', $ARGV[0]) or die;
        Time::HiRes::ualarm(50_000);
        my $n = sysread($f, my $text, 100);
        die "$!" unless defined $n;
        print $text;
    "#;
    let output = Command::new("perl")
        .args(["-MTime::HiRes", "-e", script])
        .arg(mounted.path("slow.direct"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"late but whole");
    assert_eq!(mounted.fs.counts.given_up.load(Ordering::SeqCst), 0);
}

#[test]
fn a_signal_that_is_handled_and_then_one_that_kills() {
    let mounted = Mounted::new();
    fs::write(mounted.path("hang.direct"), b"never").unwrap();
    let script = r#"
        use POSIX;
        sigaction(SIGUSR1, POSIX::SigAction->new(sub { }));
        open(my $f, '<', $ARGV[0]) or die;
        sysread($f, my $text, 100);
    "#;
    let mut process =
        Process::spawn(Command::new("perl").args(["-e", script]).arg(mounted.path("hang.direct")));
    eventually("the read arrives", || mounted.fs.counts.reads.load(Ordering::SeqCst) > 0);
    process.signal(Signal::USR1);
    // The kernel tells of the first signal only.
    std::thread::sleep(Duration::from_millis(300));
    assert!(process.0.try_wait().unwrap().is_none());
    process.signal(Signal::TERM);
    assert_eq!(process.finish().signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn a_handler_that_panics_costs_an_error_and_nothing_else() {
    let mounted = Mounted::new();
    for name in ["panic-at-once", "panic-later"] {
        fs::write(mounted.path(name), b"x").unwrap();
        rustix::fs::fadvise(File::open(mounted.path(name)).unwrap(), 0, None, rustix::fs::Advice::DontNeed)
            .unwrap();
        for _ in 0..10 {
            let error = fs::read(mounted.path(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{name}");
        }
    }
    for _ in 0..10 {
        let error = File::create(mounted.path("panic-on-create")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
    fs::write(mounted.path("fine"), b"fine").unwrap();
    assert_eq!(fs::read(mounted.path("fine")).unwrap(), b"fine");
}
