//! What a client gets without a file system: ranged GETs by the same library that Headrace uses.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use headrace_store::{Location, ObjectStore, Secret, StoreOptions};
use headrace_testbed::s3;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::clock::{Clock, thread_cpu};
use super::job::{Objects, Order, Outcome};
use super::read::wrong;
use crate::content::Content;
use crate::failure::{Context, Failure, Result};

/// A client for a bucket on the server under test.
pub fn store(endpoint: &str, bucket: &str, by_library: bool) -> Result<Arc<dyn ObjectStore>> {
    let options = StoreOptions {
        direct: !by_library,
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".into()),
        access_key_id: Some(s3::ACCESS_KEY.into()),
        secret_access_key: Some(Secret::from(s3::SECRET_KEY)),
        ..StoreOptions::default()
    };
    let location: Location = format!("s3://{bucket}").parse().context(|| format!("the bucket {bucket}"))?;
    headrace_store::open(&location, &options).context(|| format!("the bucket {bucket}"))
}

/// Fills the bucket.
pub fn put(objects: &Objects) -> Result<()> {
    let (runtime, store) = client(objects)?;
    let content = Content::default();
    let mut at = 0;
    while at < objects.len {
        let mut body = vec![0; objects.each.max(1).min(objects.len - at) as usize];
        content.fill(objects.id, at, &mut body);
        let (key, len) = (objects.at(at).0, body.len() as u64);
        runtime.block_on(store.put(&key, Bytes::from(body))).context(|| format!("storing {key}"))?;
        at += len;
    }
    Ok(())
}

/// Gets all of it, in ranges of `request` bytes, as many at once as there are `connections`, into the file at `into`.
pub fn get(
    objects: &Objects,
    into: &Path,
    connections: usize,
    request: u64,
    limit: Duration,
) -> Result<Outcome> {
    let (runtime, store) = client(objects)?;
    let file = Arc::new(File::create(into).context(|| format!("creating {}", into.display()))?);
    let next = Arc::new(AtomicU64::new(0));
    let (shared, until) = (Arc::new(objects.clone()), Instant::now() + limit);
    let mut clock = Clock::new(limit);
    let done: Result<u64> = clock.timed(|| {
        runtime.block_on(async {
            let mut crew = JoinSet::new();
            for _ in 0..connections.max(1) {
                let (store, file) = (Arc::clone(&store), Arc::clone(&file));
                crew.spawn(part(store, Arc::clone(&shared), file, Arc::clone(&next), request.max(1), until));
            }
            let mut bytes = 0;
            while let Some(one) = crew.join_next().await {
                bytes += one.context(|| "a fetching task".into())??;
            }
            Ok(bytes)
        })
    });
    let bytes = done?;
    let ranges = next.load(Ordering::Relaxed);
    clock.count(ranges as usize);
    let outcome = Clock::outcome(vec![clock]);
    Ok(Outcome { bytes, stopped: bytes < objects.len, ..outcome })
}

/// Takes range after range until none is left. Gives the bytes.
async fn part(
    store: Arc<dyn ObjectStore>,
    objects: Arc<Objects>,
    file: Arc<File>,
    next: Arc<AtomicU64>,
    request: u64,
    until: Instant,
) -> Result<u64> {
    let mut bytes = 0;
    loop {
        let from = next.fetch_add(1, Ordering::Relaxed).saturating_mul(request);
        if from >= objects.len || Instant::now() >= until {
            return Ok(bytes);
        }
        let (key, start) = objects.at(from);
        let end = (start + request).min(objects.each).min(start + objects.len - from);
        let (mut at, mut failed) = (from, None);
        let mut write = |piece: Bytes| {
            if let Err(error) = file.write_all_at(&piece, at) {
                failed.get_or_insert(error);
            }
            at += piece.len() as u64;
        };
        store.get_range_to(&key, start..end, &mut write).await.context(|| format!("getting {key}"))?;
        if let Some(error) = failed {
            return Err(Failure::new(format!("writing what was got: {error}")));
        }
        bytes += end - start;
    }
}

