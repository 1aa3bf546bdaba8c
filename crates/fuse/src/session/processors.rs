//! The processors of this machine.

use std::path::Path;

/// The processors of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::session) struct Processors {
    /// As many as there may ever be. The kernel wants a queue for each, and numbers them from 0.
    pub possible: usize,
    /// Those that run, ascending.
    pub online: Vec<usize>,
}

impl Processors {
    /// Of this machine.
    ///
    /// # Errors
    /// Why they are not known, for a person.
    pub fn here() -> Result<Processors, String> {
        let cpus = Path::new("/sys/devices/system/cpu");
        let read = |name| std::fs::read_to_string(cpus.join(name)).unwrap_or_default();
        Processors::parse(&read("possible"), &read("online"))
            .ok_or_else(|| format!("{} does not say which processors there are", cpus.display()))
    }

    /// From the lists that the kernel shows, such as "0-3,8".
    pub fn parse(possible: &str, online: &str) -> Option<Processors> {
        let possible = list(possible)?.into_iter().max()? + 1;
        let online: Vec<usize> = list(online)?.into_iter().filter(|one| *one < possible).collect();
        (!online.is_empty()).then_some(Processors { possible, online })
    }
}

/// Processors, at most, of which anything is believed.
const MOST: usize = 1 << 14;

/// From a list such as "0-3,8".
fn list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if last >= MOST || first > last {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processors(possible: &str, online: &str) -> Processors {
        Processors::parse(possible, online).unwrap()
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(processors("0-3\n", "0-1,3\n"), Processors { possible: 4, online: vec![0, 1, 3] });
        assert_eq!(processors("0", "0").online, [0]);
        for wrong in ["", "a", "1-", "3-1", "0-99999999999", "0-20000"] {
            assert_eq!(Processors::parse(wrong, "0"), None, "{wrong:?}");
            assert_eq!(Processors::parse("0", wrong), None, "{wrong:?}");
        }
        assert_eq!(Processors::parse("0-1", "2-3"), None, "none of those that run is possible");
    }

    #[test]
    fn this_machine_has_some() {
        assert!(!Processors::here().unwrap().online.is_empty());
    }
}
