//! What people wait for: git, tar, cargo, ls.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Case, Measure, Place, Plan, unmeasured};
use crate::failure::{Context, Failure, Result};
use crate::worker::{Job, Work};

/// Each is checked: by git itself, by comparing trees, by running what was built, by counting lines.
pub const CASES: &[Case] = &[
    case("programs/git-clone", "git clone", git_clone),
    case("programs/untar", "tar -x", untar),
    case("programs/cargo-build", "cargo build", cargo_build),
    case("programs/ls-lr", "ls -lR of the small files", ls),
];

const fn case(id: &'static str, title: &'static str, plan: fn(&Place) -> Plan) -> Case {
    Case { id, title, measure: Measure::Seconds, plan }
}

fn program(place: &Place, script: String, dir: &Path, prints: Option<String>) -> Job {
    Job { work: Work::Program { script, dir: dir.into(), prints }, limit: place.scale.program_limit }
}

fn checked_by(
    place: &Place,
    script: String,
    prints: &str,
) -> impl Fn(&crate::worker::Outcome) -> Vec<Job> + 'static {
    let work = Work::Program { script, dir: place.scratch.clone(), prints: Some(prints.into()) };
    move |_| vec![unmeasured(work.clone())]
}

fn git_clone(place: &Place) -> Plan {
    let source = place.fixtures.join("tree");
    let script = format!("git clone --quiet --no-local {source:?} clone");
    // Some show another owner than the one who asks, or other modes than were set: content is what counts.
    let git = "git -c safe.directory=* -c core.fileMode=false -C clone";
    let check = format!("{git} fsck --full --no-progress >&2\n{git} status --porcelain | wc -l");
    Plan::writes(program(place, script, &place.scratch, None), checked_by(place, check, "0"))
}

fn untar(place: &Place) -> Plan {
    let script = format!("tar -x --no-same-owner -f {:?}", place.fixtures.join("tree.tar"));
    let check = format!("diff -r --exclude=.git {:?} tree\necho same", place.fixtures.join("tree"));
    Plan::writes(program(place, script, &place.scratch, None), checked_by(place, check, "same"))
}

fn cargo_build(place: &Place) -> Plan {
    // Compiled anew, whatever a compiler cache or the environment say.
    let script = format!(
        "unset CARGO_TARGET_DIR RUSTC_WRAPPER RUSTFLAGS\nmkdir -p built\ncd {:?}\n\
         cargo build --quiet --offline --target-dir \"$OLDPWD/built\"\n\"$OLDPWD/built/debug/compared\"",
        place.fixtures.join("crate")
    );
    let check = "built/debug/compared".to_owned();
    let timed = program(place, script, &place.scratch, Some(ANSWER.into()));
    Plan::writes(timed, checked_by(place, check, ANSWER))
}

fn ls(place: &Place) -> Plan {
    let script = "ls -lR small | grep -c ' f[0-9]*$'".to_owned();
    let count = place.scale.small.to_string();
    Plan::reads(program(place, script, &place.data(), Some(count)))
}

/// What the program prints that is built.
const ANSWER: &str = "sum 20100";

/// Makes what the programs work on: a git repository of `files` files, an archive of it, and a crate without dependencies.
pub fn fixtures(dir: &Path, files: u64) -> Result<()> {
    let script = format!(
        r#"set -euo pipefail
        export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=C GIT_AUTHOR_EMAIL=c@example.com
        export GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.com
        git init --quiet --initial-branch=main tree
        cd tree
        for ((f = 0; f < {files}; f++)); do
            mkdir -p "d$((f / 50))"
            printf "line %s of file $f\n" {{1..60}} > "d$((f / 50))/f$f.txt"
        done
        git add --all
        git commit --quiet --message one
        cd ..
        tar -c --exclude=.git -f tree.tar tree
        mkdir -p crate/src
        printf '[package]\nname = "compared"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n' > crate/Cargo.toml
        {{
            for m in {{1..200}}; do printf 'mod m%s {{ pub fn n() -> u64 {{ %s }} }}\n' $m $m; done
            printf 'fn main() {{ println!("sum {{}}", 0'
            for m in {{1..200}}; do printf ' + m%s::n()' $m; done
            printf '); }}\n'
        }} > crate/src/main.rs
        "#
    );
    let done = Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .context(|| "starting bash".into())?;
    if done.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("making fixtures: {}", String::from_utf8_lossy(&done.stderr).trim())))
}
