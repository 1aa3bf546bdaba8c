//! Who may come in, where credentials are found, and what a person is told when they are wrong, on a real S3 server.

mod common;

use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{KEY_ID, SECRET, Server, open_plain, options};
use futures::TryStreamExt;
use headrace_store::{
    Environment, ErrorKind, StoreError, StoreOptions, create_root, open_with_environment, probe,
};

fn assert_denied(error: &StoreError, words: &str) {
    let text = error.to_string();
    assert_eq!(error.kind, ErrorKind::Denied, "{text}");
    assert!(text.contains(words), "{words:?} not in: {text}");
    for part in ["\n", SECRET, "wrong-secret", "Signature=", "x-amz"] {
        assert!(!text.contains(part), "{part:?} in: {text}");
    }
    println!("{text}");
}

#[tokio::test]
async fn wrong_credentials_are_refused_at_once_and_explained() {
    let server = Server::start();
    for (id, secret) in [(KEY_ID, "wrong-secret"), ("nobody", SECRET)] {
        let options = StoreOptions {
            access_key_id: Some(id.into()),
            secret_access_key: Some(secret.into()),
            ..options(&server.endpoint())
        };
        let store = open_plain("s3://bucket/p", &options).unwrap();
        let began = Instant::now();
        for error in [
            store.get("k").await.unwrap_err(),
            store.put("k", Bytes::from_static(b"x")).await.unwrap_err(),
            store.put_if_absent("k", Bytes::from_static(b"x")).await.unwrap_err(),
            store.head("k").await.unwrap_err(),
            store.delete("k").await.unwrap_err(),
            store.list("").try_collect::<Vec<_>>().await.unwrap_err(),
            probe(&*store).await.unwrap_err(),
        ] {
            assert_denied(&error, "the keys given as options");
        }
        assert!(began.elapsed() < Duration::from_secs(5), "this must not be tried again");
    }
}

