//! Requests for certificates: tokens, key sets and certificate signing requests.
//!
//! **Input**: the first byte selects the reader.

use super::Target;
use linkerd_control::{Authority, TokenVerifier};
use std::{
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(super) const TARGET: Target = Target {
    name: "certify",
    run,
    seeds: || {
        let seed = |reader: u8, input: &[u8]| [&[reader], input].concat();
        vec![seed(0, TOKEN), seed(1, KEYS.as_bytes()), seed(2, REQUEST)]
    },
    words: &[
        b"\"none\"",
        b"\"RS256\"",
        b"\"kid\"",
        b"\"n\"",
        b"\"e\"",
        b"\"RSA\"",
        b"\"keys\"",
        b".",
    ],
};

/// A changed token is refused, and a changed request is for the same name.
fn run(input: &[u8]) {
    let Some((reader, input)) = input.split_first() else {
        return;
    };
    match reader {
        0 => token(&String::from_utf8_lossy(input)),
        1 => {
            let verifier = TokenVerifier::new(&String::from_utf8_lossy(input), AUDIENCE);
            if let Ok(verifier) = verifier {
                let token = String::from_utf8_lossy(TOKEN);
                // Another set may have the key as well.
                let _ = verifier.verify(&token, NAME, now());
            }
        }
        _ => {
            if let Ok(signed) = AUTHORITY.sign(input, NAME, HOUR) {
                let name = NAME.as_bytes();
                assert!(signed.der.windows(name.len()).any(|part| part == name));
            }
        }
    }
}

fn token(token: &str) {
    let subject = VERIFIER.verify(token, NAME, now());
    if subject.is_ok() {
        // ECDSA has two signatures for one; none of them is for other claims.
        let signed = |token: &str| {
            token
                .trim_ascii()
                .rsplit_once('.')
                .map(|it| it.0.to_owned())
        };
        assert_eq!(signed(token), signed(&String::from_utf8_lossy(TOKEN)));
    }
    assert!(VERIFIER.verify(token, "admin.mesh.test", now()).is_err());
}

fn now() -> SystemTime {
    UNIX_EPOCH + HOUR
}

static VERIFIER: LazyLock<TokenVerifier> = LazyLock::new(|| {
    let verifier = TokenVerifier::new(KEYS, AUDIENCE).expect("the key set is valid");
    verifier.service_accounts("linkerd.cluster.local")
});

static AUTHORITY: LazyLock<Authority> =
    LazyLock::new(|| Authority::generate("fuzz").expect("an authority can be made"));

const AUDIENCE: &str = "identity.l5d.io";
const NAME: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";
const HOUR: Duration = Duration::from_secs(3600);

/// A token of the service account `web`, of the key in [`KEYS`], whose private half is not kept.
const TOKEN: &[u8] = include_bytes!("certify/token.jwt");
const KEYS: &str = include_str!("certify/keys.json");
const REQUEST: &[u8] = include_bytes!("certify/request.der");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_valid() {
        let token = String::from_utf8_lossy(TOKEN);
        assert!(VERIFIER.verify(&token, NAME, now()).is_ok());
        assert!(AUTHORITY.sign(REQUEST, NAME, HOUR).is_ok());
    }
}
