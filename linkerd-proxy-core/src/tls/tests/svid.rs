//! X.509 SVIDs.

use super::*;

const ID: &str = "spiffe://cluster.local/ns/shop/sa/web";

fn svid(authority: &Authority) -> X509Svid {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI(ID.try_into().unwrap())];
    let request = params.serialize_request(&key).unwrap();
    let leaf = authority.sign(request.der(), SystemTime::now(), HOUR);
    X509Svid {
        spiffe_id: ID.to_owned(),
        certificates: [&leaf[..], authority.root()].concat(),
        key: key.serialize_der(),
        bundle: [authority.root(), authority.root()].concat(),
    }
}

#[test]
fn the_first_svid_of_the_identity_is_chosen() {
    let svid = svid(&Authority::new());
    let other = X509Svid {
        spiffe_id: "spiffe://cluster.local/other\n".to_owned(),
        ..svid.clone()
    };
    let second = X509Svid {
        bundle: Vec::new(),
        ..svid.clone()
    };
    let answer = [other.clone(), svid.clone(), second];
    let identity: Identity = ID.parse().unwrap();
    assert_eq!(X509Svid::choose(&answer, &identity), Ok(&svid));
    let error = X509Svid::choose(&[other], &identity)
        .unwrap_err()
        .to_string();
    let parts = [
        "spiffe_id",
        "cluster.local/other\\n",
        ID,
        "register this workload",
    ];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    let error = X509Svid::choose(&[], &identity).unwrap_err().to_string();
    assert!(error.contains("the answer has no SVID"), "{error}");
}

#[test]
fn an_svid_certifies_the_proxy() {
    let authority = Authority::new();
    let svid = svid(&authority);
    let contents = svid.read().unwrap();
    assert_eq!((contents.chain.len(), contents.bundle.len()), (2, 2));
    assert_eq!(contents.bundle, authority.anchors);
    let local = LocalIdentity {
        identity: ID.parse().unwrap(),
        server_name: "web.test".into(),
    };
    let (mut publisher, credentials) =
        CredentialsPublisher::new(local, TrustAnchors::none()).unwrap();
    let now = SystemTime::now();
    let SvidContents { key, chain, bundle } = contents;
    publisher.replace(bundle, &key, chain, now).unwrap();
    assert!(credentials.borrow().credentials.is_some());
}

#[test]
fn a_field_that_cannot_be_used_is_named() {
    let svid = svid(&Authority::new());
    let half = svid.certificates[..svid.certificates.len() - 1].to_vec();
    for (field, broken) in [
        (
            "x509_svid:",
            X509Svid {
                certificates: half,
                ..svid.clone()
            },
        ),
        (
            "x509_svid:",
            X509Svid {
                certificates: Vec::new(),
                ..svid.clone()
            },
        ),
        (
            "x509_svid_key:",
            X509Svid {
                key: b"junk".to_vec(),
                ..svid.clone()
            },
        ),
        (
            "bundle:",
            X509Svid {
                bundle: Vec::new(),
                ..svid.clone()
            },
        ),
        (
            "bundle:",
            X509Svid {
                bundle: b"junk".to_vec(),
                ..svid.clone()
            },
        ),
    ] {
        let error = broken.read().unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn the_key_of_an_svid_is_never_shown() {
    let svid = svid(&Authority::new());
    assert_eq!(
        format!("{svid:?}"),
        format!("X509Svid {{ spiffe_id: {ID:?}, .. }}")
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(certificates: Vec<u8>, key: Vec<u8>, bundle: Vec<u8>) {
        let svid = X509Svid { spiffe_id: ID.to_owned(), certificates, key, bundle };
        proptest::prop_assert!(svid.read().is_err());
    }
}