#[tokio::test]
async fn missing_credentials_name_the_places_searched() {
    let server = Server::start();
    let options = StoreOptions { endpoint: Some(server.endpoint()), ..StoreOptions::default() };
    let home = tempfile::tempdir().unwrap();
    let environment: Environment = [("HOME", home.path().to_str().unwrap())].into_iter().collect();
    let store = open_with_environment(&"s3://bucket".parse().unwrap(), &options, &environment).unwrap();
    let began = Instant::now();
    let error = store.get("k").await.unwrap_err();
    assert_denied(&error, "AWS_ACCESS_KEY_ID in the environment");
    assert_denied(&error, home.path().join(".aws/credentials").to_str().unwrap());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn anonymous_access_is_possible_to_ask_for() {
    let server = Server::start();
    let options = StoreOptions { anonymous: true, ..options(&server.endpoint()) };
    let store = open_plain("s3://bucket", &options).unwrap();
    assert_denied(&store.get("k").await.unwrap_err(), "anonymous");
}

#[tokio::test]
async fn a_missing_bucket_is_named() {
    let server = Server::start();
    let store = open_plain("s3://no-such-bucket/p", &options(&server.endpoint())).unwrap();
    for error in [
        store.get("k").await.unwrap_err(),
        store.get_range("k", 0..5).await.unwrap_err(),
        store.put("k", Bytes::from_static(b"x")).await.unwrap_err(),
        store.put_if_absent("k", Bytes::from_static(b"x")).await.unwrap_err(),
        store.head("k").await.unwrap_err(),
        store.delete("k").await.unwrap_err(),
        store.list("").try_collect::<Vec<_>>().await.unwrap_err(),
        probe(&*store).await.unwrap_err(),
    ] {
        let text = error.to_string();
        assert_eq!(error.kind, ErrorKind::NotFound, "{text}");
        assert!(text.contains("bucket \"no-such-bucket\" does not exist"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        println!("{text}");
    }
    // Nothing to do for a store of this kind: the bucket is its owner's business.
    create_root(&"s3://no-such-bucket/p".parse().unwrap()).unwrap();
}

#[tokio::test]
async fn credentials_and_endpoint_come_from_profile_files() {
    let server = Server::start();
    let home = tempfile::tempdir().unwrap();
    let aws = home.path().join(".aws");
    std::fs::create_dir(&aws).unwrap();
    let keys = format!("aws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n");
    std::fs::write(
        aws.join("credentials"),
        format!("[default]\naws_access_key_id=x\naws_secret_access_key=y\n[work]\n{keys}"),
    )
    .unwrap();
    std::fs::write(
        aws.join("config"),
        format!("[profile work]\nendpoint_url = {}\nregion = us-east-1\n", server.endpoint()),
    )
    .unwrap();
    let location = "s3://bucket/p".parse().unwrap();
    let home_variable = ("HOME", home.path().to_str().unwrap());

    // By AWS_PROFILE, by option, and with the file named by a variable.
    let by_variable: Environment = [home_variable, ("AWS_PROFILE", "work")].into_iter().collect();
    let store = open_with_environment(&location, &StoreOptions::default(), &by_variable).unwrap();
    store.put("k", Bytes::from_static(b"x")).await.unwrap();
    let by_option = StoreOptions { profile: Some("work".into()), ..StoreOptions::default() };
    let store = open_with_environment(&location, &by_option, &[home_variable].into_iter().collect()).unwrap();
    assert_eq!(store.get("k").await.unwrap(), "x");
    let elsewhere = home.path().join("elsewhere");
    std::fs::write(&elsewhere, format!("[default]\n{keys}")).unwrap();
    let endpoint = server.endpoint();
    let by_file: Environment = [
        home_variable,
        ("AWS_SHARED_CREDENTIALS_FILE", elsewhere.to_str().unwrap()),
        ("AWS_ENDPOINT_URL_S3", &endpoint),
    ]
    .into_iter()
    .collect();
    let store = open_with_environment(&location, &StoreOptions::default(), &by_file).unwrap();
    assert_eq!(store.get("k").await.unwrap(), "x");

    // The default profile has other keys; its files are named, its values are not.
    let wrong: Environment = [home_variable, ("AWS_ENDPOINT_URL", &endpoint)].into_iter().collect();
    let store = open_with_environment(&location, &StoreOptions::default(), &wrong).unwrap();
    assert_denied(&store.get("k").await.unwrap_err(), "profile \"default\" of");
}

#[tokio::test]
async fn credentials_and_endpoint_come_from_the_environment() {
    let server = Server::start();
    let endpoint = server.endpoint();
    for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"] {
        let environment: Environment = [
            (name, endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            // A bundle for other servers, even a broken one, has nothing to do with plain http.
            ("AWS_CA_BUNDLE", "/nonexistent/bundle.pem"),
        ]
        .into_iter()
        .collect();
        let store =
            open_with_environment(&"s3://bucket/p".parse().unwrap(), &StoreOptions::default(), &environment)
                .unwrap();
        store.put("k", Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(store.get("k").await.unwrap(), "x");
    }
    // With https it matters, and is named.
    let environment: Environment = [("AWS_CA_BUNDLE", "/nonexistent/bundle.pem")].into_iter().collect();
    let error =
        open_with_environment(&"s3://bucket".parse().unwrap(), &options("https://127.0.0.1:1"), &environment);
    assert!(error.err().unwrap().to_string().contains("/nonexistent/bundle.pem"));
}

#[tokio::test]
async fn https_needs_a_certificate_that_is_trusted() {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (certificate, key) = (files.path().join("certificate.pem"), files.path().join("key.pem"));
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let server = Server::start_with(&["--cert", certificate, "--key", key]);
    let options = options(&format!("https://{}", server.address));
    let location = "s3://bucket/p".parse().unwrap();

    let store = open_with_environment(&location, &options, &Environment::default()).unwrap();
    let began = Instant::now();
    for error in [store.get("k").await.unwrap_err(), store.get_range("k", 0..9).await.unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("is not trusted") && error.to_string().contains("AWS_CA_BUNDLE"),
            "{error}"
        );
        println!("{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "this must not be tried again");

    let environment: Environment = [("AWS_CA_BUNDLE", certificate)].into_iter().collect();
    let store = open_with_environment(&location, &options, &environment).unwrap();
    let body = Bytes::from_iter((0..3u32 << 20).map(|at| (at % 251) as u8));
    store.put("k", body.clone()).await.unwrap();
    assert_eq!(store.get("k").await.unwrap(), body);
    for range in [5..10, 0..3 << 20, (1 << 20) + 1..2 << 20] {
        let got = store.get_range("k", range.start as u64..range.end as u64).await.unwrap();
        assert!(got == body[range.clone()], "{range:?}");
    }
}

/// Needs a name server or an /etc/hosts in which bucket.s3.test is 127.0.0.1; without one only the address asked can be checked.
#[tokio::test]
async fn virtual_hosts_carry_the_bucket_in_the_name() {
    let server = Server::start_with(&["--virtual-domain", "s3.test"]);
    let endpoint = format!("http://s3.test:{}", server.address.port());
    let options =
        StoreOptions { virtual_host: Some(true), deadline: Duration::from_millis(500), ..options(&endpoint) };
    let store = open_plain("s3://bucket/p", &options).unwrap();
    match store.put("k", Bytes::from_static(b"x")).await {
        Ok(()) => assert_eq!(std::fs::read(server.bucket().join("p/k")).unwrap(), b"x"),
        Err(error) => assert!(error.to_string().contains("http://bucket.s3.test:"), "{error}"),
    }
}
