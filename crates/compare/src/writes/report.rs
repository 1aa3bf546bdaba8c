//! What was found, as tables with what is asked of it.

use headrace_bench::report::Spread;

use super::{Part, Results, bufferbloat, overwrite, sequential, small_files, write_back};
use crate::figures::text::{self, Section, columns, ratio, shown, spread};

/// Throughput, of that of the best bare client.
const OF_RATE: f64 = 0.9;
/// Processor time, at most so many times that of the same client.
const OF_CPU: f64 = 1.3;
/// Throughput with new files on this machine's disk first, of that of the disk's own file system.
const OF_DISK: f64 = 0.95;
/// Seconds of a program, at most so many times those on the native file system.
const OF_NATIVE: f64 = 1.5;
/// So many times as fast as JuiceFS at its defaults.
const OF_JUICEFS: f64 = 10.0;
/// The same, cold reads.
const OF_READS: f64 = 5.0;
/// Requests that store something, for a file.
const PUTS: f64 = 0.01;

/// A read while the queue of writes is full takes at most so many times as long as one on its own: what is cached as the same read, what is
/// not as one GET.
const OF_IDLE: f64 = 2.0;

/// All of it as Markdown.
pub fn render(results: &Results) -> String {
    text::render(results, &Part::ALL, |part, section| match part {
        Part::Sequential => of_sequential(results, section),
        Part::Overwrite => of_overwrite(results, section),
        Part::WriteBack => of_write_back(results, section),
        Part::SmallFiles => of_small_files(results, section),
        Part::Bufferbloat => of_bufferbloat(results, section),
    })
}

fn of_sequential(results: &Results, to: &mut Section) {
    to.begin("Sequential writes, 1 MiB, fsync at the end, against PUTs of 16 MiB");
    let mut table = columns(&[
        "network/streams",
        "headrace, MB/s",
        "until unmounted",
        "best bare client",
        "MB/s",
        "ratio",
        "daemon, s/GiB",
        "writer",
        "bare, s/GiB",
        "daemon/bare",
    ]);
    let part = Part::Sequential;
    for row in results.rows(part) {
        let ours = |name| results.value(part, row, sequential::OURS, name);
        let best = sequential::best(results, row);
        let bare = |name| best.and_then(|best| results.value(part, row, best, name));
        let of_rate = ratio(ours(sequential::RATE), bare(sequential::RATE));
        let of_cpu = ratio(ours(sequential::CPU), bare(sequential::CPU));
        to.ask(of_rate.is_none_or(|of| of >= OF_RATE), || {
            format!("{row}: {} of a bare client's throughput, asked for is {OF_RATE}", shown(of_rate))
        });
        to.ask(of_cpu.is_none_or(|of| of <= OF_CPU), || {
            format!("{row}: {} times a bare client's processor time, asked for is {OF_CPU}", shown(of_cpu))
        });
        table.row(vec![
            row.to_owned(),
            spread(ours(sequential::RATE)),
            spread(ours(sequential::STORED)),
            best.unwrap_or("-").to_owned(),
            spread(bare(sequential::RATE)),
            shown(of_rate),
            spread(ours(sequential::CPU)),
            spread(ours(sequential::WRITER)),
            spread(bare(sequential::CPU)),
            shown(of_cpu),
        ]);
    }
    to.table(&table);
}

/// Seconds, as if there had been as many files as there were for Headrace.
fn for_all(results: &Results, row: &str, who: &str, name: &str) -> Option<Spread> {
    let part = Part::SmallFiles;
    let files = |who| results.value(part, row, who, small_files::FILES).map(|files| files.median);
    let full = files(small_files::OURS).or_else(|| files(small_files::NATIVE));
    let more = full.zip(files(who)).map_or(1.0, |(full, had)| full / had);
    Some(results.value(part, row, who, name)?.map(|seconds| seconds * more))
}

