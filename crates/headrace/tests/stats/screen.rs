//! On a terminal: what is shown under load and idle, wide and narrow, and that the terminal is given back.

use headrace_testbed::process::wait_until;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Run, TestVolume};
use std::time::Duration;

use super::load::Load;
use super::terminal::Terminal;

/// A figure that is not nothing: `read 12.3 MiB/s`.
fn flows(shown: &str, what: &str) -> bool {
    shown.lines().any(|line| {
        line.split(what).skip(1).any(|rest| rest.trim_start().starts_with(|c: char| ('1'..='9').contains(&c)))
    })
}

#[test]
fn stats_shows_all_layers_under_load_and_nothing_when_idle() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let at = mounted.path().display().to_string();
    let wide = Terminal::run(&volume, (140, 45), &["stats", &at, "--interval", "500ms"]);
    let narrow = Terminal::run(&volume, (60, 24), &["stats", &at, "--interval", "500ms"]);
    let idle = wide.until("an idle mount", |shown| shown.contains("FUSE  read 0 B/s"));
    println!("idle, wide:\n{idle}");

    let load = Load::on(&mounted.path());
    let busy = wide.until("the load", |shown| {
        flows(shown, "write")
            && ["FUSE", "Metadata", "Cache", "Store", "Memory", "Writers"].iter().all(|l| shown.contains(l))
            && shown.contains("transaction")
    });
    println!("under load, wide:\n{busy}");
    assert!(busy.contains(&at), "the mount is named");
    let busy = narrow.until("the load", |shown| flows(shown, "write") && shown.contains("more lines below"));
    println!("under load, narrow:\n{busy}");
    narrow.keys(&["j", "Down", "j", "j"]);
    narrow.until("what is below", |shown| !shown.contains("FUSE  read"));
    // The window of a terminal can change at any time.
    narrow.resize(140, 45);
    narrow.until("everything", |shown| shown.contains("FUSE") && shown.contains("Writers"));

    drop(load);
    wide.until("an idle mount again", |shown| shown.contains("FUSE  read 0 B/s, write 0 B/s, 0 op/s"));
    wide.keys(&["q"]);
    let left = wide.ended(0);
    assert!(!left.contains("FUSE"), "the screen was not given back:\n{left}");
    narrow.keys(&["C-c"]);
    narrow.ended(0);
    drop((wide, narrow));
    mounted.unmount();
}

#[test]
fn the_end_of_the_mount_is_told_and_the_terminal_given_back() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let at = mounted.path().display().to_string();
    let stats = Terminal::run(&volume, (80, 24), &["stats", &at, "--interval", "200ms"]);
    let profile = Terminal::run(&volume, (80, 24), &["profile", &at, "--interval", "200ms"]);
    stats.until("figures", |shown| shown.contains("FUSE"));
    profile.until("figures", |shown| shown.contains("op/s"));
    mounted.unmount();
    // Long lines in a narrow window: they break anywhere, and a blank at the break is gone.
    let solid = |text: &str| text.split_whitespace().collect::<String>();
    let said = |terminal: &Terminal<'_>, code| solid(&terminal.ended(code));
    assert!(said(&stats, 5).contains(&solid("was unmounted while it was watched")));
    assert!(said(&profile, 0).contains(&solid("was unmounted: nothing is left to watch")));
    drop((stats, profile));

    let mounted = volume.mount();
    // By its URL: who is killed is found by the mount point.
    let stats = Terminal::run(&volume, (80, 24), &["stats", &volume.url(), "--interval", "200ms"]);
    stats.until("figures", |shown| shown.contains("FUSE"));
    mounted.kill();
    let said = said(&stats, 1);
    assert!(said.contains(&solid("died while it was watched")), "{said}");
}

#[test]
fn profile_shows_who_does_what_and_answers_keys() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let at = mounted.path().display().to_string();
    let wide = Terminal::run(&volume, (110, 30), &["profile", &at, "--interval", "500ms"]);
    let narrow = Terminal::run(&volume, (60, 24), &["profile", &at, "--interval", "500ms"]);
    let idle = wide.until("an idle mount", |shown| shown.contains("0 op/s"));
    println!("idle:\n{idle}");
    let load = Load::on(&mounted.path());
    let shows = |shown: &str, process: &str, operation: &str| {
        shown.lines().any(|line| line.contains(&format!(" {process} ")) && line.contains(operation))
    };
    let busy = wide.until("dd and mkdir", |s| shows(s, "dd", "read") && shows(s, "mkdir", "mkdir"));
    println!("under load, wide:\n{busy}");
    assert!(busy.contains("P99") && busy.contains("DATA/S"), "{busy}");
    let busy = narrow.until("dd", |s| shows(s, "dd", "read"));
    println!("under load, narrow:\n{busy}");
    // By process, then by command and operation, then by command.
    wide.keys(&["b", "b", "b"]);
    wide.until("commands", |s| s.contains("by command,") && !s.contains("PID") && !s.contains("OPERATION"));
    wide.keys(&["s", "t"]);
    wide.until("the total", |s| s.contains("most count first") && s.contains("since the start"));
    drop(load);
    wide.keys(&["Escape"]);
    wide.ended(0);

    // A signal ends it as a key does.
    Run::new("kill").args(["-TERM", &watchers(&at).expect("the other profile runs")]).ok();
    narrow.ended(0);
    drop((wide, narrow));
    mounted.unmount();
}

/// The processes that watch a mount.
fn watchers(at: &str) -> Option<String> {
    let pids = Run::new("pgrep").args(["-f", &format!("^[^ ]*headrace (stats|profile) {at}( |$)")]).finish();
    Some(pids.stdout.trim().to_owned()).filter(|pids| !pids.is_empty())
}

#[test]
fn a_terminal_that_goes_away_takes_its_watcher_with_it() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let at = mounted.path().display().to_string();
    let stats = Terminal::run(&volume, (80, 24), &["stats", &at]);
    let profile = Terminal::run(&volume, (81, 24), &["profile", &at]);
    stats.until("figures", |shown| shown.contains("FUSE"));
    profile.until("figures", |shown| shown.contains("op/s"));
    assert!(watchers(&at).is_some());
    drop((stats, profile));
    let gone = wait_until(Duration::from_secs(60), || watchers(&at).is_none().then_some(()));
    assert!(gone.is_some(), "these go on for nobody: {:?}", watchers(&at));
    mounted.unmount();
}
