//! The figures of each layer in words and numbers, for a screen and for a pipe.

use std::time::Duration;

use super::figures::{Cache, Figures, Log, Pool, Work};
use crate::output::human;
use crate::output::table::{Align, Table};

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panel {
    /// Its name and what matters most.
    pub title: String,
    /// The rest.
    pub lines: Vec<String>,
    /// Whether something is wrong or holds things up.
    pub alarm: bool,
}

/// Kinds of requests shown of one layer.
const WORK_MAX: usize = 8;

/// All layers in the order a request goes through them.
pub fn all(figures: &Figures) -> Vec<Panel> {
    vec![fuse(figures), metadata(figures), caches(figures), store(figures), memory(figures), writers(figures)]
}

/// Bytes per second, or just bytes.
pub fn bytes(n: f64) -> String {
    // Converts to the nearest there is.
    human::bytes(n as u64)
}

/// A duration in seconds, if there was any.
pub fn latency(seconds: Option<f64>) -> String {
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.map_or_else(|| "-".to_owned(), human::latency)
}

fn whole(n: f64) -> String {
    human::count(n as u64)
}

fn work_lines<'a>(all: impl IntoIterator<Item = &'a Work>) -> Vec<String> {
    let mut table = Table::new(&[
        ("operation", Align::Left),
        ("op/s", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("busy", Align::Right),
        ("err/s", Align::Right),
    ]);
    for work in all.into_iter().take(WORK_MAX) {
        table.row(vec![
            work.operation.clone(),
            human::rate(work.per_second),
            latency(work.p50_seconds),
            latency(work.p99_seconds),
            format!("{:.2}", work.busy),
            if work.errors_per_second > 0.0 { human::rate(work.errors_per_second) } else { "-".to_owned() },
        ]);
    }
    table.render(0).lines().map(str::to_owned).collect()
}

fn fuse(figures: &Figures) -> Panel {
    let fuse = &figures.fuse;
    let mut lines = vec![format!("{} requests in flight", whole(fuse.in_flight))];
    if !fuse.operations.is_empty() {
        lines.extend(work_lines(&fuse.operations));
    }
    Panel {
        title: format!(
            "FUSE  read {}/s, write {}/s, {} op/s",
            bytes(fuse.read_bytes_per_second),
            bytes(fuse.written_bytes_per_second),
            human::rate(fuse.all.per_second),
        ),
        lines,
        alarm: false,
    }
}

fn metadata(figures: &Figures) -> Panel {
    let metadata = &figures.metadata;
    Panel {
        title: format!(
            "Metadata  {} on disk, {} not yet",
            bytes(metadata.disk_bytes),
            bytes(metadata.pending_bytes)
        ),
        lines: work_lines(&metadata.operations),
        alarm: false,
    }
}

fn caches(figures: &Figures) -> Panel {
    let hits = figures.caches.iter().map(|cache| cache.hits_per_second).sum::<f64>();
    let looks = hits + figures.caches.iter().map(|cache| cache.misses_per_second).sum::<f64>();
    let share = if looks > 0.0 { format!("{:.0}% hits", hits / looks * 100.0) } else { "idle".to_owned() };
    let mut table = Table::new(&[
        ("cache", Align::Left),
        ("hits/s", Align::Right),
        ("misses/s", Align::Right),
        ("fills/s", Align::Right),
        ("held", Align::Right),
        ("of", Align::Right),
    ]);
    for cache in &figures.caches {
        let Cache { hits_per_second, misses_per_second, fills_per_second, .. } = *cache;
        table.row(vec![
            cache.cache.clone(),
            human::rate(hits_per_second),
            human::rate(misses_per_second),
            human::rate(fills_per_second),
            bytes(cache.bytes),
            bytes(cache.limit_bytes),
        ]);
    }
    let lines = table.render(0).lines().map(str::to_owned).collect();
    Panel { title: format!("Cache  {share}"), lines, alarm: false }
}

fn store(figures: &Figures) -> Panel {
    let store = &figures.store;
    let mut lines = vec![format!(
        "{} requests and {} in flight",
        whole(store.in_flight_requests),
        bytes(store.in_flight_bytes)
    )];
    if store.first_byte_p99_seconds.is_some() {
        lines.push(format!(
            "first byte: p50 {}, p99 {}",
            latency(store.first_byte_p50_seconds),
            latency(store.first_byte_p99_seconds)
        ));
    }
    if store.retries_per_second > 0.0 {
        lines.push(format!("{} retries/s", human::rate(store.retries_per_second)));
    }
    if store.pause_seconds > 0.0 {
        lines.push(format!("holding off for {}: the store asked for it", latency(Some(store.pause_seconds))));
    }
    if !store.operations.is_empty() {
        lines.extend(work_lines(&store.operations));
    }
    Panel {
        title: format!(
            "Store  in {}/s, out {}/s, {} op/s",
            bytes(store.received_bytes_per_second),
            bytes(store.sent_bytes_per_second),
            human::rate(store.all.per_second),
        ),
        lines,
        alarm: store.all.errors_per_second > 0.0
            || store.retries_per_second > 0.0
            || store.pause_seconds > 0.0,
    }
}

fn memory(figures: &Figures) -> Panel {
    let memory = &figures.memory;
    let waiting: f64 = memory.pools.iter().map(|pool| pool.waiting).sum();
    let mut table = Table::new(&[
        ("pool", Align::Left),
        ("", Align::Left),
        ("used", Align::Right),
        ("of", Align::Right),
        ("waiting", Align::Right),
    ]);
    for Pool { pool, bytes: used, limit_bytes: limit, waiting } in &memory.pools {
        let waiting = if *waiting > 0.0 { whole(*waiting) } else { "-".to_owned() };
        table.row(vec![pool.clone(), bar(*used, *limit, 12), bytes(*used), bytes(*limit), waiting]);
    }
    Panel {
        title: format!(
            "Memory  {} resident, limit {}; {:.2} processors",
            bytes(figures.process.resident_bytes),
            bytes(memory.ceiling_bytes),
            figures.process.cpus,
        ),
        lines: table.render(0).lines().map(str::to_owned).collect(),
        alarm: waiting > 0.0,
    }
}

/// A bar of so many characters; a little is more than nothing.
fn bar(part: f64, whole: f64, width: usize) -> String {
    let share = if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let full = (share * width as f64).ceil() as usize;
    "#".repeat(full.min(width)) + &".".repeat(width.saturating_sub(full))
}

fn writers(figures: &Figures) -> Panel {
    let writers = &figures.writers;
    let Log { state, lag_seconds, lag_bytes, lag_transactions } = &figures.log;
    let behind = if *lag_transactions > 0.0 {
        format!(
            "{}, {}, oldest {}",
            human::plural(*lag_transactions as u64, "transaction", "transactions"),
            bytes(*lag_bytes),
            latency(Some(*lag_seconds))
        )
    } else {
        "nothing".to_owned()
    };
    Panel {
        title: format!(
            "Writers  {} waiting, {} open",
            whole(writers.waiting),
            human::plural(writers.open_files as u64, "file", "files")
        ),
        lines: vec![
            format!(
                "to be written  {} {} of {}",
                bar(writers.dirty_bytes, writers.dirty_limit_bytes, 12),
                bytes(writers.dirty_bytes),
                bytes(writers.dirty_limit_bytes)
            ),
            format!("log            {state}"),
            format!("not in bucket  {behind}"),
        ],
        alarm: writers.waiting > 0.0 || !matches!(state.as_str(), "ok" | "none"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::snapshot;
    use super::*;

    #[test]
    fn each_layer_is_there_and_fits_a_narrow_terminal() {
        let panels = all(&Figures::between(&snapshot(1.0, 100), &snapshot(2.0, 40_100)));
        let names: Vec<&str> = panels.iter().filter_map(|panel| panel.title.split(' ').next()).collect();
        assert_eq!(names, ["FUSE", "Metadata", "Cache", "Store", "Memory", "Writers"]);
        for panel in &panels {
            for line in panel.lines.iter().chain([&panel.title]) {
                assert!(line.chars().count() <= 60, "{line}");
            }
        }
        let fuse = panels[0].lines.join("\n");
        assert!(fuse.contains("read") && fuse.contains("40,000") && panels[0].title.contains("156.2 MiB/s"));
        assert!(panels[2].title.ends_with("75% hits"), "{}", panels[2].title);
        assert!(panels[5].alarm && panels[5].lines[1].ends_with("lagging"));
    }

    #[test]
    fn bars_tell_nothing_little_and_all_apart() {
        assert_eq!(
            [0.0, 0.1, 5.0, 10.0, 99.0].map(|n| bar(n, 10.0, 4)),
            ["....", "#...", "##..", "####", "####"]
        );
        assert_eq!(bar(1.0, 0.0, 3), "...");
    }
}
