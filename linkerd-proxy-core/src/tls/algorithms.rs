//! Names of the algorithms of the proxy's TLS, for its metrics.

use super::provider::provider;

/// Cipher suites, in the order of preference.
pub fn cipher_suites() -> Vec<String> {
    let suites = provider().cipher_suites.clone();
    suites
        .iter()
        .filter_map(|suite| suite.suite().as_str().map(str::to_owned))
        .collect()
}

/// Key exchange groups, in the order of preference.
pub fn key_exchange_groups() -> Vec<String> {
    let groups = provider().kx_groups.clone();
    groups
        .iter()
        .filter_map(|group| group.name().as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_algorithms_have_names() {
        assert_eq!(
            cipher_suites(),
            [
                "TLS13_AES_128_GCM_SHA256",
                "TLS13_AES_256_GCM_SHA384",
                "TLS13_CHACHA20_POLY1305_SHA256"
            ]
        );
        assert_eq!(
            key_exchange_groups(),
            ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"]
        );
    }
}
