//! Calls that wait. One that is woken by a thread of the runtime goes on there, at once: were it a task from the beginning, a second
//! thread would have to be woken merely to see that it waits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;
use tokio::runtime::Handle;

/// Polls `call`, which becomes a task of `runtime` when it is woken for the first time.
pub(super) fn park<F>(runtime: Handle, mut call: F)
where
    F: Future<Output = ()> + Send + Unpin + 'static,
{
    let parked = Arc::new(Parked { runtime, state: Mutex::new(State::Polled) });
    let waker = Waker::from(Arc::clone(&parked));
    if Pin::new(&mut call).poll(&mut Context::from_waker(&waker)).is_ready() {
        return;
    }
    let mut state = parked.state.lock();
    match *state {
        State::Polled => *state = State::Waiting(call),
        State::Woken | State::Waiting(_) => {
            *state = State::Woken;
            drop(state);
            parked.runtime.spawn(call);
        }
    }
}

struct Parked<F> {
    runtime: Handle,
    state: Mutex<State<F>>,
}

enum State<F> {
    /// It is being polled for the first time.
    Polled,
    /// It can go on, or is a task already.
    Woken,
    Waiting(F),
}

impl<F: Future<Output = ()> + Send + 'static> Wake for Parked<F> {
    fn wake(self: Arc<Self>) {
        let before = std::mem::replace(&mut *self.state.lock(), State::Woken);
        if let State::Waiting(call) = before {
            self.runtime.spawn(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Poll;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    }

    #[test]
    fn what_is_ready_is_done_where_it_began() {
        let runtime = runtime();
        let (done, seen) = mpsc::channel();
        park(
            runtime.handle().clone(),
            Box::pin(async move { done.send(std::thread::current().id()).unwrap() }),
        );
        assert_eq!(seen.try_recv(), Ok(std::thread::current().id()));
    }

    #[test]
    fn what_waits_goes_on_when_it_is_woken_even_while_it_is_polled() {
        let runtime = runtime();
        let (done, seen) = mpsc::channel();
        for turn in 0..1000 {
            let (tell, told) = tokio::sync::oneshot::channel();
            let done = done.clone();
            let teller = runtime.spawn(async move { tell.send(turn).unwrap() });
            park(
                runtime.handle().clone(),
                Box::pin(async move {
                    let told = told.await.unwrap();
                    tokio::task::yield_now().await;
                    done.send(told).unwrap();
                }),
            );
            assert_eq!(seen.recv_timeout(LONG), Ok(turn));
            runtime.block_on(teller).unwrap();
        }
    }

    #[test]
    fn what_wakes_itself_goes_on() {
        let runtime = runtime();
        let (done, seen) = mpsc::channel();
        let _entered = runtime.enter();
        park(
            runtime.handle().clone(),
            Box::pin(async move {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                done.send(()).unwrap();
            }),
        );
        assert_eq!(seen.recv_timeout(LONG), Ok(()));
    }

    #[test]
    fn what_nobody_can_wake_any_more_is_dropped() {
        let runtime = runtime();
        let held = Arc::new(());
        let (call, waker) = (Arc::clone(&held), Arc::new(Mutex::new(None::<Waker>)));
        let kept = Arc::clone(&waker);
        park(
            runtime.handle().clone(),
            Box::pin(std::future::poll_fn(move |context| {
                let _ = &call;
                *kept.lock() = Some(context.waker().clone());
                Poll::<()>::Pending
            })),
        );
        assert_eq!(Arc::strong_count(&held), 2);
        // In its own statement: what is dropped holds the lock's owner.
        let last = waker.lock().take();
        drop(last);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
