//! A network in memory: a dial reaches the endpoint that listens, or is refused.

use futures::{FutureExt, future::BoxFuture};
use linkerd_proxy_core::transport::{OpenStream, TransportStream};
use parking_lot::Mutex;
use std::{collections::HashMap, io, net::SocketAddr, sync::Arc};
use tokio::{io::DuplexStream, sync::mpsc};

/// The endpoints that listen. Its copies share them.
#[derive(Clone, Debug, Default)]
pub struct TestNetwork(Arc<Mutex<HashMap<SocketAddr, mpsc::UnboundedSender<DuplexStream>>>>);

/// The connections to one endpoint. They are refused once this is dropped.
pub type Accepting = mpsc::UnboundedReceiver<DuplexStream>;

impl TestNetwork {
    /// Listens at an address.
    pub fn listen(&self, addr: &str) -> Accepting {
        let (connect, accepting) = mpsc::unbounded_channel();
        self.0.lock().insert(addr.parse().unwrap(), connect);
        accepting
    }

    fn connect(&self, addr: SocketAddr) -> io::Result<TransportStream> {
        let (near, far) = tokio::io::duplex(STREAM_BUFFER);
        let listeners = self.0.lock();
        let accepted = listeners
            .get(&addr)
            .map(|connect| connect.send(far).is_ok());
        match accepted {
            Some(true) => Ok(near.into()),
            Some(false) | None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

impl OpenStream for TestNetwork {
    fn open(&self, addr: SocketAddr) -> BoxFuture<'_, io::Result<TransportStream>> {
        std::future::ready(self.connect(addr)).boxed()
    }
}

/// Bytes that a stream holds until they are read.
pub const STREAM_BUFFER: usize = 16 * 1024;
