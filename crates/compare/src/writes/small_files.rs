//! Trees of small files, made by programs while the store is 20 ms away: beside the native file system and JuiceFS.

use std::collections::BTreeMap;
use std::path::Path;

use super::rig::{Rig, stored};
use super::tree::{Tree, sum};
use super::{Part, Run};
use crate::account::drop_caches;
use crate::failure::{Context, Result};
use crate::figures::cost::UNMEASURED;
use crate::figures::run::{Figure, Place};
use crate::server::Profile;
use crate::subjects::{
    self, Native, Subject, headrace_by_io_uring, headrace_with, headrace_writeback, juicefs_writeback,
};
use crate::worker::{self, Job, SmallAction, Work};

/// Seconds of the program.
pub const SECONDS: &str = "seconds";
/// Seconds from its start until all is in the store.
pub const STORED: &str = "stored";
/// How many files it made.
pub const FILES: &str = "files";
/// Requests that stored something for a file, until all was in the store.
pub const PUTS: &str = "puts";
/// Bytes of their bodies, for each byte of a file.
pub const PUT_BYTES: &str = "put_bytes";
/// Processor seconds of the daemon, and of the program.
pub const CPU: &str = "cpu";
pub const CLIENT: &str = "client";
/// Seconds for reading all of it in a later mount, cold.
pub const BACK: &str = "back";
/// Who is compared.
pub const OURS: &str = "headrace";
pub const NATIVE: &str = "native";
pub const JUICEFS: &str = "juicefs";
pub const WRITEBACK: &str = "juicefs-writeback";

/// Files of 4 KiB to a directory.
const EACH: u64 = 200;
const SMALL: u64 = 4096;
/// Where they are.
const UNDER: &str = "tree";

/// What makes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Create,
    Copy,
    Unpack,
    Clone,
}

impl Way {
    const ALL: [Way; 4] = [Way::Create, Way::Copy, Way::Unpack, Way::Clone];

    fn row(self) -> &'static str {
        match self {
            Way::Create => "create 4 KiB",
            Way::Copy => "cp -a",
            Way::Unpack => "tar x",
            Way::Clone => "git clone",
        }
    }

    /// Reading back over the network takes long, and is the same whoever wrote.
    fn read_over_network(self) -> bool {
        matches!(self, Way::Create | Way::Copy)
    }
}

struct Contender {
    subject: Box<dyn Subject>,
    /// So many times fewer files.
    fewer: u64,
}

fn contenders(rig: &Rig) -> Vec<Contender> {
    let [defaults, writeback] = rig.sizes().fewer;
    let mut all = vec![
        Contender { subject: Box::new(Native), fewer: 1 },
        Contender { subject: headrace_with(Vec::new()), fewer: 1 },
        Contender { subject: headrace_writeback(), fewer: 1 },
    ];
    all.extend(headrace_by_io_uring().map(|subject| Contender { subject, fewer: 1 }));
    let juicefs = subjects::all().into_iter().find(|subject| subject.name() == JUICEFS);
    all.extend(juicefs.map(|subject| Contender { subject, fewer: defaults }));
    all.push(Contender { subject: juicefs_writeback(), fewer: writeback });
    all
}

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    let ways: Vec<Way> = Way::ALL.into_iter().filter(|way| run.wants(way.row())).collect();
    let mut all = contenders(rig);
    all.retain(|one| {
        let (wanted, missing) =
            (run.wants_contender(one.subject.name()), subjects::missing(one.subject.as_ref()));
        if let Some(why) = missing.as_ref().filter(|_| wanted) {
            run.leave_out(format!("{:?} {}: {why}", Part::SmallFiles, one.subject.name()));
        }
        wanted && missing.is_none()
    });
    let mut trees: BTreeMap<u64, Tree> = BTreeMap::new();
    for fewer in all.iter().map(|one| one.fewer) {
        if ways.iter().any(|way| *way != Way::Create) && !trees.contains_key(&fewer) {
            let dir = rig.directory(&format!("tree-{fewer}"));
            match dir.and_then(|dir| Tree::make(&dir, rig.sizes().tree / fewer)) {
                Ok(tree) => drop(trees.insert(fewer, tree)),
                Err(failure) => return run.leave_out(format!("{:?}: {failure}", Part::SmallFiles)),
            }
        }
    }
    for repetition in run.repetitions(Part::SmallFiles) {
        for (n, way) in ways.iter().enumerate() {
            let mut ones: Vec<_> = all.iter().collect();
            run.in_turns(&mut ones, repetition as usize + n);
            for one in ones {
                let (subject, tree) = (one.subject.as_ref(), trees.get(&one.fewer));
                let contender = subject.name();
                let place = Place { part: Part::SmallFiles, row: way.row(), contender, repetition };
                let small = rig.sizes().small / one.fewer;
                run.take(place, || make(rig, subject, *way, tree, small));
            }
        }
    }
}

