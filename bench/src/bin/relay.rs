//! The physical floor: `relay LISTEN BACKEND…` copies bytes in both directions without reading them.
//!
//! A request costs two reads and two writes. Backends take turns. With `--tls-in` and `--tls-out` first it is the floor of
//! a meshed relay.

#[path = "floor/tls.rs"]
mod tls;

use std::{error::Error, net::SocketAddr};
use tls::{Stream, Tls};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes},
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

async fn relay(client: TcpStream, backend: SocketAddr, tls: Tls) -> Result<()> {
    let client = tls.accept(client).await?;
    match (client, tls.connect(backend).await?) {
        (Stream::Plain(mut client), Stream::Plain(mut server)) => {
            let (client_read, client_write) = client.split();
            let (server_read, server_write) = server.split();
            tokio::try_join!(
                copy(client_read, server_write),
                copy(server_read, client_write)
            )?;
        }
        (mut client, mut server) => {
            copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER).await?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let tls = Tls::take(&mut args)?;
    let addrs: Vec<SocketAddr> = args
        .iter()
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
            let relayed = relay(client, *backend, tls.clone());
            // A disconnect of one side is no failure.
            spawn_local(async move { drop(relayed.await) });
        }
        Err("usage: relay LISTEN BACKEND…".into())
    })
}

const BUFFER: usize = 64 * 1024;
