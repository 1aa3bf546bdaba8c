//! A local store whose disk stands still: who waits for it keeps nobody else waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use headrace_store::{LocalStore, ObjectStore};
use headrace_testbed::SmallDisk;

#[test]
fn a_disk_that_stands_still_holds_up_only_who_waits_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let disk = SmallDisk::ext4(directory.path().join("disk"), &directory.path().join("image"), 64);
    let store = Arc::new(LocalStore::open(disk.path()).unwrap());
    // One thread: whoever blocks it blocks all.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        store.put("before", Bytes::from(vec![1; 3 << 20])).await.unwrap();
        assert_eq!(store.get_range("before", 0..10).await.unwrap(), vec![1; 10]);
        let frozen = disk.freeze();
        let written: Vec<_> = (0..4)
            .map(|number| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let body = Bytes::from(vec![number; 100_000]);
                    store.put(&format!("while/{number}"), body).await
                })
            })
            .collect();
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut read = Vec::new();
        let mut sink = |piece: Bytes| read.push(piece);
        store.get_range_to("before", 5..(3 << 20) - 5, &mut sink).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!(read.concat(), vec![1; (3 << 20) - 10]);
        assert!(read.len() > 1, "it comes in pieces");
        assert!(written.iter().all(|written| !written.is_finished()), "the disk takes nothing");
        drop(frozen);
        for (number, written) in written.into_iter().enumerate() {
            written.await.unwrap().unwrap();
            let body = store.get(&format!("while/{number}")).await.unwrap();
            assert!(body == vec![number as u8; 100_000]);
        }
        store.delete("while/0").await.unwrap();
    });
}
