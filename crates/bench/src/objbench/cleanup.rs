//! Removes what a run wrote, however it ended.

use futures::StreamExt;
use headrace_store::{ObjectStore, StoreError};

use super::outcome::Cleanup;
use super::stop::Stop;

/// Deletions at a time.
const AT_A_TIME: usize = 64;
/// Lists made until nothing is found any more: a request that was cut off can arrive late.
const PASSES: usize = 5;

/// Removes all objects whose keys begin with `prefix`, unless somebody insists on ending.
pub(super) async fn clean_up(
    store: &dyn ObjectStore,
    prefix: &str,
    stop: &Stop,
    removed: impl Fn(u64),
) -> Cleanup {
    let mut cleanup = Cleanup { prefix: prefix.to_owned(), ..Cleanup::default() };
    for _ in 0..PASSES {
        let keys = match keys(store, prefix).await {
            Ok(keys) => keys,
            Err(error) => {
                cleanup.error = Some(error.to_string());
                return cleanup;
            }
        };
        cleanup.left = keys.len() as u64;
        if keys.is_empty() {
            cleanup.error = None;
            return cleanup;
        }
        let deletions = futures::stream::iter(keys).map(async |key| store.delete(&key).await);
        let mut deletions = std::pin::pin!(deletions.buffer_unordered(AT_A_TIME));
        loop {
            let next = tokio::select! {
                biased;
                () = stop.reached(2) => {
                    cleanup.error = Some("it was told to stop twice".to_owned());
                    return cleanup;
                }
                next = deletions.next() => next,
            };
            match next {
                None => break,
                Some(Ok(())) => {
                    cleanup.deleted += 1;
                    cleanup.left = cleanup.left.saturating_sub(1);
                    removed(cleanup.deleted);
                }
                Some(Err(error)) => cleanup.error = Some(error.to_string()),
            }
        }
    }
    // Deleted again and again: only a look tells.
    if let Ok(keys) = keys(store, prefix).await {
        cleanup.left = keys.len() as u64;
    }
    cleanup
}

async fn keys(store: &dyn ObjectStore, prefix: &str) -> Result<Vec<String>, StoreError> {
    let mut keys = Vec::new();
    let mut objects = store.list(prefix);
    while let Some(object) = objects.next().await {
        keys.push(object?.key);
        // The rest comes with the next pass.
        if keys.len() >= super::options::MAX_OBJECTS {
            break;
        }
    }
    Ok(keys)
}
