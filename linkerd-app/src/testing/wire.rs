//! One end of a stream, byte by byte.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// One end of a stream: of a client, an endpoint or an application without a library.
pub struct TestWire(DuplexStream);

impl TestWire {
    /// Writes bytes.
    pub async fn send(&mut self, bytes: &str) {
        self.0.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Reads the head of a message.
    pub async fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap().into());
        }
        head
    }

    /// Checks that these bytes come next.
    pub async fn expect(&mut self, bytes: &str) {
        let mut read = vec![0; bytes.len()];
        self.0.read_exact(&mut read).await.unwrap();
        assert_eq!(std::str::from_utf8(&read), Ok(bytes));
    }

    /// Reads to the end.
    pub async fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).await.unwrap();
        rest
    }

    /// Ends this side.
    pub async fn finish(&mut self) {
        self.0.shutdown().await.unwrap();
    }
}

impl From<DuplexStream> for TestWire {
    fn from(stream: DuplexStream) -> Self {
        Self(stream)
    }
}
