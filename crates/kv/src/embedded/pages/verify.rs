//! The whole file, and the short way to the engine's own record.

use super::file::DataFile;
use super::free;
use super::meta::{Meta, TableInfo};
use super::seen::Seen;
use super::tree::{Order, Value, Walk};
use crate::KvError;
use crate::embedded::backlog::GroupFigures;
use crate::embedded::lmdb::layout::{
    DATA_TABLE, ENGINE_TABLE, LOG_HEAD_BYTES, LOG_TABLE, STATE_KEY, log_numbers,
};
use crate::embedded::record::{self, CHECKSUM_BYTES, Summing};
use crate::embedded::state::{Digest, State};

/// How a verification ended that found no damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Outcome {
    Sound,
    /// The transaction to look at has lost its header to a newer one. Take a newer one.
    Superseded,
}

/// Verifies everything reachable from the header of LMDB's transaction `pinned`, which a reader keeps from being
/// overwritten; without one from the newest header, of a file that nobody writes.
pub(in super::super) fn verify(
    file: &DataFile<'_>,
    pinned: Option<u64>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, KvError> {
    let meta = match pinned {
        None => Meta::newest(file)?,
        Some(txn) => match Meta::of(file, txn)? {
            Some(meta) => meta,
            None => return Ok(Outcome::Superseded),
        },
    };
    let mut walk = start(file, &meta, progress);
    walk.table("free", &meta.free, Order::Integer, &mut |seen, key, value| {
        free::check(file, seen, key, value, meta.txn)
    })?;
    let tables = tables(&mut walk, &meta)?;
    let (state, _) = state(&mut walk, &meta, &tables.engine)?;

    let mut digest = Digest::default();
    walk.table(DATA_TABLE, &tables.data, Order::Bytes, &mut |_, key, value| {
        digest.add(check_record(file, key, value, &mut |_| ())?);
        Ok(())
    })?;
    if digest != state.digest {
        let (found, stated) = (digest.records, state.digest.records);
        return Err(file.damaged(&format!(
            "its records are not those that were written: {found} of them were found, {stated} should be there"
        )));
    }

    let mut last: Option<GroupFigures> = None;
    walk.table(LOG_TABLE, &tables.log, Order::Bytes, &mut |_, key, value| {
        let group = check_group(file, key, value)?;
        if group.after >= group.upto || last.is_some_and(|last| last.upto != group.after) {
            return Err(file.damaged(&format!("the log has a gap before position {}", group.upto.0)));
        }
        last = Some(group);
        Ok(())
    })?;
    if let Some(last) = last
        && last.upto != state.position
    {
        let (log, position) = (last.upto.0, state.position.0);
        return Err(file.damaged(&format!("the log ends at {log}, the contents at {position}")));
    }
    (walk.progress)(walk.total_pages, walk.total_pages);
    Ok(Outcome::Sound)
}

/// Where in a file that nobody writes the engine's own record is, and its stored length. Looks at the pages that lead there.
pub(in super::super) fn find_state(file: &DataFile<'_>) -> Result<(u64, usize), KvError> {
    let meta = Meta::newest(file)?;
    let mut quiet = |_, _| {};
    let mut walk = start(file, &meta, &mut quiet);
    let tables = tables(&mut walk, &meta)?;
    Ok(state(&mut walk, &meta, &tables.engine)?.1)
}

fn start<'w>(file: &'w DataFile<'w>, meta: &Meta, progress: &'w mut dyn FnMut(u64, u64)) -> Walk<'w> {
    Walk {
        file,
        page_size: meta.page_size,
        seen: Seen::new(meta.last_page),
        total_pages: meta.last_page.saturating_add(1),
        told: 0,
        progress,
        buffers: Vec::new(),
        scratch: Vec::new(),
    }
}

struct Tables {
    data: TableInfo,
    engine: TableInfo,
    log: TableInfo,
}

