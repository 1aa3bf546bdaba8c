//! The server for benchmarks answers as the one behind it does, only cheaper.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use headrace_testbed::process::{self, Run};
use headrace_testbed::s3::{ACCESS_KEY, SECRET_KEY};
use headrace_testbed::{HybridServer, pattern};

/// A signed request by curl: status, headers in lower case, body.
fn ask(address: SocketAddr, arguments: &[&str], path: &str) -> (u16, String, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let (head, body) = (dir.path().join("head"), dir.path().join("body"));
    let status = Run::new("curl")
        .args(["-s", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &format!("{ACCESS_KEY}:{SECRET_KEY}")])
        .args(["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-w", "%{http_code}"])
        .arg("-D")
        .arg(&head)
        .arg("-o")
        .arg(&body)
        .args(arguments)
        .arg(format!("http://{address}{path}"))
        .ok();
    let head = std::fs::read_to_string(head).unwrap().to_lowercase();
    (status.parse().unwrap(), head, std::fs::read(body).unwrap_or_default())
}

fn header(head: &str, name: &str) -> String {
    let prefix = format!("{name}: ");
    head.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().trim().to_owned()
}

#[test]
#[ignore = "needs nginx with Lua: make netlab-check"]
fn it_answers_as_the_server_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = HybridServer::start(dir.path()).unwrap();
    let content = pattern(1, 3_000_000);
    let file = dir.path().join("upload");
    std::fs::write(&file, &content).unwrap();
    let upload = file.display().to_string();
    let (front, behind) = (server.address(), server.gateway().address());
    let bucket = server.bucket().to_owned();
    for key in ["plain", "deep/er/key", "odd%20key%2B"] {
        let path = format!("/{bucket}/{key}");
        let (status, _, _) = ask(front, &["-T", &upload], &path);
        assert_eq!(status, 200, "{key}");
        let ours = ask(front, &[], &path);
        let theirs = ask(behind, &[], &path);
        assert_eq!((ours.0, ours.2 == content), (200, true), "{key}");
        assert_eq!(header(&ours.1, "etag"), header(&theirs.1, "etag"), "{key}");
        assert!(ours.1.contains("000000000000"), "nginx itself answered: {}", ours.1);

        let range = ask(front, &["-r", "1000-1999"], &path);
        assert_eq!((range.0, &range.2[..]), (206, &content[1000..2000]));
        assert_eq!(header(&range.1, "content-range"), "bytes 1000-1999/3000000");
        assert_eq!(ask(front, &["-r", "4000000-"], &path).0, 416);
        let other = ask(front, &["-H", "If-Match: \"0123\""], &path);
        assert_eq!(other.0, ask(behind, &["-H", "If-Match: \"0123\""], &path).0);
        let same = format!("If-Match: {}", header(&theirs.1, "etag"));
        assert_eq!(ask(front, &["-H", &same], &path).0, 200);
    }
    assert_eq!(ask(front, &[], &format!("/{bucket}/none")).0, 404);
    let list = ask(front, &[], &format!("/{bucket}?list-type=2&prefix=deep"));
    assert!(list.0 == 200 && String::from_utf8_lossy(&list.2).contains("deep/er/key"));
    assert_eq!(ask(front, &["-X", "DELETE"], &format!("/{bucket}/plain")).0, 204);
    assert_eq!(ask(front, &[], &format!("/{bucket}/plain")).0, 404);
}

/// Reads an object again and again over one connection; the bytes of it all.
fn read(address: SocketAddr, path: &str, times: usize) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut from = BufReader::with_capacity(1 << 20, stream.try_clone().unwrap());
    let mut all = 0;
    for _ in 0..times {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).unwrap();
        all += length as u64;
    }
    all
}

/// Processor seconds of a process so far.
fn cpu_seconds(id: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, after) = text.rsplit_once(')').unwrap();
    let ticks: u64 = after.split_whitespace().skip(11).take(2).map(|word| word.parse::<u64>().unwrap()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[test]
#[ignore = "needs nginx with Lua: make netlab-check"]
fn a_get_costs_little() {
    let dir = tempfile::tempdir().unwrap();
    let server = HybridServer::start(dir.path()).unwrap();
    let file = dir.path().join("upload");
    std::fs::write(&file, pattern(1, 64 << 20)).unwrap();
    let path = format!("/{}/large", server.bucket());
    assert_eq!(ask(server.address(), &["-T", &file.display().to_string()], &path).0, 200);
    let [nginx, gateway] = server.process_ids();
    let before = cpu_seconds(nginx) + cpu_seconds(gateway);
    let began = Instant::now();
    let gib = read(server.address(), &path, 32) as f64 / f64::from(1 << 30);
    let each = (cpu_seconds(nginx) + cpu_seconds(gateway) - before) / gib;
    println!(
        "     {:.0} MB/s, {each:.3} CPU s/GiB of the server",
        gib * 1073.74 / began.elapsed().as_secs_f64()
    );
    assert!(each < 0.4, "{each} CPU seconds for a GiB");
}

#[test]
#[ignore = "needs nginx with Lua: make netlab-check"]
fn nothing_of_it_stays() {
    let dir = tempfile::tempdir().unwrap();
    let server = HybridServer::start(dir.path()).unwrap();
    let (address, ids) = (server.address(), server.process_ids());
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    let gone = |id: u32| !std::path::Path::new(&format!("/proc/{id}")).exists();
    let all_gone =
        process::wait_until(std::time::Duration::from_secs(10), || ids.into_iter().all(gone).then_some(()));
    assert!(all_gone.is_some());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
