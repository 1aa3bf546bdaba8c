//! Settings of S3 from options, environment and the AWS profile files, in the order that people know from other programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::ini;
use crate::error::ErrorKind;
use crate::options::{Environment, Secret, StoreOptions};

/// What a client of S3 needs to know.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) endpoint: Option<String>,
    pub(super) region: String,
    pub(super) virtual_host: bool,
    pub(super) credentials: Credentials,
    /// For people: where the credentials came from, or where they were looked for.
    pub(super) source: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    Keys {
        id: String,
        secret: Secret,
        token: Option<Secret>,
    },
    Anonymous,
    /// The client library may know more: single sign-on, containers, instance metadata.
    Library {
        profile: Option<String>,
    },
}

/// Settles what `options` leave open.
pub(super) fn settle(
    options: &StoreOptions,
    environment: &Environment,
) -> Result<Settings, (ErrorKind, String)> {
    let name = options.profile.as_deref().or(environment.get("AWS_PROFILE"));
    let profile = Profile::load(name.unwrap_or("default"), environment);
    if let (Some(name), false) = (name, profile.exists) {
        let why = format!("there is no profile \"{name}\" in {}", profile.files());
        return Err((ErrorKind::Denied, why));
    }

    let endpoint = options.endpoint.as_deref();
    let endpoint = endpoint
        .or_else(|| environment.get("AWS_ENDPOINT_URL_S3"))
        .or_else(|| environment.get("AWS_ENDPOINT_URL"));
    let endpoint =
        endpoint.or_else(|| profile.get("services.s3.endpoint_url")).or_else(|| profile.get("endpoint_url"));
    let endpoint = endpoint.map(check_endpoint).transpose().map_err(|why| (ErrorKind::Unsupported, why))?;

    let region = options.region.as_deref();
    let region =
        region.or_else(|| environment.get("AWS_REGION")).or_else(|| environment.get("AWS_DEFAULT_REGION"));
    let region = region.or_else(|| profile.get("region")).or(endpoint.as_ref().map(|_| "us-east-1"));
    let Some(region) = region else {
        let why = "the region of the bucket is not known; give --region, set AWS_REGION, or give --endpoint for a service other \
                   than AWS";
        return Err((ErrorKind::Unsupported, why.to_owned()));
    };
    if region.is_empty() || !region.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
        return Err((
            ErrorKind::Unsupported,
            "the region is not valid: letters, digits and '-' are allowed".to_owned(),
        ));
    }
    let (credentials, source) = credentials(options, environment, &profile)?;
    Ok(Settings {
        virtual_host: options.virtual_host.unwrap_or(endpoint.is_none()),
        region: region.to_owned(),
        endpoint,
        credentials,
        source,
    })
}

fn credentials(
    options: &StoreOptions,
    environment: &Environment,
    profile: &Profile,
) -> Result<(Credentials, String), (ErrorKind, String)> {
    if options.anonymous {
        return Ok((Credentials::Anonymous, "none, as anonymous access was asked for".to_owned()));
    }
    let half = |place: &str| {
        let why = format!("{place} gives only one of access key id and secret access key; both are needed");
        (ErrorKind::Unsupported, why)
    };
    match (&options.access_key_id, &options.secret_access_key) {
        (Some(id), Some(secret)) => {
            let keys = Credentials::Keys {
                id: id.clone(),
                secret: secret.clone(),
                token: options.session_token.clone(),
            };
            return Ok((keys, "the keys given as options".to_owned()));
        }
        (None, None) => {}
        _ => return Err(half("the command line or configuration")),
    }
    let keys_of_profile = || match (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")) {
        (Some(id), Some(secret)) => {
            let token = profile.get("aws_session_token").map(Secret::from);
            let keys = Credentials::Keys { id: id.to_owned(), secret: secret.into(), token };
            Ok(Some((keys, format!("profile \"{}\" of {}", profile.name, profile.files()))))
        }
        (None, None) => Ok(None),
        _ => Err(half(&format!("profile \"{}\"", profile.name))),
    };
    // A profile that was asked for by option means more than keys that happen to be in the environment.
    if options.profile.is_some()
        && let Some(found) = keys_of_profile()?
    {
        return Ok(found);
    }
    if options.profile.is_none() {
        match (environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => {
                let token = environment.get("AWS_SESSION_TOKEN").map(Secret::from);
                let keys = Credentials::Keys { id: id.to_owned(), secret: secret.into(), token };
                return Ok((
                    keys,
                    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment".to_owned(),
                ));
            }
            (None, None) => {}
            _ => return Err(half("the environment")),
        }
        if let Some(found) = keys_of_profile()? {
            return Ok(found);
        }
    }
    let source = format!(
        "options, AWS_ACCESS_KEY_ID in the environment, profile \"{}\" in {}, then single sign-on, container and instance metadata",
        profile.name,
        profile.files()
    );
    Ok((Credentials::Library { profile: profile.exists.then(|| profile.name.clone()) }, source))
}

