//! Endpoints: the id of each request determines its response.

mod http1;
mod http2;

pub use http2::{Pieces, send};

use crate::ledger::Ledger;
use linkerd_tests::{addr_of, bound_at};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::timeout,
};

/// An endpoint, which speaks HTTP/1 and HTTP/2.
#[derive(Clone, Debug)]
pub struct Endpoint {
    ledger: Arc<Ledger>,
    index: usize,
    addr: SocketAddr,
}

/// An endpoint that runs until it is dropped.
pub struct Running {
    pub addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// Starts one at an address. With a seed it stops and restarts, at times derived from the seed.
    pub fn start(
        ledger: &Arc<Ledger>,
        index: usize,
        addr: SocketAddr,
        restless: Option<u64>,
    ) -> Running {
        let socket = bound_at(addr);
        let addr = addr_of(&socket);
        let endpoint = Self {
            ledger: ledger.clone(),
            index,
            addr,
        };
        socket.listen(1024).unwrap();
        let listener = TcpListener::from_std(socket.into()).unwrap();
        let task = match restless {
            None => tokio::spawn(endpoint.accept(listener)),
            Some(seed) => tokio::spawn(endpoint.come_and_go(listener, seed)),
        };
        Running { addr, task }
    }

    async fn come_and_go(self, mut listener: TcpListener, seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed ^ self.index as u64);
        let mut millis = |range| Duration::from_millis(rng.random_range(range));
        loop {
            // The endpoint's connections end with the listener, in any state.
            let _ = timeout(millis(300..4_000), self.clone().accept(listener)).await;
            self.ledger.count(|tally| tally.outages += 1);
            let refusing = bound_at(self.addr);
            tokio::time::sleep(millis(20..800)).await;
            refusing.listen(1024).unwrap();
            listener = TcpListener::from_std(refusing.into()).unwrap();
        }
    }

    async fn accept(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let endpoint = self.clone();
            connections.spawn(async move {
                if let Err(wrong) = endpoint.serve(stream).await {
                    endpoint
                        .ledger
                        .violated(format!("at endpoint {}: {wrong}", endpoint.index));
                }
            });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn serve(&self, stream: TcpStream) -> Result<(), String> {
        let _ = stream.set_nodelay(true);
        let mut first = [0; 3];
        // The proxy sends its preface and its heads at once.
        match stream.peek(&mut first).await {
            Ok(3) if &first == b"PRI" => http2::serve(self, stream).await,
            _ => http1::serve(self, stream).await,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