fn of_small_files(results: &Results, to: &mut Section) {
    use small_files::{
        BACK, CLIENT, CPU, FILES, JUICEFS, NATIVE, OURS, PUT_BYTES, PUTS as REQUESTS, SECONDS, STORED,
        WRITEBACK,
    };
    to.begin("Small files, 20 ms to the first byte, 90 MB/s per connection");
    let mut table = columns(&[
        "program, who",
        "files",
        "s for all",
        "until stored",
        "PUTs per file",
        "bytes stored per byte",
        "daemon, cpu s for all",
        "program",
        "read back cold, s for all",
        "seconds, headrace's of theirs",
    ]);
    let part = Part::SmallFiles;
    for row in results.rows(part) {
        let all = |who, name| for_all(results, row, who, name);
        for who in results.contenders(part, row) {
            let plain = |name| results.value(part, row, who, name);
            let times = ratio(all(OURS, SECONDS), all(who, SECONDS)).filter(|_| who != OURS);
            let files = plain(FILES).map_or("-".into(), |files| format!("{:.0}", files.median));
            let requests = plain(REQUESTS).filter(|_| who != NATIVE);
            table.row(vec![
                format!("{row}, {who}"),
                files,
                spread(all(who, SECONDS)),
                spread(all(who, STORED)),
                requests.map_or("-".into(), |puts| format!("{:.4}", puts.median)),
                spread(plain(PUT_BYTES).filter(|_| who != NATIVE)),
                spread(all(who, CPU).filter(|_| who != NATIVE)),
                spread(all(who, CLIENT)),
                spread(all(who, BACK)),
                shown(times),
            ]);
        }
        let ours = |name| all(OURS, name);
        let of_native = ratio(ours(SECONDS), all(NATIVE, SECONDS));
        to.ask(of_native.is_none_or(|of| of <= OF_NATIVE), || {
            format!("{row}: {} times the native file system, asked for is {OF_NATIVE}", shown(of_native))
        });
        let faster = ratio(all(JUICEFS, SECONDS), ours(SECONDS));
        to.ask(faster.is_none_or(|of| of >= OF_JUICEFS), || {
            format!("{row}: {} times as fast as JuiceFS, asked for is {OF_JUICEFS}", shown(faster))
        });
        let staged = ratio(all(WRITEBACK, SECONDS), ours(SECONDS));
        to.ask(staged.is_none_or(|of| of > 1.0), || {
            format!("{row}: {} times as fast as JuiceFS --writeback, asked for is more than 1", shown(staged))
        });
        let puts = results.value(part, row, OURS, REQUESTS);
        to.ask(puts.is_none_or(|puts| puts.median < PUTS), || {
            format!(
                "{row}: {:.4} PUTs for a file, asked for are {PUTS}",
                puts.map_or(0.0, |puts| puts.median)
            )
        });
        let reads = ratio(all(JUICEFS, BACK), ours(BACK));
        to.ask(reads.is_none_or(|of| of >= OF_READS), || {
            format!("{row}: read cold {} times as fast as JuiceFS, asked for is {OF_READS}", shown(reads))
        });
    }
    to.table(&table);
}

fn of_overwrite(results: &Results, to: &mut Section) {
    to.begin("4 KiB anywhere in a large file, fsync at the end");
    let mut table = columns(&[
        "network, who",
        "writes/s, until fsync is done",
        "until written",
        "fsync, s",
        "bytes stored per byte",
        "PUTs",
        "extents in 64 MiB",
        "daemon, us/write",
        "read back cold, MB/s",
    ]);
    use overwrite::{BACK, CALLS, CPU, EXTENTS, FSYNC, OURS, PUT_BYTES, PUTS, RATE};
    let part = Part::Overwrite;
    for row in results.rows(part) {
        for who in results.contenders(part, row) {
            let value = |name| results.value(part, row, who, name);
            let remote = |name| value(name).filter(|_| who == OURS);
            let mut line = vec![format!("{row}, {who}")];
            line.extend([RATE, CALLS, FSYNC].map(|name| spread(value(name))));
            line.extend([PUT_BYTES, PUTS, EXTENTS, CPU].map(|name| spread(remote(name))));
            line.push(spread(value(BACK)));
            table.row(line);
        }
    }
    to.table(&table);
}