/// What the main table says of the others.
fn tables(walk: &mut Walk<'_>, meta: &Meta) -> Result<Tables, KvError> {
    let file = walk.file;
    let (mut data, mut engine, mut log) = (None, None, None);
    walk.table("main", &meta.main, Order::Bytes, &mut |_, key, value| {
        let info = value.is_table.then(|| value.inline().and_then(TableInfo::parse)).flatten();
        let info = info.filter(|info| info.flags == 0).ok_or_else(|| {
            file.damaged(&format!("the description of table {} is damaged", key.escape_ascii()))
        })?;
        let slot = match key {
            k if k == DATA_TABLE.as_bytes() => &mut data,
            k if k == ENGINE_TABLE.as_bytes() => &mut engine,
            k if k == LOG_TABLE.as_bytes() => &mut log,
            _ => return Err(file.damaged(&format!("there is a table {}", key.escape_ascii()))),
        };
        *slot = Some(info);
        Ok(())
    })?;
    match (data, engine, log) {
        (Some(data), Some(engine), Some(log)) => Ok(Tables { data, engine, log }),
        _ => Err(file.damaged("a table is missing")),
    }
}

/// The engine's own record, and where it is.
fn state(walk: &mut Walk<'_>, meta: &Meta, engine: &TableInfo) -> Result<(State, (u64, usize)), KvError> {
    let file = walk.file;
    let mut found = None;
    walk.table(ENGINE_TABLE, engine, Order::Bytes, &mut |_, key, value| {
        let stored = value.inline().filter(|_| key == STATE_KEY && !value.is_table);
        let state = stored.and_then(|s| Some((State::decode(record::open(STATE_KEY, s)?.0)?, s.len())));
        let (state, len) = state.ok_or_else(|| file.damaged("the record about the whole is damaged"))?;
        found = Some((state, (value.offset, len)));
        Ok(())
    })?;
    let (state, place) = found.ok_or_else(|| file.damaged("the record about the whole is missing"))?;
    if state.lmdb_txn != meta.txn {
        let (state, header) = (state.lmdb_txn, meta.txn);
        return Err(file.damaged(&format!("its header is of transaction {header}, its contents of {state}")));
    }
    Ok((state, place))
}

/// Checks a record's checksum and returns it; `see` gets the value in pieces.
fn check_record(
    file: &DataFile<'_>,
    key: &[u8],
    value: &Value<'_>,
    see: &mut dyn FnMut(&[u8]),
) -> Result<u64, KvError> {
    let wrong = || file.damaged(&format!("the checksum of the record {} is wrong", key.escape_ascii()));
    if value.is_table {
        return Err(wrong());
    }
    if let Some(stored) = value.inline() {
        let (value, sum) = record::open(key, stored).ok_or_else(wrong)?;
        see(value);
        return Ok(sum);
    }
    let mut left = value.len.checked_sub(CHECKSUM_BYTES as u64).ok_or_else(wrong)?;
    let mut summing = Summing::new();
    let mut stated = Vec::with_capacity(CHECKSUM_BYTES);
    value.pieces(file, &mut |piece| {
        let split = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let (own, tail) = piece.split_at(split);
        summing.add(own);
        see(own);
        left -= own.len() as u64;
        stated.extend_from_slice(tail);
        Ok(())
    })?;
    let sum = summing.finish(key);
    if record::stated(&stated) != Some(sum) {
        return Err(wrong());
    }
    Ok(sum)
}

/// Checks a group of the log.
fn check_group(file: &DataFile<'_>, key: &[u8], value: &Value<'_>) -> Result<GroupFigures, KvError> {
    let mut head = Vec::with_capacity(LOG_HEAD_BYTES);
    let mut bytes = 0;
    check_record(file, key, value, &mut |piece| {
        let more = LOG_HEAD_BYTES - head.len();
        head.extend_from_slice(piece.get(..more).unwrap_or(piece));
        bytes += piece.len() as u64;
    })?;
    let numbers = log_numbers(key, &head);
    let (at_ms, after, upto) = numbers.ok_or_else(|| file.damaged("a group of the log is damaged"))?;
    Ok(GroupFigures { after, upto, at_ms, bytes: bytes - LOG_HEAD_BYTES as u64 })
}
