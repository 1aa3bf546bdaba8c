//! Damage to the engine's files on this machine: refused with a message that names them, and the bucket brings the volume
//! back.

use headrace_testbed::Rng;

use crate::harm::Harm;
use crate::specimen::Specimen;

pub fn damage(specimen: &Specimen, rng: &mut Rng, cases: u64) {
    let (mut refused, mut harmless) = (0, 0);
    for case in 0..cases {
        let copy = specimen.copy(true);
        let files = copy.state_files("data.mdb");
        let [victim] = files.as_slice() else { panic!("one engine: {files:?}") };
        let harm = Harm::choose(rng);
        harm.inflict(victim, rng);
        let what =
            format!("case {case}, {harm:?} of {} (encrypted: {})", victim.display(), specimen.encrypted);

        let checked = copy.fsck().finish();
        assert!(checked.status.code().is_some_and(|code| code != 101), "{what}: {checked}");
        let mounted = copy.site.try_mount(&[]);
        if mounted.status.success() {
            // The damage hit a page that is not in use, or is seen only now.
            let finding = copy.read_all();
            assert!(finding.wrong.is_empty(), "{what}: {finding:?}\n{}", copy.site.log());
            if !finding.unreadable.is_empty() {
                assert!(copy.site.log().contains("data.mdb"), "{what}: {finding:?}\n{}", copy.site.log());
            }
            copy.site.umount();
            harmless += 1;
            continue;
        }
        refused += 1;
        assert!(mounted.status.code().is_some_and(|code| code != 101), "{what}: {mounted}");
        assert!(
            mounted.stderr.contains("data.mdb") || mounted.stderr.contains("engine"),
            "{what}: the message does not name the file: {mounted}"
        );
        assert!(mounted.stderr.contains("restore"), "{what}: the message does not say what to do: {mounted}");
        copy.site.command(&["restore"]).arg(copy.site.url()).ok();
        copy.site.mount(&[]);
        copy.assert_whole(&what);
        copy.assert_usable(&what);
        copy.site.umount();
        copy.fsck().ok();
    }
    println!(
        "damaged engine files (encrypted: {}): {cases} cases, {refused} refused and restored, {harmless} without effect",
        specimen.encrypted
    );
    assert!(refused > 0, "no case damaged anything that is in use");
}