/// Stores all of it, as many objects at once as there are `connections`. Making the content is part of the time, as it is for who writes
/// files, but is no processor time of the client.
pub fn put_at_once(objects: &Objects, connections: usize) -> Result<Outcome> {
    let (runtime, store) = client(objects)?;
    let (next, content) = (Arc::new(AtomicU64::new(0)), Arc::new(Content::default()));
    let shared = Arc::new(objects.clone());
    let started = Instant::now();
    let (bytes, aside) = runtime.block_on(async {
        let mut crew = JoinSet::new();
        for _ in 0..connections.max(1) {
            let (store, content) = (Arc::clone(&store), Arc::clone(&content));
            crew.spawn(store_some(store, Arc::clone(&shared), content, Arc::clone(&next)));
        }
        let mut all = (0, Duration::ZERO);
        while let Some(one) = crew.join_next().await {
            let (bytes, aside) = one.context(|| "a storing task".into())??;
            all = (all.0 + bytes, all.1 + aside);
        }
        Ok::<_, Failure>(all)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let operations = objects.len.div_ceil(objects.each.max(1));
    Ok(Outcome { seconds, operations, bytes, aside, ..Outcome::default() })
}

/// Stores object after object until none is left. Gives the bytes, and the time for making them.
async fn store_some(
    store: Arc<dyn ObjectStore>,
    objects: Arc<Objects>,
    content: Arc<Content>,
    next: Arc<AtomicU64>,
) -> Result<(u64, Duration)> {
    let (mut bytes, mut aside) = (0, Duration::ZERO);
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed).saturating_mul(objects.each.max(1));
        if at >= objects.len {
            return Ok((bytes, aside));
        }
        let before = thread_cpu();
        let mut body = vec![0; objects.each.max(1).min(objects.len - at) as usize];
        content.fill(objects.id, at, &mut body);
        aside += thread_cpu().saturating_sub(before);
        let (key, len) = (objects.at(at).0, body.len() as u64);
        store.put(&key, Bytes::from(body)).await.context(|| format!("storing {key}"))?;
        bytes += len;
    }
}

/// Gets ranges of `block` bytes one after the other, and checks them.
pub fn get_each(objects: &Objects, block: u64, order: Order, limit: Duration) -> Result<Outcome> {
    let (runtime, store) = client(objects)?;
    let content = Content::default();
    let mut clock = Clock::new(limit);
    for offset in order.offsets(objects.len, block) {
        if clock.over() {
            break;
        }
        let (key, start) = objects.at(offset);
        let end = (start + block).min(objects.each).min(start + objects.len - offset);
        let got = clock
            .operation(|| (runtime.block_on(store.get_range(&key, start..end)), end - start))
            .context(|| format!("getting {key}"))?;
        clock.aside(|| content.check(objects.id, offset, &got)).map_err(|at| wrong(&key, at))?;
    }
    Ok(Clock::outcome(vec![clock]))
}

fn client(objects: &Objects) -> Result<(Runtime, Arc<dyn ObjectStore>)> {
    let runtime = Runtime::new().context(|| "starting a runtime".into())?;
    let store = {
        let _inside = runtime.enter();
        store(&objects.endpoint, &objects.bucket, objects.by_library)?
    };
    Ok((runtime, store))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_objects_one_after_the_other() {
        let objects = Objects {
            endpoint: String::new(),
            bucket: "b".into(),
            prefix: "x/".into(),
            id: 1,
            len: 100,
            each: 40,
            by_library: false,
        };
        assert_eq!(objects.at(0), ("x/0000".into(), 0));
        assert_eq!(objects.at(39), ("x/0000".into(), 39));
        assert_eq!(objects.at(80), ("x/0002".into(), 0));
    }
}
