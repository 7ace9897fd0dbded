//! The explanation of an inbound request: the policy of its port, and the authorization of its client.

use super::{
    filter,
    query::{ExplainQuery, InvalidQuery, QueryFields, shortened},
    rule,
};
use http::{HeaderMap, Method, Request, Uri};
use linkerd_profiles::{
    InboundHttp, RateLimitSettings, ServerPolicies, ServerPolicy, ServerProtocol,
};
use linkerd_proxy_core::tls::{Identity, NoTlsReason, TlsStatus};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::SocketAddr, num::NonZeroU16};

/// A request of a hypothetical client.
#[derive(Clone, Debug)]
pub struct InboundQuery {
    port: u16,
    client: SocketAddr,
    tls: TlsStatus,
    method: Method,
    url: Uri,
    headers: HeaderMap,
}

/// Answers queries from the policies of ports that the proxy holds.
pub type InboundExplainer = Box<dyn Fn(&InboundQuery) -> Value>;

impl QueryFields {
    /// Checks the fields of a request in either direction. `None` for an inbound one, which has a port.
    pub fn check_any(&self) -> Result<Option<ExplainQuery>, InvalidQuery> {
        match self.port {
            None => self.check().map(Some),
            Some(_) => self.check_inbound().map(|_| None),
        }
    }

    /// Checks the fields of an inbound request. Its URL is `http://app/` by default.
    pub fn check_inbound(&self) -> Result<InboundQuery, InvalidQuery> {
        let port = self.port.as_deref().unwrap_or_default();
        let port: NonZeroU16 = port.parse().map_err(|_| {
            let problem = format!("{:?} is no port", shortened(port));
            InvalidQuery::new("port", problem, "for example port=8080")
        })?;
        let client = self.client.as_deref().unwrap_or_default();
        let client = client.parse().map_err(|_| {
            let problem = match client {
                "" => {
                    "the address of the client is missing: authorizations depend on it".to_owned()
                }
                _ => format!("{:?} is no IP address", shortened(client)),
            };
            InvalidQuery::new("client", problem, "for example client=10.0.0.7")
        })?;
        let tls = match self.identity.as_deref() {
            None => TlsStatus::None(NoTlsReason::NoTlsFromRemote),
            Some("") => TlsStatus::Meshed(None),
            Some(name) => TlsStatus::Meshed(Some(name.parse().map_err(|_| {
                let problem = format!("{:?} is no identity", shortened(name));
                InvalidQuery::new("identity", problem, IDENTITY)
            })?)),
        };
        Ok(InboundQuery {
            port: port.get(),
            client: SocketAddr::new(client, 0),
            tls,
            method: self.checked_method()?,
            url: match self.url {
                None => Uri::from_static("http://app/"),
                Some(_) => self.checked_url()?,
            },
            headers: self.checked_headers()?,
        })
    }
}

/// Explains an inbound request by the policy of its port, or by the default one if the port is not in use. Whatever
/// the policy says, some ports are opaque by configuration.
pub fn explain_inbound(
    policies: &ServerPolicies,
    opaque: &BTreeSet<u16>,
    query: &InboundQuery,
) -> Value {
    let is_opaque = opaque.contains(&query.port);
    let known = policies.peek(query.port);
    let freshness = known.as_ref().map(|known| known.freshness.clone());
    let default = policies.default_of(query.port);
    let policy = known.as_ref().map_or(default, |known| &known.policy);
    let mut document = explained(policy, is_opaque, query);
    let protocol = match is_opaque {
        true => "opaque",
        false => protocol(policy),
    };
    document["policy"] = json!({
        "server": policy.meta.kind_and_name().to_string(),
        "protocol": protocol,
        "invalid": policy.invalid,
        "freshness": freshness,
    });
    document
}

fn explained(policy: &ServerPolicy, is_opaque: bool, query: &InboundQuery) -> Value {
    let identity = query.tls.identity().map(Identity::as_str);
    let mut document = json!({
        "port": query.port,
        "client": { "address": query.client.ip(), "identity": identity, "tls": query.tls.is_meshed() },
        "route": Value::Null,
    });
    if policy.invalid.is_some() {
        document["refused"] = "the policy of the port is invalid".into();
        return document;
    }
    let rule = match policy.http().filter(|_| !is_opaque) {
        None => None,
        Some(http) => {
            document["request"] =
                json!({ "method": query.method.as_str(), "url": query.url.to_string() });
            let Some(rule) = routed(&mut document, http, query) else {
                document["refused"] = "no route is for the request".into();
                return document;
            };
            Some(rule)
        }
    };
    let decided = match rule {
        Some(rule) => policy.authorize_request(rule, query.client, &query.tls),
        None => policy.authorize_connection(query.client, &query.tls),
    };
    let is_ambiguous = !document["refused"].is_null();
    let admitted = decided.as_ref().ok().filter(|_| !is_ambiguous);
    let admitted = admitted.map(|it| it.meta.kind_and_name().to_string());
    let nearest = decided.err().and_then(|denial| denial.nearest);
    document["authorized_by"] = json!(admitted);
    document["nearest"] = json!(nearest.map(|nearest| nearest.to_string()));
    if document["authorized_by"].is_null() && !is_ambiguous {
        document["refused"] = "no authorization lets the client in".into();
    }
    let all = policy.explain(rule, query.client, &query.tls).into_iter();
    let shown = all.take(MAX_SHOWN).map(|(authorization, unmet)| {
        let networks = authorization.networks.iter().take(MAX_SHOWN);
        json!({
            "authorization": authorization.meta.kind_and_name().to_string(),
            "networks": networks.map(ToString::to_string).collect::<Vec<_>>(),
            "asks_for": authorization.authentication.to_string(),
            "unmet": unmet.map(|unmet| unmet.label()),
        })
    });
    document["authorizations"] = shown.collect();
    document
}

