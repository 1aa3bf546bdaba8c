//! How far a reader will go on, from how far others did: where streams were long lately and what the endpoint delivers is known, the window
//! of one that begins need not be found by letting its reader wait.

use std::time::Duration;

use super::file::File;
use super::reads::Reads;
use crate::endpoint::Known;
use crate::streams::StreamId;

/// Who read a file to its end would have read one that is so many times as long. And before anything was measured, who reads one in order will go on
/// for so many times as far: else a window would wait for bytes to be read while the network is idle.
const LONGER: u64 = 8;

/// A window that is known has room for so many times what is to be in flight.
const ROOM: f64 = 2.0;

/// How many bytes were read of the streams that ended last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Runs {
    last: [Option<u64>; 2],
}

impl Runs {
    /// Streams of a file end, all at once.
    pub fn ended(&mut self, file: &File, streams: &[StreamId]) {
        for stream in streams {
            let Some(ahead) = file.ahead.get(stream) else { continue };
            // One that was lost among others was not read to its end.
            let Some(of_it) = file.streams.get(*stream) else {
                self.push(ahead.run);
                continue;
            };
            if file.streams.iter().any(|other| of_it.goes_on_from(other)) {
                continue;
            }
            let mut after = file.streams.iter().filter(|other| other.goes_on_from(of_it));
            let to_end = file.left(*stream) == 0 || after.any(|other| file.left(other.id) == 0);
            self.push(ahead.run.saturating_mul(if to_end { LONGER } else { 1 }));
        }
    }

    fn push(&mut self, bytes: u64) {
        self.last = [Some(bytes), self.last[0]];
    }

    /// So many bytes will be read of the next one, at least: of two in a row, the shorter one counts. Zero if there was none yet.
    pub fn expected(&self) -> u64 {
        self.ended_with().unwrap_or(0)
    }

    fn ended_with(&self) -> Option<u64> {
        self.last.iter().flatten().min().copied()
    }
}

/// What reading has taught, to begin with another time: [`Reads::learned`], [`Reads::recall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// Of the endpoint.
    pub endpoint: Known,
    /// Bytes that will be read of a stream, at least: as many as of others, or several times as many if those were read to their files' ends.
    pub run: u64,
}

impl Reads {
    /// What was learned so far; `None` if that is nothing.
    pub fn learned(&self) -> Option<Learned> {
        let endpoint = self.endpoint.known().filter(|_| self.tuning.fixed.is_none())?;
        // If none has ended (a file is open yet), one that goes on was read as far as it was.
        let runs = self.files.values().flat_map(|file| file.ahead.values().map(|ahead| ahead.run));
        let run = self.runs.ended_with().or_else(|| runs.max()).unwrap_or(0);
        Some(Learned { endpoint, run })
    }

    /// What was learned another time. It counts from when the endpoint is seen to be as it was then, and only before the first search for
    /// how many fetches it takes has measured anything. To be told before the first read.
    pub fn recall(&mut self, learned: Learned) {
        if self.tuning.fixed.is_none() {
            self.endpoint.recall(learned.endpoint);
            self.runs = Runs::default();
            self.runs.push(learned.run);
        }
    }

    /// What is needed has become known: streams that wait for their windows to grow need not.
    pub(super) fn widen(&mut self) {
        let part = self.part_size();
        let known = self.known(part).window(0).min(self.most_ahead(part));
        let mut streams = Vec::new();
        for (file, state) in &mut self.files {
            for (stream, ahead) in &mut state.ahead {
                ahead.window.widen(known);
                streams.push((*file, *stream));
            }
        }
        streams.into_iter().for_each(|(file, stream)| self.queue(file, stream));
    }

    /// What is known of the windows of streams that are fetched in parts of so many bytes. Before it is known what the endpoint delivers a stream
    /// needs its share of what may be in flight.
    pub(super) fn known(&self, part: u64) -> KnownWindows {
        let untried = self.endpoint.is_untried();
        let needed = |(rate, takes): (u64, Duration)| (rate as f64 * takes.as_secs_f64() * ROOM) as u64;
        let delivers = self.endpoint.bandwidth().zip(self.endpoint.duration(part)).map(needed);
        let flying = || part.saturating_mul(self.allowed() as u64);
        let needed = delivers.unwrap_or_else(flying) / self.followed.max(1);
        KnownWindows { needed, run: self.runs.expected(), longer: if untried { LONGER } else { 0 } }
    }
}

/// What is known of how far streams are to be fetched ahead of their readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownWindows {
    /// A stream's share of what the endpoint delivers, in the time that a fetch takes, and room for as much that came before what the reader
    /// waits for, bytes.
    needed: u64,
    /// So many bytes will be read of a stream, at least.
    run: u64,
    /// If more were read of it, so many times as many.
    longer: u64,
}

impl KnownWindows {
    /// Bytes that a stream needs ahead of its reader, as far as it will be read, if so many were read of it faster than they came.
    pub fn window(&self, read: u64) -> u64 {
        let on = if read > self.run { read.saturating_mul(self.longer) } else { 0 };
        self.needed.min(self.run.max(on))
    }
}
