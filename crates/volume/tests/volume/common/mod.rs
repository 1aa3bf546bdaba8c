//! What the tests share: places for volumes on real stores, and a small reader and writer of files.

pub mod faulty;
pub mod gateway;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use headrace_layout::{CHUNK_SIZE, ExtentData, InodeNo, SegmentBuilder, SegmentId, SegmentSlice, Superblock};
use headrace_meta::{Caller, DataCommit, Kind, NewData, NewExtent, Time};
use headrace_store::{Location, ObjectStore, StoreOptions};
use headrace_volume::progress::silent;
use headrace_volume::{
    Finding, FormatOptions, FsckOptions, FsckReport, OpenOptions, Result, Volume, format, fsck,
};

use gateway::Gateway;

/// Somewhere to put a volume; gone when dropped.
pub struct Place {
    pub location: Location,
    pub store: StoreOptions,
    /// Base of the state directory, for stores that are not local.
    pub state: Option<PathBuf>,
    pub dir: tempfile::TempDir,
    /// The server runs as long as the place is there.
    _gateway: Option<Gateway>,
}

impl Place {
    /// A directory that does not exist yet.
    pub fn local() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let location = dir.path().join("volume").to_str().unwrap().parse().unwrap();
        Place { location, store: StoreOptions::default(), state: None, dir, _gateway: None }
    }

    /// An empty prefix in a bucket of a real S3 server.
    pub fn s3() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let gateway = Gateway::start(&dir.path().join("s3"));
        let store = gateway.options();
        let state = Some(dir.path().join("state"));
        Place {
            location: "s3://bucket/some/prefix".parse().unwrap(),
            store,
            state,
            dir,
            _gateway: Some(gateway),
        }
    }

    /// The directory on this machine that holds the objects of the location, whatever the store.
    pub fn objects(&self) -> PathBuf {
        match self.location.local_path() {
            Some(path) => path.to_owned(),
            None => self.dir.path().join("s3/bucket/some/prefix"),
        }
    }

    pub fn open_store(&self) -> Arc<dyn ObjectStore> {
        headrace_store::open(&self.location, &self.store).unwrap()
    }

    pub async fn format(&self, options: &FormatOptions) -> Result<Superblock> {
        format(&self.location, &self.store, self.state.as_deref(), options).await
    }

    pub fn open_options(&self) -> OpenOptions {
        OpenOptions { state_dir: self.state.clone(), store: self.store.clone(), ..OpenOptions::default() }
    }

    pub async fn open(&self) -> Result<Arc<Volume>> {
        Volume::open(&self.location, &self.open_options()).await
    }

    /// A new volume with small segments, open.
    pub async fn volume(&self) -> Arc<Volume> {
        self.format(&small()).await.unwrap();
        self.open().await.unwrap()
    }
}

/// Format options with small segments.
pub fn small() -> FormatOptions {
    FormatOptions { segment_size: 1 << 20, frame_size: 4 << 10, ..FormatOptions::default() }
}

/// Runs each test on a local store and on an S3 server.
macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        mod local { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::common::Place::local()).await }
        )* }
        mod s3 { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::common::Place::s3()).await }
        )* }
    };
}
pub(crate) use on_every_store;

pub const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };

/// A new empty file in the root directory.
pub fn create(volume: &Volume, name: &str) -> InodeNo {
    let attr = volume.meta.create(InodeNo::ROOT, name.as_bytes(), Kind::File, 0o644, 0, None, &CALLER);
    attr.unwrap().ino
}

/// Deletes a file for good.
pub fn remove(volume: &Volume, name: &str) {
    let gone = volume.meta.unlink(InodeNo::ROOT, name.as_bytes()).unwrap();
    if gone.nlink == 0 {
        volume.meta.reclaim(gone.ino).unwrap();
    }
}

/// Bytes that are different for each seed and do not repeat with any short period.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

/// Writes through the metadata.
pub fn write_inline(volume: &Volume, ino: InodeNo, offset: u64, data: &[u8]) {
    let sealed = volume.codec.seal_inline(data);
    let commit = DataCommit {
        pieces: vec![NewExtent { offset, len: data.len() as u32, data: NewData::Inline(sealed) }],
        new_size: Some(offset + data.len() as u64),
        mtime: Some(Time::now()),
        ..DataCommit::default()
    };
    volume.meta.commit_write(ino, &commit).unwrap();
}

