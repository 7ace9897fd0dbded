//! Reasons for responses, closes and resets that the proxy itself makes.
//!
//! One enum, one table: the status, the gRPC code, the RFC 9209 error type, the metric labels, the retry answer and the
//! hint of a failure are decided here and nowhere else. `docs/reasons.md` is rendered from it.

mod table;
#[cfg(test)]
mod tests;

pub use table::{ALL, Row, render};

/// The cause of a failure, as seen from this proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The application that called.
    Client,
    /// The endpoint that was called.
    Endpoint,
    /// The network between this proxy and the endpoint.
    Network,
    /// This proxy or its configuration.
    Proxy,
    /// The control plane's answer, or its absence.
    ControlPlane,
}

/// The phase of an exchange or a connection in which it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Accepting the connection.
    Accept,
    /// Detecting its protocol.
    Detect,
    /// Asking the control plane.
    Discover,
    /// Choosing a route and a backend.
    Route,
    /// Waiting for an endpoint.
    Queue,
    /// Dialling an endpoint.
    Connect,
    /// Sending the request or waiting for the response.
    Exchange,
}

/// The retry answer: whether a failed request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Nothing was sent: any request may go elsewhere.
    Yes,
    /// The request may have been processed: only an idempotent request may be sent again.
    IfIdempotent,
    /// Sending the request again cannot help.
    No,
}

/// State of the endpoints of a backend that cannot take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unavailable {
    /// The control plane reports no endpoint.
    NoEndpoints,
    /// The control plane has not answered yet.
    NotResolved,
    /// Every endpoint is being connected for the first time.
    Connecting,
    /// No endpoint accepts connections.
    Unreachable,
    /// Every connection carries as many streams as its peer allows.
    StreamLimit,
    /// Every endpoint that accepts connections answers HTTP/2 in HTTP/1.
    Http1Only,
    /// A circuit breaker ejected every endpoint.
    Ejected,
}

impl Unavailable {
    /// The state of the backend, as a sentence about it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NoEndpoints => "it has no endpoints",
            Self::NotResolved => "the control plane has not answered yet",
            Self::Connecting => "its endpoints are being connected",
            Self::Unreachable => "no endpoint accepts connections",
            Self::StreamLimit => "every connection has as many streams as its endpoint allows",
            Self::Http1Only => "its endpoints answer HTTP/2 in HTTP/1",
            Self::Ejected => "circuit breakers have ejected all endpoints",
        }
    }
}

