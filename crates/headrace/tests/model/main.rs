//! A reference model: random operations by several threads on a real mount, each answer compared with a file system in
//! memory, the whole tree compared at the end and again after a remount.
//!
//! `HEADRACE_MODEL_CASES` sets the number of cases, `HEADRACE_MODEL_SEED` repeats a run: the seed is printed. A failing
//! case is shrunk, and its operations printed.

mod content;
mod op;
mod real;
mod reference;
mod shrink;
mod verify;

use std::cell::{Cell, RefCell};
use std::path::Path;

use headrace_testbed::{Backing, MountOptions, Mounted, TestVolume, env_number};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};

use op::Op;
use real::{Outcome, Real};
use reference::Reference;

const THREADS: usize = 3;
const OPERATIONS: usize = 150;

#[test]
fn random_operations_match_the_model_on_the_local_store() {
    run(Backing::Local, &[], &[], 400);
}

/// Another layout of the data: small segments, compressed, nothing kept inline.
#[test]
fn random_operations_match_the_model_when_compressed_and_never_inline() {
    run(Backing::Local, &["--compression", "lz4", "--inline-max", "0", "--segment-size", "1M"], &[], 150);
}

#[test]
fn random_operations_match_the_model_on_s3() {
    run(Backing::S3, &[], &[], 80);
}

#[test]
fn random_operations_match_the_model_when_new_files_are_written_back() {
    run(Backing::S3, &[], &["writeback"], 60);
}

fn run(backing: Backing, format: &[&str], options: &[&str], default_cases: u64) {
    rustix::process::umask(rustix::fs::Mode::empty());
    let cases = env_number("HEADRACE_MODEL_CASES", default_cases);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock after 1970");
    let seed = env_number("HEADRACE_MODEL_SEED", clock.as_micros() as u64);
    println!(
        "model on {backing:?} {format:?} {options:?}: {cases} cases of {THREADS} x {OPERATIONS} operations; HEADRACE_MODEL_SEED={seed}"
    );

    let config = ProptestConfig {
        cases: cases as u32,
        rng_seed: RngSeed::Fixed(seed),
        // Removing operations, below, gets further than shrinking their numbers.
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let volume = TestVolume::with_format(backing, format);
    let mount = options.iter().fold(MountOptions::default(), |all, option| all.option(option));
    let mounted = RefCell::new(Some(volume.mount_with(&mount)));
    let number = Cell::new(0);
    let operations = prop::collection::vec(prop::collection::vec(op::op(), 1..OPERATIONS), THREADS);
    let result = TestRunner::new(config).run(&operations, |threads| {
        number.set(number.get() + 1);
        let mount = mounted.borrow_mut().take().expect("the mount is put back below");
        let (mount, result) = case(mount, number.get(), &threads, number.get() % 2 == 1);
        *mounted.borrow_mut() = Some(mount);
        result.map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, operations)) => {
            let look = number.get() % 2 == 1;
            let mut again = |threads: &[Vec<Op>]| {
                number.set(number.get() + 1);
                let mount = mounted.borrow_mut().take().expect("the mount is put back below");
                let (mount, result) = case(mount, number.get(), threads, look);
                *mounted.borrow_mut() = Some(mount);
                result.err()
            };
            let (operations, why) = shrink::smallest(operations, why.to_string(), &mut again);
            let listing: Vec<_> = operations
                .iter()
                .enumerate()
                .map(|(thread, ops)| {
                    format!(
                        "thread {thread}:\n  {}",
                        ops.iter().map(|op| format!("{op:?}")).collect::<Vec<_>>().join("\n  ")
                    )
                })
                .collect();
            panic!("HEADRACE_MODEL_SEED={seed}: {why}\nsmallest case found:\n{}", listing.join("\n"));
        }
        Err(TestError::Abort(why)) => panic!("HEADRACE_MODEL_SEED={seed}: {why}"),
    }
    if let Some(mount) = mounted.into_inner() {
        mount.unmount();
    }
    volume.assert_clean();
}

/// `look`: compare everything before the remount too. Every other case is looked at only after it, when nothing has read,
/// and so perhaps flushed, the data before.
fn case<'v>(
    mount: Mounted<'v>,
    number: u64,
    threads: &[Vec<Op>],
    look: bool,
) -> (Mounted<'v>, Result<(), String>) {
    let root = mount.join(format!("case-{number}"));
    let (mut models, result) = exercise(&root, threads, look);
    if result.is_err() {
        return (mount, result);
    }
    let mount = mount.remount();
    let result = verify_all(&mut models, &root).map_err(|why| format!("after a remount: {why}"));
    if result.is_ok() {
        std::fs::remove_dir_all(&root).expect("removing the tree of a case");
    }
    (mount, result)
}

fn exercise(root: &Path, threads: &[Vec<Op>], look: bool) -> (Vec<Reference>, Result<(), String>) {
    std::fs::create_dir(root).expect("a directory for this case");
    let shared = root.join("shared");
    std::fs::create_dir(&shared).expect("the shared directory");
    for name in ["target", "log"] {
        std::fs::write(shared.join(name), b"").expect("a shared file");
    }
    let results: Vec<(Reference, Result<(), String>)> = std::thread::scope(|scope| {
        let running: Vec<_> = threads
            .iter()
            .enumerate()
            .map(|(thread, ops)| {
                let real = Real::new(root.join(format!("t{thread}")), shared.clone(), thread);
                scope.spawn(move || one_thread(real, ops, look))
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a thread of the case panicked")).collect()
    });
    let mut models = Vec::new();
    for (thread, (model, result)) in results.into_iter().enumerate() {
        models.push(model);
        if let Err(why) = result {
            return (models, Err(format!("thread {thread}: {why}")));
        }
    }
    let result = if look { verify_all(&mut models, root) } else { Ok(()) };
    (models, result)
}

fn one_thread(mut real: Real, ops: &[Op], look: bool) -> (Reference, Result<(), String>) {
    let mut model = Reference::new();
    for (step, op) in ops.iter().enumerate() {
        let outcome = real.apply(op);
        if let Err(why) = model.check(op, &outcome) {
            return (model, Err(format!("step {step}: {why}")));
        }
    }
    // Once with the files still open, once closed: closing must change nothing.
    let root = real.root().to_path_buf();
    let mut result = if look { verify::whole_tree(&mut model, &root) } else { Ok(()) };
    for slot in 0..real.slots.len() {
        let outcome = real.apply(&Op::Close { slot });
        debug_assert_eq!(outcome, Outcome::Done);
    }
    if look && result.is_ok() {
        result = verify::whole_tree(&mut model, &root).map_err(|why| format!("after closing: {why}"));
    }
    (model, result)
}

fn verify_all(models: &mut [Reference], root: &Path) -> Result<(), String> {
    for (thread, model) in models.iter_mut().enumerate() {
        verify::whole_tree(model, &root.join(format!("t{thread}")))
            .map_err(|why| format!("thread {thread}: {why}"))?;
    }
    verify::shared_tree(models, &root.join("shared"))
}