/// A segment that was put and is not named by metadata yet.
pub struct Upload {
    pub id: SegmentId,
    stored: u64,
    parts: Vec<(InodeNo, NewExtent)>,
}

impl Upload {
    /// The file of the first part.
    pub fn ino(&self) -> InodeNo {
        self.parts[0].0
    }

    /// The slice of an upload with one part, and the stored length.
    pub fn only_part(&self) -> (SegmentSlice, u64) {
        let [(_, NewExtent { data: NewData::Segment(slice), .. })] = &self.parts[..] else {
            panic!("not one part")
        };
        (slice.clone(), self.stored)
    }
}

/// Puts one segment with all of `parts`.
pub async fn upload(volume: &Volume, id: SegmentId, parts: &[(InodeNo, u64, &[u8])]) -> Upload {
    let mut builder = SegmentBuilder::new(&volume.codec, volume.superblock.uuid, id);
    let mut extents = Vec::new();
    for (ino, offset, data) in parts {
        let slice = builder.push_run(*ino, *offset, &[data]).unwrap();
        let extent = NewExtent { offset: *offset, len: data.len() as u32, data: NewData::Segment(slice) };
        extents.push((*ino, extent));
    }
    let body = builder.finish();
    let stored = body.len() as u64;
    volume.store.put(&id.object_key(), body).await.unwrap();
    Upload { id, stored, parts: extents }
}

/// Lets metadata name an upload, file by file.
pub fn commit(volume: &Volume, upload: Upload) {
    for (ino, extent) in upload.parts {
        let commit = DataCommit {
            new_size: Some(extent.offset + u64::from(extent.len)),
            pieces: vec![extent],
            mtime: Some(Time::now()),
            new_segments: vec![(upload.id, upload.stored)],
            ..DataCommit::default()
        };
        volume.meta.commit_write(ino, &commit).unwrap();
    }
}

/// Writes through one new segment.
pub async fn write_segment(volume: &Volume, parts: &[(InodeNo, u64, &[u8])]) -> SegmentId {
    let id = SegmentId::new(SystemTime::now());
    commit(volume, upload(volume, id, parts).await);
    id
}

/// The whole contents of a file, read without any of the crate's own reading code.
pub async fn read(volume: &Volume, ino: InodeNo) -> Vec<u8> {
    let size = volume.meta.getattr(ino).unwrap().size;
    let mut contents = vec![0; size as usize];
    for chunk in 0..size.div_ceil(CHUNK_SIZE) {
        for extent in volume.meta.extents(ino, chunk as u32).unwrap().extents() {
            let plain: Vec<Bytes> = match &extent.data {
                ExtentData::Segment(slice) => {
                    let range = volume.codec.stored_range(slice, 0, extent.len);
                    let stored = volume.store.get_range(&slice.segment.object_key(), range).await.unwrap();
                    volume.codec.decode(slice, 0, extent.len, stored).unwrap()
                }
                ExtentData::Inline { id, skip } => {
                    let sealed = volume.meta.inline_value(ino, *id).unwrap().expect("an inline value");
                    let plain = volume.codec.open_inline(&sealed).unwrap();
                    vec![plain.slice(*skip as usize..(*skip + extent.len) as usize)]
                }
            };
            let start = (chunk * CHUNK_SIZE + u64::from(extent.start)) as usize;
            contents[start..start + extent.len as usize].copy_from_slice(&plain.concat());
        }
    }
    contents
}

/// Number of segment objects in the store.
pub async fn segment_objects(store: &dyn ObjectStore) -> usize {
    use futures::TryStreamExt;
    store.list("segments/").try_collect::<Vec<_>>().await.unwrap().len()
}

/// A full check with contents, and what it found.
pub async fn check(volume: &Volume) -> (FsckReport, Vec<Finding>) {
    let mut found = Vec::new();
    let mut sink = |finding: &Finding| found.push(finding.clone());
    let report = fsck(volume, FsckOptions { data: true }, &silent, &mut sink).await.unwrap();
    (report, found)
}

/// A full check that must find nothing.
pub async fn check_clean(volume: &Volume) -> FsckReport {
    let (report, found) = check(volume).await;
    assert!(report.is_clean(), "{found:#?}");
    report
}

/// The file of an object.
pub fn object_file(place: &Place, id: SegmentId) -> PathBuf {
    place.objects().join(id.object_key())
}

/// Copies a directory with all that is in it.
pub fn copy_tree(from: &Path, to: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
