use crate::{SOON, soon};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// A connection for arbitrary bytes.
pub struct Wire {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    /// Connects.
    pub async fn connect(addr: SocketAddr) -> Self {
        let socket = soon(TcpStream::connect(addr)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let read = Vec::new();
        Self { socket, read }
    }

    /// Connects from an address of this machine.
    pub async fn connect_from(client: IpAddr, addr: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(client, 0)).unwrap();
        let socket = soon(socket.connect(addr)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let read = Vec::new();
        Self { socket, read }
    }

    /// Opens a tunnel through an explicit proxy.
    pub async fn tunnel(proxy: SocketAddr, authority: &str) -> Self {
        let mut wire = Self::connect(proxy).await;
        wire.send(format!(
            "CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n"
        ))
        .await;
        let head = wire.head().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        wire
    }

    /// The client's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Sends bytes. A failure is only seen in the response.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = soon(self.socket.write_all(bytes.as_ref())).await;
    }

    /// Closes the sending side.
    pub async fn finish(&mut self) {
        let _ = self.socket.shutdown().await;
    }

    /// Reads up to and including these bytes, and returns everything read.
    pub async fn until(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|found| found == end) {
                let rest = self.read.split_off(at + end.len());
                let found = std::mem::replace(&mut self.read, rest);
                return String::from_utf8_lossy(&found).into_owned();
            }
            if self.more().await == 0 {
                let read = String::from_utf8_lossy(&self.read);
                panic!("closed before {:?}: {read:?}", String::from_utf8_lossy(end));
            }
        }
    }

    /// Reads the head of a message.
    pub async fn head(&mut self) -> String {
        self.until(b"\r\n\r\n").await
    }

    /// Reads this many bytes.
    pub async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.read.len() < count {
            assert_ne!(
                self.more().await,
                0,
                "closed after {} bytes",
                self.read.len()
            );
        }
        let rest = self.read.split_off(count);
        std::mem::replace(&mut self.read, rest)
    }

    /// Reads a response with a `content-length`, or without a body: its head and its body.
    pub async fn response(&mut self) -> (String, String) {
        let head = self.head().await;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().ok())?
        });
        let body = self.bytes(length.unwrap_or(0)).await;
        (head, String::from_utf8(body).unwrap())
    }

    /// Reads until the other side closes, and returns everything.
    pub async fn rest(&mut self) -> String {
        while self.more().await > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// Whether the other side closes in time; bytes before the end are dropped.
    pub async fn closes_within(&mut self, within: Duration) -> bool {
        let closed = async {
            let mut buf = [0; 4096];
            while self.socket.read(&mut buf).await.is_ok_and(|read| read > 0) {}
        };
        timeout(within, closed).await.is_ok()
    }

    /// The socket; no unused bytes may have been read.
    pub fn into_socket(self) -> TcpStream {
        assert!(self.read.is_empty(), "bytes would be lost");
        self.socket
    }

    /// Closes the connection with an RST.
    pub fn abort(self) {
        socket2::SockRef::from(&self.socket)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }

    /// Reads more; returns the number of bytes, 0 at the end or after an error.
    async fn more(&mut self) -> usize {
        match timeout(SOON, self.socket.read_buf(&mut self.read)).await {
            Ok(read) => read.unwrap_or(0),
            Err(_) => panic!(
                "nothing within {SOON:?} after {:?}",
                String::from_utf8_lossy(&self.read)
            ),
        }
    }
}
