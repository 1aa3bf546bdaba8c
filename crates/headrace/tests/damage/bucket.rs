//! Damage to the metadata in the bucket, seen by a machine that has nothing else: either it is made up for (an older snapshot
//! and more log) and everything is there, or the volume is refused with a message that names the object.

use std::path::PathBuf;
use std::time::Duration;

use headrace_testbed::Rng;
use headrace_testbed::process::wait_until;
use rustix::process::Signal;

use crate::harm::Harm;
use crate::specimen::{Copy, Specimen};

/// From the start of a mount to its finding that it has to wait.
const WAITS_WITHIN: Duration = Duration::from_secs(20);

pub fn damage(specimen: &Specimen, rng: &mut Rng, cases: u64) {
    let (mut refused, mut made_up_for) = (0, 0);
    for case in 0..cases {
        let copy = specimen.copy(false);
        let kind = ["log", "log", "log", "snapshots", "owners"][rng.below(5) as usize];
        let objects = copy.objects(kind);
        if objects.is_empty() {
            continue;
        }
        let mut pick = |objects: &[PathBuf]| objects[rng.below(objects.len() as u64) as usize].clone();
        let (victim, other) = (pick(&objects), pick(&objects));
        let strange = specimen.strange_objects(kind);
        let stranger = strange.first().map(|_| pick(&strange));
        let harm = match (rng.below(5), stranger) {
            (0, _) if victim != other => Harm::Swap(other.clone()),
            (1, _) if victim != other => Harm::Replace(other.clone()),
            (2, Some(stranger)) => Harm::Replace(stranger),
            _ => Harm::choose(rng),
        };
        harm.inflict(&victim, rng);
        let what =
            format!("case {case}, {harm:?} of {} (encrypted: {})", victim.display(), specimen.encrypted);

        let newest = objects.last().expect("there is one");
        if kind == "owners" && (*newest == victim || harm == Harm::Swap(newest.clone())) {
            // Whoever holds it may be alive, and nobody knows for how long its lease is: that is waited for.
            assert_waits(&copy, &what);
            refused += 1;
            continue;
        }
        let mounted = copy.site.try_mount(&["--takeover"]);
        if mounted.status.success() {
            match kind == "log" && *newest == victim && harm == Harm::Delete {
                // Nothing else in the bucket says that it was ever there: the volume is what it was before.
                true => copy.assert_as_before(&what),
                false => copy.assert_whole(&what),
            }
            copy.assert_usable(&what);
            copy.site.umount();
            made_up_for += 1;
            continue;
        }
        refused += 1;
        assert!(mounted.status.code().is_some_and(|code| code != 101), "{what}: {mounted}");
        let names = [&victim, &other].map(|path| {
            let name = path.file_name().expect("an object has a name").to_string_lossy().into_owned();
            // A snapshot's parts are named within it.
            let folder =
                path.parent().and_then(|dir| dir.file_name()).map(|dir| dir.to_string_lossy().into_owned());
            (name, folder.unwrap_or_default())
        });
        let named = names.iter().any(|(name, folder)| {
            mounted.stderr.contains(name.as_str())
                || (kind == "snapshots" && mounted.stderr.contains(folder.as_str()))
        });
        assert!(named, "{what}: the message does not name the object: {mounted}");
    }
    println!(
        "damaged log objects, snapshots and owners (encrypted: {}): {cases} cases, {refused} refused by name, {made_up_for} made \
         up for",
        specimen.encrypted
    );
}

/// The newest owner's record is damaged: a mount waits for a sign of life, and says so, or takes no notice of it because
/// nothing was released through it; it never fails without a word.
fn assert_waits(copy: &Copy<'_>, what: &str) {
    std::thread::scope(|scope| {
        let mounting = scope.spawn(|| copy.site.try_mount(&["--takeover"]));
        let says = || copy.site.log().contains("cannot be read");
        let seen = wait_until(WAITS_WITHIN, || (says() || mounting.is_finished()).then(says));
        copy.site.signal(Signal::KILL);
        let mounted = mounting.join().expect("the thread that mounts");
        let named = mounted.stderr.contains("owners/");
        assert!(
            seen == Some(true) || named || mounted.status.success(),
            "{what}: {mounted}\n{}",
            copy.site.log()
        );
    });
    headrace_testbed::mount::force_unmount(&copy.site.mount_point());
}
