//! Commands that go on until they are interrupted, and then still have something to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Context, Failure};

/// Whether somebody wants this process to end; from when it is made, such signals do not end it by themselves.
#[derive(Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    _runtime: Runtime,
}

impl Stop {
    /// Listens for signals that ask for the end.
    pub fn listen() -> Result<Stop, Failure> {
        let what = || "cannot listen for signals".to_owned();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().context(what)?;
        let asked = Arc::new(AtomicBool::new(false));
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let _entered = runtime.enter();
            let mut signals = signal(kind).context(what)?;
            let asked = Arc::clone(&asked);
            runtime.spawn(async move {
                while signals.recv().await.is_some() {
                    if asked.swap(true, Ordering::Relaxed) {
                        // The first was not enough.
                        std::process::exit(130);
                    }
                }
            });
        }
        Ok(Stop { asked, _runtime: runtime })
    }

    /// Whether one came.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
