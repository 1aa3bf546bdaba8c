//! Views and transactions that carry the caller's own result and error types.

use crate::{CommitSeq, Engine, KvError, Read, Stop, Txn};

/// Typed forms of [`Engine::view`] and [`Engine::transact`], for every engine.
pub trait EngineExt: Engine {
    /// Runs `f` over a consistent view and returns what it returns.
    fn view_with<T, E: From<KvError>>(&self, mut f: impl FnMut(&dyn Read) -> Result<T, E>) -> Result<T, E> {
        let mut outcome = None;
        let ran = self.view(&mut |read| keep(&mut outcome, f(read)));
        settle(ran, outcome).map(|(value, ())| value)
    }

    /// Runs `f` as a transaction. An `Err` from `f` aborts it: nothing is written and the error is returned as it is.
    /// `f` may be run again after a conflict, so it must not have side effects of its own.
    fn transact_with<T, E: From<KvError>>(
        &self,
        mut f: impl FnMut(&mut dyn Txn) -> Result<T, E>,
    ) -> Result<(T, CommitSeq), E> {
        let mut outcome = None;
        let ran = self.transact(&mut |txn| keep(&mut outcome, f(txn)));
        settle(ran, outcome)
    }
}

impl<X: Engine + ?Sized> EngineExt for X {}

/// Puts the newest run's result aside and tells the engine whether to go on.
fn keep<T, E>(outcome: &mut Option<Result<T, E>>, result: Result<T, E>) -> Result<(), Stop> {
    let verdict = if result.is_ok() { Ok(()) } else { Err(Stop::Abort) };
    *outcome = Some(result);
    verdict
}

fn settle<T, S, E: From<KvError>>(ran: Result<S, Stop>, outcome: Option<Result<T, E>>) -> Result<(T, S), E> {
    match (ran, outcome) {
        (Ok(seq), Some(Ok(value))) => Ok((value, seq)),
        (Err(Stop::Kv(e)), _) => Err(e.into()),
        (Err(Stop::Abort), Some(Err(e))) => Err(e),
        // An engine that reports an outcome the closure did not have. No engine here does.
        _ => Err(KvError::Corrupt("the engine's answer contradicts the transaction it ran".into()).into()),
    }
}
