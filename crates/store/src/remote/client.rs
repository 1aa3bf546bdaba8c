//! The HTTP client: connections, TLS, their limits.

use std::sync::Once;
use std::time::Duration;

use super::transport::ObservedTransport;
use crate::error::ErrorKind;
use crate::{Environment, StoreOptions};

/// Idle connections kept per server.
const IDLE_CONNECTIONS: usize = 64;
/// Idle connections are closed before most servers and firewalls do.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// How often an idle connection is checked.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Builds the client for a server. Nothing that concerns TLS can break a plain `http` endpoint.
pub(super) fn build(
    endpoint: Option<&str>,
    options: &StoreOptions,
    environment: &Environment,
) -> Result<ObservedTransport, (ErrorKind, String)> {
    static TLS: Once = Once::new();
    TLS.call_once(|| {
        // Fails if somebody in this process chose one before, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("headrace/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(options.connect_timeout)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_TIME)
        .tcp_keepalive(KEEP_ALIVE)
        // What was sent and is not acknowledged for so long means a dead network, whatever the size of the body.
        .tcp_user_timeout(options.request_timeout)
        .http1_only();
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.tls_certs_only([]);
    } else if let Some(file) = environment.get("AWS_CA_BUNDLE") {
        let refuse = |why: String| (ErrorKind::Unsupported, format!("AWS_CA_BUNDLE names {file}, but {why}"));
        let bundle = super::ini::read_limited(file).map_err(|error| refuse(error.to_string()))?;
        let certificates = reqwest::Certificate::from_pem_bundle(&bundle)
            .map_err(|_| refuse("it is not a file of PEM certificates".to_owned()))?;
        // As with other programs, it takes the place of the system's authorities, which may not even be installed.
        builder = builder.tls_certs_only(certificates);
    }
    if endpoint.is_some_and(is_loopback) {
        // A proxy could not reach this machine's own addresses.
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| {
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        let why = crate::error::one_line(&why, 200);
        let hint = match why.contains("CA certificates") {
            true => "; install the package ca-certificates, or name a file of certificates in AWS_CA_BUNDLE",
            false => "",
        };
        (ErrorKind::Unsupported, format!("cannot set up HTTPS: {why}{hint}"))
    })?;
    Ok(ObservedTransport::new(client))
}

/// Whether an endpoint is on this machine.
pub(super) fn is_loopback(endpoint: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(endpoint) else { return false };
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}
