//! Changes wait at the door while the file system has as many on their way as it can remember.
//!
//! Calls that answer a [`crate::Pending`] wait within it. The others here: they are answered at once as a rule, so what
//! they are about lies in the worker's buffer, and is copied only when there is something to wait for.

use std::sync::Arc;

use super::answer::{Answer, Later, Outcome};
use super::{Call, route};
use crate::abi::Opcode;
use crate::session::RequestBuffer;

/// Requests that change metadata and are answered at once.
fn changes_at_once(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Symlink
            | Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Link
            | Opcode::Create
            | Opcode::Tmpfile
            | Opcode::Setxattr
            | Opcode::Removexattr
    )
}

/// Routes a request, when there is room for the change it makes.
pub(super) fn admitted(opcode: Opcode, call: &mut Call<'_>) -> Outcome {
    let wait = if changes_at_once(opcode) { call.fs().admit() } else { None };
    let Some(wait) = wait else { return route(opcode, call) };
    let (header, body, shared) = (call.header, call.body.clone(), Arc::clone(call.shared));
    let mut buffer = RequestBuffer::copy_of(call.buffer.request(call.body.end));
    let future = Box::pin(async move {
        wait.await?;
        let outcome = route(opcode, &mut Call { header, body, buffer: &mut buffer, shared: &shared });
        match outcome {
            Ok(Answer::Later(later)) => later.future.await,
            outcome => outcome,
        }
    });
    // Whoever gives up here has changed nothing: from the end of the wait on, the change is one step.
    Ok(Answer::Later(Later { future, interruptible: true }))
}
