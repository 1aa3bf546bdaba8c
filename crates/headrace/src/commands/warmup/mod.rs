//! `headrace warmup`
//!
//! The command walks the files itself, through the mount, so that it finds what its user may read and nothing else; the daemon
//! gets numbers of inodes, a batch at a time.

mod batches;
mod names;
mod tally;
mod walk;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::batches::Batches;
use self::names::Names;
use self::tally::Tally;
use self::walk::{Found, Walk};
use super::Call;
use super::stop::Stop;
use crate::cli::cache::FillRate;
use crate::cli::command::WarmupCommand;
use crate::daemon::find;
use crate::daemon::registry::Record;
use crate::daemon::warming::Work;
use crate::failure::{Context, Exit, Failure};
use crate::output;
use crate::output::progress::{Progress, Unit};

/// Files the walk may be ahead.
const AHEAD: usize = 1 << 14;
/// How often it is looked whether somebody wants an end.
const PATIENCE: Duration = Duration::from_millis(200);

/// What the walk comes across; the number says which of the paths that were named it belongs to.
enum Event {
    /// A mount that was not met before; they are numbered in this order.
    Mount(Box<Record>),
    /// What was found.
    Found(usize, Found),
}

/// What the walk has found so far.
#[derive(Debug, Default)]
struct Seen {
    files: AtomicU64,
    bytes: AtomicU64,
}

/// Runs the command.
pub fn run(call: &Call, command: &WarmupCommand) -> Result<(), Failure> {
    let settings = call.begin(None)?;
    let work = match (command.check, command.evict, command.pin) {
        (true, _, _) => Work::Check,
        (_, true, _) => Work::Evict,
        (_, _, true) => Work::Pin,
        _ => Work::Fill,
    };
    let list = command.files_from.as_deref().map(open_list).transpose()?;
    let stop = Stop::listen()?;
    let began = Instant::now();
    let named = command.paths.iter().chain(&command.files_from).cloned();
    let bar = Progress::new("looking for files");
    let above = bar.clone();
    let mut tally = Tally::new(work, named, Box::new(move |text| above.suspend(|| output::say(text))));
    let (sender, events) = mpsc::sync_channel(AHEAD);
    let seen = Arc::new(Seen::default());
    let walking = Walking {
        paths: command.paths.clone(),
        list: list.map(|list| Names::new(list, command.null)),
        list_name: command.files_from.clone().unwrap_or_default(),
        runtime_dir: settings.process.runtime_dir,
        devices: Vec::new(),
        seen: Arc::clone(&seen),
        sender,
    };
    let walker = walking.start()?;
    let bar = Bar { bar, work, seen };
    let mut batches = Batches::new(work, command.rate.map(|FillRate(rate)| rate));
    let complete = deal(&events, &mut batches, &mut tally, &bar, &stop)?;
    // Of a walk that is cut short the thread may hang in a system call; it ends with the process.
    if complete && walker.join().is_err() {
        return Err(Failure::new("the walk through the files failed"));
    }
    bar.bar.clear();
    tally.end(began.elapsed().as_secs_f64(), !complete);
    if command.json {
        output::print_json(&tally)?
    } else {
        output::print(&tally.render())?
    }
    // Each failure was said already.
    if tally.is_good() { Ok(()) } else { Err(Failure::new("").exit(Exit::Failure)) }
}

/// Hands what is found to the daemons. False: somebody wanted an end before that.
fn deal(
    events: &Receiver<Event>,
    batches: &mut Batches,
    tally: &mut Tally,
    bar: &Bar,
    stop: &Stop,
) -> Result<bool, Failure> {
    let mut on = |tally: &Tally, under_way: u64| bar.show(tally, under_way);
    loop {
        let flow = match events.recv_timeout(PATIENCE) {
            _ if stop.asked() => return Ok(false),
            Ok(Event::Mount(record)) => {
                batches.mount(*record);
                ControlFlow::Continue(())
            }
            Ok(Event::Found(named, Found::Failed { path, why })) => {
                tally.fail(named, &path, &why);
                ControlFlow::Continue(())
            }
            Ok(Event::Found(named, Found::File(file))) => {
                batches.add(named, file, tally, &mut on, &|| stop.asked())?
            }
            // A slow walk must not keep what it has found from being done.
            Err(RecvTimeoutError::Timeout) => batches.send_all(tally, &mut on, &|| stop.asked())?,
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(batches.send_all(tally, &mut on, &|| stop.asked())?.is_continue());
            }
        };
        if flow.is_break() {
            return Ok(false);
        }
    }
}

