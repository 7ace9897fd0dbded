//! A scripted server of protocols other than HTTP.

use crate::ports::{addr_of, bound};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// A server on a free loopback port with a scripted handler of connections.
pub struct Tcp {
    addr: SocketAddr,
    connections: Arc<AtomicUsize>,
    running: JoinHandle<()>,
}

impl Tcp {
    /// Starts a server.
    pub async fn start<F, R>(serve: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let socket = bound();
        let addr = addr_of(&socket);
        socket.listen(1024).unwrap();
        Self::on(addr, TcpListener::from_std(socket.into()).unwrap(), serve)
    }

    /// Starts a server at an address.
    pub async fn start_at<F, R>(addr: SocketAddr, serve: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(addr).await.unwrap();
        Self::on(listener.local_addr().unwrap(), listener, serve)
    }

    fn on<F, R>(addr: SocketAddr, listener: TcpListener, serve: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let running = tokio::spawn(async move {
            let mut serving = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                count.fetch_add(1, SeqCst);
                serving.spawn(serve(socket));
                while serving.try_join_next().is_some() {}
            }
        });
        Self {
            addr,
            connections,
            running,
        }
    }

    /// A server that echoes bytes.
    pub async fn echo() -> Self {
        Self::start(echo).await
    }

    /// A server that reads a request's head, answers with these bytes, and closes.
    pub async fn answers(bytes: &'static [u8]) -> Self {
        Self::start(move |mut socket| async move {
            let mut read = Vec::new();
            while !read.windows(4).any(|end| end == b"\r\n\r\n") {
                if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
                    return;
                }
            }
            let _ = socket.write_all(bytes).await;
            let _ = socket.shutdown().await;
        })
        .await
    }

    /// The address of the server.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Echoes bytes.
pub async fn echo(socket: TcpStream) {
    let (mut read, mut write) = socket.into_split();
    let _ = tokio::io::copy(&mut read, &mut write).await;
}
