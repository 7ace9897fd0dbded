//! The workloads of the proxies.

use crate::net::{self, SERVICE};
use std::{net::SocketAddr, ops::Range};

/// One kind of traffic.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// The description.
    pub about: &'static str,
    /// The traffic.
    pub traffic: Traffic,
    /// Number of services.
    pub services: usize,
    /// Number of endpoints of each service.
    pub endpoints: usize,
    /// Workers of the proxy, each with a core.
    pub workers: usize,
    /// Whether the policy has features: three routes, a header filter, timeouts, retries and a breaker.
    pub has_policy: bool,
    /// Whether two proxies carry the traffic, the second one in front of the backends, with mutual TLS between them.
    pub is_meshed: bool,
}

/// Traffic to a proxy.
#[derive(Clone, Copy, Debug)]
pub enum Traffic {
    /// HTTP/1.1 over 32 kept connections, each with sequential requests: their path, and the size of their bodies.
    Http1(&'static str, usize),
    /// HTTP/2 over 16 connections of 10 streams.
    Http2,
    /// gRPC over as many streams: requests of 20 bytes, responses of 12 bytes and trailers.
    Grpc,
    /// gRPC calls over as many streams: [`MESSAGES`] messages of [`MESSAGE`] bytes in each response, each in its own frame, at
    /// the backend's pace.
    GrpcStreams,
    /// Bytes without a protocol over this many connections.
    Bulk(usize),
    /// HTTP/1.1, each request over a new connection.
    Churn,
    /// HTTP/1.1 over 32 kept connections at a fixed rate.
    FixedRate,
    /// HTTP/1.1 connections that were used once and stay open.
    Idle,
    /// Opaque connections that were used once and stay open: each has its own connection to a backend.
    IdleOpaque,
    /// Connections to the backends' proxy alone, each with a full handshake of mutual TLS and one request.
    Handshakes,
    /// HTTP/1.1, one request to each of many services.
    Destinations,
    /// HTTP/1.1 at a fixed rate while a few endpoints are extended, replaced, and removed.
    Growth,
    /// HTTP/1.1 at a fixed rate while this many other connections, used once, stay open.
    Connections(usize),
}

/// The protocol of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// Opaque bytes.
    Opaque,
}

const fn plain(name: &'static str, about: &'static str, traffic: Traffic) -> Workload {
    Workload {
        name,
        about,
        traffic,
        services: 1,
        endpoints: 3,
        workers: 1,
        has_policy: false,
        is_meshed: false,
    }
}

const fn meshed(name: &'static str, about: &'static str, traffic: Traffic) -> Workload {
    Workload {
        is_meshed: true,
        ..plain(name, about, traffic)
    }
}

const fn policy(name: &'static str, about: &'static str, traffic: Traffic) -> Workload {
    Workload {
        has_policy: true,
        ..plain(name, about, traffic)
    }
}

const fn growth(name: &'static str, endpoints: usize) -> Workload {
    let about =
        "HTTP/1.1 at 1,000 requests/s while this many endpoints come, are replaced, and leave";
    Workload {
        endpoints,
        ..plain(name, about, Traffic::Growth)
    }
}

const fn connections(name: &'static str, count: usize) -> Workload {
    let about = "HTTP/1.1 at 1,000 requests/s beside this many idle connections";
    plain(name, about, Traffic::Connections(count))
}

const fn destinations(name: &'static str, services: usize) -> Workload {
    let about = "HTTP/1.1, this many services of 10 endpoints, each used once";
    Workload {
        services,
        endpoints: 10,
        ..plain(name, about, Traffic::Destinations)
    }
}