fn of_write_back(results: &Results, to: &mut Section) {
    to.begin("New files on this machine's disk first, fsync at the end, against the same disk's file system");
    let mut table = columns(&[
        "writes, who",
        "MB/s until fsync is done",
        "until written",
        "writer and daemon, s/GiB",
        "rate, of native",
        "written, of native",
        "processor time, native of ours",
    ]);
    use write_back::{CALLS, CPU, NATIVE, OURS, RATE};
    let part = Part::WriteBack;
    for row in results.rows(part) {
        let value = |who, name| results.value(part, row, who, name);
        let of = |name| ratio(value(OURS, name), value(NATIVE, name));
        for who in results.contenders(part, row) {
            let mut line = vec![format!("{row}, {who}")];
            line.extend([RATE, CALLS, CPU].map(|name| spread(value(who, name))));
            let ours = who == OURS;
            line.extend([RATE, CALLS].map(|name| shown(of(name).filter(|_| ours))));
            line.push(shown(ratio(value(NATIVE, CPU), value(OURS, CPU)).filter(|_| ours)));
            table.row(line);
        }
        to.ask(of(RATE).is_none_or(|of| of >= OF_DISK), || {
            format!("{row}: {} of the native file system, asked for is {OF_DISK}", shown(of(RATE)))
        });
    }
    to.table(&table);
}

