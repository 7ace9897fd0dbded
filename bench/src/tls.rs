//! A client of a proxy's inbound port, in place of the clients' proxy.

use crate::{
    error::{Context, Error, Result},
    http::{Client, stream_from},
    identities::{API, Identities, WEB},
};
use std::{
    io::Write,
    net::{IpAddr, SocketAddr, TcpStream},
    sync::Arc,
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    client::Resumption,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    version::TLS13,
};

/// The credentials of a client, and its target.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    to: SocketAddr,
    /// The port of the backend, in a transport header.
    header: Option<u16>,
}

impl TlsClient {
    /// A client that resumes no session: each of its connections costs a full handshake. With `header` it names the port of the
    /// backend; without it, the proxy must know only one.
    pub fn new(identities: &Identities, to: SocketAddr, header: Option<u16>) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| Error::Other(format!("TLS: {error}"));
        let directory = identities.directory(WEB);
        let read = |name: &str| std::fs::read(directory.join(name)).context(name.to_owned());
        let certificates = |pem: &[u8]| -> Result<Vec<CertificateDer<'static>>> {
            let found: std::result::Result<_, _> = CertificateDer::pem_slice_iter(pem).collect();
            found.map_err(|error| failed(&error))
        };
        let mut anchors = RootCertStore::empty();
        for anchor in certificates(&read("anchors.pem")?)? {
            anchors.add(anchor).map_err(|error| failed(&error))?;
        }
        let chain = certificates(&read("certificate.pem")?)?;
        let key = PrivateKeyDer::from_pem_slice(&read("key.pem")?);
        let key = key.map_err(|error| failed(&error))?;
        let config = ClientConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[&TLS13])
            .map(|config| config.with_root_certificates(anchors))
            .and_then(|config| config.with_client_auth_cert(chain, key));
        let mut config = config.map_err(|error| failed(&error))?;
        config.resumption = Resumption::disabled();
        config.alpn_protocols = header.map(|_| ALPN.to_vec()).into_iter().collect();
        Ok(Self {
            config: Arc::new(config),
            name: API.try_into().map_err(|error| failed(&error))?,
            to,
            header,
        })
    }

    /// Connects from an address. The handshake is made with the first request.
    pub fn connect(
        &self,
        source: IpAddr,
    ) -> Result<Client<StreamOwned<ClientConnection, TcpStream>>> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone());
        let connection = connection.map_err(|error| Error::Other(format!("TLS: {error}")))?;
        let mut stream = StreamOwned::new(connection, stream_from(source, self.to)?);
        if let Some(port) = self.header {
            stream.write_all(&transport_header(port)).context("TLS")?;
        }
        Ok(Client::over(stream, self.to, "/"))
    }
}

/// A transport header with a port of two bytes in protobuf's encoding.
fn transport_header(port: u16) -> Vec<u8> {
    let [low, high] = [(port & 0x7f) as u8 | 0x80, (port >> 7) as u8];
    let message = [0x08, low, high];
    [ALPN, b"\r\n\r\n", &[0, 0, 0, 3], &message].concat()
}

const ALPN: &[u8] = b"transport.l5d.io/v1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_its_preface_its_length_and_the_port() {
        let header = transport_header(8080);
        let (preface, message) = header.split_at(header.len() - 7);
        assert_eq!(preface, b"transport.l5d.io/v1\r\n\r\n");
        assert_eq!(message, [0, 0, 0, 3, 0x08, 0x90, 0x3f]);
    }
}
