//! The first message of a TLS client.

use std::sync::Arc;

/// A ClientHello with this server name.
#[must_use]
pub fn client_hello(name: &str) -> Vec<u8> {
    let prefixed = |body: &[u8]| {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&length[..], body].concat()
    };
    let server_name = prefixed(&[&[0][..], &prefixed(name.as_bytes())].concat());
    let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
    let extensions = [&[0, 0][..], &prefixed(&server_name), &signatures].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &prefixed(&[0x13, 0x01]),
        &[1, 0],
        &prefixed(&extensions),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &prefixed(&message)].concat()
}

/// The first message of a real TLS client for a server name: the server answers it, and waits for the client's next one.
pub fn real_client_hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = name.to_owned().try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}
