//! The network lab on the command line.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use headrace_netlab::control::{self, ControlAddress};
use headrace_netlab::{Conditions, Counters, Latency, NetLab, Options, Rate, Schedule};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

/// An HTTP proxy that behaves like a network: latency, caps on rates, and faults, before a real server.
///
/// It runs until it is interrupted, and then reports what passed and what it cost.
#[derive(Debug, Parser)]
#[command(name = "netlab", version)]
struct Arguments {
    /// The server: IP:PORT
    #[arg(long, value_name = "ADDRESS")]
    upstream: SocketAddr,
    /// Where to listen; port 0 takes a free one, and the first line of the output says which
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// From a request's end to the answer's first byte: 20ms, or with a tail: 20ms,uniform=5ms 20ms,lognormal=0.5
    /// 20ms,pareto=1.5
    #[arg(long, value_name = "LATENCY", default_value = "0")]
    first_byte: Latency,
    /// What the first request of a connection waits besides, as for --first-byte
    #[arg(long, value_name = "LATENCY", default_value = "0")]
    connect: Latency,
    /// Most bytes per second of each connection in each direction: 90MB, 1GiB, 2Gbit
    #[arg(long, value_name = "RATE")]
    per_connection: Option<Rate>,
    /// Most bytes per second of all connections together in each direction
    #[arg(long, value_name = "RATE")]
    total: Option<Rate>,
    /// Probability of 503 SlowDown in the server's place, 0 to 1
    #[arg(long = "error-503", value_name = "P", default_value_t = 0.0)]
    error_503: f64,
    /// Probability of 429 in the server's place
    #[arg(long = "error-429", value_name = "P", default_value_t = 0.0)]
    error_429: f64,
    /// Probability of 500 in the server's place
    #[arg(long = "error-500", value_name = "P", default_value_t = 0.0)]
    error_500: f64,
    /// Probability that the connection is reset within the answer's body
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    reset: f64,
    /// Probability that the connection is closed within the answer's body
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    truncate: f64,
    /// Probability that the answer's body stands still before its end
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    stall: f64,
    /// Changes over time: a TOML file with [[step]] tables of `at` and the names of the options above
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Be controlled over HTTP there: unix:PATH or 127.0.0.1:PORT; GET /conditions, GET /counters, POST /set?NAME=VALUE
    #[arg(long, value_name = "ADDRESS")]
    control: Option<ControlAddress>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Connections at once; those beyond are reset
    #[arg(long, value_name = "N", default_value_t = 8192)]
    max_connections: usize,
    /// End after so many seconds
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// What is reported at the end.
#[derive(Debug, Serialize)]
struct Report {
    upstream: SocketAddr,
    listen: SocketAddr,
    /// How long it ran.
    seconds: f64,
    /// At the end.
    conditions: Conditions,
    counters: Counters,
    cpu_seconds_per_gib: Option<f64>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("netlab: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> io::Result<()> {
    let conditions = Conditions {
        first_byte: arguments.first_byte,
        connect: arguments.connect,
        per_connection: arguments.per_connection,
        total: arguments.total,
        error_503: arguments.error_503,
        error_429: arguments.error_429,
        error_500: arguments.error_500,
        reset: arguments.reset,
        truncate: arguments.truncate,
        stall: arguments.stall,
    };
    let schedule = match &arguments.schedule {
        Some(path) => Some(read_schedule(path, &conditions)?),
        None => None,
    };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let options = Options {
        listen: arguments.listen,
        seed: arguments.seed,
        max_connections: arguments.max_connections,
    };
    let lab = Arc::new(NetLab::start_with(arguments.upstream, conditions, options)?);
    let began = Instant::now();
    if let Some(schedule) = schedule {
        lab.follow(schedule)?;
    }
    let mut said = format!("listening on {}", lab.address());
    let socket = match &arguments.control {
        Some(address) => {
            said += &format!(", controlled at {}", control::serve(address, Arc::clone(&lab))?);
            Some(SocketFile(address))
        }
        None => None,
    };
    // For scripts that wait for it; on the error output when the report is for a program.
    if arguments.json {
        eprintln!("{said}")
    } else {
        println!("{said}")
    }
    io::stdout().flush()?;
    let limit = async {
        match arguments.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = limit => {}
    }
    drop(socket);
    let counters = lab.counters();
    let report = Report {
        upstream: arguments.upstream,
        listen: lab.address(),
        seconds: began.elapsed().as_secs_f64(),
        conditions: lab.conditions(),
        cpu_seconds_per_gib: counters.cpu_seconds_per_gib(),
        counters,
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        return writeln!(out);
    }
    print(&mut out, &report)
}

fn read_schedule(path: &PathBuf, start: &Conditions) -> io::Result<Schedule> {
    let explain =
        |error: &dyn std::fmt::Display| io::Error::other(format!("schedule {}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| explain(&error))?;
    Schedule::parse(&text, start).map_err(|error| explain(&error))
}

fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let counters = &report.counters;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(
        out,
        "{:.1} s, {} connections, {} requests, {} faults",
        report.seconds, counters.connections, counters.requests, counters.faults
    )?;
    for (name, traffic) in &counters.operations {
        writeln!(
            out,
            "  {name:<24} {:>9}  {:>12.1} MiB sent  {:>12.1} MiB received",
            traffic.requests,
            mib(traffic.bytes_sent),
            mib(traffic.bytes_received)
        )?;
    }
    let statuses: Vec<String> =
        counters.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
    writeln!(out, "statuses {}", statuses.join(", "))?;
    write!(out, "own processor time {:.3} s", counters.cpu().as_secs_f64())?;
    match report.cpu_seconds_per_gib {
        Some(each) => writeln!(out, ", {each:.3} s per GiB"),
        None => writeln!(out),
    }
}

/// A control socket, removed when the program ends.
struct SocketFile<'a>(&'a ControlAddress);

impl Drop for SocketFile<'_> {
    fn drop(&mut self) {
        if let ControlAddress::Unix(path) = self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}
