//! Sockets whose segments are as long as on a network.
//!
//! The loopback interface carries segments of 64 KiB. With so few of them the rules that TCP has for many show: an answer that is a
//! little longer than the first window is held up for 40 ms, until the receiver's delayed acknowledgement. The kernel still passes
//! many segments at once, so shorter ones cost nothing.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// What a jumbo frame of Ethernet carries, as clouds have them inside, bytes.
const SEGMENT: u32 = 8948;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = new(address)?;
    // As `TcpListener::bind`: a server that comes back gets its port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

pub(super) fn connect(address: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let socket = new(address)?;
    socket.connect_timeout(&address.into(), limit)?;
    Ok(socket.into())
}

fn new(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_mss(SEGMENT)?;
    Ok(socket)
}
