//! Damage to segments: the files in them are lost or partly lost, and nothing else is.

use headrace_testbed::Rng;

use crate::harm::Harm;
use crate::specimen::{PROBLEMS, Specimen};

pub fn damage(specimen: &Specimen, rng: &mut Rng, cases: u64) {
    let (mut lost, mut harmless) = (0, 0);
    for case in 0..cases {
        let copy = specimen.copy(true);
        let segments = copy.objects("segments");
        assert!(segments.len() > 4, "{segments:?}");
        let mut pick = || segments[rng.below(segments.len() as u64) as usize].clone();
        let (victim, other) = (pick(), pick());
        let harm = match rng.below(4) {
            0 if victim != other => Harm::Swap(other.clone()),
            1 => {
                let strange = specimen.strange_objects("segments");
                Harm::Replace(strange[rng.below(strange.len() as u64) as usize].clone())
            }
            _ => Harm::choose(rng),
        };
        let kept = [&victim, &other].map(|path| (path.clone(), std::fs::read(path).expect("a segment")));
        harm.inflict(&victim, rng);
        let what =
            format!("case {case}, {harm:?} of {} (encrypted: {})", victim.display(), specimen.encrypted);

        copy.site.mount(&[]);
        let finding = copy.read_all();
        assert!(finding.wrong.is_empty(), "{what}: {finding:?}\n{}", copy.site.log());
        assert!(finding.right > 20, "{what}: the rest must be readable: {finding:?}");
        copy.assert_usable(&what);
        let log = copy.site.log();
        let name = victim.file_name().expect("a segment has a name").to_string_lossy().into_owned();
        if !finding.unreadable.is_empty() {
            let swapped = other.file_name().expect("a segment has a name").to_string_lossy().into_owned();
            assert!(
                log.contains(&name) || log.contains(&swapped),
                "{what}: the log does not name the object\n{log}"
            );
        }
        copy.site.umount();

        let checked = copy.fsck().finish();
        let said = format!("{}{}", checked.stdout, checked.stderr);
        if finding.unreadable.is_empty() {
            // It hit bytes that no file needs: an index, or what was deleted since.
            harmless += 1;
        } else {
            lost += finding.unreadable.len();
            assert!(checked.status.code() == Some(PROBLEMS), "{what}: {finding:?}, and fsck says {checked}");
            for file in &finding.unreadable {
                assert!(
                    said.contains(file.as_str()),
                    "{what}: fsck does not say that {file} is lost: {checked}"
                );
            }
        }
        // What was a damaged object is whole again once its bytes are back.
        for (path, bytes) in kept {
            std::fs::write(path, bytes).expect("putting a segment back");
        }
        copy.site.mount(&[]);
        copy.assert_whole(&what);
        copy.site.umount();
    }
    println!(
        "damaged segments (encrypted: {}): {cases} cases, {lost} files lost and named, {harmless} cases without effect",
        specimen.encrypted
    );
    assert!(lost > 0, "no case damaged anything that a file needs");
}