fn make(rig: &Rig, subject: &dyn Subject, way: Way, tree: Option<&Tree>, small: u64) -> Result<Figure> {
    rig.fresh(subject)?;
    let name = rig.fresh_name();
    let mount = rig.mount(subject)?;
    drop_caches()?;
    let (files, bytes) = match (way, tree) {
        (Way::Create, _) | (_, None) => (small, small * SMALL),
        (_, Some(tree)) => (tree.files, tree.bytes),
    };
    // What is read meanwhile is not what is measured.
    if let Some(tree) = tree.filter(|_| way != Way::Create) {
        let script = "find . -type f -print0 | xargs -0 cat > /dev/null".to_owned();
        let work = Work::Program { script, dir: tree.dir.clone(), prints: None };
        worker::perform(&Job { work, limit: UNMEASURED })?;
    }
    let work = making(way, tree, mount.path(), &name, small);
    let network = Profile::Slow.conditions();
    let (outcome, cost) = rig.measured(&mount, network.clone(), &Job { work, limit: rig.sizes().making })?;
    let settled = rig.settle(mount, subject)?;
    let over = if way.read_over_network() && subject.name() != WRITEBACK {
        network
    } else {
        Profile::Loopback.conditions()
    };
    let root = rig.root(subject)?;
    let (back, cold) = rig.back(subject, over.clone(), reading(way, tree, &root, &name, small))?;
    if subject.name() == NATIVE {
        let made = root.join(&name);
        std::fs::remove_dir_all(&made).context(|| format!("removing {}", made.display()))?;
    }
    let (puts, put_bytes) = stored(&[&cost.passed, &settled.passed]);
    let mut values = BTreeMap::from([
        (SECONDS, outcome.seconds),
        (STORED, outcome.seconds + settled.seconds),
        (FILES, files as f64),
        (PUTS, puts as f64 / files.max(1) as f64),
        (PUT_BYTES, put_bytes as f64 / bytes.max(1) as f64),
        (CPU, cost.cpu.as_secs_f64()),
        (CLIENT, outcome.cpu.as_secs_f64()),
        ("unmount_cpu", settled.cpu.as_secs_f64()),
        ("memory", cost.memory as f64),
        ("requests", (cost.passed.requests + settled.passed.requests) as f64),
    ]);
    if way.read_over_network() && subject.name() != WRITEBACK {
        values.extend([
            (BACK, back.seconds),
            ("back_cpu", cold.cpu.as_secs_f64()),
            ("back_requests", cold.passed.requests as f64),
            ("back_bytes", cold.passed.bytes_sent as f64 / bytes.max(1) as f64),
        ]);
    }
    Ok((values, Vec::new()))
}

fn making(way: Way, tree: Option<&Tree>, root: &Path, name: &str, small: u64) -> Work {
    let Some(tree) = tree.filter(|_| way != Way::Create) else {
        return Work::Small {
            action: SmallAction::Create,
            root: root.join(name),
            under: UNDER.into(),
            count: small,
            each: EACH,
        };
    };
    let from = &tree.dir;
    let program = match way {
        Way::Create => String::new(),
        Way::Copy => format!("cp -a {:?} tree", from.join("tree")),
        Way::Unpack => format!("tar -x -f {:?}", from.join("tree.tar")),
        Way::Clone => format!(
            "GIT_CONFIG_GLOBAL=/dev/null git clone --quiet file://{} tree",
            from.join("repository").display()
        ),
    };
    let script = format!("umask 022\nmkdir {name}\ncd {name}\n{program}");
    Work::Program { script, dir: root.to_owned(), prints: None }
}

fn reading(way: Way, tree: Option<&Tree>, root: &Path, name: &str, small: u64) -> Work {
    match tree.filter(|_| way != Way::Create) {
        None => Work::Small {
            action: SmallAction::Read,
            root: root.join(name),
            under: UNDER.into(),
            count: small,
            each: EACH,
        },
        Some(tree) => Work::Program {
            script: sum(&format!("{name}/{UNDER}")),
            dir: root.to_owned(),
            prints: Some(tree.sum.clone()),
        },
    }
}
