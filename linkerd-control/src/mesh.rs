//! The mesh file: its services, its parser and checks, its watch, and its answers.

mod answers;
mod backend_ref;
mod breaker;
mod check;
mod decl;
mod error;
mod file;
mod form;
mod host_name;
mod hosts;
mod ipv6;
mod model;
mod near;
mod peer_proxy;
mod position;
mod profile;
mod routes;
mod servers;
mod syntax;
#[cfg(test)]
mod testing;
mod values;
mod watch;
mod yaml;

pub use self::error::{MeshError, Problem, Problems};
pub(crate) use self::hosts::Known;
pub use self::hosts::{HostAddresses, Resolve, SystemResolver};
pub use self::ipv6::bracketed_ipv6;
pub use self::model::Mesh;
pub(crate) use self::near::distance;
pub use self::watch::{AppliedMesh, FileWatch, MeshLoad, watch_file, watch_file_with};
