//! Opening the environment.

use std::fs::File;
use std::sync::Arc;

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvOpenOptions, MdbError, WithoutTls};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::super::directory::{Directory, disk_error};
use super::super::pages::{self, DataFile};
use super::super::state::State;
use super::super::witness::Witness;
use super::commit::put_state;
use super::descriptors::close_on_exec;
use super::faults::open_error;
use super::layout::{DATA_TABLE, ENGINE_TABLE, LOG_TABLE, STATE_KEY};
use super::mapping::Mapping;
use super::resident::Resident;
use super::tables::{Table, Tables};
use super::{Lmdb, MAX_READERS};
use crate::KvError;

/// Least address space to fall back to where the process may not have what was asked for.
const MIN_MAP: u64 = 1 << 30;

/// What is looked at before LMDB, which trusts its file, gets to see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Check {
    /// All of it if the file has at most so many bytes, else the way to the engine's own record.
    UpTo(u64),
    /// Nothing: it was open a moment ago.
    Nothing,
}

impl Lmdb {
    /// Opens the environment in `directory`, creating it if need be.
    pub(in super::super) fn open(
        directory: &Directory,
        map_size: u64,
        check: Check,
    ) -> Result<Lmdb, KvError> {
        let verified = check_file(directory, check)?;
        directory.reserve_reader_table(64 * (u64::from(MAX_READERS) + 16))?;
        let env = map_environment(directory, map_size)?;
        let page = env.unnamed_database_stat().page_size as usize;
        let last = env.info().last_page_number as u64;
        directory.cover(last.saturating_add(1).saturating_mul(page as u64))?;
        let (data, engine, log, state) =
            open_tables(&env, directory.is_new()).map_err(|e| open_error(directory, &e))?;
        directory.sync().map_err(|e| open_error(directory, &heed::Error::Io(e)))?;

        let path = directory.data_file().display().to_string();
        let file =
            directory.open_data().map_err(|e| disk_error(directory.path(), "cannot open data.mdb", &e))?;
        close_on_exec(&file);
        if let Ok(lock) = directory.open_lock() {
            close_on_exec(&lock);
        }
        let reserved = env.info().map_size;
        let start = locate(&env, engine, &file, &path)?;
        let file = Arc::new(file);
        let mapping = Mapping::new(file.clone(), start, reserved);
        let tables = Tables { data, engine, log, mapping, resident: Resident::new(), path, page };
        let state = match state {
            Some(created) => created,
            None => {
                let txn = env.read_txn().map_err(|e| open_error(directory, &e))?;
                let missing = || tables.damaged("the record about the whole is missing");
                tables.state(&txn)?.ok_or_else(missing)?
            }
        };
        let witness = Witness::open(&directory.witness_file(), directory.is_new())
            .map_err(|e| disk_error(directory.path(), "cannot open witness", &e))?;
        if let Some(seen) = witness.read().filter(|&seen| seen > state.lmdb_txn) {
            return Err(tables.damaged(&format!(
                "commit {seen} was on disk, now {} is the newest: the disk lost what it had written, or the header of \
                 the newest is damaged",
                state.lmdb_txn
            )));
        }
        Ok(Lmdb {
            idle: Mutex::new(Vec::new()),
            readers: Mutex::new(Vec::new()),
            tables: Arc::new(tables),
            state: Mutex::new(state),
            env,
            file,
            witness,
            verified,
        })
    }
}

/// Whether all of it was looked at.
fn check_file(directory: &Directory, check: Check) -> Result<bool, KvError> {
    let Check::UpTo(limit) = check else { return Ok(false) };
    let failed = |e| disk_error(directory.path(), "cannot read data.mdb", &e);
    let file = match directory.open_data() {
        Ok(file) => file,
        Err(e) if directory.is_new() && e.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let path = directory.data_file().display().to_string();
            return Err(KvError::Corrupt(format!("{path} is missing")));
        }
        Err(e) => return Err(failed(e)),
    };
    let path = directory.data_file().display().to_string();
    let len = file.metadata().map_err(failed)?.len();
    if directory.is_new() && len == 0 {
        return Ok(true);
    }
    let file = DataFile::new(&file, &path);
    if len <= limit {
        pages::verify(&file, None, &mut |_, _| {})?;
        Ok(true)
    } else {
        pages::find_state(&file)?;
        Ok(false)
    }
}

/// The tables, and the state if it was written just now.
fn open_tables(
    env: &Env<WithoutTls>,
    new: bool,
) -> Result<(Table, Table, Table, Option<State>), heed::Error> {
    let txn = env.write_txn()?;
    let mut created = None;
    let done = env.create_databases_and_commit(txn, |opener, txn| {
        let data = opener.create_database::<Bytes, Bytes>(txn, Some(DATA_TABLE))?;
        let engine = opener.create_database::<Bytes, Bytes>(txn, Some(ENGINE_TABLE))?;
        let log = opener.create_database::<Bytes, Bytes>(txn, Some(LOG_TABLE))?;
        let state = State { lmdb_txn: txn.id() as u64, ..State::default() };
        if new && engine.is_empty(txn)? {
            put_state(txn, &engine, &state)?;
            created = Some(state);
        }
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit((data, engine, log)))
    })?;
    let (data, engine, log) = done.commit().ok_or(heed::Error::Mdb(MdbError::Problem))?;
    Ok((data, engine, log, created))
}

/// The address of the file's first byte: that of a record, less where in the file it is.
fn locate(env: &Env<WithoutTls>, engine: Table, file: &File, path: &str) -> Result<usize, KvError> {
    let (offset, len) = pages::find_state(&DataFile::new(file, path))?;
    let failed = |e: heed::Error| KvError::Io { path: path.into(), detail: format!("cannot open: {e}") };
    let txn = env.read_txn().map_err(failed)?;
    let stored = engine.get(&txn, STATE_KEY).map_err(failed)?;
    let start = stored.filter(|stored| stored.len() == len);
    let start =
        start.and_then(|stored| (stored.as_ptr() as usize).checked_sub(usize::try_from(offset).ok()?));
    start.ok_or_else(|| {
        KvError::Corrupt(format!("{path}: the record about the whole is not where it should be"))
    })
}

/// Maps the environment, with less address space where the process may not have that much.
fn map_environment(directory: &Directory, map_size: u64) -> Result<Env<WithoutTls>, KvError> {
    let page = rustix::param::page_size() as u64;
    let mut bytes = map_size.max(64 * page).next_multiple_of(page);
    loop {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX - (usize::MAX % page as usize));
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(size).max_readers(MAX_READERS).max_dbs(3);
        // SAFETY: the file must not change under the mapping other than through LMDB. The directory is private to this
        // user (0700, no symbolic link) and locked by the `Directory` for as long as the environment is open; no flag
        // that weakens LMDB's guarantees is set.
        #[allow(unsafe_code)]
        let opened = unsafe { options.open(directory.path()) };
        match opened {
            Err(heed::Error::Io(e))
                // Valgrind's kernel calls a size that it has no room for invalid.
                if matches!(Errno::from_io_error(&e), Some(Errno::NOMEM | Errno::INVAL)) && bytes / 2 >= MIN_MAP =>
            {
                bytes = (bytes / 2).next_multiple_of(page);
            }
            other => return other.map_err(|e| open_error(directory, &e)),
        }
    }
}
