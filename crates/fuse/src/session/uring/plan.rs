//! How many rings there are, and how many entries each.

use headrace_vfs::MemoryPlan;

use crate::session::processors::Processors;

/// Entries of a processor's queue, at most: each takes a buffer for the largest request once that was needed.
const DEPTH_MOST: usize = 64;
/// With fewer, requests that wait for the store would keep the others of their processor from being seen.
const DEPTH_LEAST: usize = 4;

/// Which rings to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// For each ring, the processor whose thread serves it, and the queue of each of its entries.
    pub rings: Vec<(usize, Vec<u16>)>,
    /// Requests of readahead that the kernel may have under way: some entries are to be left for who waits.
    pub background: u16,
}

impl Plan {
    /// `None`: memory does not suffice. Each ring takes a buffer for itself, and the device one.
    pub fn new(processors: &Processors, memory: &MemoryPlan) -> Option<Plan> {
        let buffers = usize::try_from(memory.workers).unwrap_or(usize::MAX);
        let rings = processors.online.len();
        let idle: Vec<usize> =
            (0..processors.possible).filter(|one| processors.online.binary_search(one).is_err()).collect();
        let room = buffers.checked_sub(1 + rings + idle.len())?;
        let depth = (room / rings).min(DEPTH_MOST);
        if depth < DEPTH_LEAST {
            return None;
        }
        let mut rings: Vec<(usize, Vec<u16>)> = processors
            .online
            .iter()
            .map(|one| u16::try_from(*one).map(|queue| (*one, vec![queue; depth])))
            .collect::<Result<_, _>>()
            .ok()?;
        // What does not run asks for nothing, but is to have its queue.
        let first = &mut rings.first_mut()?.1;
        first.extend(idle.into_iter().filter_map(|one| u16::try_from(one).ok()));
        let background = (depth - depth / 4).max(depth * processors.online.len() / 4);
        Some(Plan {
            rings,
            background: u16::try_from(background).unwrap_or(u16::MAX).min(super::MAX_BACKGROUND),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn processors(possible: &str, online: &str) -> Processors {
        Processors::parse(possible, online).unwrap()
    }

    #[test]
    fn each_processor_that_runs_has_a_ring_and_each_possible_one_a_queue() {
        let plan = Plan::new(&processors("0-3", "0,2"), &MemoryPlan::new(1 << 30, 16 << 20)).unwrap();
        let of: Vec<usize> = plan.rings.iter().map(|(processor, _)| *processor).collect();
        assert_eq!(of, [0, 2]);
        let count = |queue: u16| {
            plan.rings.iter().flat_map(|(_, queues)| queues).filter(|one| **one == queue).count()
        };
        assert_eq!((count(1), count(3)), (1, 1));
        assert_eq!(count(0), count(2));
        assert!(count(0) >= 16 && usize::from(plan.background) < 2 * count(0));
    }

    #[test]
    fn not_with_little_memory_for_many_processors() {
        let least = MemoryPlan::new(0, 16 << 20);
        assert_eq!(Plan::new(&processors("0-1", "0-1"), &least), None);
        assert_eq!(Plan::new(&processors("0-127", "0-127"), &MemoryPlan::new(1 << 30, 16 << 20)), None);
    }

    #[test]
    fn what_a_gibibyte_is_enough_for() {
        let memory = MemoryPlan::new(1 << 30, 16 << 20);
        let depth = |last: usize| {
            let all = format!("0-{last}");
            Plan::new(&processors(&all, &all), &memory).map(|plan| plan.rings[0].1.len())
        };
        assert_eq!((depth(1), depth(11), depth(12)), (Some(29), Some(4), None));
    }

    proptest! {
        #[test]
        fn it_takes_no_more_buffers_than_there_are(
            running in proptest::collection::vec(any::<bool>(), 1..70), ceiling in (64u64 << 20)..(8 << 30),
        ) {
            let online: Vec<usize> = (0..running.len()).filter(|one| running[*one]).collect();
            prop_assume!(!online.is_empty());
            let memory = MemoryPlan::new(ceiling, 16 << 20);
            let machine = Processors { possible: running.len(), online };
            if let Some(plan) = Plan::new(&machine, &memory) {
                let entries: usize = plan.rings.iter().map(|(_, queues)| queues.len()).sum();
                prop_assert!((entries + plan.rings.len() + 1) as u64 <= memory.workers);
                for queue in 0..running.len() {
                    let has = plan.rings.iter().any(|(_, queues)| queues.contains(&(queue as u16)));
                    prop_assert!(has, "queue {queue}");
                }
            }
        }
    }
}
