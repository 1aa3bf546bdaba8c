//! How to reach a store, and what may come from the environment.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use zeroize::Zeroizing;

/// A secret text: wiped from memory when dropped, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(Zeroizing::new(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret::from(text.to_owned())
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Secret, Infallible> {
        Ok(Secret::from(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How to reach a store. What is `None` comes from the environment (`AWS_*`, profile files) or from a default.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Base URL of the service, such as `http://127.0.0.1:9000`; by default the provider's own. S3: `AWS_ENDPOINT_URL_S3`,
    /// `AWS_ENDPOINT_URL` and the profile's `endpoint_url` count too.
    pub endpoint: Option<String>,
    /// Region; S3: `AWS_REGION`, `AWS_DEFAULT_REGION` and the profile's `region` count too. With an endpoint it defaults to us-east-1.
    pub region: Option<String>,
    /// S3: the bucket as part of the host name rather than of the path. By default only when no endpoint is given.
    pub virtual_host: Option<bool>,
    /// Key id, account name or user name, whatever the service calls it.
    pub access_key_id: Option<String>,
    /// Secret key, account key or password, whatever the service calls it.
    pub secret_access_key: Option<Secret>,
    /// Token of temporary credentials.
    pub session_token: Option<Secret>,
    /// Profile of the AWS credential files; wins over keys in the environment.
    pub profile: Option<String>,
    /// Send requests unsigned.
    pub anonymous: bool,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest time for which nothing may move in either direction, per attempt. A body that moves slowly may take this and a
    /// second per 128 KiB.
    pub request_timeout: Duration,
    /// When to stop trying, counted from the start of an operation. An attempt that is moving a large body then is let finish.
    pub deadline: Duration,
    /// Ranged GETs go straight over connections of our own. Without it they go through the HTTP library like all else: to compare.
    pub direct: bool,
    /// Further settings, passed to the client library of the service as they are. Their values may be secret.
    pub extra: BTreeMap<String, String>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            endpoint: None,
            region: None,
            virtual_host: None,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
            profile: None,
            anonymous: false,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(20),
            deadline: Duration::from_secs(60),
            direct: true,
            extra: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("virtual_host", &self.virtual_host)
            .field("access_key_id", &self.access_key_id.as_ref().map(|_| "…"))
            .field("secret_access_key", &self.secret_access_key)
            .field("session_token", &self.session_token)
            .field("profile", &self.profile)
            .field("anonymous", &self.anonymous)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("direct", &self.direct)
            .field("deadline", &self.deadline)
            .field("extra", &self.extra.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// Environment variables, as an argument: code that depends on them can be tested without touching the process's own.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Those of this process; ones that are not UTF-8 are left out.
    pub fn of_process() -> Environment {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment(std::env::vars_os().filter_map(text).collect())
    }

    /// The value of a variable; an empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Environment {
        Environment(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

// Values may be secret.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_holds_no_secret() {
        let mut options = StoreOptions {
            access_key_id: Some("hidden-id".into()),
            secret_access_key: Some("hidden-key".into()),
            session_token: Some("hidden-token".into()),
            ..StoreOptions::default()
        };
        options.extra.insert("account_key".into(), "hidden-extra".into());
        let environment: Environment = [("AWS_SECRET_ACCESS_KEY", "hidden-variable")].into_iter().collect();
        let text = format!("{options:?} {options:#?} {environment:?}");
        assert!(!text.contains("hidden"), "{text}");
        assert!(text.contains("account_key"));
    }
}
