//! The HTTP client: connections, TLS, their limits.

use std::sync::{Arc, Once};
use std::time::Duration;

use http::HeaderValue;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::BuilderVerifierExt;

use super::direct::{Direct, Timing};
use super::transport::ObservedTransport;
use crate::error::ErrorKind;
use crate::{Environment, StoreOptions};

/// Idle connections kept per server.
const IDLE_CONNECTIONS: usize = 64;
/// Idle connections are closed before most servers and firewalls do.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// How often an idle connection is checked.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What we call ourselves.
const AGENT: &str = concat!("headrace/", env!("CARGO_PKG_VERSION"));

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
    let here = endpoint.is_some_and(is_loopback);
    let tls = tls(endpoint, environment)?;
    let mut builder = reqwest::Client::builder()
        .user_agent(AGENT)
        .connect_timeout(options.connect_timeout)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_TIME)
        .tcp_keepalive(KEEP_ALIVE)
        .tcp_user_timeout(options.request_timeout)
        .tls_backend_preconfigured(tls.clone())
        .http1_only();
    if here {
        // A proxy could not reach this machine's own addresses.
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| {
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        (ErrorKind::Unsupported, format!("cannot set up HTTP: {}", crate::error::one_line(&why, 200)))
    })?;
    let timing = Timing {
        connect: options.connect_timeout,
        unacknowledged: options.request_timeout,
        keep_alive: KEEP_ALIVE,
        idle: IDLE_TIME,
    };
    let direct = (options.direct && (here || !is_proxy_set()))
        .then(|| Direct::new(tls, timing, IDLE_CONNECTIONS, HeaderValue::from_static(AGENT)));
    Ok(ObservedTransport::new(client, direct))
}

/// Whom to trust.
fn tls(endpoint: Option<&str>, environment: &Environment) -> Result<ClientConfig, (ErrorKind, String)> {
    let trusting = |certificates: Vec<CertificateDer<'static>>| {
        let mut roots = rustls::RootCertStore::empty();
        certificates.into_iter().try_for_each(|certificate| roots.add(certificate))?;
        Ok(ClientConfig::builder().with_root_certificates(Arc::new(roots)).with_no_client_auth())
    };
    let unsupported = |why: String| (ErrorKind::Unsupported, why);
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        return trusting(Vec::new()).map_err(|error: rustls::Error| unsupported(error.to_string()));
    }
    if let Some(file) = environment.get("AWS_CA_BUNDLE") {
        let refuse = |why: String| unsupported(format!("AWS_CA_BUNDLE names {file}, but {why}"));
        let bundle = super::ini::read_limited(file).map_err(|error| refuse(error.to_string()))?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bundle).collect();
        // As with other programs, it takes the place of the system's authorities, which may not even be installed.
        return certificates
            .ok()
            .filter(|certificates| !certificates.is_empty())
            .and_then(|certificates| trusting(certificates).ok())
            .ok_or_else(|| refuse("it is not a file of PEM certificates".to_owned()));
    }
    let system = ClientConfig::builder().with_platform_verifier().map_err(|error| {
        let why = crate::error::one_line(&error.to_string(), 200);
        let hint = match why.contains("CA certificates") {
            true => "; install the package ca-certificates, or name a file of certificates in AWS_CA_BUNDLE",
            false => "",
        };
        unsupported(format!("cannot set up HTTPS: {why}{hint}"))
    })?;
    Ok(system.with_no_client_auth())
}

/// Whether this process is to use a proxy, for some servers at least: which ones is the HTTP library's to know.
fn is_proxy_set() -> bool {
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
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
