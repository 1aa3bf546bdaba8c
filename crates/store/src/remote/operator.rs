//! From a location and options to a client of the right service.

use std::collections::BTreeMap;

use opendal::{HttpTransporter, OperationContext, Operator};

use super::aws::{self, Credentials};
use super::client;
use super::failure::Blame;
use crate::error::{ErrorKind, one_line};
use crate::{Environment, Location, StoreOptions};

/// A client, and what its errors shall name.
pub(super) struct Built {
    pub(super) operator: Operator,
    pub(super) blame: Blame,
}

type Settings = BTreeMap<String, String>;

/// The library's setting of what is sent with a body, for the server to check it: `crc32c`, `md5`, or `none` of our own.
const CHECKSUM: &str = "checksum_algorithm";
type Refusal = (ErrorKind, String);

/// What a service calls the options that all services have.
struct Names {
    /// Bucket, container, ...
    what: &'static str,
    bucket: &'static str,
    id: &'static str,
    secret: &'static str,
    token: Option<&'static str>,
    anonymous: Option<&'static str>,
}

fn names(service: &str) -> Names {
    let names =
        |what, bucket, id, secret, token, anonymous| Names { what, bucket, id, secret, token, anonymous };
    match service {
        "azblob" => names(
            "container",
            "container",
            "account_name",
            "account_key",
            Some("sas_token"),
            Some("skip_signature"),
        ),
        "b2" => names("bucket", "bucket", "application_key_id", "application_key", None, None),
        "cos" => names("bucket", "bucket", "secret_id", "secret_key", Some("security_token"), None),
        "gcs" => names("bucket", "bucket", "", "credential", Some("token"), Some("skip_signature")),
        "oss" => names(
            "bucket",
            "bucket",
            "access_key_id",
            "access_key_secret",
            Some("security_token"),
            Some("skip_signature"),
        ),
        "webdav" => names("server", "", "username", "password", Some("token"), None),
        _ => names(
            "bucket",
            "bucket",
            "access_key_id",
            "secret_access_key",
            Some("session_token"),
            Some("skip_signature"),
        ),
    }
}

/// Builds the client; sends nothing.
pub(super) fn build(
    location: &Location,
    options: &StoreOptions,
    environment: &Environment,
) -> Result<Built, Refusal> {
    let unsupported = |why: String| (ErrorKind::Unsupported, why);
    let Some((service, name, prefix)) = location.remote() else {
        return Err(unsupported("a local directory needs no client".to_owned()));
    };
    let names = names(service);
    let mut settings = Settings::new();
    if !names.bucket.is_empty() {
        settings.insert(names.bucket.to_owned(), name.to_owned());
    }
    settings.insert("root".to_owned(), format!("/{prefix}"));
    let (endpoint, credentials) = match service {
        "s3" => s3(&mut settings, options, environment)?,
        _ => other(service, name, &names, &mut settings, options)?,
    };
    if let Some(endpoint) = &endpoint {
        settings.insert("endpoint".to_owned(), endpoint.clone());
    }
    // Last, so that they win.
    settings.extend(options.extra.iter().map(|(name, value)| (name.clone(), value.clone())));
    if settings.get(CHECKSUM).is_some_and(|value| value == "none") {
        settings.remove(CHECKSUM);
    }

    let transport = HttpTransporter::new(client::build(endpoint.as_deref(), options, environment)?);
    // Some ways of getting credentials use the process-wide client; the first one serves them all.
    HttpTransporter::install_default(transport.clone());
    opendal::init_default_registry();
    let operator = Operator::via_iter(service, settings).map_err(|error| {
        // Not its Display, which may repeat settings.
        unsupported(format!("the settings are not valid: {}", one_line(error.message(), 200)))
    })?;
    let operator = operator.with_context(OperationContext::default().with_http_transport(transport));
    let bucket = format!("{} \"{name}\"", names.what);
    Ok(Built { operator, blame: Blame { bucket, endpoint, credentials } })
}

