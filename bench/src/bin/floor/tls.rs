//! Mutual TLS of the floor's programs, with the library's defaults: TLS 1.3, sessions resumed.

use std::{error::Error, fs, io, net::SocketAddr, path::Path, pin::Pin, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector, TlsStream,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::aws_lc_rs::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
        server::WebPkiClientVerifier,
        version::TLS13,
    },
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The sides of a program that are encrypted.
#[derive(Clone, Default)]
pub struct Tls {
    clients: Option<TlsAcceptor>,
    backends: Option<(TlsConnector, ServerName<'static>)>,
}

/// A connection, encrypted or not.
pub enum Stream {
    /// Not encrypted.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Tls {
    /// Takes `--tls-in DIRECTORY` and `--tls-out DIRECTORY NAME` out of the arguments. A directory has `anchors.pem`,
    /// `certificate.pem` and `key.pem`; the name is the identity of the backends.
    pub fn take(args: &mut Vec<String>) -> Result<Self> {
        let mut tls = Self::default();
        if let Some([directory]) = option(args, "--tls-in")? {
            let (anchors, chain, key) = read(Path::new(&directory))?;
            let provider = Arc::new(default_provider());
            let clients =
                WebPkiClientVerifier::builder_with_provider(anchors.into(), provider.clone());
            let config = ServerConfig::builder_with_provider(provider)
                .with_protocol_versions(&[&TLS13])?
                .with_client_cert_verifier(clients.build()?)
                .with_single_cert(chain, key)?;
            tls.clients = Some(Arc::new(config).into());
        }
        if let Some([directory, name]) = option(args, "--tls-out")? {
            let (anchors, chain, key) = read(Path::new(&directory))?;
            let config = ClientConfig::builder_with_provider(default_provider().into())
                .with_protocol_versions(&[&TLS13])?
                .with_root_certificates(anchors)
                .with_client_auth_cert(chain, key)?;
            tls.backends = Some((Arc::new(config).into(), name.try_into()?));
        }
        Ok(tls)
    }

    /// A connection from a client, after its handshake.
    pub async fn accept(&self, stream: TcpStream) -> Result<Stream> {
        stream.set_nodelay(true)?;
        let Some(acceptor) = &self.clients else {
            return Ok(Stream::Plain(stream));
        };
        let stream = acceptor.accept(stream).await?;
        Ok(Stream::Tls(Box::new(stream.into())))
    }

    /// A connection to a backend, after its handshake.
    pub async fn connect(&self, backend: SocketAddr) -> Result<Stream> {
        let stream = TcpStream::connect(backend).await?;
        stream.set_nodelay(true)?;
        let Some((connector, name)) = &self.backends else {
            return Ok(Stream::Plain(stream));
        };
        let stream = connector.connect(name.clone(), stream).await?;
        Ok(Stream::Tls(Box::new(stream.into())))
    }
}

/// The values after an option.
fn option<const N: usize>(args: &mut Vec<String>, name: &str) -> Result<Option<[String; N]>> {
    let Some(at) = args.iter().position(|arg| arg == name) else {
        return Ok(None);
    };
    if args.len() <= at + N {
        return Err(format!("{name} takes {N} values").into());
    }
    let mut taken = args.drain(at..=at + N);
    taken.next();
    let values: Vec<_> = taken.collect();
    Ok(values.try_into().ok())
}

type Credentials = (
    RootCertStore,
    Vec<CertificateDer<'static>>,
    PrivateKeyDer<'static>,
);

fn read(directory: &Path) -> Result<Credentials> {
    let certificates = |name: &str| -> Result<Vec<CertificateDer<'static>>> {
        let pem = fs::read(directory.join(name))?;
        Ok(CertificateDer::pem_slice_iter(&pem).collect::<std::result::Result<_, _>>()?)
    };
    let mut anchors = RootCertStore::empty();
    for anchor in certificates("anchors.pem")? {
        anchors.add(anchor)?;
    }
    let key = PrivateKeyDer::from_pem_file(directory.join("key.pem"))?;
    Ok((anchors, certificates("certificate.pem")?, key))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buf: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> std::task::Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