/// Adds the route of a request, and the others. Returns its rule.
fn routed(document: &mut Value, http: &InboundHttp, query: &InboundQuery) -> Option<usize> {
    let mut request = Request::new(());
    *request.method_mut() = query.method.clone();
    *request.uri_mut() = query.url.clone();
    *request.headers_mut() = query.headers.clone();
    let table = http.routes.table();
    let explained = table.explain(&request);
    document["not_taken"] = rule::others(table, &explained);
    let limits = http.rate_limit.as_ref().map(|limiter| limiter.settings());
    document["rate_limit"] = limits.map_or(Value::Null, rate_limit);
    let found = explained.found?;
    if let Some(reading) = http.routes.ambiguity(&request, found) {
        let told =
            format!("ambiguous: a server may read {reading}, for which other authorizations apply");
        document["refused"] = told.into();
    }
    let taken = &table.rules()[found.index];
    document["route"] = json!({
        "rule": found.index,
        "route": taken.meta.kind_and_name().to_string(),
        "filters": filter::described(&taken.filters),
        "answered_by_filters": filter::answers(&taken.filters),
    });
    Some(found.index)
}

fn rate_limit(limits: &RateLimitSettings) -> Value {
    json!({
        "name": limits.meta.kind_and_name().to_string(),
        "total": limits.total,
        "per_identity": limits.per_identity,
        "overrides": limits.overrides.len(),
    })
}

fn protocol(policy: &ServerPolicy) -> &'static str {
    match policy.protocol {
        ServerProtocol::Detect { .. } => "detect",
        ServerProtocol::Http1(_) => "http1",
        ServerProtocol::Http2(_) => "http2",
        ServerProtocol::Grpc(_) => "grpc",
        ServerProtocol::Opaque => "opaque",
        ServerProtocol::Tls => "tls",
    }
}

const IDENTITY: &str = "for example identity=web.shop.serviceaccount.identity.linkerd.cluster.local, or nothing \
     after the sign for TLS of the mesh without a certificate";

/// Authorizations, and networks of each, that are shown.
const MAX_SHOWN: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_profiles::{
        Authentication, Authorization, ClientIdentities, ClientNetwork, InboundRoutes, Meta,
    };
    use std::sync::Arc;

    fn policy() -> ServerPolicy {
        let authorization = |name: &str, network: &str, authentication| Authorization {
            meta: Arc::new(Meta::new_default(name)),
            networks: vec![ClientNetwork {
                network: network.parse().unwrap(),
                except: vec!["10.9.0.0/16".parse().unwrap()],
            }],
            authentication,
        };
        let listed = ClientIdentities {
            exact: ["web.test".into()].into(),
            suffixes: vec![".admin.test".into()],
        };
        ServerPolicy {
            meta: Arc::new(Meta::new_default("server")),
            protocol: ServerProtocol::Http1(InboundHttp {
                routes: InboundRoutes::default(),
                rate_limit: None,
            }),
            authorizations: vec![
                authorization("named", "10.0.0.0/8", Authentication::Identities(listed)),
                authorization("elsewhere", "192.0.2.0/24", Authentication::Unauthenticated),
            ],
            invalid: None,
        }
    }

    fn explain(parameters: &str) -> Value {
        let fields = QueryFields::of_parameters(parameters).unwrap();
        explained(&policy(), false, &fields.check_inbound().unwrap())
    }

    #[test]
    fn a_denial_says_what_would_let_the_client_in() {
        let document = explain("port=8080&client=10.0.0.7");
        assert_eq!(document["refused"], "no authorization lets the client in");
        assert_eq!(document["nearest"], "default/named (no TLS)");
        let named = &document["authorizations"][0];
        assert_eq!(named["networks"][0], "10.0.0.0/8 without 10.9.0.0/16");
        assert_eq!(named["asks_for"], "the identity web.test or *.admin.test");
        assert_eq!(named["unmet"], "no TLS");
        let elsewhere = &document["authorizations"][1];
        assert_eq!(elsewhere["unmet"], "network");
        assert_eq!(elsewhere["asks_for"], "nothing");
    }

    #[test]
    fn an_admission_names_its_authorization_and_the_route() {
        let document = explain("port=8080&client=10.0.0.7&identity=x.admin.test&method=POST");
        assert_eq!(document["authorized_by"], "default/named");
        assert_eq!(document["route"]["route"], "default/default");
        assert_eq!(document.get("refused"), None);
        let anonymous = explain("port=8080&client=10.0.0.7&identity=");
        assert_eq!(anonymous["nearest"], "default/named (no identity)");
    }

    #[test]
    fn bad_parameters_are_named_with_a_fix() {
        for (parameters, parameter) in [
            ("port=0&client=10.0.0.7", "port"),
            ("port=80", "client"),
            ("port=80&client=web", "client"),
            ("port=80&client=10.0.0.7&identity=a%20b", "identity"),
        ] {
            let fields = QueryFields::of_parameters(parameters).unwrap();
            let error = fields.check_inbound().unwrap_err();
            assert_eq!(error.parameter, parameter);
            assert!(error.fix.starts_with("for example"), "{error}");
        }
        let fields = QueryFields::of_parameters("port=80").unwrap();
        let missing = fields.check_inbound().unwrap_err().to_string();
        assert!(missing.contains("client is missing"), "{missing}");
    }
}
