//! The declarations of a mesh file.
//!
//! A field of the wrong form is reported, and the rest of the file is still read.

use super::backend_ref::BackendRef;
use super::breaker::breaker;
use super::error::Problems;
use super::form::{FieldReader, Given, Spanned, shown};
use super::peer_proxy::{PeerProxy, peer_proxy};
use super::position::Position;
use super::profile::{ServiceProfile, profile};
use super::routes::{ServiceRoute, routes};
use super::servers::{MeshServer, default_policy, servers};
use super::yaml::{self, Node, Value};
use crate::policy::{Breaker, Protocol};
use crate::server_policy::ServerPolicy;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) services: Vec<Service>,
    pub(super) servers: Vec<MeshServer>,
    /// The policy of ports without a server, if the file declares it.
    pub(super) default_policy: Option<ServerPolicy>,
    /// Whether services may be missing, as a part of the file could not be read.
    pub(super) partial: bool,
}

#[derive(Debug)]
pub(super) struct Service {
    pub(super) at: Position,
    pub(super) name: Given<String>,
    pub(super) namespace: Given<String>,
    pub(super) port: Given<i128>,
    pub(super) ports: Given<Vec<Given<i128>>>,
    pub(super) protocol: Protocol,
    pub(super) addresses: Vec<Spanned<String>>,
    pub(super) hostnames: Vec<Spanned<String>>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) endpoints: Vec<Spanned<Endpoint>>,
    pub(super) backends: Vec<BackendRef>,
    pub(super) routes: Vec<ServiceRoute<BackendRef>>,
    pub(super) breaker: Option<Breaker>,
    pub(super) profile: Option<ServiceProfile<BackendRef>>,
}

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: String,
    pub(super) weight: f64,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) protocol: Option<Hint>,
    pub(super) proxy: PeerProxy,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Hint {
    H2,
    Opaque,
}

/// Reads a text, and reports the parts without the form of a mesh file.
pub(super) fn parse(text: &str) -> (File, Problems) {
    let tree = yaml::parse(text);
    let mut reader = FieldReader::default();
    let partial = tree.error.is_some();
    let mut file = contents(&mut reader, tree.root.as_ref(), partial);
    let mut problems = reader.problems;
    if let Some(error) = tree.error {
        problems.push(error);
    }
    let unnamed = |service: &Service| !matches!(service.name, Given::Is(_));
    file.partial = partial || file.services.iter().any(unnamed);
    (file, problems)
}

fn contents(reader: &mut FieldReader, root: Option<&Node>, partial: bool) -> File {
    let root = root.filter(|root| !matches!(root.value, Value::Null));
    let fields = root.map(|root| reader.fields(root, FIELDS));
    let fields = match fields {
        // The wrong form has been reported.
        Some(None) => return File::default(),
        Some(fields) => fields,
        None => None,
    };
    let node = fields.as_ref().and_then(|fields| fields.get("services"));
    let mut file = File {
        services: services(reader, node, partial),
        ..File::default()
    };
    if let Some(fields) = fields {
        let of_ports = reader.value(&fields, "servers", servers);
        file.servers = of_ports.unwrap_or_default();
        file.default_policy = default_policy(reader, &fields);
    }
    file
}

const FIELDS: &[&str] = &["services", "servers", "defaultAccessPolicy"];

fn services(reader: &mut FieldReader, node: Option<&Node>, partial: bool) -> Vec<Service> {
    match node {
        Some(node) => {
            let items = reader.list(node).unwrap_or_default();
            items
                .iter()
                .filter_map(|item| service(reader, item))
                .collect()
        }
        None => {
            // More likely a half-written file than a mesh without services, unless a syntax error explains it.
            if !partial {
                reader.report(Position::START, NO_SERVICES);
            }
            Vec::new()
        }
    }
}