/// All workloads, in the order of measurement.
pub const ALL: &[Workload] = &[
    plain("h1", "HTTP/1.1, 32 connections", Traffic::Http1("/", 0)),
    plain("h2", "HTTP/2, 16 connections of 10 streams", Traffic::Http2),
    policy(
        "h1-policy",
        "HTTP/1.1, 32 connections; routes, filter, timeouts, retries, breaker",
        Traffic::Http1("/", 0),
    ),
    policy(
        "h2-policy",
        "HTTP/2, 16 connections of 10 streams, likewise",
        Traffic::Http2,
    ),
    plain(
        "grpc-unary",
        "gRPC, 16 connections of 10 calls",
        Traffic::Grpc,
    ),
    plain(
        "grpc-streams",
        "gRPC, 16 connections of 10 streams, 80,000 small messages/s back",
        Traffic::GrpcStreams,
    ),
    plain("bulk", "opaque TCP, 4 connections", Traffic::Bulk(4)),
    plain("bulk-one", "opaque TCP, 1 connection", Traffic::Bulk(1)),
    plain(
        "latency",
        "HTTP/1.1 at 4,000 requests/s over 32 connections",
        Traffic::FixedRate,
    ),
    plain(
        "idle",
        "2,000 connections, used once and kept",
        Traffic::Idle,
    ),
    plain(
        "churn",
        "HTTP/1.1, a connection for each request",
        Traffic::Churn,
    ),
    plain(
        "idle-opaque",
        "2,000 opaque connections, used once and kept",
        Traffic::IdleOpaque,
    ),
    meshed(
        "meshed-h1",
        "HTTP/1.1, 32 connections, two proxies with mutual TLS and HTTP/2 between them",
        Traffic::Http1("/", 0),
    ),
    meshed(
        "meshed-h2",
        "HTTP/2, 16 connections of 10 streams, two proxies with mutual TLS",
        Traffic::Http2,
    ),
    meshed(
        "meshed-grpc",
        "gRPC, 16 connections of 10 calls, two proxies with mutual TLS",
        Traffic::Grpc,
    ),
    meshed(
        "meshed-bulk",
        "opaque TCP, 4 connections, two proxies with mutual TLS",
        Traffic::Bulk(4),
    ),
    meshed(
        "meshed-churn",
        "HTTP/1.1, a connection for each request, two proxies with mutual TLS",
        Traffic::Churn,
    ),
    meshed(
        "meshed-idle",
        "2,000 opaque connections, used once and kept, two proxies with mutual TLS",
        Traffic::IdleOpaque,
    ),
    meshed(
        "handshakes",
        "a full handshake of mutual TLS and a request for each connection, the backends' proxy alone",
        Traffic::Handshakes,
    ),
    Workload {
        endpoints: 1000,
        ..plain(
            "endpoints-1000",
            "HTTP/1.1, 1,000 endpoints",
            Traffic::Http1("/", 0),
        )
    },
    Workload {
        workers: 2,
        ..plain("workers-2", "HTTP/1.1, two workers", Traffic::Http1("/", 0))
    },
    destinations("destinations-1000", 1000),
    growth("scale-endpoints-1", 1),
    growth("scale-endpoints-10", 10),
    growth("scale-endpoints-100", 100),
    growth("scale-endpoints-1000", 1000),
    growth("scale-endpoints-10000", 10_000),
    connections("scale-connections-100", 100),
    connections("scale-connections-1000", 1000),
    connections("scale-connections-10000", 10_000),
    destinations("scale-destinations-10", 10),
    destinations("scale-destinations-100", 100),
    destinations("scale-destinations-1000", 1000),
    plain(
        "down-1k",
        "responses of 1 KB",
        Traffic::Http1("/bytes/1024", 0),
    ),
    plain(
        "down-64k",
        "responses of 64 KB",
        Traffic::Http1("/bytes/65536", 0),
    ),
    plain(
        "down-1m",
        "responses of 1 MB",
        Traffic::Http1("/bytes/1048576", 0),
    ),
    plain("up-1k", "requests of 1 KB", Traffic::Http1("/", 1024)),
    plain("up-64k", "requests of 64 KB", Traffic::Http1("/", 65_536)),
    plain("up-1m", "requests of 1 MB", Traffic::Http1("/", 1_048_576)),
];

impl Workload {
    /// The number of proxies on a request's path.
    pub fn proxies(&self) -> usize {
        1 + usize::from(self.is_meshed)
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        match self.traffic {
            Traffic::Http2 | Traffic::Grpc | Traffic::GrpcStreams => Protocol::Http2,
            Traffic::Bulk(_) | Traffic::IdleOpaque | Traffic::Handshakes => Protocol::Opaque,
            _ => Protocol::Http1,
        }
    }

    /// The endpoints of a service: one backend listens on all of these addresses.
    pub fn endpoints(&self, service: usize) -> Vec<SocketAddr> {
        let count = match self.traffic {
            Traffic::Growth => self.endpoints.min(FEW),
            _ => self.endpoints,
        };
        let first = service * self.endpoints;
        self.backends(first..first + count)
    }

    /// The later sets of endpoints, if they change: each replaces the previous one.
    pub fn later(&self) -> [Vec<SocketAddr>; 3] {
        let count = self.endpoints;
        [0..count, count..2 * count, 0..count.min(FEW)].map(|range| self.backends(range))
    }

    fn backends(&self, numbers: Range<usize>) -> Vec<SocketAddr> {
        let addr = |number| SocketAddr::new(net::backend(number), self.backend_port());
        numbers.map(addr).collect()
    }

    /// The port of the backend.
    pub fn backend_port(&self) -> u16 {
        match self.protocol() {
            Protocol::Http2 => BACKEND_HTTP2,
            Protocol::Http1 | Protocol::Opaque => BACKEND_HTTP1,
        }
    }

    /// The target of the load: the service or, without a proxy, an endpoint.
    pub fn target(&self, is_direct: bool) -> SocketAddr {
        match is_direct {
            true => self.endpoints(0)[0],
            false => SocketAddr::new(SERVICE, 80),
        }
    }

    /// Whether a proxy needs a control plane to know all services.
    pub fn needs_discovery(&self) -> bool {
        self.services > 1 || matches!(self.traffic, Traffic::Growth)
    }

    /// Whether the workload is a point of a curve, measured only on request.
    pub fn is_scale(&self) -> bool {
        self.name.starts_with(SCALE)
    }
}

/// The common prefix of all points of the curves.
pub const SCALE: &str = "scale";
/// Messages of a stream: so many that its head and end cost little in comparison.
pub const MESSAGES: u32 = 1000;
/// The size of a message, with its prefix.
pub const MESSAGE: u32 = 5 + 12;
/// The number of endpoints before they grow.
const FEW: usize = 10;
/// The backend's port for HTTP/1.
pub const BACKEND_HTTP1: u16 = 8080;
/// The backend's port for HTTP/2.
pub const BACKEND_HTTP2: u16 = 8081;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = ALL.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn a_service_has_as_many_endpoints_as_it_should() {
        for workload in ALL {
            let endpoints = match workload.traffic {
                Traffic::Growth => workload.later().into_iter().next().unwrap_or_default(),
                _ => workload.endpoints(0),
            };
            let endpoints: HashSet<_> = endpoints.into_iter().collect();
            assert_eq!(endpoints.len(), workload.endpoints, "{}", workload.name);
        }
    }
}
