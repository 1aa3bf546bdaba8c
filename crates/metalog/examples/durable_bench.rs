//! Durable transactions a second with `durable = bucket` on a local S3 server, by 1, 8 and 64 callers.
//!
//! `cargo run --release -p headrace-metalog --example durable_bench [SECONDS]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{Engine, EngineExt, KvError};
use headrace_layout::Codec;
use headrace_layout::superblock::Superblock;
use headrace_metalog::engine::{Durability, LogOptions, LoggedEngine};
use headrace_metalog::ship::publish_initial;
use headrace_metalog::{Bucket, HolderFacts, SiteRecord, Takeover, ownership};
use headrace_store::{Environment, Location, StoreOptions, open_with_environment};
use headrace_testbed::s3::{ACCESS_KEY, S3Server, SECRET_KEY};
use uuid::Uuid;

type Failure = Box<dyn std::error::Error>;

async fn start(server: &S3Server, dir: &std::path::Path) -> Result<Arc<LoggedEngine>, Failure> {
    let location: Location = format!("s3://{}/bench", server.bucket()).parse()?;
    let options = StoreOptions {
        endpoint: Some(server.endpoint()),
        region: Some("us-east-1".into()),
        access_key_id: Some(ACCESS_KEY.into()),
        secret_access_key: Some(SECRET_KEY.into()),
        ..StoreOptions::default()
    };
    let store = open_with_environment(&location, &options, &Environment::default())?;
    let volume = Uuid::new_v4();
    let codec = Codec::new(&Superblock::new(volume, "bench", 0), None)?;
    let bucket = Bucket::new(store, codec, volume, true);
    let engine =
        EmbeddedEngine::open(&dir.join("meta"), EmbeddedOptions { log: true, ..Default::default() })?;
    let mut site = SiteRecord::open(dir)?;
    publish_initial(&bucket, &engine, site.first_writer()?).await?;
    let (facts, lease) = (HolderFacts::of_this_process(None), Duration::from_secs(30));
    let claim = ownership::acquire(&bucket, &mut site, &facts, lease, Takeover::No, &mut |_| {}).await?;
    site.settle(&claim)?;
    let options = LogOptions { durability: Durability::Bucket, ..LogOptions::default() };
    Ok(LoggedEngine::start(bucket, Arc::new(engine), &claim, None, options)?)
}

async fn measure(engine: &Arc<LoggedEngine>, callers: u64, time: Duration) -> Result<(u64, u64), Failure> {
    let done = Arc::new(AtomicU64::new(0));
    let first_number = engine.status().log_number;
    let end = Instant::now() + time;
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (engine, done) = (Arc::clone(engine), Arc::clone(&done));
            tokio::spawn(async move {
                let mut n = 0u64;
                while Instant::now() < end {
                    let key = [caller.to_be_bytes(), (n % 1000).to_be_bytes()].concat();
                    let ((), seq) = engine.transact_with(|txn| {
                        txn.put(&key, &[0x5a; 200]);
                        Ok::<_, KvError>(())
                    })?;
                    engine.durable(seq).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                    n += 1;
                }
                Ok::<_, KvError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok((done.load(Ordering::Relaxed), engine.status().log_number - first_number))
}

fn main() -> Result<(), Failure> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let time = Duration::from_secs(seconds);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = S3Server::start();
    let dir = tempfile::tempdir()?;
    runtime.block_on(async {
        let engine = start(&server, dir.path()).await?;
        for callers in [1, 8, 64] {
            let (done, objects) = measure(&engine, callers, time).await?;
            let rate = done as f64 / time.as_secs_f64();
            let per_object = done as f64 / objects.max(1) as f64;
            println!(
                "{callers:3} callers: {rate:8.0} durable transactions/s, {per_object:5.1} for each log object"
            );
        }
        tokio::task::spawn_blocking(move || engine.close()).await??;
        Ok(())
    })
}
