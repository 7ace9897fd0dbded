//! The header of the PROXY protocol, version 2, at the beginning of an opaque connection to the application.
//!
//! The header has the address of the client, which the application does not see otherwise, and the identity of a client of the
//! mesh. The proxy only writes it: a header that a client sends is relayed as any other bytes.

use linkerd_proxy_core::tls::TlsStatus;
use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// The header of one connection.
#[derive(Debug)]
pub struct ProxyHeader<'a> {
    /// The address of the client.
    pub client: SocketAddr,
    /// The address that the client dialled.
    pub destination: SocketAddr,
    /// The encryption between the client and this proxy.
    pub tls: &'a TlsStatus,
}

impl ProxyHeader<'_> {
    /// Writes the header.
    pub async fn send(self, server: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        server.write_all(&self.encode()).await
    }

    /// The bytes of the header.
    fn encode(&self) -> Vec<u8> {
        let (family, addresses) = self.addresses();
        let mut body = addresses;
        if let TlsStatus::Meshed(identity) = self.tls {
            let identity = identity.as_ref().map(|identity| identity.as_str());
            append_field(&mut body, TYPE_SSL, &tls_field(identity));
        }
        let mut header = Vec::with_capacity(SIGNATURE.len() + 4 + body.len());
        header.extend_from_slice(SIGNATURE);
        header.extend_from_slice(&[VERSION_2 | COMMAND_PROXY, family]);
        header.extend_from_slice(&length(&body));
        header.extend_from_slice(&body);
        header
    }

    /// The family of the addresses, and the addresses. If the two differ in their families, both are written as IPv6.
    fn addresses(&self) -> (u8, Vec<u8>) {
        let [client, destination] = [self.client, self.destination];
        let ips = [client, destination].map(|addr| addr.ip().to_canonical());
        let mut bytes = Vec::with_capacity(36);
        let family = match ips {
            [IpAddr::V4(client), IpAddr::V4(destination)] => {
                bytes.extend_from_slice(&client.octets());
                bytes.extend_from_slice(&destination.octets());
                TCP_OVER_IPV4
            }
            both => {
                for ip in both {
                    bytes.extend_from_slice(&as_ipv6(ip).octets());
                }
                TCP_OVER_IPV6
            }
        };
        bytes.extend_from_slice(&client.port().to_be_bytes());
        bytes.extend_from_slice(&destination.port().to_be_bytes());
        (family, bytes)
    }
}

/// The value of the field for TLS; the common name is the identity of the client, if it has one.
fn tls_field(identity: Option<&str>) -> Vec<u8> {
    let (client, verified) = match identity {
        Some(_) => (
            CLIENT_TLS | CLIENT_CERTIFICATE_OF_CONNECTION | CLIENT_CERTIFICATE_OF_SESSION,
            0_u32,
        ),
        // Not zero: there is no certificate to verify.
        None => (CLIENT_TLS, 1),
    };
    let mut value = vec![client];
    value.extend_from_slice(&verified.to_be_bytes());
    append_field(&mut value, SUBTYPE_SSL_VERSION, TLS_VERSION);
    if let Some(identity) = identity {
        append_field(&mut value, SUBTYPE_SSL_CN, identity.as_bytes());
    }
    value
}

/// Appends a field: its type, the length of its value, its value.
fn append_field(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    bytes.push(kind);
    bytes.extend_from_slice(&length(value));
    bytes.extend_from_slice(value);
}

fn length(bytes: &[u8]) -> [u8; 2] {
    let length = u16::try_from(bytes.len());
    length
        .expect("an identity has at most 2,048 bytes, and all the rest fewer than 100")
        .to_be_bytes()
}

fn as_ipv6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// No other protocol begins with these bytes.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

const VERSION_2: u8 = 0x20;

/// The connection is on behalf of another one, whose addresses follow.
const COMMAND_PROXY: u8 = 0x01;

const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

const TYPE_SSL: u8 = 0x20;
const SUBTYPE_SSL_VERSION: u8 = 0x21;
const SUBTYPE_SSL_CN: u8 = 0x22;

const CLIENT_TLS: u8 = 0x01;
const CLIENT_CERTIFICATE_OF_CONNECTION: u8 = 0x02;
const CLIENT_CERTIFICATE_OF_SESSION: u8 = 0x04;

/// The only version between proxies of the mesh.
const TLS_VERSION: &[u8] = b"TLSv1.3";

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::tls::NoTlsReason;

    const PLAIN: TlsStatus = TlsStatus::None(NoTlsReason::NoTlsFromRemote);

    fn encoded(client: &str, destination: &str, tls: &TlsStatus) -> Vec<u8> {
        let header = ProxyHeader {
            client: client.parse().unwrap(),
            destination: destination.parse().unwrap(),
            tls,
        };
        header.encode()
    }

    /// The bytes after the signature, the version and the command.
    fn rest(header: &[u8]) -> &[u8] {
        assert_eq!(
            header[..13],
            *b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21"
        );
        &header[13..]
    }

    #[test]
    fn addresses_have_their_family_and_both_ports_follow() {
        let of_ipv4 = b"\x11\x00\x0c\x0a\x00\x00\x07\x0a\x00\x00\x09\x0f\xa0\x15\x38";
        for (client, destination, expected) in [
            ("10.0.0.7:4000", "10.0.0.9:5432", of_ipv4.to_vec()),
            // As a listener for both families accepts it.
            ("[::ffff:10.0.0.7]:4000", "10.0.0.9:5432", of_ipv4.to_vec()),
            (
                "[2001:db8::7]:4000",
                "[2001:db8::9]:5432",
                [
                    &b"\x21\x00\x24"[..],
                    b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07",
                    b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09",
                    b"\x0f\xa0\x15\x38",
                ]
                .concat(),
            ),
            (
                "10.0.0.7:4000",
                "[2001:db8::9]:5432",
                [
                    &b"\x21\x00\x24"[..],
                    b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x07",
                    b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09",
                    b"\x0f\xa0\x15\x38",
                ]
                .concat(),
            ),
        ] {
            let header = encoded(client, destination, &PLAIN);
            assert_eq!(rest(&header), expected, "{client} {destination}");
        }
    }

    #[test]
    fn tls_of_the_mesh_has_a_field_with_the_identity_as_common_name() {
        let passed = TlsStatus::Passthrough {
            server_name: "db.test".into(),
        };
        let of_web = TlsStatus::Meshed(Some("web.test".parse().unwrap()));
        for (tls, expected) in [
            (PLAIN, vec![]),
            (passed, vec![]),
            (
                TlsStatus::Meshed(None),
                b"\x20\x00\x0f\x01\x00\x00\x00\x01\x21\x00\x07TLSv1.3".to_vec(),
            ),
            (
                of_web,
                b"\x20\x00\x1a\x07\x00\x00\x00\x00\x21\x00\x07TLSv1.3\x22\x00\x08web.test".to_vec(),
            ),
        ] {
            let header = encoded("10.0.0.7:4000", "10.0.0.9:5432", &tls);
            let length = u16::from_be_bytes([header[14], header[15]]);
            assert_eq!(usize::from(length), header.len() - 16);
            assert_eq!(header[16 + 12..], expected, "{tls:?}");
        }
    }

    #[test]
    fn the_longest_identity_fits() {
        let identity = format!("spiffe://root.test/{}", "a".repeat(2_048 - 19));
        let tls = TlsStatus::Meshed(Some(identity.parse().unwrap()));
        let header = encoded("10.0.0.7:4000", "10.0.0.9:5432", &tls);
        assert!(header.ends_with(identity.as_bytes()));
    }
}
