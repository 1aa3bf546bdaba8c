//! Whether the processors of this machine are the limit, by how long they were idle lately.

/// When they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// They are while they are idle for less than this share of the time ...
    pub idle_least: f64,
    /// ... and work for them is dear from then on, until they are idle for more than this.
    pub idle_most: f64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { idle_least: 0.125, idle_most: 0.5 }
    }
}

/// What is known of them; at first that they are no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Processors {
    tuning: Tuning,
    busy: bool,
    dear: bool,
}

impl Processors {
    /// Nothing is known yet.
    pub fn new(tuning: Tuning) -> Processors {
        Processors { tuning, ..Processors::default() }
    }

    /// They were idle for this share (0 to 1) of the last moment, some tenths of a second.
    pub fn told(&mut self, idle: f64) {
        self.busy = idle < self.tuning.idle_least;
        self.dear = self.busy || (self.dear && idle <= self.tuning.idle_most);
    }

    /// Whether they are the limit at this moment.
    pub fn are_busy(&self) -> bool {
        self.busy
    }

    /// Whether what takes their time is to be spared: they were the limit, and have little time left since.
    pub fn are_dear(&self) -> bool {
        self.dear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_busy_at_this_moment_and_dear_until_half_of_their_time_is_left() {
        let mut processors = Processors::new(Tuning::default());
        let mut after = |idle| {
            processors.told(idle);
            (processors.are_busy(), processors.are_dear())
        };
        assert_eq!(after(0.4), (false, false), "that much is left at first");
        assert_eq!(after(0.125), (false, false));
        assert_eq!(after(0.12), (true, true));
        assert_eq!(after(0.13), (false, true));
        assert_eq!(after(0.5), (false, true));
        assert_eq!(after(0.51), (false, false));
        assert_eq!(after(0.5), (false, false));
        assert_eq!(after(0.0), (true, true));
    }
}