fn service(r: &mut FieldReader, node: &Node) -> Option<Service> {
    let fields = r.fields(
        node,
        &[
            "name",
            "namespace",
            "port",
            "ports",
            "protocol",
            "addresses",
            "hostnames",
            "labels",
            "identity",
            "proxyPort",
            "endpoints",
            "backends",
            "routes",
            "breaker",
            "profile",
        ],
    )?;
    let protocols = [
        ("detect", Protocol::Detect),
        ("http1", Protocol::Http1),
        ("http2", Protocol::Http2),
        ("grpc", Protocol::Grpc),
        ("opaque", Protocol::Opaque),
    ];
    let proxy = peer_proxy(r, &fields, &PeerProxy::default());
    let mut endpoints = Vec::new();
    for node in r.items(&fields, "endpoints") {
        let endpoint = endpoint(r, node, &proxy);
        endpoints.extend(endpoint.map(|value| Spanned { value, at: node.at }));
    }
    let backends = r.items(&fields, "backends").iter();
    let backends = backends.filter_map(|node| backend(r, node)).collect();
    let name = r.given(&fields, "name", FieldReader::text);
    let protocol = r.choice(&fields, "protocol", &protocols);
    let is_protocol_known = protocol.is_some() || fields.get("protocol").is_none();
    let protocol = protocol.unwrap_or_default();
    let breaker = r.value(&fields, "breaker", breaker);
    let profile = r.value(&fields, "profile", |r, node| profile(r, node, protocol));
    let routes = match is_protocol_known {
        true => r.value(&fields, "routes", |r, node| {
            Some(routes(r, node, &name, protocol))
        }),
        // The fields of routes depend on the protocol: errors would mislead.
        false => None,
    };
    for field in ["routes", "breaker"] {
        if let Some(node) = fields.get(field)
            && fields.get("profile").is_some()
        {
            let reason = format!("a `profile` replaces `{field}`; remove one of them");
            r.report(node.at, reason);
        }
    }
    Some(Service {
        at: fields.at,
        name,
        namespace: r.given(&fields, "namespace", FieldReader::text),
        port: r.given(&fields, "port", FieldReader::number),
        ports: r.given(&fields, "ports", |r, node| {
            let items = r.list(node)?.iter();
            Some(
                items
                    .map(|item| r.spanned(item, FieldReader::number))
                    .collect(),
            )
        }),
        protocol,
        addresses: r.texts(&fields, "addresses"),
        hostnames: r.texts(&fields, "hostnames"),
        labels: r.labels(&fields),
        endpoints,
        backends,
        routes: routes.unwrap_or_default(),
        breaker,
        profile,
    })
}

/// Either the short form, `10.0.0.1:80`, or the long one.
fn endpoint(r: &mut FieldReader, node: &Node, of_service: &PeerProxy) -> Option<Endpoint> {
    if let Value::Scalar(address) = &node.value {
        return Some(Endpoint {
            address: address.clone(),
            weight: 1.0,
            labels: BTreeMap::new(),
            protocol: None,
            proxy: of_service.clone(),
        });
    }
    if !matches!(node.value, Value::Fields(_)) {
        let reason = format!(
            "expected an address such as 127.0.0.1:9001, or `address:` with its other fields, not {}",
            shown(node)
        );
        r.report(node.at, reason);
        return None;
    }
    let fields = r.fields(
        node,
        &[
            "address",
            "weight",
            "labels",
            "protocol",
            "identity",
            "proxyPort",
        ],
    )?;
    let weight = match r.given(&fields, "weight", FieldReader::decimal) {
        Given::Is(weight) => weight.value,
        Given::Absent | Given::Wrong => 1.0,
    };
    let labels = r.labels(&fields);
    let hints = [("h2", Hint::H2), ("opaque", Hint::Opaque)];
    let protocol = r.choice(&fields, "protocol", &hints);
    let proxy = peer_proxy(r, &fields, of_service);
    let address = match r.given(&fields, "address", FieldReader::text) {
        Given::Is(address) => address.value,
        Given::Wrong => return None,
        Given::Absent => {
            r.report(fields.at, "the endpoint has no `address`");
            return None;
        }
    };
    Some(Endpoint {
        address,
        weight,
        labels,
        protocol,
        proxy,
    })
}

fn backend(r: &mut FieldReader, node: &Node) -> Option<BackendRef> {
    let fields = r.fields(node, &["service", "weight"])?;
    let weight = r.given(&fields, "weight", FieldReader::number);
    match r.given(&fields, "service", FieldReader::text) {
        Given::Is(service) => Some(BackendRef { service, weight }),
        Given::Wrong => None,
        Given::Absent => {
            r.report(fields.at, "the backend has no `service`");
            None
        }
    }
}

const NO_SERVICES: &str = "no services are given; write `services: []` if there are none";
