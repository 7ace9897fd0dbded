//! Clients: they send planned requests, and record the results.

pub mod http1;
pub mod http2;

use crate::{
    plan::{Case, Exchange, Service, Version},
    wire::Head,
};
use linkerd_tests::Admin;
use std::{
    io,
    net::{IpAddr, SocketAddr},
};
use tokio::net::{TcpSocket, TcpStream};

/// The addresses and mode of clients.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// One address for each service.
    pub addrs: [SocketAddr; 4],
    /// The source address of connections.
    pub source: IpAddr,
    /// Whether requests name their targets. Then the proxy's own responses have their reason in fields and in a text.
    pub explicit: bool,
    /// The proxy's admin server, for its state after a time-out.
    pub admin: Admin,
}

/// A client's view of an exchange.
#[derive(Clone, Debug)]
pub struct Seen {
    pub response: Option<Response>,
    /// Bytes of the body, all of them correct.
    pub body: u64,
    pub end: End,
}

/// The head of a final response.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub status: u16,
    /// The attempt of the endpoint that answers; `None` for a response of the proxy.
    pub attempt: Option<usize>,
    /// The reason of a response made by the proxy.
    pub reason: Option<String>,
    pub closes: bool,
    /// The body of a response made by the proxy.
    pub text: String,
    pub trailers: Vec<(String, String)>,
}

/// The end of an exchange for its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The response is complete.
    Complete,
    /// The connection was closed before the end, or failed with this error.
    Closed(String),
    /// The connection or the stream was reset before the end.
    Reset(Option<h2::Reason>),
    /// The client gave up, as planned.
    Cancelled,
    /// The connection ended before the request was sent.
    Skipped,
    /// No response came in time.
    Hung,
    /// A violation.
    Wrong(String),
}

/// Runs a case; there is one result for each exchange.
pub async fn run(case: &Case, way: Way) -> Vec<Seen> {
    match case.version {
        Version::Http1 => http1::run(case, way).await,
        Version::Http2 => http2::run(case, way).await,
    }
}

impl Way {
    /// Prints the proxy's state, while the silent connection is still open.
    async fn print_state(&self, case: &Case) {
        let state = self.admin.state().await;
        println!("case {} hangs: {}", case.number, state["workers"]);
    }

    /// Connects to a service.
    pub async fn connect(&self, service: Service) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.source, 0).into())?;
        let stream = socket.connect(self.addrs[service as usize]).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Service {
    /// The name in clients' requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Lone => "lone",
            Self::Quiet => "quiet",
            Self::Carried => "carried",
        }
    }
}

impl Seen {
    pub fn nothing(end: End) -> Self {
        Self {
            response: None,
            body: 0,
            end,
        }
    }
}

impl Response {
    /// Reads a head; an error is a violation.
    pub fn of(status: u16, head: &Head, exchange: &Exchange, way: Way) -> Result<Self, String> {
        let attempt = check_id(head, exchange.id)?.then(|| head.number("x-attempt").unwrap_or(99));
        let details = head.field("proxy-status").and_then(|value| {
            let (_, details) = value.split_once("details=\"")?;
            let (details, _) = details.split_once('"')?;
            Some(details.to_owned())
        });
        // Written where there is no request to answer.
        let is_late = attempt.is_none() && status == 408;
        let details = details.or_else(|| is_late.then(|| "header_timeout".to_owned()));
        let told = is_late || details.is_some() && head.field("l5d-proxy-error").is_some();
        if attempt.is_none() && way.explicit && !told {
            return Err(format!(
                "{status} is neither an endpoint's nor the proxy's: {head:?}"
            ));
        }
        if attempt.is_some() && details.is_some() {
            return Err(format!(
                "{status} is both an endpoint's and the proxy's: {head:?}"
            ));
        }
        if attempt.is_none() && status < 400 {
            return Err(format!("{status} of nobody: {head:?}"));
        }
        Ok(Self {
            status,
            attempt: attempt.map(|attempt| attempt as usize),
            reason: details.or_else(|| attempt.is_none().then(|| "untold".to_owned())),
            closes: head.closes(),
            text: String::new(),
            trailers: Vec::new(),
        })
    }
}

/// Whether a head is an endpoint's; an error if it belongs to another request.
pub fn check_id(head: &Head, id: u64) -> Result<bool, String> {
    let ids: Vec<_> = head
        .fields
        .iter()
        .filter(|(name, _)| name == "x-id")
        .collect();
    match ids[..] {
        [] => Ok(false),
        [(_, found)] if *found == id.to_string() => Ok(true),
        _ => Err(format!("the response of another request: {head:?}")),
    }
}
