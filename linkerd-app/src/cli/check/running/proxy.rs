//! Version, readiness and environment of a running proxy.

use crate::{
    cli::{
        admin_request::AdminReply,
        check::{duration_text::duration_text, report::CheckLine},
    },
    config::{Config, Env, variables},
    process::BUILD,
};
use http::StatusCode;
use serde_json::{Map, Value};
use std::time::Duration;

/// The proxy's version and age. A difference to this program's is worth a warning: hints and variables may differ.
pub(super) fn version(process: &Value) -> CheckLine {
    const NAME: &str = "version";
    let of = |field: &str| process[field].as_str();
    let Some((version, revision)) = of("version").zip(of("revision")) else {
        return CheckLine::warn(
            NAME,
            "the proxy does not tell its version: it is another program",
        )
        .fix("checks that need /state of this version are left out");
    };
    let age = Duration::from_millis(process["uptime_ms"].as_u64().unwrap_or_default());
    let detail = format!("{version} ({revision}), runs for {}", duration_text(age));
    match (version, revision) == (BUILD.version, BUILD.git_sha) {
        true => CheckLine::ok(NAME, detail),
        false => {
            let this = format!("{} ({})", BUILD.version, BUILD.git_sha);
            CheckLine::warn(NAME, format!("{detail}; this program is {this}"))
                .fix("check with the program that the proxy runs")
        }
    }
}

/// Readiness: a line for each condition that is pending, and for each controller that was not reached.
pub(super) fn ready(reply: Result<AdminReply, String>, state: &Value) -> Vec<CheckLine> {
    const NAME: &str = "ready";
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return vec![CheckLine::failed(NAME, error)],
    };
    let text = String::from_utf8_lossy(&reply.body);
    let (unreached, pending): (Vec<_>, Vec<_>) = text
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty())
        .partition(|line| line.starts_with(UNREACHED));
    let mut lines = match reply.status {
        StatusCode::OK => vec![CheckLine::ok(NAME, "the proxy is ready")],
        StatusCode::SERVICE_UNAVAILABLE if pending.is_empty() => {
            vec![CheckLine::failed(NAME, "the proxy is not ready")]
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            let line = |what: &&str| {
                CheckLine::failed(NAME, format!("waits for {what}")).fix(pending_fix(what, state))
            };
            pending.iter().map(line).collect()
        }
        status => vec![CheckLine::failed(NAME, format!("/ready answers {status}"))],
    };
    lines.extend(unreached.iter().map(|what| {
        let fix = "the address, the network or the trust between the two: linkerd-proxy check in the proxy's container";
        CheckLine::warn("reached", *what).fix(fix)
    }));
    lines
}

fn pending_fix(pending: &str, state: &Value) -> String {
    match pending {
        _ if pending.contains("certificate") || pending.contains("SVID") => {
            let issuer = state["identity"]["issuer"].as_str().unwrap_or("the issuer");
            format!("see the identity below: {issuer} has to answer")
        }
        _ if pending.contains("worker") => {
            "the worker's thread is busy or stuck: see its load in /metrics (tokio_rt_*)".to_owned()
        }
        "shutting down" => "it was asked to end; nothing is wrong".to_owned(),
        _ => "see the log of the proxy".to_owned(),
    }
}

/// The warnings of the environment that the proxy was started with. Values that may be secret are masked by the proxy.
pub(super) fn environment(reply: Result<AdminReply, String>) -> Vec<CheckLine> {
    const NAME: &str = "environment";
    let read = reply.and_then(|reply| match reply.status {
        StatusCode::OK => serde_json::from_slice::<Map<String, Value>>(&reply.body)
            .map_err(|error| format!("no JSON: {error}")),
        status => Err(format!("/env.json answers {status}")),
    });
    let values = match read {
        Ok(values) => values,
        Err(error) => return vec![CheckLine::warn(NAME, error)],
    };
    let values = values.iter();
    let texts = values.filter_map(|(name, value)| Some((name, value.as_str()?)));
    let env: Env = texts.collect();
    match Config::load(&env) {
        Ok(loaded) => {
            let (number, warnings) = (set_variables(&env), loaded.warnings);
            let line = CheckLine::ok(NAME, format!("valid; variables of the proxy: {number}"));
            let warnings = warnings.into_iter();
            let warnings = warnings.map(|warning| CheckLine::warn(NAME, warning));
            [line].into_iter().chain(warnings).collect()
        }
        // The proxy runs: another version reads it in another way.
        Err(errors) => errors
            .errors
            .iter()
            .map(|error| {
                CheckLine::warn(NAME, format!("this version would refuse it: {error}"))
                    .fix(error.fix().unwrap_or("correct it before the next start"))
            })
            .collect(),
    }
}

fn set_variables(env: &Env) -> usize {
    let all = variables::VARIABLES.iter();
    all.filter(|variable| env.is_set(variable.name)).count()
}

/// The beginning of a line of `/ready` about a controller.
const UNREACHED: &str = "not reached yet: ";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reply(status: StatusCode, body: &str) -> Result<AdminReply, String> {
        let body = body.to_owned().into();
        Ok(AdminReply { status, body })
    }

    fn texts(lines: &[CheckLine]) -> String {
        let lines = lines.iter().map(|line| format!("{line:?}\n"));
        lines.collect()
    }

    #[test]
    fn each_pending_condition_is_a_failure_with_its_fix() {
        let state = json!({ "identity": { "issuer": "identity controller id:8080" } });
        let body = "not ready\nthe first certificate from the identity controller\n\
                    not reached yet: identity controller id:8080 (refused)\n";
        let lines = ready(reply(StatusCode::SERVICE_UNAVAILABLE, body), &state);
        let text = texts(&lines);
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            text.contains("waits for the first certificate from the identity controller"),
            "{text}"
        );
        assert!(
            text.contains("identity controller id:8080 has to answer"),
            "{text}"
        );
        assert!(text.contains("status: Warn"), "{text}");
    }

    #[test]
    fn a_ready_proxy_passes() {
        let lines = ready(reply(StatusCode::OK, "ready\n"), &Value::Null);
        assert_eq!(lines, [CheckLine::ok("ready", "the proxy is ready")]);
    }

    #[test]
    fn the_version_of_another_program_is_a_warning() {
        let of = |version: &str| {
            let process =
                json!({ "version": version, "revision": BUILD.git_sha, "uptime_ms": 5000 });
            format!("{:?}", super::version(&process))
        };
        assert!(of(BUILD.version).contains("status: Ok"));
        assert!(of("0.0.0").contains("this program is"));
        let none = format!("{:?}", super::version(&Value::Null));
        assert!(none.contains("another program"), "{none}");
    }

    #[test]
    fn misspelt_variables_of_the_running_proxy_are_named() {
        let env = json!({
            "LINKERD2_PROXY_DESTINATION_SVC_ADDR": "127.0.0.1:1",
            "LINKERD2_PROXY_POLICY_SVC_ADDR": "127.0.0.1:1",
            "LINKERD2_PROXY_POLICY_WORKLOAD": "ns:pod",
            "LINKERD2_PROXY_OUTBOUND_LISTEN_ADR": "127.0.0.1:1",
        });
        let text = texts(&environment(reply(StatusCode::OK, &env.to_string())));
        assert!(
            text.contains("did you mean LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR?"),
            "{text}"
        );
        assert!(text.contains("variables of the proxy: 3"), "{text}");
    }
}
