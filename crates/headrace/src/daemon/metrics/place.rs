//! The setting `metrics`: where metrics can be asked for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use crate::cli::values::BadValue;

/// Where metrics can be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsPlace {
    /// Nowhere.
    Off,
    /// On a socket beside the control socket.
    #[default]
    Socket,
    /// There, and at this address of this machine too.
    Address(SocketAddr),
}

impl FromStr for MetricsPlace {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |why: &str| BadValue(format!("\"{}\" {why}", text.escape_debug()));
        let address = match text.trim() {
            "off" => return Ok(Self::Off),
            "socket" => return Ok(Self::Socket),
            text => match text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>() {
                Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                Err(_) => text.parse::<SocketAddr>().map_err(|_| {
                    bad("is no place for metrics: write off, socket, or an address such as 127.0.0.1:9567")
                })?,
            },
        };
        if !is_loopback(address.ip()) {
            return Err(bad(
                "can be reached from other machines, and whoever reaches the metrics may read them: use an address of the \
                 loopback interface such as 127.0.0.1:9567, and what asks who is asking (a proxy, a tunnel) before it",
            ));
        }
        Ok(Self::Address(address))
    }
}

impl fmt::Display for MetricsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Socket => f.write_str("socket"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Also of an IPv4 address written as one of IPv6.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for (text, address) in [
            ("127.0.0.1:9567", "127.0.0.1:9567"),
            ("[::1]:0", "[::1]:0"),
            ("localhost:9567", "127.0.0.1:9567"),
            ("9567", "127.0.0.1:9567"),
            ("127.8.9.1:80", "127.8.9.1:80"),
        ] {
            let place: MetricsPlace = text.parse().unwrap();
            assert_eq!(place, MetricsPlace::Address(address.parse().unwrap()));
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        assert_eq!("off".parse(), Ok(MetricsPlace::Off));
        assert_eq!("socket".parse(), Ok(MetricsPlace::Socket));
    }

    #[test]
    fn nothing_that_other_machines_can_reach() {
        for text in ["0.0.0.0:9567", "[::]:9567", "10.0.0.1:9567", "192.168.1.1:1", "[::ffff:10.0.0.1]:9567"]
        {
            let error = text.parse::<MetricsPlace>().unwrap_err();
            assert!(error.0.contains("other machines"), "{error}");
        }
        for text in ["", "on", "example.com:80", "127.0.0.1", "localhost", "99999", "true", "127.0.0.1:99999"]
        {
            let error = text.parse::<MetricsPlace>().unwrap_err();
            assert!(error.0.contains("no place for metrics"), "{text}: {error}");
        }
    }
}
