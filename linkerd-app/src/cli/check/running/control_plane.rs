//! Identity, controllers and their streams, by `/state` of a running proxy.

use crate::{
    cli::check::{duration_text::duration_text, report::CheckLine},
    config::variables,
};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The certificate: its name, its end, and the last error of its renewal.
pub(super) fn identity(identity: &Value) -> CheckLine {
    const NAME: &str = "certificate";
    if identity.is_null() {
        let name = variables::IDENTITY_LOCAL_NAME.name();
        return CheckLine::skipped(NAME, format!("nothing is encrypted: {name} is not set"));
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, issuer) = (text(&identity["identity"]), text(&identity["issuer"]));
    let last_error = identity["last_error"].as_str();
    let failed = identity["failed"].as_u64().unwrap_or_default();
    let Some(until) = identity["valid_until"].as_u64() else {
        let cause = last_error.unwrap_or("no answer yet");
        let detail = format!("{name} has none from {issuer}, {failed} requests failed: {cause}");
        return CheckLine::failed(NAME, detail).fix(renewal_fix(cause));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let left = until.saturating_sub(now.unwrap_or_default().as_secs());
    if left == 0 {
        let cause = last_error.unwrap_or("the clock of this host may be wrong");
        let detail = format!("that of {name} has expired: {cause}");
        return CheckLine::failed(NAME, detail).fix(renewal_fix(cause));
    }
    let left = duration_text(Duration::from_secs(left));
    let detail = format!("{name}, for {left} more, from {issuer}");
    let anchors = &identity["trust_anchors"];
    match (last_error, anchors["trust_own_certificate"].as_bool()) {
        (Some(error), _) => {
            CheckLine::warn(NAME, format!("{detail}; the last renewal failed: {error}"))
                .fix(renewal_fix(error))
        }
        (None, Some(false)) => CheckLine::failed(
            NAME,
            format!("{detail}; its own trust anchors do not trust it"),
        )
        .fix("let the identity controller sign by an authority that all proxies trust"),
        (None, _) => match anchors["last_error"].as_str() {
            Some(error) => CheckLine::warn(
                NAME,
                format!("{detail}; the last trust anchors stay: {error}"),
            )
            .fix(format!(
                "correct the file in {}",
                variables::IDENTITY_TRUST_ANCHORS_FILE.name()
            )),
            None => CheckLine::ok(NAME, detail),
        },
    }
}

/// The next step after a failed request for a certificate.
fn renewal_fix(error: &str) -> String {
    let has = |parts: &[&str]| parts.iter().any(|part| error.contains(part));
    match () {
        () if has(&["No such file", "Permission denied", "is empty"]) => format!(
            "let {} name a token that the proxy's user may read",
            variables::IDENTITY_TOKEN_FILE.name()
        ),
        () if has(&["UnknownIssuer", "TLS handshake", "is expected"]) => format!(
            "{} and {} have to be those of the identity controller's mesh",
            variables::IDENTITY_TRUST_ANCHORS.name(),
            variables::IDENTITY_SVC_NAME.name()
        ),
        () if has(&["expired", "not valid yet"]) => {
            "compare the clocks of this host and of the identity controller".to_owned()
        }
        () => format!(
            "is the identity controller running, and does {} lead to it? Its log has the refusal",
            variables::IDENTITY_SVC_ADDR.name()
        ),
    }
}

/// A line for each controller: its connections, or the cause why there is none.
pub(super) fn controllers(state: &Value) -> Vec<CheckLine> {
    list(&state["controllers"]).map(controller).collect()
}

fn controller(controller: &Value) -> CheckLine {
    let role = controller["role"].as_str().unwrap_or("controller");
    let addr = controller["controller"].as_str().unwrap_or_default();
    let endpoints = &controller["balancer"]["endpoints"];
    let number = list(endpoints).count();
    let ready = list(endpoints).filter(|it| it["state"] == "ready").count();
    let error = list(endpoints).find_map(|endpoint| endpoint["last_error"].as_str());
    let dns = controller["dns"]["last_error"].as_str();
    if number == 0 {
        let cause = dns.unwrap_or("its name has no answer yet");
        return CheckLine::failed(role, format!("{addr} has no address: {cause}"))
            .fix("check the name, and the name servers in /etc/resolv.conf");
    }
    let detail = format!("{addr}: {ready} of {number} addresses are connected");
    match (ready, error, dns) {
        (0, _, _) => {
            let cause = error.unwrap_or("no connection yet");
            CheckLine::failed(role, format!("{detail}: {cause}")).fix(
                "is the controller running, and do network and trust anchors let this proxy reach it? \
                 What is known stays in use",
            )
        }
        (_, Some(error), _) if ready < number => {
            CheckLine::warn(role, format!("{detail}: {error}"))
                .fix("are all pods of the controller ready?")
        }
        (_, _, Some(error)) => CheckLine::warn(
            role,
            format!("{detail}; its name is not resolved any more: {error}"),
        )
        .fix("check the name servers in /etc/resolv.conf; the last addresses stay in use"),
        _ => CheckLine::ok(role, detail),
    }
}

/// The streams of the control plane: those that are connected, and the age of the last message.
pub(super) fn streams(state: &Value) -> Vec<CheckLine> {
    let freshness = |entries: &Value, names: &[&str]| -> Vec<Value> {
        let all = list(entries).flat_map(|entry| names.iter().map(|name| &entry[*name]));
        all.filter(|it| !it.is_null()).cloned().collect()
    };
    let kinds = [
        (
            "destinations",
            &state["discovery"]["destinations"],
            &["freshness"][..],
        ),
        (
            "policies",
            &state["policies"]["targets"],
            &["policy_freshness", "profile_freshness"],
        ),
        (
            "server policies",
            &state["server_policies"]["ports"],
            &["freshness"],
        ),
    ];
    let kinds = kinds.into_iter();
    kinds
        .map(|(name, entries, fields)| stream_line(name, &freshness(entries, fields)))
        .collect()
}

fn stream_line(kind: &str, freshness: &[Value]) -> CheckLine {
    let name = format!("streams: {kind}");
    // A stream that was never needed, such as that of a profile, is not lost.
    let opened = |it: &&Value| it["streams_opened"] != 0 || !it["last_error"].is_null();
    let freshness: Vec<_> = freshness.iter().filter(opened).collect();
    // A refusal, such as of a name that does not exist, is an answer.
    let is_lost = |it: &Value| it["connected"] == false && it["rejected"] == false;
    let lost: Vec<_> = freshness.iter().filter(|it| is_lost(it)).collect();
    let ages = freshness.iter().filter_map(|it| it["age_ms"].as_u64());
    let last = ages.min().map(Duration::from_millis);
    let last = match last {
        Some(age) => format!("last message {} ago", duration_text(age)),
        None => "no message yet".to_owned(),
    };
    if freshness.is_empty() {
        return CheckLine::ok(name, "none in use");
    }
    let detail = format!(
        "{} of {} answered or connected, {last}",
        freshness.len() - lost.len(),
        freshness.len()
    );
    let longest = lost.iter().max_by_key(|it| it["disconnected_ms"].as_u64());
    match longest {
        None => CheckLine::ok(name, detail),
        Some(lost) => {
            let since = Duration::from_millis(lost["disconnected_ms"].as_u64().unwrap_or_default());
            let error = lost["last_error"].as_str().unwrap_or("no answer yet");
            let detail = format!(
                "{detail}; one is not connected for {}: {error}",
                duration_text(since)
            );
            CheckLine::warn(name, detail)
                .fix("see the controllers above; the last state stays in use")
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(line: &CheckLine) -> String {
        format!("{line:?}")
    }

    fn certificate(left: i64, fields: Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let until = now.as_secs().saturating_add_signed(left);
        let mut state = json!({
            "identity": "web.mesh.local", "issuer": "identity controller id:1", "failed": 0,
            "valid_until": until, "last_error": null, "trust_anchors": {},
        });
        for (name, value) in fields.as_object().unwrap() {
            state[name] = value.clone();
        }
        shown(&identity(&state))
    }

    #[test]
    fn a_certificate_passes_until_its_end_or_a_failed_renewal() {
        let good = certificate(90_000, json!({}));
        assert!(
            good.contains("Ok") && good.contains("for 25 h more"),
            "{good}"
        );
        let late = certificate(90_000, json!({ "last_error": "token: Permission denied" }));
        assert!(
            late.contains("Warn") && late.contains("IDENTITY_TOKEN_FILE"),
            "{late}"
        );
        let ended = certificate(-10, json!({}));
        assert!(
            ended.contains("Failed") && ended.contains("has expired"),
            "{ended}"
        );
        let none = certificate(0, json!({ "valid_until": null, "last_error": "refused" }));
        assert!(
            none.contains("Failed") && none.contains("none from identity"),
            "{none}"
        );
        let own = json!({ "trust_anchors": { "trust_own_certificate": false } });
        assert!(certificate(90_000, own).contains("do not trust it"));
        assert!(shown(&identity(&Value::Null)).contains("Skipped"));
    }

    #[test]
    fn a_controller_is_judged_by_its_connections() {
        let with = |endpoints: Value, dns: Value| {
            let state = json!({ "controllers": [{
                "role": "policy", "controller": "policy:8090",
                "dns": { "last_error": dns }, "balancer": { "endpoints": endpoints },
            }] });
            shown(&controllers(&state)[0])
        };
        let ready = json!({ "state": "ready", "last_error": null });
        let refused = json!({ "state": "backing off", "last_error": "refused" });
        let text = with(json!([ready]), Value::Null);
        assert!(text.contains("Ok") && text.contains("1 of 1"), "{text}");
        let text = with(json!([ready, refused]), Value::Null);
        assert!(text.contains("Warn") && text.contains("1 of 2"), "{text}");
        let text = with(json!([refused]), Value::Null);
        assert!(
            text.contains("Failed") && text.contains("refused"),
            "{text}"
        );
        let text = with(json!([]), json!("no records"));
        assert!(
            text.contains("Failed") && text.contains("no records"),
            "{text}"
        );
        let text = with(json!([ready]), json!("no records"));
        assert!(text.contains("Warn") && text.contains("any more"), "{text}");
    }

    #[test]
    fn a_lost_stream_is_a_warning_and_a_refused_name_is_none() {
        let stream = |connected: bool, rejected: bool| {
            json!({
                "connected": connected, "rejected": rejected, "age_ms": 3000,
                "disconnected_ms": 9000, "last_error": "gone", "streams_opened": 1,
            })
        };
        let good = shown(&stream_line(
            "x",
            &[stream(true, false), stream(false, true)],
        ));
        assert!(
            good.contains("Ok") && good.contains("last message 3 s ago"),
            "{good}"
        );
        let lost = shown(&stream_line(
            "x",
            &[stream(true, false), stream(false, false)],
        ));
        assert!(
            lost.contains("Warn") && lost.contains("for 9 s: gone"),
            "{lost}"
        );
        assert!(shown(&stream_line("x", &[])).contains("none in use"));
    }

    #[test]
    fn a_stream_that_was_never_opened_is_not_lost() {
        let never = json!({
            "connected": false, "rejected": false, "age_ms": null, "disconnected_ms": null,
            "last_error": null, "streams_opened": 0,
        });
        let mut opened = never.clone();
        opened["connected"] = true.into();
        opened["streams_opened"] = 1.into();
        let line = shown(&stream_line("x", &[opened, never.clone()]));
        assert!(line.contains("Ok") && line.contains("1 of 1"), "{line}");
        assert!(shown(&stream_line("x", std::slice::from_ref(&never))).contains("none in use"));
        let mut refused = never;
        refused["last_error"] = "refused".into();
        assert!(shown(&stream_line("x", &[refused])).contains("Warn"));
    }
}
