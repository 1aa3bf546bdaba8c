//! What the fit may choose, and what it chose.

/// Blocks are all of this size: one RPC of the ticket's client, bytes.
pub const BLOCK: u64 = 1 << 20;

/// Streams that the prefetcher follows in a file (zfetch_max_streams).
pub const STREAMS: usize = 8;

/// Requests of demand reads that a disk group works on at a time (zfs_vdev_sync_read_max_active).
pub const SYNC_ACTIVE: usize = 10;

/// Requests of the prefetcher that a disk group works on at a time (zfs_vdev_async_read_max_active).
pub const ASYNC_ACTIVE: usize = 3;

/// Disk groups that a file is spread over.
pub const GROUPS: usize = 2;

/// The constants of the client, the server and its disks. Times are milliseconds, sizes MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Reader: copying one MiB to the program, ms.
    pub copy_ms: f64,
    /// Client: setting up one MiB of read-ahead (pages, locks), in the reader's own thread, ms. The RPCs of
    /// a refill leave once all of it is set up.
    pub prepare_ms: f64,
    /// Reader: going on after having waited for a block, ms.
    pub wake_ms: f64,
    /// Client: the window is refilled once so much of it has been read, MiB.
    pub refill_mib: f64,
    /// An RPC's way there and back without its data, ms.
    pub rpc_ms: f64,
    /// One MiB on the wire to the client, one RPC after another, ms.
    pub link_ms: f64,
    /// Server: mean delay until a thread starts on an RPC, per other RPC there, ms (exponential).
    pub delay_ms: f64,
    /// Server: the delay grows with the number of other RPCs to this power.
    pub delay_power: f64,
    /// Disk group: reading one MiB, ms.
    pub transfer_ms: f64,
    /// Disk group: going on where it stopped, after a pause, ms (the platter has turned).
    pub resume_ms: f64,
    /// Disk group: to a place nearby, ms.
    pub near_ms: f64,
    /// Disk group: to any other place, ms.
    pub far_ms: f64,
    /// Disk group: what counts as nearby, MiB of the group.
    pub reach_mib: f64,
    /// The file changes the disk group after so much, MiB.
    pub stripe_mib: f64,
    /// Prefetcher: how far ahead after the first match, MiB; twice as far after each further one.
    pub ahead_first_mib: f64,
    /// Prefetcher: how far ahead at most, MiB (zfetch_max_distance).
    pub ahead_most_mib: f64,
    /// Prefetcher: a stream not matched for so long gives its place to a new one, ms (zfetch_min_sec_reap).
    pub reap_ms: f64,
}

/// One of the [`Parameters`], as the fit sees it.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Least plausible value.
    pub low: f64,
    /// Largest plausible value.
    pub high: f64,
    /// Only whole values make sense.
    pub whole: bool,
    /// Reads it.
    pub get: fn(&Parameters) -> f64,
    /// Sets it.
    pub set: fn(&mut Parameters, f64),
}

macro_rules! field {
    ($name:ident, $low:expr, $high:expr, $whole:expr) => {
        Field {
            name: stringify!($name),
            low: $low,
            high: $high,
            whole: $whole,
            get: |p| p.$name,
            set: |p, value| p.$name = value,
        }
    };
}

/// What the fit may change, and within what bounds.
pub const FIELDS: &[Field] = &[
    field!(copy_ms, 0.2, 0.8, false),
    field!(prepare_ms, 0.02, 0.6, false),
    field!(wake_ms, 0.01, 2.5, false),
    field!(refill_mib, 12.0, 20.0, true),
    field!(rpc_ms, 0.1, 1.5, false),
    field!(link_ms, 0.05, 0.7, false),
    field!(delay_ms, 0.02, 3.0, false),
    field!(delay_power, 0.2, 1.6, false),
    field!(transfer_ms, 0.3, 1.6, false),
    field!(resume_ms, 0.05, 4.0, false),
    field!(near_ms, 0.3, 3.0, false),
    field!(far_ms, 2.0, 9.0, false),
    field!(reach_mib, 1.0, 32.0, true),
    field!(stripe_mib, 1.0, 16.0, true),
    field!(ahead_first_mib, 1.0, 4.0, true),
    field!(ahead_most_mib, 4.0, 32.0, true),
    field!(reap_ms, 1.0, 2000.0, false),
];

impl Parameters {
    /// Where a search starts: what the parts are known to take, before any fit.
    pub const GUESS: Self = Self {
        copy_ms: 0.5,
        prepare_ms: 0.4,
        wake_ms: 0.6,
        refill_mib: 16.0,
        rpc_ms: 0.7,
        link_ms: 0.3,
        delay_ms: 1.0,
        delay_power: 0.8,
        transfer_ms: 1.0,
        resume_ms: 1.5,
        near_ms: 1.5,
        far_ms: 6.0,
        reach_mib: 6.0,
        stripe_mib: 1.0,
        ahead_first_mib: 1.0,
        ahead_most_mib: 8.0,
        reap_ms: 60.0,
    };

    /// What the fit chose. Mean |ln(model / ticket)| over the 45 cells of each table, three seeds of 2 GiB each
    /// that the fit did not see: 0.085 with the prefetcher on, 0.078 with it off.
    pub const FITTED: Self = Self {
        copy_ms: 0.5969,
        prepare_ms: 0.4563,
        wake_ms: 1.4686,
        refill_mib: 20.0,
        rpc_ms: 0.1318,
        link_ms: 0.3545,
        delay_ms: 1.6366,
        delay_power: 0.354,
        transfer_ms: 1.6,
        resume_ms: 2.1004,
        near_ms: 3.0,
        far_ms: 5.9246,
        reach_mib: 26.0,
        stripe_mib: 4.0,
        ahead_first_mib: 1.0,
        ahead_most_mib: 4.0,
        reap_ms: 1.6088,
    };

    /// The fitted ones as one line each, in the order of [`FIELDS`].
    pub fn lines(&self) -> String {
        FIELDS.iter().map(|f| format!("{}: {:.4},\n", f.name, (f.get)(self))).collect()
    }

    /// Time that the reader itself takes for one MiB, ms: nothing reads faster than that.
    pub fn reader_ms(&self) -> f64 {
        self.copy_ms + self.prepare_ms
    }
}

/// Nanoseconds of `ms` milliseconds.
pub(super) fn nanos(ms: f64) -> u64 {
    (ms.max(0.0) * 1e6) as u64
}

/// Whole blocks of `mib`, at least one.
pub(super) fn blocks(mib: f64) -> u64 {
    (mib.round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_reads_what_it_sets_and_no_two_are_the_same() {
        let mut parameters = Parameters::GUESS;
        for (number, field) in FIELDS.iter().enumerate() {
            assert!(field.low < field.high, "{}", field.name);
            (field.set)(&mut parameters, 1000.0 + number as f64);
        }
        for (number, field) in FIELDS.iter().enumerate() {
            assert_eq!((field.get)(&parameters), 1000.0 + number as f64, "{}", field.name);
        }
    }

    #[test]
    fn the_kept_parameters_are_within_the_bounds_of_the_fit() {
        for field in FIELDS {
            let value = (field.get)(&Parameters::FITTED);
            assert!((field.low..=field.high).contains(&value), "{} is {value}", field.name);
        }
    }
}
