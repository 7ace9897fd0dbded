//! The explanation of an inbound request in a few lines: its route, and the authorization of its client.

use serde_json::Value;

/// The document as text.
pub(super) fn render(document: &Value) -> String {
    let mut lines = Vec::new();
    let client = &document["client"];
    let identity = match (client["identity"].as_str(), client["tls"].as_bool()) {
        (Some(identity), _) => identity.to_owned(),
        (None, Some(true)) => "TLS of the mesh, no identity".to_owned(),
        (None, _) => "no TLS of the mesh".to_owned(),
    };
    lines.push(format!(
        "client   {} ({identity})",
        text(&client["address"])
    ));
    let policy = &document["policy"];
    let source = match policy["freshness"].is_null() {
        true => ", the default policy: the port is not in use",
        false => "",
    };
    lines.push(format!(
        "port     {}, {}, protocol {}{source}",
        document["port"],
        text(&policy["server"]),
        text(&policy["protocol"]),
    ));
    if let Some(route) = document["route"]["route"].as_str() {
        lines.push(format!("route    {route}"));
    }
    if let Some(authorization) = document["authorized_by"].as_str() {
        lines.push(format!("let in   by {authorization}"));
    }
    if let Some(reason) = document["refused"].as_str() {
        lines.push(format!("refused  {reason}"));
    }
    if let Some(nearest) = document["nearest"].as_str() {
        lines.push(format!("nearest  {nearest}"));
    }
    let all = document["authorizations"].as_array().into_iter().flatten();
    for authorization in all {
        let networks = authorization["networks"].as_array().into_iter().flatten();
        let networks: Vec<_> = networks.map(text).collect();
        let unmet = match authorization["unmet"].as_str() {
            None => "met".to_owned(),
            Some(unmet) => format!("not met: {unmet}"),
        };
        lines.push(format!(
            "  {} asks for {} from {}; {unmet}",
            text(&authorization["authorization"]),
            text(&authorization["asks_for"]),
            networks.join(", "),
        ));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_denial_names_what_would_let_the_client_in() {
        let document = json!({
            "port": 8080,
            "client": { "address": "10.0.0.7", "identity": null, "tls": false },
            "policy": { "server": "server/app", "protocol": "http1", "freshness": null },
            "route": { "route": "HTTPRoute/admin" },
            "authorized_by": null,
            "refused": "no authorization lets the client in",
            "nearest": "authorizationpolicy/web (no TLS)",
            "authorizations": [{
                "authorization": "authorizationpolicy/web",
                "networks": ["10.0.0.0/8"],
                "asks_for": "the identity web.test",
                "unmet": "no TLS",
            }],
        });
        let expected = "\
client   10.0.0.7 (no TLS of the mesh)
port     8080, server/app, protocol http1, the default policy: the port is not in use
route    HTTPRoute/admin
refused  no authorization lets the client in
nearest  authorizationpolicy/web (no TLS)
  authorizationpolicy/web asks for the identity web.test from 10.0.0.0/8; not met: no TLS
";
        assert_eq!(render(&document), expected);
    }
}
