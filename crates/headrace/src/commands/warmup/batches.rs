//! Files on their way to the daemons of their mounts.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::Value;

use super::tally::Tally;
use super::walk::File;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::registry::Record;
use crate::daemon::warming::{Part, Work};
use crate::failure::Failure;
use crate::output::human;

/// Files in a batch: 21 bytes each at most, so that a request stays far below its limit.
const FILES: usize = 1024;
/// Bytes in a batch: enough that its end, when less than usual is under way, is seldom.
const BYTES: u64 = 16 << 30;

/// Told how far it is: what was done, and bytes of files that are under way.
pub type On<'a> = dyn FnMut(&Tally, u64) + 'a;

/// Files that wait, by mount.
#[derive(Debug)]
pub struct Batches {
    work: Work,
    rate: Option<u64>,
    mounts: Vec<Batch>,
}

#[derive(Debug)]
struct Batch {
    daemon: Record,
    files: Vec<Waiting>,
    bytes: u64,
}

#[derive(Debug)]
struct Waiting {
    named: usize,
    path: PathBuf,
    ino: u64,
}

impl Batches {
    /// None yet; `rate` is in bytes a second.
    pub fn new(work: Work, rate: Option<u64>) -> Batches {
        Batches { work, rate, mounts: Vec::new() }
    }

    /// The next mount; they are numbered from 0.
    pub fn mount(&mut self, daemon: Record) {
        self.mounts.push(Batch { daemon, files: Vec::new(), bytes: 0 });
    }

