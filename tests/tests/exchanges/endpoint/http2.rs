use super::Endpoint;
use tokio::net::TcpStream;

/// Serves a connection until one side ends it. An error is a violation.
pub async fn serve(_endpoint: &Endpoint, _stream: TcpStream) -> Result<(), String> {
    Err("HTTP/2".to_owned())
}
