//! The algorithms of TLS between proxies: TLS 1.3 with the algorithms that the incumbent offers, in its order.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::sync::{Arc, LazyLock};

/// The provider of all TLS of the proxy.
pub(super) fn provider() -> Arc<CryptoProvider> {
    PROVIDER.clone()
}

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    use aws_lc_rs::{cipher_suite, kx_group};
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![
            kx_group::X25519MLKEM768,
            kx_group::X25519,
            kx_group::SECP256R1,
            kx_group::SECP384R1,
        ],
        ..aws_lc_rs::default_provider()
    })
});