fn s3(
    settings: &mut Settings,
    options: &StoreOptions,
    environment: &Environment,
) -> Result<(Option<String>, String), Refusal> {
    let found = aws::settle(options, environment)?;
    let mut set = |name: &str, value: &str| settings.insert(name.to_owned(), value.to_owned());
    set("region", &found.region);
    set(CHECKSUM, "crc32c");
    set("enable_virtual_host_style", if found.virtual_host { "true" } else { "false" });
    match &found.credentials {
        Credentials::Keys { id, secret, token } => {
            set("access_key_id", id);
            set("secret_access_key", secret.expose());
            if let Some(token) = token {
                set("session_token", token.expose());
            }
            set("disable_config_load", "true");
            set("disable_ec2_metadata", "true");
        }
        Credentials::Anonymous => {
            set("skip_signature", "true");
        }
        Credentials::Library { profile } => {
            if let Some(profile) = profile {
                set("profile", profile);
            }
            // A server on this machine is not in a cloud; asking its metadata service would only take time.
            let here = found.endpoint.as_deref().is_some_and(client::is_loopback);
            let disabled = environment
                .get("AWS_EC2_METADATA_DISABLED")
                .is_some_and(|value| value.eq_ignore_ascii_case("true"));
            if here || disabled {
                set("disable_ec2_metadata", "true");
            }
        }
    }
    // Otherwise the library would look for one in the process's environment.
    let endpoint = found.endpoint.clone().unwrap_or_else(|| "https://s3.amazonaws.com".to_owned());
    Ok((Some(endpoint), found.source))
}

fn other(
    service: &str,
    name: &str,
    names: &Names,
    settings: &mut Settings,
    options: &StoreOptions,
) -> Result<(Option<String>, String), Refusal> {
    let unsupported = |why: String| (ErrorKind::Unsupported, why);
    let endpoint = options.endpoint.as_deref().map(aws::check_endpoint).transpose().map_err(unsupported)?;
    let endpoint = match (service, endpoint, &options.access_key_id) {
        (_, Some(endpoint), _) => Some(endpoint),
        ("webdav", None, _) => Some(aws::check_endpoint(name).map_err(unsupported)?),
        ("azblob", None, Some(account)) => {
            let endpoint = format!("https://{account}.blob.core.windows.net");
            Some(aws::check_endpoint(&endpoint).map_err(unsupported)?)
        }
        ("azblob" | "cos" | "obs" | "oss", None, _) if !options.extra.contains_key("endpoint") => {
            return Err(unsupported(format!(
                "a store of kind {service} needs --endpoint, the address of the service"
            )));
        }
        _ => None,
    };
    let mut given = Vec::new();
    for (name, value) in [
        (Some(names.id), options.access_key_id.as_deref()),
        (Some(names.secret), options.secret_access_key.as_ref().map(|secret| secret.expose())),
        (names.token, options.session_token.as_ref().map(|token| token.expose())),
        (names.anonymous, options.anonymous.then_some("true")),
    ] {
        match (name, value) {
            (_, None) => {}
            (None | Some(""), Some(_)) => {
                return Err(unsupported(format!(
                    "a store of kind {service} does not take one of the options for credentials"
                )));
            }
            (Some(name), Some(value)) => {
                settings.insert(name.to_owned(), value.to_owned());
                given.push(name);
            }
        }
    }
    let credentials = match given.is_empty() {
        true => "options, --store-option, then what the client library finds in the environment".to_owned(),
        false => format!("{}, given as options", given.join(", ")),
    };
    Ok((endpoint, credentials))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(url: &str, options: &StoreOptions) -> Result<Built, Refusal> {
        build(&url.parse().unwrap(), options, &Environment::default())
    }

    #[test]
    fn every_scheme_has_its_service() {
        let mut options = StoreOptions {
            endpoint: Some("http://127.0.0.1:1".into()),
            access_key_id: Some("id".into()),
            secret_access_key: Some("c2VjcmV0".into()),
            ..StoreOptions::default()
        };
        options.extra.insert("bucket_id".into(), "x".into());
        for url in
            ["s3://b/p", "azblob://b/p", "b2://b/p", "cos://b/p", "obs://b/p", "oss://b/p", "webdav://h:1/p"]
        {
            let built = built(url, &options).map_err(|error| error.1).expect(url);
            assert_eq!(built.operator.info().scheme(), url.split(':').next().unwrap(), "{url}");
        }
        options.access_key_id = None;
        built("gs://b/p", &options).map_err(|error| error.1).expect("gcs");
    }

    #[test]
    fn what_is_missing_is_named() {
        let refused = |url: &str, options: &StoreOptions| built(url, options).err().expect(url).1;
        let options = StoreOptions::default();
        assert!(refused("oss://b/p", &options).contains("--endpoint"));
        assert!(refused("s3://b/p", &options).contains("AWS_REGION"));
        let id = StoreOptions { access_key_id: Some("id".into()), ..options };
        assert!(refused("gcs://b/p", &id).contains("credentials"));
    }
}
