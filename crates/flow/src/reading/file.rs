//! What is known of one file that is read.

use std::collections::BTreeMap;
use std::ops::Range;

use super::part::Parts;
use super::size::Place;
use super::types::{HandleId, Kept};
use super::whole::Whole;
use crate::streams::{self, Stream, StreamId, Streams};
use crate::window::{self, Window};

/// What is fetched ahead of the reader of one stream.
#[derive(Debug)]
pub(super) struct Ahead {
    pub window: Window,
    /// Bytes that were read of it.
    pub run: u64,
    /// Where the next fetch begins, unless the reader has gone past it: see [`crate::streams::Pattern::next`].
    pub edge: u64,
    /// Bytes of parts that were fetched for it and not all read yet.
    pub held: u64,
    /// Its fetches under way.
    pub in_flight: usize,
    /// Reads of it that wait.
    pub waiting: usize,
    /// While one did, more could have been sent and the window was too small for it.
    pub short: bool,
    /// Bytes that it may still ask for in this turn.
    pub deficit: i64,
    /// Whether it waits for a turn.
    pub queued: bool,
}

/// A file that is open.
#[derive(Debug)]
pub(super) struct File {
    /// Bytes.
    pub len: u64,
    pub handles: Vec<HandleId>,
    pub parts: Parts,
    pub streams: Streams,
    pub ahead: BTreeMap<StreamId, Ahead>,
    pub whole: Whole,
    /// It is one of many that are read as if they were one.
    pub together: bool,
    /// It was read in a stream.
    pub streamed: bool,
    pub kept: Kept,
    /// Bytes that have come for what keeps it since that was told.
    pub put_away: u64,
}

impl File {
    pub(super) fn new(len: u64, tuning: streams::Tuning) -> File {
        File {
            len,
            handles: Vec::new(),
            parts: Parts::default(),
            streams: Streams::new(tuning),
            ahead: BTreeMap::new(),
            whole: Whole::default(),
            together: false,
            streamed: false,
            kept: Kept::No,
            put_away: 0,
        }
    }

    /// What is fetched ahead of a stream; begun if need be.
    pub(super) fn ahead_of(
        &mut self,
        stream: StreamId,
        tuning: window::Tuning,
        part: u64,
    ) -> Option<&mut Ahead> {
        let reader = self.streams.get(stream)?.reader;
        Some(self.ahead.entry(stream).or_insert_with(|| Ahead {
            window: Window::new(tuning, part),
            run: 0,
            edge: reader,
            held: 0,
            in_flight: 0,
            waiting: 0,
            short: false,
            deficit: 0,
            queued: false,
        }))
    }

    /// So many bytes are held for a stream, if it is one, no longer.
    pub(super) fn holds_less(&mut self, stream: Option<StreamId>, bytes: u64) {
        if let Some(ahead) = stream.and_then(|stream| self.ahead.get_mut(&stream)) {
            ahead.held = ahead.held.saturating_sub(bytes);
        }
    }

    /// Bytes before the reader of a stream, as far as the file goes.
    pub(super) fn left(&self, id: StreamId) -> u64 {
        self.streams.get(id).map_or(0, |stream| match stream.pattern {
            streams::Pattern::Backward => stream.reader,
            streams::Pattern::Forward | streams::Pattern::Strided { .. } => {
                self.len.saturating_sub(stream.reader)
            }
        })
    }

    /// Where what comes next of a stream is to be fetched.
    pub(super) fn place(&self, id: StreamId) -> Option<Place> {
        let (stream, ahead) = self.streams.get(id).zip(self.ahead.get(&id))?;
        let far = stream.pattern.ahead(stream.reader, ahead.edge);
        let widened = ahead.window.is_widened();
        Some(Place { window: ahead.window.bytes(), widened, left: self.left(id), ahead: far })
    }

    /// What to fetch of a forward stream if `range`, of which nothing is there, is missing: up to the end of a part, if its window has
    /// room for that and nothing behind it is there.
    pub(super) fn whole_part(&self, id: StreamId, range: &Range<u64>, part: u64) -> Option<Range<u64>> {
        let stream = self.streams.get(id).filter(|stream| stream.pattern == streams::Pattern::Forward)?;
        let ahead = self.ahead.get(&id)?;
        let end = stream.pattern.next(range.end.saturating_sub(1).max(range.start), part, self.len)?.end;
        let end = end.min(stream.reader.saturating_add(ahead.window.bytes()));
        let room = self.parts.room(range, range.start, end);
        (room.end > range.end).then_some(room)
    }

    /// Whether the window of a stream has room for more.
    pub(super) fn has_room(&self, id: StreamId, ahead: &Ahead) -> bool {
        let stream = self.streams.get(id).filter(|stream| stream.confirmed);
        stream.is_some_and(|stream| stream.pattern.ahead(stream.reader, ahead.edge) < ahead.window.bytes())
    }

    /// More could be sent ahead of a stream and is not: if its reader waits and its window is full, it is too small for the disorder in which parts
    /// come.
    pub(super) fn falls_short(&mut self, id: StreamId) {
        let full = self.ahead.get(&id).is_some_and(|ahead| ahead.waiting > 0 && !self.has_room(id, ahead));
        if let Some(ahead) = self.ahead.get_mut(&id).filter(|_| full) {
            ahead.short = true;
        }
    }

    /// The next range to fetch ahead of a stream, if its window has room: what is there or on its way already is passed over.
    pub(super) fn next_ahead(&mut self, id: StreamId, part: u64) -> Option<Range<u64>> {
        let stream: &Stream = self.streams.get(id).filter(|stream| stream.confirmed)?;
        let (pattern, reader) = (stream.pattern, stream.reader);
        let ahead = self.ahead.get_mut(&id)?;
        let behind = match pattern {
            streams::Pattern::Backward => ahead.edge > reader,
            streams::Pattern::Forward => ahead.edge < reader,
            streams::Pattern::Strided { stride, .. } => {
                ahead.edge <= reader || ahead.edge % stride.max(1) != reader % stride.max(1)
            }
        };
        if behind {
            ahead.edge = match pattern {
                streams::Pattern::Strided { stride, .. } => reader.saturating_add(stride),
                _ => reader,
            };
        }
        while pattern.ahead(reader, ahead.edge) < ahead.window.bytes() {
            let range = pattern.next(ahead.edge, part, self.len)?;
            let missing = match pattern {
                streams::Pattern::Backward => self.parts.missing(&range).pop(),
                _ => self.parts.missing(&range).into_iter().next(),
            };
            match missing {
                Some(missing) => {
                    // A piece of a stride has its edge by where it should have begun.
                    ahead.edge = match pattern {
                        streams::Pattern::Strided { .. } => pattern.edge_after(&range),
                        _ => pattern.edge_after(&missing),
                    };
                    return Some(missing);
                }
                None => ahead.edge = pattern.edge_after(&range),
            }
        }
        None
    }
}
