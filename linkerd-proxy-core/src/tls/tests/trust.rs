//! Trust anchors that change.

use super::*;

/// Two authorities, and a proxy of each; both proxies trust both anchors.
struct TwoAuthorities {
    old: Authority,
    new: Authority,
    web: Proxy,
    api: Proxy,
}

impl TwoAuthorities {
    /// `web` has a certificate of the old authority, and `api` one of the new authority.
    fn trusted_by_both() -> Self {
        let (old, new) = (Authority::new(), Authority::new());
        let (mut web, mut api) = (Proxy::new(&old, WEB), Proxy::new(&new, API));
        let both = old.anchors.and(&new.anchors);
        assert_eq!((both.len(), both.and(&old.anchors).len()), (2, 2));
        for proxy in [&mut web, &mut api] {
            assert_eq!(proxy.trust(&both), AnchorsChange::Applied);
        }
        Self { old, new, web, api }
    }

    /// Connects `web` to `api`, and exchanges bytes so that the session can be resumed.
    async fn connect(&self) -> (Result<(), Error>, Result<(), Error>) {
        let client = self.web.client(API);
        match connect(&client, &self.api.server(), false).await {
            (Ok(mut near), Ok(mut far)) => {
                far.stream.write_all(b"welcome").await.unwrap();
                far.stream.shutdown().await.unwrap();
                near.read_to_end(&mut Vec::new()).await.unwrap();
                (Ok(()), Ok(()))
            }
            (near, far) => (near.map(drop), far.map(drop)),
        }
    }
}

impl Proxy {
    fn trust(&mut self, anchors: &TrustAnchors) -> AnchorsChange {
        let changed = self.publisher.trust(anchors.clone(), SystemTime::now());
        changed.unwrap()
    }
}

#[tokio::test]
async fn an_anchor_that_is_removed_ends_the_resumption_of_its_sessions() {
    for by_server in [true, false] {
        let mut mesh = TwoAuthorities::trusted_by_both();
        for _resumed in [false, true] {
            let (near, far) = mesh.connect().await;
            assert!(near.is_ok() && far.is_ok());
        }
        let (proxy, own) = match by_server {
            true => (&mut mesh.api, &mesh.new.anchors),
            false => (&mut mesh.web, &mesh.old.anchors),
        };
        assert_eq!(proxy.trust(own), AnchorsChange::Applied);
        let (near, far) = mesh.connect().await;
        match by_server {
            true => assert_eq!(far.unwrap_err().reason(), Reason::ClientTlsFailed),
            false => assert_eq!(near.unwrap_err().reason(), Reason::TlsFailed),
        }
    }
}

#[tokio::test]
async fn a_peer_is_verified_again_when_anchors_change_or_a_certificate_ends() {
    let mut mesh = TwoAuthorities::trusted_by_both();
    let now = SystemTime::now();
    let (_, server) = connect(&mesh.web.client(API), &mesh.api.server(), false).await;
    let peer = server.unwrap().peer.unwrap();
    let mut trust = PeerTrust::new(peer.clone(), &mesh.api.credentials, now).unwrap();
    assert!(!trust.is_due(&mesh.api.credentials, now));

    // Another certificate of this proxy changes nothing.
    let (key, chain) = mesh.new.certified(API, now, HOUR);
    mesh.api.publisher.certify(&key, chain, now).unwrap();
    assert!(!trust.is_due(&mesh.api.credentials, now));

    let later = now + HOUR + Duration::from_secs(1);
    assert!(trust.is_due(&mesh.api.credentials, later));
    let problem = trust.verify(&mesh.api.credentials, later).unwrap_err();
    assert!(problem.contains("expired"), "{problem}");

    // Anchors that still have the client's authority.
    let more = mesh.old.anchors.and(&Authority::new().anchors);
    mesh.api.trust(&more.and(&mesh.new.anchors));
    assert!(trust.is_due(&mesh.api.credentials, now));
    trust.verify(&mesh.api.credentials, now).unwrap();
    assert!(!trust.is_due(&mesh.api.credentials, now));

    let own = mesh.new.anchors.clone();
    mesh.api.trust(&own);
    assert!(trust.is_due(&mesh.api.credentials, now));
    let problem = trust.verify(&mesh.api.credentials, now).unwrap_err();
    assert!(problem.contains("UnknownIssuer"), "{problem}");
}

#[tokio::test]
async fn anchors_that_are_not_new_change_nothing() {
    let mut mesh = TwoAuthorities::trusted_by_both();
    let turned = mesh.new.anchors.and(&mesh.old.anchors);
    mesh.api.credentials.borrow_and_update();
    assert_eq!(mesh.api.trust(&turned), AnchorsChange::Same);
    assert!(!mesh.api.credentials.has_changed().unwrap());
    let (near, far) = mesh.connect().await;
    assert!(near.is_ok() && far.is_ok());
}

#[tokio::test]
async fn a_certificate_that_new_anchors_do_not_trust_is_shown_all_the_same() {
    let mut mesh = TwoAuthorities::trusted_by_both();
    let change = mesh.api.trust(&mesh.old.anchors);
    assert!(matches!(change, AnchorsChange::OwnCertificateUntrusted(_)));
    let (near, far) = mesh.connect().await;
    assert!(
        near.is_ok() && far.is_ok(),
        "its peer still trusts both authorities"
    );
}

#[tokio::test]
async fn anchors_and_certificate_are_replaced_together_or_not_at_all() {
    let mut mesh = TwoAuthorities::trusted_by_both();
    let now = SystemTime::now();
    let (key, chain) = mesh.old.certified(API, now, HOUR);
    let other = mesh.new.anchors.clone();
    let refused = mesh.api.publisher.replace(other, &key, chain.clone(), now);
    assert!(matches!(refused, Err(InvalidCredentials::Chain(_))));
    assert_eq!(mesh.api.publisher.anchors().len(), 2);
    let old = mesh.old.anchors.clone();
    let replaced = mesh.api.publisher.replace(old, &key, chain, now);
    assert_eq!(replaced.unwrap(), mesh.api.publisher.validity().unwrap());
    assert_eq!(mesh.api.publisher.anchors(), &mesh.old.anchors);
    let (near, far) = mesh.connect().await;
    assert!(near.is_ok() && far.is_ok());
}
