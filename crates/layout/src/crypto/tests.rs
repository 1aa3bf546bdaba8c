use proptest::prelude::*;

use super::*;

fn key(byte: u8) -> MasterKey {
    MasterKey::from_file_bytes(&[byte; 32]).unwrap()
}

#[test]
fn key_files_may_be_raw_hex_or_base64() {
    let raw: Vec<u8> = (0..32u8).map(|i| i.wrapping_mul(7).wrapping_add(100)).collect();
    let master = MasterKey::from_file_bytes(&raw).unwrap();
    let wrapped = DataKey::from_test_bytes([9; 32]).wrap(&master);
    let hex = hex::encode(&raw);
    for text in
        [hex.clone(), format!("  {hex}\n"), hex.to_uppercase(), format!("{}\r\n", BASE64.encode(&raw))]
    {
        let same = MasterKey::from_file_bytes(text.as_bytes()).unwrap();
        assert_eq!(*DataKey::unwrap(&same, &wrapped).unwrap().0, [9; 32]);
        assert_eq!(*text.parse::<MasterKey>().unwrap().0, *same.0);
    }
    assert_eq!(*MasterKey::from_file_bytes(master.to_text().as_bytes()).unwrap().0, *master.0);
}

/// A data key wrapped by another implementation of the format.
#[test]
fn the_wrapped_form_is_pinned() {
    let raw: Vec<u8> = (0..32u8).map(|i| i.wrapping_mul(7).wrapping_add(100)).collect();
    let master = MasterKey::from_file_bytes(&raw).unwrap();
    let wrapped = "AAECAwQFBgcICQoLJjNgFKCEwVjNSN0q2dZ2ev9iGfLge03cZuKv4hvmPD9uW3mINpR8eWbW8QsSwtqd";
    assert_eq!(*DataKey::unwrap(&master, wrapped).unwrap().0, [9; 32]);
}

#[test]
fn what_is_no_key_is_refused_without_being_shown() {
    for wrong in
        [&b""[..], b"secret-password", &[0xff; 31], &[0xff; 33], &[b'a'; 63], &[b'g'; 64], &[b'A'; 48]]
    {
        let error = MasterKey::from_file_bytes(wrong).unwrap_err();
        assert!(matches!(error, CryptoError::KeyFormat(_)));
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn another_key_does_not_open() {
    let wrapped = DataKey::generate().wrap(&key(1));
    let error = DataKey::unwrap(&key(2), &wrapped).unwrap_err();
    assert_eq!(error, CryptoError::WrongKey);
    assert!(error.to_string().contains("this key does not open this volume"));
    assert!(DataKey::unwrap(&key(1), &wrapped).is_ok());
    assert_eq!(DataKey::unwrap(&key(1), "AAAA").unwrap_err(), CryptoError::WrappedKeyFormat);
}

#[test]
fn debug_shows_nothing() {
    assert_eq!(
        format!("{:?} {:?}", key(0x61), DataKey::from_test_bytes([0x61; 32])),
        "MasterKey(redacted) DataKey(redacted)"
    );
}

#[test]
fn wrapping_twice_differs_and_fits_the_superblock() {
    let data = DataKey::generate();
    let (a, b) = (data.wrap(&key(1)), data.wrap(&key(1)));
    assert_ne!(a, b);
    assert_eq!(a.len(), 80);
}

proptest! {
    #[test]
    fn any_text_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..100), text in "[A-Za-z0-9+/=]{0,100}") {
        let _ = MasterKey::from_file_bytes(&bytes);
        let _ = text.parse::<MasterKey>();
        prop_assert!(DataKey::unwrap(&key(1), &text).is_err());
    }
}
