//! How much time the processors of this machine had left, from `/proc/stat`.

use std::time::Duration;

/// Less than this is too little to count in hundredths of a second.
const LEAST: Duration = Duration::from_millis(80);

/// Looks at them now and then.
#[derive(Debug, Default)]
pub(super) struct Processors {
    at: Option<Duration>,
    counted: Counted,
}

impl Processors {
    /// The share (0 to 1) of the time since the last look in which they were idle or waited for disks; `None` if that was just now, or is not known.
    pub(super) fn idle(&mut self, now: Duration) -> Option<f64> {
        if self.at.is_some_and(|at| now.saturating_sub(at) < LEAST) {
            return None;
        }
        let counted = Counted::parse(&std::fs::read_to_string("/proc/stat").ok()?)?;
        let before = std::mem::replace(&mut self.counted, counted);
        self.at.replace(now).and_then(|_| counted.since(before))
    }
}

/// Ticks of all processors together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    idle: u64,
    all: u64,
}

impl Counted {
    /// Of the first line: user, nice, system, idle, iowait, irq, softirq and steal. What guests had is part of the first two.
    fn parse(stat: &str) -> Option<Counted> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        let idle = fields.get(3)?.saturating_add(*fields.get(4)?);
        Some(Counted { idle, all: fields.iter().fold(0, |all, field| all.saturating_add(*field)) })
    }

    fn since(self, before: Counted) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        // iowait may go back (proc(5)).
        Some((self.idle.saturating_sub(before.idle) as f64 / all as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_what_is_idle_or_waits_for_a_disk_and_stolen_time_is_not() {
        let before =
            Counted::parse("cpu  100 0 50 1000 10 0 5 0 7 0\ncpu0 1 2 3 4\n").expect("a line of Linux");
        assert_eq!(before, Counted { idle: 1010, all: 1165 });
        let of = |stat| Counted::parse(stat).expect("a line of Linux").since(before);
        assert_eq!(of("cpu  100 0 50 1020 20 0 5 10 9 0"), Some(0.75));
        assert_eq!(of("cpu  110 0 50 1000 10 0 5 10"), Some(0.0));
        assert_eq!(of("cpu  100 0 50 1000 10 0 5 0"), None, "no time has passed");
        assert_eq!(
            of("cpu  140 0 50 1000 0 0 5 0"),
            Some(0.0),
            "what waited for a disk is counted anew now and then"
        );
        for strange in ["", "cpu", "cpu  1 2 3", "cpu  1 2 3 x 5 6 7 8", "intr 1 2 3 4 5 6 7 8"] {
            assert_eq!(Counted::parse(strange), None, "{strange}");
        }
    }

    #[test]
    fn this_machine_tells_but_not_more_often_than_it_counts() {
        let ms = Duration::from_millis;
        let mut processors = Processors::default();
        assert_eq!(processors.idle(ms(0)), None, "since when is not known");
        assert_eq!(processors.idle(ms(79)), None);
        std::thread::sleep(ms(100));
        let idle = processors.idle(ms(100)).expect("it is a Linux");
        assert!((0.0..=1.0).contains(&idle), "{idle}");
        assert_eq!(processors.idle(ms(179)), None);
    }
}
