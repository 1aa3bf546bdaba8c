//! The thread that does all work on the bucket.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use futures::future::BoxFuture;
use headrace_kv::KvError;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::{Shared, closing};
use crate::{MetalogError, ship};

/// How closing ended.
pub(super) type Outcome = Result<(), KvError>;

/// What the thread is told.
pub(super) enum Command {
    /// Ship everything, give the volume up, end.
    Close(mpsc::Sender<Outcome>),
    /// End.
    Abandon,
}

/// A handle on the thread.
pub(super) struct Worker {
    tell: oneshot::Sender<Command>,
    thread: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(
        shared: Arc<Shared>,
        keeping: Option<BoxFuture<'static, ()>>,
    ) -> Result<Worker, MetalogError> {
        let path = shared.bucket.store.url().to_owned();
        let failed = |error: std::io::Error| KvError::Io {
            path,
            detail: format!("cannot start the thread that ships the metadata log: {error}"),
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed.clone())?;
        let (tell, told) = oneshot::channel();
        let on_durable = Arc::downgrade(&shared);
        shared.engine.on_durable(Box::new(move |_| {
            if let Some(shared) = on_durable.upgrade() {
                shared.committed();
            }
        }));
        let thread = std::thread::Builder::new().name("metalog".into()).spawn(move || {
            if let Some(keeping) = keeping {
                runtime.spawn(keeping);
            }
            // Also when this thread panics: nobody may be left waiting for it.
            let _ended = Ended(Arc::clone(&shared));
            runtime.block_on(run(&shared, told));
            // A scan for a snapshot ends at its next part; nobody waits for it.
            runtime.shutdown_background();
        });
        Ok(Worker { tell, thread: thread.map_err(failed)? })
    }

    /// Ends the thread in an orderly way, and waits for it.
    pub(super) fn close(self) -> Outcome {
        let (tell, told) = mpsc::channel();
        let _ = self.tell.send(Command::Close(tell));
        let outcome = told.recv().unwrap_or(Err(KvError::Closed));
        let _ = self.thread.join();
        outcome
    }

    /// Ends the thread at once, and waits for it.
    pub(super) fn abandon(self) {
        let _ = self.tell.send(Command::Abandon);
        let _ = self.thread.join();
    }
}

struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.close_waiters();
    }
}

/// Everything the thread does, until it is told to end.
async fn run(shared: &Arc<Shared>, told: oneshot::Receiver<Command>) {
    let upkeep = tokio::sync::Mutex::default();
    let ending = async {
        match told.await {
            Ok(Command::Close(tell)) => {
                let outcome = closing::finish(shared, &upkeep).await;
                // The answer is the last thing: whoever closes goes on at once.
                let _ = tell.send(outcome);
            }
            Ok(Command::Abandon) | Err(_) => {}
        }
    };
    let working = async {
        ship::find_time(shared).await;
        tokio::join!(ship::run(shared), shared.upkeep(&upkeep));
    };
    tokio::select! {
        () = ending => {}
        () = shared.answer() => {}
        () = working => {}
    }
}
