//! A daemon for tests: a handler behind a socket of its own, as commands find it.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use super::server::{Handler, Server};
use crate::daemon::registry::Record;

/// Answers while it lives.
pub struct Served {
    pub record: Record,
    pub runtime: Runtime,
    _dir: tempfile::TempDir,
}

/// Serves `handler`.
pub fn serve<H: Handler>(handler: Arc<H>) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("c.sock");
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = {
        let _entered = runtime.enter();
        Server::bind(&socket).unwrap()
    };
    runtime.spawn(async move { server.run(handler).await });
    let record = Record {
        pid: std::process::id(),
        mountpoint: "/mnt".into(),
        dev: "0:1".into(),
        url: "/v".into(),
        uuid: uuid::Uuid::nil(),
        name: "v".into(),
        socket,
        log_file: None,
        since: String::new(),
    };
    Served { record, runtime, _dir: dir }
}
