//! The first message of a TLS client.

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
