//! Reads, of what is cached and of what is not, while the queue of writes is full: against the same reads when nothing is written.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::rig::{Rig, compare, shared_link};
use super::{Part, Run};
use crate::account::drop_caches;
use crate::failure::{Context, Failure, Result};
use crate::figures::cost::UNMEASURED;
use crate::figures::run::Place;
use crate::server::Profile;
use crate::subjects::headrace_with;
use crate::worker::{self, Access, Fsync, Job, Objects, Order, Outcome, Section, SmallAction, Work};

/// Milliseconds: median, and what 95 of 100 did not exceed.
pub const MEDIAN: &str = "median";
pub const P95: &str = "p95";
/// Of these columns.
pub const IDLE: &str = "idle";
pub const LOADED: &str = "queue full";
/// What is probed.
pub const CACHED: &str = "4 KiB of a cached file";
pub const STAT: &str = "stat";
pub const COLD: [&str; 2] = ["4 KiB, cold", "1 MiB, cold"];
pub const GETS: [&str; 2] = ["bare GET of 32 KiB", "bare GET of 1 MiB"];
pub const DISK: &str = "4 KiB of a file on the disk itself";
/// The row of what was written meanwhile: million bytes per second.
pub const WRITTEN: &str = "written meanwhile, MB/s";
pub const RATE: &str = "rate";

const SIZES: [[u64; 2]; 2] = [[4 << 10, 1 << 20], [32 << 10, 1 << 20]];
/// Writers, and how many kinds of reads there are.
const WRITERS: u64 = 4;
const KINDS: u32 = 7;
/// What the link lets through in each direction, bytes per second.
const SHARED: u64 = 50_000_000;
/// Longest time until a worker has begun, and ended when it is told to.
const STARTING: Duration = Duration::from_millis(500);

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    for repetition in run.repetitions(Part::Bufferbloat) {
        if run.left().is_zero() {
            return run.leave_out(format!("{:?}: no time was left", Part::Bufferbloat));
        }
        let place = |row, contender| Place { part: Part::Bufferbloat, row, contender, repetition };
        match session(rig, 1 + u64::from(repetition)) {
            Ok(found) => {
                for (row, contender, values) in found {
                    run.add(place(row, contender), None, values, Vec::new());
                }
            }
            Err(failure) => {
                run.add(place(CACHED, LOADED), Some(failure.to_string()), BTreeMap::new(), Vec::new());
            }
        }
    }
}

type Found = Vec<(&'static str, &'static str, BTreeMap<String, f64>)>;

