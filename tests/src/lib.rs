//! The harness of the black-box tests: starts the built proxy like users do, with surroundings.
//!
//! - [`Mesh`]: a proxy, its scripted control plane, and services; enough for most tests.
//! - [`Meshed`]: two proxies with identities, and the controller that issues them.
//! - [`SpireAgent`]: a workload API, which issues identities in place of a controller.
//! - [`TokenIssuer`]: tokens of workloads, and the key set that verifies them.
//! - [`Collector`]: a collector of spans. [`Prometheus`]: a scraper. [`Browser`]: a headless Chromium.
//! - [`DnsServer`]: a name server, which may leave queries without answers.
//! - [`MeshFile`]: a file in place of the control plane.
//! - [`Proxy`]: the process, its log, its admin server.
//! - [`Server`], [`Tcp`]: scripted servers; [`Http1`], [`Http2`], [`Wire`], [`Grpc`], [`TapApi`], [`AdminTap`]: clients.
//! - [`documents`]: YAML, such as manifests, as values.
//! - [`eventually`], [`soon`]: waiting for a condition with a deadline. Tests never sleep.
//!
//! The harness sees the proxy from the outside only. `LINKERD_TESTS_PROXY=/path` runs the same tests against another binary.

#![allow(clippy::unwrap_used)]

mod admin;
mod body;
mod browser;
mod client;
mod client_hello;
mod collector;
pub mod container;
mod deadline;
mod debian;
mod dns_server;
mod grpc;
mod load;
mod mesh;
mod mesh_file;
mod meshed;
mod metrics;
mod ports;
mod prometheus;
mod proxy;
mod server;
mod skipped;
mod spire_agent;
mod tap;
mod tcp;
mod token_issuer;
mod yaml_values;

pub mod netns;

pub use crate::admin::Admin;
pub use crate::body::{Body, body, chunks, empty, from_channel};
pub use crate::browser::{Browser, CHROMIUM};
pub use crate::client::{Http1, Http2, Reply, Wire, get, request, reset_code};
pub use crate::client_hello::{client_hello, real_client_hello};
pub use crate::collector::{Collector, attribute};
pub use crate::deadline::{SOON, eventually, ever, soon};
pub use crate::debian::is_installed;
pub use crate::dns_server::{DnsServer, Zone};
pub use crate::grpc::{Channel, Grpc, Message, grpc_handler};
pub use crate::load::{Load, Report};
pub use crate::mesh::{Mesh, MeshBuilder};
pub use crate::mesh_file::MeshFile;
pub use crate::meshed::{Meshed, identity, with_identity};
pub use crate::metrics::Metrics;
pub use crate::ports::{addr_of, blackhole, bound_at, refused};
pub use crate::prometheus::{PROMETHEUS, Prometheus};
pub use crate::proxy::{Builder, Proxy, binary};
pub use crate::server::{Fail, Seen, Server, ServerBuilder, echo_upgraded, reply};
pub use crate::skipped::{is_root, skipped};
pub use crate::spire_agent::{SpireAgent, svid};
pub use crate::tap::{AdminTap, TapApi, any_request};
pub use crate::tcp::{Tcp, echo};
pub use crate::token_issuer::TokenIssuer;
pub use crate::yaml_values::documents;
pub use linkerd_control::ProxyExit as Exit;

/// The error of a test's operations.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