/// The reason for a response, a close or a reset that the proxy itself makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The request waited in the queue until the failfast timeout.
    Failfast(Unavailable),
    /// The backend fails fast: the request was refused at once.
    Unavailable(Unavailable),
    /// The queue in front of the balancer is full.
    QueueFull,
    /// The limit of requests in flight is reached.
    InFlightLimit,
    /// The endpoint refused the connection.
    ConnectRefused,
    /// The endpoint could not be reached.
    ConnectFailed,
    /// The endpoint did not answer the connection attempt in time.
    ConnectTimeout,
    /// The proxy has no file descriptor for another connection.
    DescriptorLimit,
    /// The endpoint answered HTTP/2 in HTTP/1.
    EndpointSpeaksHttp1,
    /// The address must not be dialled from here.
    Prohibited,
    /// The destination is this proxy.
    Loop,
    /// The connection ended before the response began.
    ConnectionLost,
    /// The endpoint's response is not HTTP.
    InvalidResponse,
    /// The endpoint reset a stream that carries an HTTP/1 request.
    UpgradedReset,
    /// The endpoint refused the stream unprocessed: `REFUSED_STREAM`, or a `GOAWAY` that excludes the stream.
    StreamRefused,
    /// The endpoint reset the stream; the reset is passed on.
    StreamReset,
    /// The proxy has no certificate of its own, and the endpoint wants one.
    NoCertificate,
    /// The handshake with an endpoint failed.
    TlsFailed,
    /// The certificate of an endpoint has another identity than the control plane says.
    IdentityMismatch,
    /// The request asks for an identity that the endpoint does not have.
    IdentityRequired,
    /// No route matches the request.
    NoRoute,
    /// The route's limit for a request and its response passed.
    RequestTimeout,
    /// The route's limit for a response passed.
    ResponseTimeout,
    /// The retry policy's limit for the headers of a response passed.
    ResponseHeadersTimeout,
    /// The limit of a profile's route for the headers of a response passed.
    ProfileTimeout,
    /// No frame passed for as long as the route allows.
    IdleTimeout,
    /// The route fails requests on purpose.
    InjectedFailure,
    /// The route redirects the client.
    Redirected,
    /// The route's redirect cannot be applied to the request.
    InvalidRedirect,
    /// The route's backend cannot be used.
    InvalidBackend,
    /// No backend of the route has a weight above 0.
    NoBackend,
    /// The control plane sent an invalid policy.
    InvalidPolicy,
    /// The route forbids the traffic.
    Forbidden,
    /// The policy of the port does not admit the client.
    Unauthorized,
    /// The request is beyond a rate limit of the port.
    RateLimited,
    /// The address is not one of the pod's.
    NotAllowedAddress,
    /// The control plane does not know the destination.
    UnknownDestination,
    /// The control plane refused the look-up.
    DiscoveryRejected,
    /// The control plane did not answer in time.
    DiscoveryTimeout,
    /// The limit of destinations in use is reached.
    DestinationLimit,
    /// The request's form is not allowed.
    InvalidRequest,
    /// The bytes of a client are not HTTP.
    MalformedRequest,
    /// The head of a request is larger than the proxy reads.
    HeadTooLarge,
    /// The head of a request is larger than its endpoint takes.
    EndpointHeadLimit,
    /// The target of a request is longer than the proxy reads.
    TargetTooLong,
    /// Two servers could read the end of the request's body differently.
    InvalidFraming,
    /// The client's body is not valid, or broke off.
    BrokenBody,
    /// The request names no target.
    NoAuthority,
    /// The request's headers did not arrive in time.
    HeaderTimeout,
    /// The limit of half-sent requests is reached.
    HalfSentLimit,
    /// The connection's original destination is not known.
    NoDestination,
    /// A client of the explicit proxy does not speak HTTP.
    NotHttp,
    /// A client of a port that takes HTTP alone does not speak HTTP.
    HttpRequired,
    /// A client's connection that is not HTTP had a line that a server may read as a request line.
    HiddenRequest,
    /// The listener was removed, and the time of its drain is over.
    ListenerRemoved,
    /// The grace period of the shutdown is over.
    ShutdownDeadline,
    /// A TLS client named no server, so that it has no route.
    NoServerName,
    /// A client began a TLS handshake and did not go on.
    TlsDetectionTimeout,
    /// The handshake with a client failed.
    ClientTlsFailed,
    /// The certificate of a client leads to no trust anchor any more.
    ClientUntrusted,
    /// Too many handshakes have begun and not ended.
    HandshakeLimit,
    /// A client connected to the proxy's own port without an identity of the mesh.
    NotMeshed,
    /// A client connected to the proxy's own port without a transport header.
    NoTransportHeader,
    /// A peer proxy asked for a name that this proxy does not forward to.
    GatewayNotAllowed,
    /// A request has come back to this gateway, or its client is the gateway itself.
    GatewayLoop,
    /// The client closed before its protocol was detected.
    ClosedBeforeDetection,
    /// A defect: no other reason fits.
    Unexpected,
}

impl Origin {
    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Endpoint => "endpoint",
            Self::Network => "network",
            Self::Proxy => "proxy",
            Self::ControlPlane => "control_plane",
        }
    }
}

impl Phase {
    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Detect => "detect",
            Self::Discover => "discover",
            Self::Route => "route",
            Self::Queue => "queue",
            Self::Connect => "connect",
            Self::Exchange => "exchange",
        }
    }
}

impl Reason {
    /// The HTTP status of the response.
    pub fn status(self) -> http::StatusCode {
        http::StatusCode::from_u16(self.row().status).expect("the table holds valid status codes")
    }

    /// The gRPC status code of the response.
    pub fn grpc_code(self) -> u8 {
        self.row().grpc
    }

    /// The value of `reason` in metrics and logs.
    pub fn label(self) -> &'static str {
        self.row().label
    }

    /// The value of `error` in `outbound_http_errors_total` and related families.
    pub fn error_label(self) -> &'static str {
        self.row().error
    }

    /// The error type of RFC 9209, section 2.3.
    pub fn proxy_status(self) -> &'static str {
        self.row().proxy_status
    }

    /// Whether the client's connection is closed after the answer.
    pub fn is_fatal(self) -> bool {
        self.row().fatal
    }

    /// Whether the request may be sent elsewhere.
    pub fn retry(self) -> Retry {
        self.row().retry
    }

    /// The next check for an operator.
    pub fn hint(self) -> &'static str {
        self.row().hint
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.row().text)
    }
}
