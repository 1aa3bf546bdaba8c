//! A network that is changed and asked while it runs, over HTTP on a unix socket or a loopback port.
//!
//! `GET /conditions` and `GET /counters` answer with JSON; `POST /set?first-byte=20ms&total=none` changes conditions by the
//! names of [`Conditions::NAMES`] and answers with all of them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::conditions::ParseError;
use crate::{Conditions, NetLab};

/// Longest request, bytes.
const MAX_REQUEST: u64 = 16 << 10;
/// How long a client may take to send its request or to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a network is controlled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlAddress {
    /// A socket file, made with access for its owner only.
    Unix(PathBuf),
    /// A loopback address.
    Tcp(SocketAddr),
}

/// `unix:/run/netlab.sock`, or a loopback address with a port.
impl FromStr for ControlAddress {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<ControlAddress, ParseError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(ControlAddress::Unix(path.into()));
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(ControlAddress::Tcp(address)),
            Ok(_) => {
                Err(ParseError::new(text, "not a loopback address: whoever reaches it controls the network"))
            }
            Err(_) => {
                Err(ParseError::new(text, "neither unix:PATH nor a loopback address such as 127.0.0.1:8899"))
            }
        }
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            ControlAddress::Tcp(address) => address.fmt(f),
        }
    }
}

/// Serves control of `lab` at `address` in a thread that lasts as long as the program; gives where it listens.
///
/// # Errors
/// When it cannot listen there, a socket file of that name among the reasons.
pub fn serve(address: &ControlAddress, lab: Arc<NetLab>) -> io::Result<ControlAddress> {
    let explain =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
    match address {
        ControlAddress::Unix(path) => {
            let listener = UnixListener::bind(path).map_err(explain)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(explain)?;
            spawn(move || {
                for client in listener.incoming().flatten() {
                    let _ = client.set_read_timeout(Some(PATIENCE));
                    let _ = client.set_write_timeout(Some(PATIENCE));
                    let _ = answer(&client, &client, &lab);
                }
            })?;
            Ok(address.clone())
        }
        ControlAddress::Tcp(wanted) => {
            let listener = TcpListener::bind(wanted).map_err(explain)?;
            let bound = listener.local_addr()?;
            spawn(move || {
                for client in listener.incoming().flatten() {
                    let _ = client.set_read_timeout(Some(PATIENCE));
                    let _ = client.set_write_timeout(Some(PATIENCE));
                    let _ = answer(&client, &client, &lab);
                }
            })?;
            Ok(ControlAddress::Tcp(bound))
        }
    }
}

fn spawn(serve: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("netlab-control".into()).spawn(serve).map(|_| ())
}

fn answer(from: impl Read, mut to: impl Write, lab: &NetLab) -> io::Result<()> {
    let mut request = Vec::new();
    let mut limited = from.take(MAX_REQUEST);
    let mut piece = [0; 4096];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        match limited.read(&mut piece)? {
            0 => return Err(io::ErrorKind::InvalidData.into()),
            read => request.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
    let text = String::from_utf8_lossy(&request);
    let mut words = text.split([' ', '\r']);
    let (status, body) = match (words.next(), words.next()) {
        (Some(method), Some(target)) => respond(method, target, lab),
        _ => ("400 Bad Request", String::from("not an HTTP request\n")),
    };
    let kind = if status.starts_with('2') { "application/json" } else { "text/plain" };
    let length = body.len();
    write!(
        to,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn respond(method: &str, target: &str, lab: &NetLab) -> (&'static str, String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match (method, path) {
        ("GET", "/conditions") => ("200 OK", json(&lab.conditions())),
        ("GET", "/counters") => ("200 OK", json(&lab.counters())),
        ("POST", "/set") => match change(lab.conditions(), query) {
            Ok(conditions) => match lab.set(conditions) {
                Ok(()) => ("200 OK", json(&lab.conditions())),
                Err(error) => ("400 Bad Request", format!("{error}\n")),
            },
            Err(error) => ("400 Bad Request", format!("{error}\n")),
        },
        (_, "/conditions" | "/counters" | "/set") => {
            ("405 Method Not Allowed", format!("not with {method}\n"))
        }
        _ => (
            "404 Not Found",
            String::from("there are GET /conditions, GET /counters and POST /set?NAME=VALUE\n"),
        ),
    }
}

fn change(mut conditions: Conditions, query: &str) -> Result<Conditions, ParseError> {
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| ParseError::new(part, "not NAME=VALUE"))?;
        conditions.set(&decoded(name), &decoded(value))?;
    }
    Ok(conditions)
}

/// Without percent-encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).map_or_else(|error| format!("{error}"), |text| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone() {
        assert_eq!(decoded("20ms%2Cuniform%3d5ms"), "20ms,uniform=5ms");
        assert_eq!(decoded("5%"), "5%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }

    #[test]
    fn only_loopback_is_listened_on() {
        assert!("unix:/run/x".parse::<ControlAddress>().is_ok());
        assert!("[::1]:80".parse::<ControlAddress>().is_ok());
        for wrong in ["0.0.0.0:80", "10.0.0.1:80", "unix:", "8899"] {
            assert!(wrong.parse::<ControlAddress>().is_err(), "{wrong}");
        }
    }
}
