//! A job on a mount, and what it cost besides time.

use std::time::Duration;

use headrace_netlab::{Conditions, Counters};

use crate::failure::{Failure, Result};
use crate::server::{Profile, Server};
use crate::subjects::Mount;
use crate::worker::{self, Job, Outcome, Work};

/// Making the data, or checking it, takes no longer than this.
pub const UNMEASURED: Duration = Duration::from_secs(600);

/// What a job cost besides time.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Processor time of the daemon.
    pub cpu: Duration,
    /// Peak of its resident memory, bytes.
    pub memory: u64,
    /// What passed the network.
    pub passed: Counters,
}

/// Does a job on a mount over a network, and something else meanwhile.
pub fn measured<T: Send>(
    server: &Server,
    mount: &Mount<'_>,
    network: Conditions,
    job: &Job,
    meanwhile: impl FnOnce(&Server) -> Result<T>,
) -> Result<(Outcome, Cost, T)> {
    server.set_conditions(network)?;
    mount.reset_peak();
    let (counters, cpu) = (server.counters(), mount.cpu());
    let (outcome, done) = std::thread::scope(|scope| {
        let working = scope.spawn(|| worker::run(job));
        let done = meanwhile(server);
        let outcome = working.join().unwrap_or_else(|_| Err(Failure::new("the thread of a worker panicked")));
        (outcome, done)
    });
    let cost = Cost {
        cpu: mount.cpu().saturating_sub(cpu),
        memory: mount.peak_memory(),
        passed: server.counters().since(&counters),
    };
    Ok((outcome?, cost, done?))
}

/// Does something without a mount.
pub fn bare(server: &Server, network: Conditions, work: Work) -> Result<Outcome> {
    server.set_conditions(network)?;
    let done = worker::run(&Job { work, limit: UNMEASURED });
    server.set(Profile::Loopback)?;
    done
}
