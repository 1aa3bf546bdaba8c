//! One case on one subject: mounted afresh, measured, unmounted, checked.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::account::drop_caches;
use crate::cases::{Case, Place, Plan};
use crate::dataset::Scale;
use crate::failure::{Context, Result};
use crate::report::results::{Measured, Stored};
use crate::server::{Profile, dollars};
use crate::subjects::{Mount, Site, Subject};
use crate::worker::{self, Job, Outcome};

/// Runs it; `scratch` is a name that was not used before.
pub fn measure(
    site: &Site,
    subject: &dyn Subject,
    case: &Case,
    profile: Profile,
    scale: &Scale,
    scratch: &str,
    fixtures: &Path,
) -> Result<Measured> {
    let root = subject.root(site)?;
    let plan = case.plan(&Place { scale, root: &root, scratch: root.join(scratch), fixtures });
    let scratch = (plan.writes || !plan.setup.is_empty()).then(|| root.join(scratch));

    site.server.set(Profile::Loopback)?;
    if !plan.setup.is_empty() {
        let mount = subject.mount(site).context(|| "before".into())?;
        let done = jobs(&plan.setup, scratch.as_deref());
        mount.unmount().context(|| "before".into())?;
        done.context(|| "before".into())?;
    }
    let mount = subject.mount(site)?;
    let (measured, outcome) = match in_mount(site, &mount, case, profile, &plan, scratch.as_deref()) {
        Ok(both) => both,
        Err(failure) => {
            // What failed there is the result; what fails here only adds to it.
            remove(&plan);
            let _ = site.server.set(Profile::Loopback);
            let _ = mount.unmount();
            return Err(failure);
        }
    };
    let measured = Measured { stored: stored(site, mount, &plan)?, ..measured };

    let after = (plan.after)(&outcome);
    if !after.is_empty() || !plan.remove.is_empty() {
        let mount = subject.mount(site).context(|| "checking".into())?;
        drop_caches()?;
        let checked = jobs(&after, None);
        remove(&plan);
        mount.unmount().context(|| "checking".into())?;
        checked.context(|| "checking".into())?;
    }
    Ok(measured)
}

fn in_mount(
    site: &Site,
    mount: &Mount<'_>,
    case: &Case,
    profile: Profile,
    plan: &Plan,
    scratch: Option<&Path>,
) -> Result<(Measured, Outcome)> {
    site.server.set(profile)?;
    drop_caches()?;
    if let Some(scratch) = scratch {
        // After dropping caches: mount-s3 loses an empty directory that the kernel forgets.
        std::fs::create_dir_all(scratch).context(|| format!("creating {}", scratch.display()))?;
    }
    let mut timed = plan.timed.clone();
    for job in &plan.before {
        let outcome = worker::run(job)?;
        // What was not reached in time the first time would be cold the second.
        if *job == plan.timed {
            timed = timed.as_far_as(&outcome);
        }
    }
    mount.reset_peak();
    let (counters, cpu) = (site.server.counters(), mount.cpu());
    let outcome = worker::run(&timed)?;
    let daemon_cpu = mount.cpu().saturating_sub(cpu);
    let passed = site.server.counters().since(&counters);
    let measured = Measured {
        value: case.measure.of(&outcome),
        seconds: outcome.seconds,
        operations: outcome.operations,
        bytes: outcome.bytes,
        stopped: outcome.stopped,
        p50: outcome.p50,
        p99: outcome.p99,
        client_cpu: outcome.cpu.as_secs_f64(),
        aside: outcome.aside.as_secs_f64(),
        daemon_cpu: daemon_cpu.as_secs_f64(),
        peak_memory: mount.peak_memory(),
        fetched: passed.bytes_sent,
        sent: passed.bytes_received,
        requests: passed.operations.iter().map(|(name, traffic)| (name.clone(), traffic.requests)).collect(),
        dollars: dollars(&passed),
        stored: None,
    };
    Ok((measured, outcome))
}

/// Unmounts. What was written is in the store only then.
fn stored(site: &Site, mount: Mount<'_>, plan: &Plan) -> Result<Option<Stored>> {
    if !plan.writes {
        site.server.set(Profile::Loopback)?;
        mount.unmount()?;
        return Ok(None);
    }
    let counters = site.server.counters();
    let started = Instant::now();
    let cpu: Duration = mount.unmount()?;
    let seconds = started.elapsed().as_secs_f64();
    let passed = site.server.counters().since(&counters);
    site.server.set(Profile::Loopback)?;
    Ok(Some(Stored {
        seconds,
        daemon_cpu: cpu.as_secs_f64(),
        sent: passed.bytes_received,
        requests: passed.requests,
        dollars: dollars(&passed),
    }))
}

fn jobs(jobs: &[Job], scratch: Option<&Path>) -> Result<()> {
    if let Some(scratch) = scratch {
        std::fs::create_dir_all(scratch).context(|| format!("creating {}", scratch.display()))?;
    }
    jobs.iter().try_for_each(|job| worker::run(job).map(drop))
}

fn remove(plan: &Plan) {
    for path in &plan.remove {
        let _ = std::fs::remove_file(path);
    }
}