/// Both columns, in one mount.
fn session(rig: &Rig, seed: u64) -> Result<Found> {
    let subject = headrace_with(Vec::new());
    let subject = subject.as_ref();
    rig.fresh(subject)?;
    let (root, probes, longest) = (rig.root(subject)?, rig.sizes().probes, rig.sizes().probing);
    let len = rig.sizes().probed;
    let section = |name: String, id| Section { path: root.join(name), id, from: 0, len };
    let cached = section("cached".into(), 0x6000);
    let cold = |column: usize, kind: usize| {
        section(format!("cold-{column}-{kind}"), 0x6001 + 2 * column as u64 + kind as u64)
    };
    let disk = Section { path: rig.directory("probed")?.join("file"), ..cached.clone() };
    let mount = rig.mount(subject)?;
    let mut files = vec![cached.clone(), disk.clone()];
    files.extend([(0, 0), (0, 1), (1, 0), (1, 1)].map(|(column, kind)| cold(column, kind)));
    perform(Work::WriteEach { files, block: 1 << 20, sync: Fsync::End })?;
    for under in [IDLE, LOADED] {
        perform(small(SmallAction::Create, rig, under, probes)?)?;
    }
    rig.settle(mount, subject)?;
    let objects = rig.plain(len, 64 << 20);
    worker::put(&objects)?;

    let mount = rig.mount(subject)?;
    perform(compare(vec![cached.clone()]))?;
    // What is kept is written to the disk behind the reader.
    std::thread::sleep(Duration::from_secs(2));
    drop_caches()?;
    rig.server().set_conditions(shared_link(SHARED))?;
    let column = |number: usize, name: &'static str| -> Result<Found> {
        let seed = 2 * seed + number as u64;
        let order = Order::Random { seed, operations: probes };
        let read = |section: Section, block| Work::Read {
            threads: vec![vec![section]],
            order,
            block,
            access: Access::Pread,
        };
        let get = |objects: &Objects, block| Work::GetEach { objects: objects.clone(), block, order };
        let [ours, bare] = SIZES;
        let kinds = [
            (CACHED, read(cached.clone(), ours[0])),
            (STAT, small(SmallAction::Stat, rig, name, probes)?),
            (COLD[0], read(cold(number, 0), ours[0])),
            (GETS[0], get(&objects, bare[0])),
            (COLD[1], read(cold(number, 1), ours[1])),
            (GETS[1], get(&objects, bare[1])),
            (DISK, read(disk.clone(), ours[0])),
        ];
        let take = |(row, work)| {
            let outcome = worker::run(&Job { work, limit: longest }).context(|| format!("{row}, {name}"))?;
            Ok((row, name, values(&outcome)))
        };
        kinds.into_iter().map(take).collect()
    };
    let mut found = column(0, IDLE)?;

    // Until the queue is full, and as long as reading takes at most; starting a worker takes a moment too.
    let lead = longest / 2;
    let limit = lead + (longest + STARTING) * KINDS;
    // More than can be written in that time.
    let each = 1 << 40;
    let file = |n| Section { path: root.join(format!("load-{n}")), id: 0x7000 + n, from: 0, len: each };
    let load: Vec<Section> = (0..WRITERS).map(file).collect();
    let work = Work::WriteEach { files: load.clone(), block: 1 << 20, sync: Fsync::Never };
    let (writing, probed) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| worker::run(&Job { work, limit }));
        std::thread::sleep(lead);
        let (began, probed) = (Instant::now(), column(1, LOADED));
        let late = began.elapsed() > (longest + STARTING) * KINDS;
        let writing = writing.join().unwrap_or_else(|_| Err(Failure::new("the thread of a worker panicked")));
        (writing, probed.map(|probed| (probed, late)))
    });
    rig.server().set(Profile::Loopback)?;
    let (writing, (probed, late)) = (writing?, probed?);
    if late {
        return Err(Failure::new("reading took longer than writing"));
    }
    found.extend(probed);
    let rate = BTreeMap::from([(RATE.to_owned(), writing.bytes as f64 / 1e6 / writing.seconds)]);
    found.push((WRITTEN, LOADED, rate));
    rig.settle(mount, subject)?;
    check(rig, load, &writing)?;
    Ok(found)
}

/// What was written meanwhile is there.
fn check(rig: &Rig, files: Vec<Section>, writing: &Outcome) -> Result<()> {
    let subject = headrace_with(Vec::new());
    let mount = rig.mount(subject.as_ref())?;
    drop_caches()?;
    let len = |file: Section| -> Result<Section> {
        let found = std::fs::metadata(&file.path).context(|| format!("size of {}", file.path.display()))?;
        Ok(Section { len: found.len(), ..file })
    };
    let files: Vec<Section> = files.into_iter().map(len).collect::<Result<_>>()?;
    let there: u64 = files.iter().map(|file| file.len).sum();
    let read = perform(compare(files));
    mount.unmount()?;
    if read?.bytes == writing.bytes && there == writing.bytes {
        return Ok(());
    }
    Err(Failure::new(format!("{}: {there} bytes of {}", worker::WRONG_DATA, writing.bytes)))
}

fn small(action: SmallAction, rig: &Rig, under: &str, count: u64) -> Result<Work> {
    let root = rig.root(headrace_with(Vec::new()).as_ref())?;
    Ok(Work::Small { action, root, under: under.into(), count, each: count })
}

fn perform(work: Work) -> Result<Outcome> {
    worker::run(&Job { work, limit: UNMEASURED })
}

fn values(outcome: &Outcome) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::from([("probes".to_owned(), outcome.operations as f64)]);
    let of = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
    values.extend(of(outcome.p50).map(|median| (MEDIAN.to_owned(), median)));
    values.extend(of(outcome.p95).map(|p95| (P95.to_owned(), p95)));
    values
}