/// How far it is, on a terminal.
struct Bar {
    bar: Progress,
    work: Work,
    seen: Arc<Seen>,
}

impl Bar {
    /// `under_way`: bytes of files that are not done yet.
    fn show(&self, tally: &Tally, under_way: u64) {
        let verb = match self.work {
            Work::Fill | Work::Pin => "filling",
            Work::Check => "checking",
            Work::Evict => "dropping",
        };
        let (done, found) = (tally.total(), self.seen.files.load(Ordering::Relaxed));
        // Failures are of directories, too.
        let dealt_with = done.files.saturating_add(done.failed).min(found);
        self.bar.rename(&format!("{verb}, {dealt_with} of {found} files"));
        let bytes = self.seen.bytes.load(Ordering::Relaxed);
        let at = done.bytes.saturating_add(under_way).min(bytes);
        match self.work {
            Work::Fill | Work::Pin => self.bar.set_phase("", Unit::Bytes, at, bytes),
            // No bytes go anywhere.
            Work::Check | Work::Evict => self.bar.set_phase("", Unit::Items, done.files, found),
        }
    }
}

/// The list of `--files-from`.
fn open_list(path: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let what = || format!("cannot read the list of files {}", output::path(path));
    let file = File::open(path).context(what).map_err(|failure| failure.exit(Exit::NotFound))?;
    Ok(Box::new(BufReader::new(file)))
}

/// The walk through all that was named, on a thread of its own.
struct Walking {
    paths: Vec<PathBuf>,
    list: Option<Names<Box<dyn BufRead + Send>>>,
    list_name: PathBuf,
    runtime_dir: Option<PathBuf>,
    /// Devices of mounts that were met.
    devices: Vec<u64>,
    seen: Arc<Seen>,
    sender: SyncSender<Event>,
}

impl Walking {
    fn start(mut self) -> Result<JoinHandle<()>, Failure> {
        std::thread::Builder::new()
            .name("walk".to_owned())
            .spawn(move || {
                // When nobody listens any more, it is over.
                let _ = self.run();
            })
            .context(|| "cannot start threads".to_owned())
    }

    fn run(&mut self) -> ControlFlow<()> {
        let mut walk = Walk::default();
        let paths = std::mem::take(&mut self.paths);
        for (named, path) in paths.iter().enumerate() {
            self.walk(&mut walk, named, path)?;
        }
        let (named, list) = (paths.len(), self.list.take());
        for path in list.into_iter().flatten() {
            match path {
                Ok(path) => self.walk(&mut walk, named, &path)?,
                Err(error) => {
                    let path = self.list_name.clone();
                    let over = error.kind() != io::ErrorKind::InvalidData;
                    self.tell(named, Found::Failed { path, why: error.to_string() })?;
                    if over {
                        break;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn walk(&mut self, walk: &mut Walk, named: usize, path: &Path) -> ControlFlow<()> {
        let Walking { runtime_dir, devices, seen, sender, .. } = self;
        let send = |event| match sender.send(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let mut mount_of = |path: &Path, dev: u64| {
            if let Some(number) = devices.iter().position(|known| *known == dev) {
                return Ok(number);
            }
            let (record, _) = find::by_path(path, runtime_dir.as_deref())?;
            // If nobody listens, the walk ends with the first file.
            let _ = send(Event::Mount(Box::new(record)));
            devices.push(dev);
            Ok(devices.len() - 1)
        };
        let mut tell = |found: Found| {
            if let Found::File(file) = &found {
                seen.files.fetch_add(1, Ordering::Relaxed);
                seen.bytes.fetch_add(file.bytes, Ordering::Relaxed);
            }
            send(Event::Found(named, found))
        };
        walk.walk(path, &mut mount_of, &mut tell)
    }

    fn tell(&self, named: usize, found: Found) -> ControlFlow<()> {
        match self.sender.send(Event::Found(named, found)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
