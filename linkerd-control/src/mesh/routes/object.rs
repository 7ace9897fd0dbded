//! A route as an object of Kubernetes, such as the output of `kubectl get -o yaml`.

use super::name::name;
use crate::mesh::form::{FieldReader, Fields};
use crate::mesh::yaml::Node;
use crate::policy::Protocol;

/// The parts of an object that a mesh file uses. The parents of the route are not: the route belongs to the service that
/// lists it.
pub(super) struct RouteObject<'n> {
    pub(super) name: Option<String>,
    /// `None` if it is absent or of the wrong form, which was reported.
    pub(super) spec: Option<Fields<'n>>,
}

/// Reads an object; `None` for a route in the short form, without `apiVersion`, `kind` and `spec`.
pub(super) fn object<'n>(
    r: &mut FieldReader,
    node: &'n Node,
    protocol: Protocol,
) -> Option<RouteObject<'n>> {
    if !["apiVersion", "kind", "spec"]
        .iter()
        .any(|of| node.field(of).is_some())
    {
        return None;
    }
    let fields = r.fields(node, &["apiVersion", "kind", "metadata", "spec", "status"])?;
    let kinds = [("HTTPRoute", false), ("GRPCRoute", true)];
    let is_grpc = r.choice(&fields, "kind", &kinds);
    match (is_grpc, protocol) {
        (Some(true), protocol) if protocol != Protocol::Grpc => {
            r.report(node.at, "a GRPCRoute needs `protocol: grpc` of the service");
        }
        (Some(false), Protocol::Grpc) => {
            let reason = "a service with `protocol: grpc` has routes of the kind GRPCRoute";
            r.report(node.at, reason);
        }
        _ => {}
    }
    // The server fills in metadata of many names, of which only this one has a meaning here.
    let metadata = fields.get("metadata");
    let name = metadata
        .and_then(|metadata| metadata.field("name"))
        .and_then(|node| name(r, node));
    let spec = match fields.get("spec") {
        Some(spec) => r.fields(spec, &["parentRefs", "hostnames", "rules"]),
        None => {
            r.report(node.at, "the route has no `spec`");
            None
        }
    };
    Some(RouteObject { name, spec })
}
