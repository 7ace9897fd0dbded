//! The physical floor: `relay LISTEN BACKEND…` copies bytes in both directions without reading them.
//!
//! A request costs two reads and two writes. Backends take turns.

use std::{error::Error, net::SocketAddr};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{LocalSet, spawn_local},
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> Result<()> {
    let mut buf = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buf).await?;
        if count == 0 {
            return Ok(to.shutdown().await?);
        }
        to.write_all(&buf[..count]).await?;
    }
}

async fn relay(mut client: TcpStream, backend: SocketAddr) -> Result<()> {
    let mut server = TcpStream::connect(backend).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    tokio::try_join!(
        copy(client_read, server_write),
        copy(server_read, client_write)
    )?;
    Ok(())
}

fn main() -> Result<()> {
    let addrs: Vec<SocketAddr> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse())
        .collect::<std::result::Result<_, _>>()?;
    let [listen, backends @ ..] = &addrs[..] else {
        return Err("usage: relay LISTEN BACKEND…".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(listen).await?;
        for backend in backends.iter().cycle() {
            let (client, _) = listener.accept().await?;
            let backend = *backend;
            // A side that disconnects is no failure.
            spawn_local(async move { drop(relay(client, backend).await) });
        }
        Err("usage: relay LISTEN BACKEND…".into())
    })
}

const BUFFER: usize = 64 * 1024;