fn of_bufferbloat(results: &Results, to: &mut Section) {
    use bufferbloat::{CACHED, COLD, GETS, IDLE, LOADED, MEDIAN, P95, RATE, STAT, WRITTEN};
    to.begin("Reads while the queue of writes is full: 20 ms, 50 MB/s in all");
    let mut table = columns(&["read", "idle, ms", "95 of 100", "queue full, ms", "95 of 100", "ratio"]);
    let part = Part::Bufferbloat;
    let value = |row: &str, who, name| results.value(part, row, who, name);
    for row in results.rows(part).into_iter().filter(|row| *row != WRITTEN) {
        let (idle, loaded) = (value(row, IDLE, MEDIAN), value(row, LOADED, MEDIAN));
        let mut line = vec![row.to_owned()];
        line.extend([idle, value(row, IDLE, P95), loaded, value(row, LOADED, P95)].map(spread));
        line.push(shown(ratio(loaded, idle)));
        table.row(line);
    }
    to.table(&table);
    to.say(&format!("{WRITTEN}: {}.", spread(value(WRITTEN, LOADED, RATE))));
    for row in [CACHED, STAT] {
        let times = ratio(value(row, LOADED, MEDIAN), value(row, IDLE, MEDIAN));
        to.ask(times.is_none_or(|times| times <= OF_IDLE), || {
            format!("{row}: {} times as long as when idle, asked for is {OF_IDLE}", shown(times))
        });
    }
    for (row, get) in COLD.into_iter().zip(GETS) {
        let times = ratio(value(row, LOADED, MEDIAN), value(get, IDLE, MEDIAN));
        to.ask(times.is_none_or(|times| times <= OF_IDLE), || {
            format!("{row}: {} times a {get} when idle, asked for is {OF_IDLE}", shown(times))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::results::Sample;

    fn sample(part: Part, row: &str, contender: &str, values: &[(&str, f64)]) -> Sample<Part> {
        let values: BTreeMap<String, f64> =
            values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let (row, contender) = (row.to_owned(), contender.to_owned());
        Sample { part, row, contender, repetition: 0, failed: None, values, series: Vec::new() }
    }

    fn misses(samples: Vec<Sample<Part>>) -> Vec<String> {
        let report = render(&Results { samples, ..Results::now() });
        report.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
    }

    #[test]
    fn large_files_are_compared_with_the_best_bare_client() {
        let part = Part::Sequential;
        let found = misses(vec![
            sample(part, "loopback/1", "headrace", &[("rate", 89.0), ("cpu", 1.3)]),
            sample(part, "loopback/1", "2 PUTs at once", &[("rate", 100.0), ("cpu", 1.0)]),
            sample(part, "loopback/1", "8 PUTs at once", &[("rate", 50.0), ("cpu", 0.5)]),
            sample(part, "slow/1", "headrace", &[("rate", 90.0), ("cpu", 1.4)]),
            sample(part, "slow/1", "2 PUTs at once", &[("rate", 100.0), ("cpu", 1.0)]),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("loopback/1: 0.89 of a bare client's throughput"), "{found:?}");
        assert!(found[1].starts_with("slow/1: 1.40 times a bare client's processor"), "{found:?}");
    }

    #[test]
    fn writing_back_is_compared_with_the_disk() {
        let sample =
            |who, rate| sample(Part::WriteBack, "random 4 KiB", who, &[("rate", rate), ("cpu", 1.0)]);
        assert!(misses(vec![sample("headrace", 96.0), sample("native", 100.0)]).is_empty());
        let found = misses(vec![sample("headrace", 94.0), sample("native", 100.0)]);
        assert_eq!(found, ["random 4 KiB: 0.94 of the native file system, asked for is 0.95"]);
    }

    #[test]
    fn who_had_fewer_files_is_compared_as_if_there_had_been_as_many() {
        let part = Part::SmallFiles;
        let ours = |seconds, puts| {
            let values = [("files", 1_000.0), ("seconds", seconds), ("puts", puts), ("back", 2.0)];
            sample(part, "cp -a", "headrace", &values)
        };
        let others = [
            sample(part, "cp -a", "native", &[("files", 1_000.0), ("seconds", 2.0)]),
            // As long for a hundredth as 300 s for all.
            sample(part, "cp -a", "juicefs", &[("files", 10.0), ("seconds", 0.3), ("back", 0.11)]),
            sample(part, "cp -a", "juicefs-writeback", &[("files", 100.0), ("seconds", 0.31)]),
        ];
        let with = |one| misses([vec![one], others.to_vec()].concat());
        assert!(with(ours(3.0, 0.009)).is_empty());
        let found = with(ours(3.2, 0.01));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains("1.60 times the native"), "{found:?}");
        assert!(found[1].contains("9.38 times as fast as JuiceFS,"), "{found:?}");
        assert!(found[2].contains("0.97 times as fast as JuiceFS --writeback"), "{found:?}");
        assert!(found[3].contains("0.0100 PUTs"), "{found:?}");
    }

    #[test]
    fn cold_reads_under_load_are_compared_with_an_idle_get() {
        let part = Part::Bufferbloat;
        let both = |row: &str, idle: f64, loaded: f64| {
            [(bufferbloat::IDLE, idle), (bufferbloat::LOADED, loaded)]
                .map(|(column, value)| sample(part, row, column, &[("median", value), ("p95", 2.0 * value)]))
        };
        let [small, large] = bufferbloat::COLD;
        let [small_get, large_get] = bufferbloat::GETS;
        let all = [
            both(bufferbloat::CACHED, 1.0, 2.1),
            both(bufferbloat::STAT, 1.0, 2.0),
            both(small, 22.0, 41.0),
            both(small_get, 20.0, 90.0),
            both(large, 60.0, 100.0),
            both(large_get, 40.0, 90.0),
        ];
        let found = misses(all.concat());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("4 KiB of a cached file: 2.10"), "{found:?}");
        assert!(found[1].starts_with("4 KiB, cold: 2.05 times a bare GET of 32 KiB"), "{found:?}");
        assert!(found[2].starts_with("1 MiB, cold: 2.50 times"), "{found:?}");
    }
}
