use super::*;
use serde_json::json;

#[test]
fn the_rule_that_takes_the_request_comes_first_and_then_the_others() {
    let document = json!({
        "request": { "method": "GET", "url": "http://web/a", "version": "HTTP/1.1" },
        "target": "web:80",
        "protocol": "detect",
        "policy": { "parent": "Service.default.web:80", "freshness": { "age_ms": 1500 } },
        "profile": null,
        "routed_by": { "source": "policy", "why": "there is no profile" },
        "route": {
            "route": "HTTPRoute.default.main", "rule": 1, "condition": "path /a or below",
            "filters": ["request headers: add x-a: 1"],
            "timeouts": { "request_ms": 100, "idle_ms": null },
            "retry": { "max_retries": 2, "statuses": ["500-599"], "grpc_codes": [] },
            "distribution": { "choice": "random by weight", "backends": [
                { "backend": "Service.default.a:80", "destination": "a:80", "share": 0.75,
                  "breaker": { "consecutive_failures": 7 }, "filters": [],
                  "workers": [{ "worker": 0, "unavailable": null, "balancer": { "endpoints": [
                      { "endpoint": "10.0.0.1:80", "state": "ready", "estimate_ms": 1.25, "in_flight": 3 },
                  ] } }] },
                { "backend": "Service.default.b:80", "destination": "b:80", "share": 0.25, "workers": [] },
            ] },
        },
        "not_taken": [{ "route": "HTTPRoute.default.main", "rule": 0, "why_not": "method must be POST, and is GET" }],
        "not_taken_more": 3,
    });
    let expected = "\
GET http://web/a (HTTP/1.1)
target   web:80, protocol detect
policy   Service.default.web:80, 1.5 s old
routed   by the policy: there is no profile
taken    HTTPRoute.default.main (rule 1): path /a or below
filter   request headers: add x-a: 1
timeouts request 100 ms
retries  2, on status [500-599], gRPC codes []
backends random by weight
  Service.default.a:80 over a:80, 75.0 %, with a circuit breaker
    worker 0: available
      10.0.0.1:80 ready, 1.2 ms, 3 in flight
  Service.default.b:80 over b:80, 25.0 %
    not in use: its endpoints are asked for with the next request
other rules
  HTTPRoute.default.main (rule 0): method must be POST, and is GET
  and 3 more
";
    assert_eq!(render(&document), expected);
}

#[test]
fn a_target_that_is_not_known_is_answered_with_the_ones_that_are() {
    let document = json!({ "error": "wob:80 is not in use", "known_targets": ["web:80", "db:80"] });
    assert_eq!(
        render(&document),
        "wob:80 is not in use\nknown targets: web:80, db:80\n"
    );
}
