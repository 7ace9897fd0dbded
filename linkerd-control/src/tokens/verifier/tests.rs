use super::*;
use aws_lc_rs::{
    rand::SystemRandom,
    rsa,
    signature::{self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// An issuer with a key of either kind.
struct Issuer {
    ec: EcdsaKeyPair,
    rsa: rsa::KeyPair,
}

impl Issuer {
    fn new() -> Self {
        Self {
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            rsa: rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap(),
        }
    }

    fn keys(&self) -> Value {
        let point = self.ec.public_key().as_ref();
        let public = self.rsa.public_key();
        let (n, e) = (public.modulus(), public.exponent());
        json!({"keys": [
            {"kty": "OKP", "crv": "X25519", "kid": "other"},
            {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "x": encode(&point[1..33]), "y": encode(&point[33..])},
            {"kty": "RSA", "kid": "rsa", "alg": "RS256", "n": encode(n.big_endian_without_leading_zero()),
                "e": encode(e.big_endian_without_leading_zero())},
        ]})
    }

    fn verifier(&self) -> TokenVerifier {
        let verifier = TokenVerifier::new(&self.keys().to_string(), "identity.l5d.io").unwrap();
        verifier
            .issuer("https://cluster.test")
            .service_accounts("mesh.Cluster.local")
    }

    /// A token with a right signature by the key of its algorithm.
    fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode_json(header), encode_json(claims));
        let random = SystemRandom::new();
        let signature = match header["alg"].as_str() {
            Some("ES256") => self
                .ec
                .sign(&random, signed.as_bytes())
                .unwrap()
                .as_ref()
                .to_vec(),
            _ => {
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                self.rsa
                    .sign(
                        &signature::RSA_PKCS1_SHA256,
                        &random,
                        signed.as_bytes(),
                        &mut signature,
                    )
                    .unwrap();
                signature
            }
        };
        format!("{signed}.{}", encode(&signature))
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn encode_json(value: &Value) -> String {
    encode(value.to_string().as_bytes())
}

fn header(alg: &str, kid: &str) -> Value {
    json!({"alg": alg, "kid": kid, "typ": "JWT"})
}

/// Claims of a projected token of Kubernetes.
fn claims() -> Value {
    json!({
        "iss": "https://cluster.test", "aud": ["identity.l5d.io"], "sub": "system:serviceaccount:shop:web",
        "exp": NOW + 3600, "nbf": NOW - 10, "iat": NOW - 10, "kubernetes.io": {"namespace": "shop"},
    })
}

fn with(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_service_account_gets_its_own_name() {
    let issuer = Issuer::new();
    let verifier = issuer.verifier();
    assert_eq!(verifier.keys(), 2);
    for (alg, kid) in [("RS256", "rsa"), ("ES256", "ec")] {
        let token = issuer.token(&header(alg, kid), &claims());
        let subject = verifier
            .verify(&format!("{token}\n"), WEB, at(NOW))
            .unwrap();
        assert_eq!(subject, "system:serviceaccount:shop:web");
        for name in [
            "web.other.serviceaccount.identity.mesh.cluster.local",
            "api.shop.serviceaccount.identity.mesh.cluster.local",
            "web.shop.serviceaccount.identity.other.cluster.local",
            "web.shop.serviceaccount.identity.admin.serviceaccount.identity.mesh.cluster.local",
            "web.shop",
            "system:serviceaccount:shop:web",
            "",
        ] {
            let refused = verifier.verify(&token, name, at(NOW)).unwrap_err();
            assert!(
                matches!(refused, TokenError::Subject { .. }),
                "{name}: {refused}"
            );
        }
    }
    // The key may be without a name in the token.
    let token = issuer.token(&json!({"alg": "ES256"}), &claims());
    assert!(verifier.verify(&token, WEB, at(NOW)).is_ok());
}

#[test]
fn a_subject_is_a_name_of_its_own() {
    let issuer = Issuer::new();
    let verifier = TokenVerifier::new(&issuer.keys().to_string(), "identity.l5d.io").unwrap();
    let verify = |subject: &str, name: &str| {
        let token = issuer.token(&header("ES256", "ec"), &with("sub", subject));
        verifier.verify(&token, name, at(NOW))
    };
    assert!(verify("web.mesh.test", "web.mesh.test").is_ok());
    assert!(verify("Web.mesh.test", "web.mesh.test").is_ok());
    assert!(verify("spiffe://mesh.test/web", "spiffe://mesh.test/web").is_ok());
    assert!(verify("spiffe://mesh.test/Web", "spiffe://mesh.test/web").is_err());
    assert!(verify("web.mesh.test", "api.mesh.test").is_err());
    let refused = verify("system:serviceaccount:shop:web", WEB).unwrap_err();
    assert!(matches!(refused, TokenError::NoDomain(_)), "{refused}");
    // A namespace with a dot would be another account of another namespace.
    let dotted = issuer.verifier();
    let token = issuer.token(
        &header("ES256", "ec"),
        &with("sub", "system:serviceaccount:b.shop:a"),
    );
    let name = "a.b.shop.serviceaccount.identity.mesh.cluster.local";
    assert!(dotted.verify(&token, name, at(NOW)).is_err());
}

#[test]
fn claims_that_do_not_apply_are_refused() {
    let issuer = Issuer::new();
    let verifier = issuer.verifier();
    let refused = |claims: &Value, now: u64| {
        let token = issuer.token(&header("RS256", "rsa"), claims);
        verifier.verify(&token, WEB, at(now)).unwrap_err()
    };
    assert_eq!(refused(&claims(), NOW + 3600 + 20), TokenError::Expired);
    assert_eq!(refused(&with("exp", Value::Null), NOW), TokenError::Expired);
    assert_eq!(
        refused(&with("nbf", NOW + 21), NOW),
        TokenError::NotYetValid
    );
    let audience = TokenError::Audience("identity.l5d.io".to_owned());
    for other in [
        json!("https://kubernetes.default.svc"),
        json!([]),
        Value::Null,
    ] {
        assert_eq!(refused(&with("aud", other), NOW), audience);
    }
    let other = TokenError::Issuer("https://cluster.test".to_owned());
    assert_eq!(refused(&with("iss", "https://other.test"), NOW), other);
    assert_eq!(refused(&with("iss", Value::Null), NOW), other);
    for malformed in [with("sub", 1), with("exp", "tomorrow"), json!([])] {
        let refused = refused(&malformed, NOW);
        assert!(matches!(refused, TokenError::Malformed(_)), "{refused}");
    }
}

#[test]
fn forged_tokens_are_refused() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let verifier = issuer.verifier();
    let refused = |token: &str| verifier.verify(token, WEB, at(NOW)).unwrap_err();
    // Signed by another key of the same name, and by the right key as another algorithm.
    for (alg, kid) in [("RS256", "rsa"), ("ES256", "ec")] {
        let forged = other.token(&header(alg, kid), &claims());
        assert_eq!(refused(&forged), TokenError::Signature);
        let token = issuer.token(&header(alg, kid), &claims());
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (head, _) = signed.split_once('.').unwrap();
        let changed = with("sub", "system:serviceaccount:shop:admin");
        let forged = format!("{head}.{}.{signature}", encode_json(&changed));
        assert_eq!(refused(&forged), TokenError::Signature);
        assert_eq!(refused(&format!("{signed}.")), TokenError::Signature);
    }
    for alg in ["none", "None", "HS256", "PS256", "rs256", "EdDSA", ""] {
        let token = issuer.token(&header(alg, "rsa"), &claims());
        assert_eq!(refused(&token), TokenError::Algorithm(alg.to_owned()));
        let (signed, _) = token.rsplit_once('.').unwrap();
        assert_eq!(
            refused(&format!("{signed}.")),
            TokenError::Algorithm(alg.to_owned())
        );
    }
    // The key of `rsa` is for RS256 only, and that of `ec` is none of RSA's.
    for (alg, kid) in [
        ("RS512", "rsa"),
        ("ES256", "rsa"),
        ("RS256", "ec"),
        ("RS256", "x"),
    ] {
        let unknown = refused(&issuer.token(&header(alg, kid), &claims()));
        assert_eq!(unknown, TokenError::UnknownKey(Some(kid.to_owned())));
    }
    let critical = json!({"alg": "RS256", "kid": "rsa", "crit": ["b64"], "b64": false});
    let token = issuer.token(&header("RS256", "rsa"), &claims());
    for malformed in [
        "",
        "token",
        "..",
        "a.b.c.d",
        &format!("{token}="),
        &format!("{token}.{token}"),
        &issuer.token(&critical, &claims()),
        &"a".repeat(MAX_TOKEN + 1),
    ] {
        let refused = refused(malformed);
        assert!(
            matches!(refused, TokenError::Malformed(_)),
            "{malformed:.40}: {refused}"
        );
    }
}

#[test]
fn key_sets_that_verify_nothing_are_refused() {
    let refused = |set: Value| {
        TokenVerifier::new(&set.to_string(), "a")
            .unwrap_err()
            .to_string()
    };
    for (set, problem) in [
        (json!({}), "it is no JSON Web Key Set: "),
        (json!({"keys": []}), "it has no key that verifies"),
        (
            json!({"keys": [{"kty": "oct", "k": "AAAA"}]}),
            "it has no key that verifies",
        ),
        (
            json!({"keys": [{"kty": "RSA", "use": "enc"}]}),
            "it has no key that verifies",
        ),
        (
            json!({"keys": [{"kty": "RSA", "kid": "a"}]}),
            "key 0 (Some(\"a\")) cannot be used: `n`",
        ),
        (
            json!({"keys": [{"kty": "RSA", "n": encode(&[1; 128]), "e": "AQAB"}]}),
            "less than 2048 bits",
        ),
        (
            json!({"keys": [{"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB"}]}),
            "the size of the curve",
        ),
        (
            json!({"keys": vec![json!({"kty": "oct"}); 65]}),
            "it has 65 keys",
        ),
    ] {
        let error = refused(set.clone());
        assert!(error.contains(problem), "{set}: {error}");
    }
    assert!(TokenVerifier::new("no json", "a").is_err());
}

/// Some second.
const NOW: u64 = 1_800_000_000;

const WEB: &str = "web.shop.serviceaccount.identity.mesh.cluster.local";
