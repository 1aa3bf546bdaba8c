//! The data that is there before the first case.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::dataset::{DataFile, PER_DIRECTORY, Scale};
use crate::failure::{Context, Result};
use crate::subjects::{Family, Site, Subject};
use crate::worker::{self, Fsync, Job, Order, Section, SmallAction, Work};

/// Making the data may take long on a slow peer.
const LIMIT: Duration = Duration::from_secs(600);

/// Formats and fills what each family needs. Subjects whose family could not be are left out, with the reason.
pub fn families(
    site: &Site,
    chosen: Vec<Box<dyn Subject>>,
    scale: &Scale,
    left_out: &mut Vec<String>,
) -> Vec<Box<dyn Subject>> {
    let mut made: BTreeMap<Family, Result<()>> = BTreeMap::new();
    let mut ready = |subject: &dyn Subject| {
        let family = made.entry(subject.family()).or_insert_with(|| {
            let started = Instant::now();
            let done = family_of(site, subject, scale);
            eprintln!("compare: data of {:?}: {:.1} s", subject.family(), started.elapsed().as_secs_f64());
            done
        });
        if let Err(failure) = family {
            eprintln!("compare: {} is left out: {failure}", subject.name());
            left_out.push(format!("{}: {failure}", subject.name()));
        }
        family.is_ok()
    };
    chosen.into_iter().filter(|subject| ready(subject.as_ref())).collect()
}

fn family_of(site: &Site, subject: &dyn Subject, scale: &Scale) -> Result<()> {
    subject.format(site)?;
    if subject.fill(site, scale)? {
        return Ok(());
    }
    let mount = subject.mount(site)?;
    fill_directory(mount.path(), scale)?;
    mount.unmount().map(drop)
}

/// Writes all data below `root`.
pub fn fill_directory(root: &Path, scale: &Scale) -> Result<()> {
    let data = root.join("data");
    std::fs::create_dir(&data).context(|| format!("creating {}", data.display()))?;
    let large: Vec<DataFile> =
        [vec![scale.big_file()], scale.middle_files(), scale.part_files()].into_iter().flatten().collect();
    for file in large {
        let file = Section { path: file.at(&data), id: file.id, from: 0, len: file.len };
        perform(Work::Write { file, order: Order::Sequential, block: 1 << 20, sync: Fsync::Never })?;
    }
    let action = SmallAction::Create;
    perform(Work::Small {
        action,
        root: data,
        under: "small".into(),
        count: scale.small,
        each: PER_DIRECTORY,
    })
}

fn perform(work: Work) -> Result<()> {
    let outcome = worker::perform(&Job { work, limit: LIMIT })?;
    if outcome.stopped {
        return Err(crate::failure::Failure::new(format!("making the data took over {} s", LIMIT.as_secs())));
    }
    Ok(())
}