/// Checks the address of a service; one without a scheme means https.
pub(super) fn check_endpoint(text: &str) -> Result<String, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = reqwest::Url::parse(&whole).map_err(|error| {
        format!("the endpoint is not a URL ({error}); write something like https://s3.example.com:9000")
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("the endpoint must be an http or https URL".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("credentials do not belong in the endpoint; give them as options, in the environment or in a profile file".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("the endpoint must have no '?' or '#' part".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// A profile: what the credentials file says of it, then the config file.
struct Profile {
    name: String,
    values: BTreeMap<String, String>,
    exists: bool,
    places: Vec<String>,
}

impl Profile {
    fn load(name: &str, environment: &Environment) -> Profile {
        let mut profile =
            Profile { name: name.to_owned(), values: BTreeMap::new(), exists: false, places: Vec::new() };
        let home =
            |file: &str| environment.get("HOME").map(|home| PathBuf::from(home).join(".aws").join(file));
        let place =
            |variable: &str, file: &str| environment.get(variable).map(PathBuf::from).or_else(|| home(file));
        let config_section = if name == "default" { name.to_owned() } else { format!("profile {name}") };
        for (path, section) in [
            (place("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name),
            (place("AWS_CONFIG_FILE", "config"), config_section.as_str()),
        ] {
            let Some(path) = path else { continue };
            let content = match ini::read_limited(&path) {
                Ok(content) => content,
                Err(error) => {
                    let why = match error.kind() {
                        std::io::ErrorKind::NotFound => "not there".to_owned(),
                        _ => error.to_string(),
                    };
                    profile.places.push(format!("{} ({why})", path.display()));
                    continue;
                }
            };
            profile.places.push(path.display().to_string());
            let mut sections = ini::parse(&String::from_utf8_lossy(&content));
            let Some(found) = sections.remove(section) else { continue };
            profile.exists = true;
            let services =
                found.get("services").and_then(|services| sections.remove(&format!("services {services}")));
            for (name, value) in services.unwrap_or_default() {
                profile.values.entry(format!("services.{name}")).or_insert(value);
            }
            for (name, value) in found {
                profile.values.entry(name).or_insert(value);
            }
        }
        profile
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The files searched, for people.
    fn files(&self) -> String {
        match self.places.is_empty() {
            true => "~/.aws (HOME is not set)".to_owned(),
            false => self.places.join(" and "),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn options() -> StoreOptions {
        StoreOptions { region: Some("r-1".into()), ..StoreOptions::default() }
    }

    fn id(settings: &Settings) -> Option<&str> {
        match &settings.credentials {
            Credentials::Keys { id, .. } => Some(id),
            _ => None,
        }
    }

    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".aws")).unwrap();
        let credentials = "[default]\naws_access_key_id=FILE\naws_secret_access_key=s\n[two]\naws_access_key_id=TWO\n\
                           aws_secret_access_key=s\naws_session_token=t\n[half]\naws_access_key_id=H\n";
        let config = "[default]\nregion=eu-1\n[profile two]\nregion=eu-2\nendpoint_url=http://two:1\n[profile sso]\nsso_session=x\n\
                      [profile three]\nservices=mine\nendpoint_url=http://wrong\n[services mine]\ns3 =\n  endpoint_url = http://three:1/\n";
        fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        fs::write(home.path().join(".aws/config"), config).unwrap();
        home
    }

    fn with<'a>(home: &'a tempfile::TempDir, more: &[(&'a str, &'a str)]) -> Environment {
        more.iter().copied().chain([("HOME", home.path().to_str().unwrap())]).collect()
    }

    #[test]
    fn the_nearest_credentials_win() {
        let home = home();
        let keys = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_PROFILE", "two")];
        let given = StoreOptions {
            access_key_id: Some("OPT".into()),
            secret_access_key: Some("s".into()),
            ..options()
        };
        assert_eq!(id(&settle(&given, &with(&home, &keys)).unwrap()), Some("OPT"));
        assert_eq!(id(&settle(&options(), &with(&home, &keys)).unwrap()), Some("ENV"));
        assert_eq!(id(&settle(&options(), &with(&home, &keys[2..])).unwrap()), Some("TWO"));
        assert_eq!(id(&settle(&options(), &with(&home, &[])).unwrap()), Some("FILE"));
        let profile = StoreOptions { profile: Some("two".into()), ..options() };
        assert_eq!(id(&settle(&profile, &with(&home, &keys)).unwrap()), Some("TWO"));
        let sso = StoreOptions { profile: Some("sso".into()), ..options() };
        let library = Credentials::Library { profile: Some("sso".into()) };
        assert_eq!(settle(&sso, &with(&home, &keys)).unwrap().credentials, library);
        let none = settle(&options(), &Environment::default()).unwrap();
        assert_eq!(none.credentials, Credentials::Library { profile: None });
        let anonymous = StoreOptions { anonymous: true, ..given };
        assert_eq!(settle(&anonymous, &with(&home, &keys)).unwrap().credentials, Credentials::Anonymous);
    }

    #[test]
    fn region_and_endpoint_come_from_the_same_places() {
        let home = home();
        let plain = StoreOptions::default();
        let settings = settle(&plain, &with(&home, &[])).unwrap();
        assert_eq!(
            (settings.region.as_str(), settings.endpoint, settings.virtual_host),
            ("eu-1", None, true)
        );
        let settings =
            settle(&plain, &with(&home, &[("AWS_PROFILE", "two"), ("AWS_REGION", "us-9")])).unwrap();
        assert_eq!((settings.region.as_str(), settings.endpoint.as_deref()), ("us-9", Some("http://two:1")));
        assert!(!settings.virtual_host);
        let settings = settle(&plain, &with(&home, &[("AWS_PROFILE", "three")])).unwrap();
        assert_eq!(
            (settings.region.as_str(), settings.endpoint.as_deref()),
            ("us-east-1", Some("http://three:1"))
        );
        let both = [("AWS_ENDPOINT_URL", "http://a"), ("AWS_ENDPOINT_URL_S3", "b.example:9000")];
        let settings = settle(&plain, &with(&home, &both)).unwrap();
        assert_eq!(settings.endpoint.as_deref(), Some("https://b.example:9000"));
        let given = StoreOptions { endpoint: Some("http://c/".into()), ..plain };
        assert_eq!(settle(&given, &with(&home, &both)).unwrap().endpoint.as_deref(), Some("http://c"));
    }

    #[test]
    fn mistakes_are_explained_without_values() {
        let home = home();
        let refused = |options: &StoreOptions, more: &[(&str, &str)]| {
            let environment: Environment =
                more.iter().copied().chain([("HOME", home.path().to_str().unwrap())]).collect();
            settle(options, &environment).expect_err("should be refused").1
        };
        assert!(refused(&options(), &[("AWS_PROFILE", "nobody")]).contains("no profile \"nobody\""));
        assert!(refused(&options(), &[("AWS_PROFILE", "half")]).contains("both are needed"));
        let half = refused(&options(), &[("AWS_SECRET_ACCESS_KEY", "hidden")]);
        assert!(half.contains("both are needed") && !half.contains("hidden"), "{half}");
        let endpoint = StoreOptions { endpoint: Some("http://user:hidden@host".into()), ..options() };
        let why = refused(&endpoint, &[]);
        assert!(why.contains("do not belong") && !why.contains("hidden"), "{why}");
        for endpoint in ["http://", "ftp://host", "http://host:port", "http://host?x"] {
            let options = StoreOptions { endpoint: Some(endpoint.into()), ..options() };
            assert!(refused(&options, &[]).contains("endpoint"), "{endpoint}");
        }
        assert!(
            settle(&StoreOptions::default(), &Environment::default()).unwrap_err().1.contains("AWS_REGION")
        );
    }
}
