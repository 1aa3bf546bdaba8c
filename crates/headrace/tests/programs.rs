//! Real programs doing real work on a mount, on both kinds of store.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headrace_testbed::{Backing, Mounted, Run, TestVolume, env_number, shell, tool, tree_digest};

const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=T GIT_AUTHOR_EMAIL=t@example.com \
    GIT_COMMITTER_NAME=T GIT_COMMITTER_EMAIL=t@example.com\n";

/// Runs `body` on a fresh mount, then unmounts and demands a clean check of the volume, data included.
fn on(backing: Backing, body: impl FnOnce(Mounted<'_>)) {
    let volume = TestVolume::new(backing);
    let started = Instant::now();
    body(volume.mount());
    println!("on {backing:?}: {:.1} s", started.elapsed().as_secs_f64());
    volume.assert_clean();
}

/// A repository with 5,200 files in 104 directories, in `dir/source`; made on the native file system.
fn repository(dir: &Path) -> PathBuf {
    let script = GIT.to_owned()
        + r#"
        git init --quiet --initial-branch=main source
        cd source
        for d in {1..52}; do
            mkdir -p "src/d$d/sub"
            for f in {1..50}; do
                echo "file $d $f: $RANDOM $RANDOM" > "src/d$d/f$f.txt"
                printf 'line %s\n' {1..40} "$d" "$f" > "src/d$d/sub/g$f.rs"
            done
        done
        head -c 3000000 /dev/urandom > large.bin
        ln -s src/d1/f1.txt link
        chmod +x src/d1/f2.txt
        git add --all
        git commit --quiet --message one
        "#;
    shell(dir, &script).ok();
    dir.join("source")
}

fn git(mounted: Mounted<'_>) {
    let source = repository(&mounted.volume().scratch());
    let clone = format!("{GIT}git clone --quiet --no-local {source:?} clone\ncd clone\ngit ls-files | wc -l");
    let files: u32 = shell(&mounted.path(), &clone).ok().trim().parse().unwrap();
    assert!(files > 5_000, "{files} files");
    let check = format!(
        "{GIT}git status --porcelain\ngit fsck --full --strict --no-progress 2>&1 | grep -v '^notice' || true"
    );
    assert_eq!(shell(&mounted.join("clone"), &check).ok(), "", "git status or git fsck has something to say");

    let work = format!(
        "{GIT}cd clone\nsed -i s/file/changed/ src/d1/*.txt\ngit commit --quiet --all --message two\n\
         git checkout --quiet -b other HEAD^\ngit rm --quiet -r src/d2\ngit commit --quiet --message three\n\
         git merge --quiet --no-edit main\ngit gc --quiet\ngit status --porcelain"
    );
    assert_eq!(shell(&mounted.path(), &work).ok(), "");
    let before = tree_digest(&mounted.path());

    let mounted = mounted.remount();
    before.assert_same(&tree_digest(&mounted.path()));
    assert_eq!(shell(&mounted.join("clone"), &check).ok(), "", "after a remount");

    // A tree of thousands of files goes through tar, find and rm as it should.
    let script = "tar -cf all.tar clone\nmkdir out\ntar -xf all.tar -C out\ndiff -r clone out/clone\n\
                  find out -type f | wc -l\nrm -rf out\ntest ! -e out";
    let found: u32 = shell(&mounted.path(), script).ok().trim().parse().unwrap();
    assert!(found > 5_000, "find saw {found} files");
    mounted.unmount();
}

#[test]
fn git_on_the_local_store() {
    on(Backing::Local, git);
}

#[test]
fn git_on_s3() {
    on(Backing::S3, git);
}

fn cargo(mounted: Mounted<'_>) {
    let script = r#"
        mkdir -p demo/src
        printf '[package]\nname = "demo"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' > demo/Cargo.toml
        for n in {1..20}; do
            echo "pub fn value() -> u64 { (1..=$n).map(|x| x * x).sum() }" > demo/src/m$n.rs
            echo "mod m$n;" >> demo/src/main.rs
        done
        { echo 'fn main() { println!("{}", 0'; for n in {1..20}; do echo " + m$n::value()"; done; echo '); }'; } >> demo/src/main.rs
        echo '#[test] fn adds_up() { assert_eq!(m3::value(), 14); }' >> demo/src/main.rs
        cd demo
        cargo build --quiet --offline
        cargo run --quiet --offline
        echo 'pub fn value() -> u64 { 0 }' > src/m20.rs
        cargo run --quiet --offline
        cargo test --quiet --offline > /dev/null
        "#;
    let output = shell(&mounted.path(), script)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .env("CARGO_NET_OFFLINE", "true")
        .ok();
    assert_eq!(output.split_whitespace().collect::<Vec<_>>(), ["16170", "13300"]);
    let mounted = mounted.remount();
    let output =
        shell(&mounted.join("demo"), "cargo run --quiet --offline").env_remove("CARGO_TARGET_DIR").ok();
    assert_eq!(output.trim(), "13300");
    mounted.unmount();
}

#[test]
fn cargo_on_the_local_store() {
    on(Backing::Local, cargo);
}

#[test]
fn cargo_on_s3() {
    on(Backing::S3, cargo);
}

fn sqlite(mounted: Mounted<'_>) {
    const WRITERS: u32 = 4;
    const ROWS: u32 = 60;
    let check = "for db in wal delete; do sqlite3 $db.db 'pragma integrity_check; select count(*), sum(length(text)) from t'; done";
    let expected = format!("ok\n{n}|{bytes}\n", n = WRITERS * ROWS, bytes = WRITERS * ROWS * 1000).repeat(2);
    for journal in ["wal", "delete"] {
        let create = format!(
            "sqlite3 {journal}.db 'pragma journal_mode={journal}; create table t (writer, n, text); create index i on t (n, writer);'"
        );
        assert_eq!(shell(&mounted.path(), &create).ok().trim(), journal);
        // Each row is its own transaction; each writer its own process, with the default (full) synchronous mode.
        let writers = format!(
            "for w in {{1..{WRITERS}}}; do
                for n in {{1..{ROWS}}}; do
                    echo \"insert into t values ($w, $n, substr(hex(randomblob(500)), 1, 1000));\"
                done | sqlite3 -bail -cmd '.timeout 120000' {journal}.db &
                writers+=($!)
            done
            for writer in \"${{writers[@]}}\"; do wait \"$writer\"; done"
        );
        shell(&mounted.path(), &writers).ok();
    }
    assert_eq!(shell(&mounted.path(), check).ok(), expected);
    let mounted = mounted.remount();
    assert_eq!(shell(&mounted.path(), check).ok(), expected, "after a remount");
    mounted.unmount();
}

#[test]
fn sqlite_on_the_local_store() {
    on(Backing::Local, sqlite);
}

#[test]
fn sqlite_on_s3() {
    on(Backing::S3, sqlite);
}

/// A tree with one of everything that a copy must preserve.
const ODD_TREE: &str = r#"
    mkdir -p tree/{a/b/c,empty,"sp ace"}
    head -c 1234567 /dev/urandom > tree/a/large
    head -c 5000 /dev/urandom > tree/a/b/small
    : > tree/a/b/zero
    truncate -s 70M tree/sparse
    echo middle | dd of=tree/sparse bs=1M seek=33 conv=notrunc status=none
    for n in {1..300}; do echo "$n" > tree/a/b/c/f$n; done
    ln tree/a/large tree/hard1; ln tree/a/large "tree/sp ace/hard2"
    ln -s ../a/large tree/empty/symlink; ln -s "dang
ling" tree/dangling; ln tree/dangling tree/dangling-hard
    mkfifo tree/fifo; mknod tree/null c 1 3; mknod tree/block b 7 99
    chmod 4755 tree/a/large; chmod 2775 tree/a; chmod 1777 tree/empty; chmod 000 tree/a/b/zero
    chown 1234:5678 tree/a/b/small; chown -h 4321:8765 tree/dangling
    setfattr -n user.note -v 'some value' tree/a/b/small; setfattr -n trusted.note -v x tree/a/b
    setfacl -m u:1234:rw,g:5678:r tree/a/b/small; setfacl -d -m u:1234:rwx tree/a/b
    touch "tree/$(printf 'n%.0s' {1..255})" $'tree/new\nline' $'tree/not-utf8-\xff\xfe' tree/-dash
    touch -h -d '1999-12-31 23:59:59.123456789 UTC' tree/dangling
    touch -d '2038-01-19 03:14:08.000000001 UTC' tree/a/b/small
    touch -d '1965-05-05 05:05:05.5 UTC' tree/a/b
"#;

/// By default rsync takes two times within one second for the same.
const EXACT_TIMES: &str = "--modify-window=-1";

fn copies(mounted: Mounted<'_>) {
    let scratch = mounted.volume().scratch();
    shell(&scratch, ODD_TREE).ok();
    let original = tree_digest(&scratch.join("tree"));
    assert!(original.len() > 300);
    let (there, back) = (mounted.join("rsync"), scratch.join("back"));

    let rsync = |from: &Path, to: &Path| {
        let from = format!("{}/", from.display());
        Run::new("rsync").args(["-aHAX", "--numeric-ids", EXACT_TIMES, &from]).arg(to).ok();
    };
    rsync(&scratch.join("tree"), &there);
    original.assert_same(&tree_digest(&there));

    let archive = "tar --format=posix --xattrs --xattrs-include='*' --acls --numeric-owner";
    let script =
        format!("mkdir tar\n{archive} -C {:?} -cf - . | {archive} -C tar -xpf -", scratch.join("tree"));
    shell(&mounted.path(), &script).ok();
    original.assert_same(&tree_digest(&mounted.join("tar")));

    shell(&mounted.path(), "cp -a rsync cp").ok();
    original.assert_same(&tree_digest(&mounted.join("cp")));

    let mounted = mounted.remount();
    original.assert_same(&tree_digest(&there));
    original.assert_same(&tree_digest(&mounted.join("tar")));
    rsync(&there, &back);
    original.assert_same(&tree_digest(&back));

    // Nothing to do the second time: rsync compares sizes and times.
    let out = Run::new("rsync")
        .args(["-aHAXi", "--numeric-ids", EXACT_TIMES])
        .arg(format!("{}/", there.display()))
        .arg(&back)
        .ok();
    assert_eq!(out, "", "rsync wants to copy again");
    mounted.unmount();
}

#[test]
fn rsync_tar_and_cp_on_the_local_store() {
    on(Backing::Local, copies);
}

#[test]
fn rsync_tar_and_cp_on_s3() {
    on(Backing::S3, copies);
}

fn stressors(mounted: Mounted<'_>) {
    const STRESSORS: [&str; 27] = [
        "access",
        "chdir",
        "chmod",
        "chown",
        "copy-file",
        "dentry",
        "dir",
        "dirdeep",
        "dirmany",
        "fallocate",
        "fcntl",
        "filename",
        "flock",
        "fpunch",
        "getdent",
        "hdd",
        "link",
        "locka",
        "lockf",
        "lockofd",
        "mknod",
        "open",
        "rename",
        "seek",
        "symlink",
        "utime",
        "xattr",
    ];
    let seconds = env_number("HEADRACE_STRESS_SECONDS", 8).to_string();
    let work = mounted.join("stress");
    std::fs::create_dir(&work).unwrap();
    let finished = Run::new(tool("stress-ng"))
        .args(STRESSORS.iter().flat_map(|name| [format!("--{name}"), "1".into()]))
        .args(["--timeout", &seconds, "--verify", "--metrics-brief"])
        .args(["--hdd-bytes", "32m", "--fallocate-bytes", "32m", "--seek-size", "16m"])
        .arg("--temp-path")
        .arg(&work)
        .limit(Duration::from_secs(3600))
        .finish();
    let output = format!("{}{}", finished.stdout, finished.stderr);
    let complaints: Vec<_> =
        output.lines().filter(|line| line.contains("fail:") || line.contains("error:")).collect();
    assert!(finished.status.success() && complaints.is_empty(), "{}\n{finished}", complaints.join("\n"));

    let dbench = Run::new(tool("dbench")).args(["-t", &seconds, "-D"]).arg(&work).arg("4").finish();
    assert!(dbench.status.success() && dbench.stdout.contains("Throughput"), "{dbench}");
    mounted.unmount();
}

#[test]
fn stress_ng_and_dbench_on_the_local_store() {
    on(Backing::Local, stressors);
}

#[test]
fn stress_ng_and_dbench_on_s3() {
    on(Backing::S3, stressors);
}
