//! Makes a failing case small, by removing operations as long as it still fails.

use std::time::{Duration, Instant};

use crate::op::Op;

/// No longer than this: a person waits for the report.
const LIMIT: Duration = Duration::from_secs(90);

/// Removes whole threads, then ever smaller pieces of each thread's operations (delta debugging). `fails` runs a case and
/// gives its complaint; what comes back is the smallest case that still failed, with the complaint it made.
pub fn smallest(
    mut threads: Vec<Vec<Op>>,
    mut why: String,
    fails: &mut dyn FnMut(&[Vec<Op>]) -> Option<String>,
) -> (Vec<Vec<Op>>, String) {
    let deadline = Instant::now() + LIMIT;
    for thread in 0..threads.len() {
        let mut piece = threads[thread].len();
        while piece > 0 {
            let mut start = 0;
            while start < threads[thread].len() && Instant::now() < deadline {
                let mut candidate = threads.clone();
                let end = (start + piece).min(candidate[thread].len());
                candidate[thread].drain(start..end);
                match fails(&candidate) {
                    Some(complaint) => (threads, why) = (candidate, complaint),
                    None => start = end,
                }
            }
            piece /= 2;
        }
    }
    (threads, why)
}
