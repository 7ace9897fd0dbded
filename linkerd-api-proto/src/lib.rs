//! The wire types of the control plane's gRPC APIs.
//!
//! They are the published `linkerd2-proxy-api` bindings, and so cannot differ from the messages of a control plane.
//! The SPIFFE Workload API ([`workload`]) and the traces of OTLP ([`otlp`]) are written here.
//! Nothing here knows about the proxy; `linkerd-api-client` converts messages to the proxy's own types. Streams are opened
//! by [`stream`].

pub mod otlp;
pub mod stream;
pub mod workload;

pub use linkerd2_proxy_api::{
    destination, grpc_route, http_route, http_types, identity, inbound, meta, net, opaque_route,
    outbound, tap, tls_route,
};
pub use prost_types;