    /// Adds a file, and has the batch of its mount done if it is full. Break: `stop` wanted an end.
    pub fn add(
        &mut self,
        named: usize,
        file: File,
        tally: &mut Tally,
        on: &mut On<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<ControlFlow<()>, Failure> {
        let Some(batch) = self.mounts.get_mut(file.mount) else {
            return Err(Failure::new("a file was found on a mount that is not known"));
        };
        batch.bytes = batch.bytes.saturating_add(file.bytes);
        batch.files.push(Waiting { named, path: file.path, ino: file.ino });
        if batch.files.len() < FILES && batch.bytes < BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        batch.send(self.work, self.rate, tally, on, stop)
    }

    /// Has all done that waits.
    pub fn send_all(
        &mut self,
        tally: &mut Tally,
        on: &mut On<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<ControlFlow<()>, Failure> {
        for batch in &mut self.mounts {
            if batch.send(self.work, self.rate, tally, on, stop)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Batch {
    fn send(
        &mut self,
        work: Work,
        rate: Option<u64>,
        tally: &mut Tally,
        on: &mut On<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<ControlFlow<()>, Failure> {
        if self.files.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        self.bytes = 0;
        let files = std::mem::take(&mut self.files);
        let request = Request::Warm { work, files: files.iter().map(|file| file.ino).collect(), rate };
        // Bytes of this batch that are in the tally already.
        let mut counted = 0_u64;
        let mut part = |part: Part| {
            for outcome in part.files {
                let Some(file) = files.get(outcome.index) else {
                    return Err(Failure::new("the daemon speaks of a file that it was not asked about"));
                };
                counted = counted.saturating_add(outcome.bytes);
                let missing = outcome.bytes.saturating_sub(outcome.cached);
                match outcome.error {
                    Some(why) => tally.fail(file.named, &file.path, &why),
                    // Whoever asks to have it all is told what is not there; --check counts it.
                    None if missing > 0 && matches!(work, Work::Fill | Work::Pin) => {
                        let why = format!("{} of it could not be cached", human::bytes(missing));
                        tally.fail(file.named, &file.path, &why);
                    }
                    None => tally.add(file.named, outcome.bytes, outcome.cached),
                }
            }
            on(tally, part.bytes.saturating_sub(counted));
            Ok(ControlFlow::Continue(()))
        };
        let done = Client::connect(&self.daemon)?.stream::<Part, Value>(&request, &mut part, stop)?;
        Ok(if done.is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::daemon::control::served::{Served, serve};
    use crate::daemon::control::server::{Answer, Handler, Steps};
    use crate::daemon::warming::Outcome;

    /// A daemon that caches files with even numbers, none with odd ones, and never ends with number 99.
    #[derive(Default)]
    struct Daemon {
        asked: Mutex<Vec<(Work, usize, Option<u64>)>>,
        given_up: Mutex<bool>,
    }

    impl Handler for Daemon {
        fn handle(self: Arc<Self>, request: Request, steps: Steps) -> Answer {
            Box::pin(async move {
                let Request::Warm { work, files, rate } = request else { return Err(Failure::new("no")) };
                self.asked.lock().push((work, files.len(), rate));
                let outcome = |(index, ino): (usize, &u64)| match ino % 2 {
                    0 => Outcome { index, bytes: *ino, cached: *ino, error: None },
                    _ => Outcome { index, bytes: 0, cached: 0, error: Some(format!("{ino} is odd")) },
                };
                let outcomes: Vec<Outcome> = files.iter().enumerate().map(outcome).collect();
                for part in outcomes.chunks(100) {
                    steps.part(&Part { bytes: 0, files: part.to_vec() }).await?;
                }
                while files.contains(&99) {
                    if !steps.part(&Part::default()).await? {
                        *self.given_up.lock() = true;
                        break;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                Ok(Value::Null)
            })
        }
    }

    struct Running {
        daemon: Arc<Daemon>,
        served: Served,
    }

    fn start() -> Running {
        let daemon = Arc::new(Daemon::default());
        let served = serve(Arc::clone(&daemon));
        Running { daemon, served }
    }

    fn file(ino: u64) -> File {
        File { path: format!("/mnt/{ino}").into(), mount: 0, ino, bytes: ino }
    }

    fn tally(work: Work) -> Tally {
        Tally::new(work, std::iter::once("/mnt".into()), Box::new(|_| ()))
    }

    #[test]
    fn every_file_reaches_its_daemon_and_comes_back() {
        let running = start();
        let mut tally = tally(Work::Pin);
        let mut batches = Batches::new(Work::Pin, Some(1 << 20));
        batches.mount(running.served.record.clone());
        let mut on = |_: &Tally, _: u64| ();
        // Numbers as long as they can be: a full batch fits into a request.
        let first = u64::MAX - 2999;
        for ino in first..first + 2500 {
            let small = File { bytes: 1, ..file(ino) };
            assert!(batches.add(0, small, &mut tally, &mut on, &|| false).unwrap().is_continue());
        }
        assert!(batches.send_all(&mut tally, &mut on, &|| false).unwrap().is_continue());
        assert!(batches.send_all(&mut tally, &mut on, &|| false).unwrap().is_continue());
        let asked = |files| (Work::Pin, files, Some(1 << 20));
        assert_eq!(*running.daemon.asked.lock(), [asked(FILES), asked(FILES), asked(2500 - 2 * FILES)]);
        assert_eq!((tally.total().files, tally.total().failed), (1250, 1250));
        assert!(!tally.is_good());
    }

    #[test]
    fn large_files_do_not_wait_for_a_thousand_others() {
        let running = start();
        let mut tally = tally(Work::Fill);
        let mut batches = Batches::new(Work::Fill, None);
        batches.mount(running.served.record.clone());
        let large = File { bytes: BYTES, ..file(2) };
        let _ = batches.add(0, large, &mut tally, &mut |_, _| (), &|| false).unwrap();
        assert_eq!(tally.total().files, 1);
    }

    #[test]
    fn whoever_wants_an_end_gets_it_and_the_daemon_gives_up() {
        let running = start();
        let mut tally = tally(Work::Fill);
        let mut batches = Batches::new(Work::Fill, None);
        batches.mount(running.served.record.clone());
        let mut on = |_: &Tally, _: u64| ();
        let _ = batches.add(0, file(99), &mut tally, &mut on, &|| false).unwrap();
        assert!(batches.send_all(&mut tally, &mut on, &|| true).unwrap().is_break());
        let daemon = Arc::clone(&running.daemon);
        let given_up = async {
            while !*daemon.given_up.lock() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let waited = running
            .served
            .runtime
            .block_on(async { tokio::time::timeout(std::time::Duration::from_secs(30), given_up).await });
        assert!(waited.is_ok(), "the daemon goes on for nobody");
    }

    #[test]
    fn a_mount_that_is_gone_is_said() {
        let mut running = start();
        running.served.record.socket = "/no/such.sock".into();
        let mut tally = tally(Work::Fill);
        let mut batches = Batches::new(Work::Fill, None);
        batches.mount(running.served.record.clone());
        let _ = batches.add(0, file(2), &mut tally, &mut |_, _| (), &|| false).unwrap();
        assert!(batches.send_all(&mut tally, &mut |_, _| (), &|| false).is_err());
    }
}
