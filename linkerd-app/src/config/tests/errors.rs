//! Refused configurations, and the text of their errors.

use super::*;
use proptest::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

#[test]
fn an_error_names_variable_value_and_form() {
    let errors = refused(&[("OUTBOUND_CONNECT_TIMEOUT", "5")]);
    assert_eq!(
        errors.to_string().lines().take(2).collect::<Vec<_>>(),
        [
            "LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT=\"5\" is not valid: \
             expected a duration: an integer followed by ms, s, m, h or d",
            "  fix: add the unit: 5s, if seconds are meant",
        ]
    );
    assert_eq!(
        errors.summary_line(),
        "Invalid configuration: invalid environment variable"
    );
    assert_eq!(EXIT_USAGE, 64);
}

#[test]
fn all_errors_are_told_at_once() {
    let errors = refused(&[
        ("OUTBOUND_CONNECT_TIMEOUT", "5"),
        ("INGRESS_MODE", "yes"),
        ("INBOUND_IPS", ""),
        ("IDENTITY_MIN_REFRESH", "soon"),
        (
            "LINKERD_PROXY_OUTBOUND_HTTP2_MAX_CONNECTIONS_PER_ENDPOINT",
            "0",
        ),
        ("DESTINATION_SVC_ADDR", "controller"),
        ("CONTROL_STREAM_IDLE_TIMEOUT", "2h"),
        ("CONTROL_STREAM_LIFETIME", "1h"),
        ("HTTP2_INITIAL_STREAM_WINDOW_SIZE", "-1"),
    ]);
    assert_eq!(errors.errors.len(), 8, "{errors}");
}

#[test]
fn each_variable_refuses_what_its_grammar_refuses() {
    for variable in VARIABLES
        .iter()
        .filter(|variable| variable.status != VariableStatus::Ignored)
    {
        let refused_text = ["\u{7f} no such value", ""]
            .into_iter()
            .find(|text| (variable.kind.check)(text).is_err());
        let lenient = ["CORES", "LOG_FORMAT", "2_PROXY_ACCESS_LOG"]
            .iter()
            .any(|part| variable.name.contains(part));
        let Some(text) = refused_text.filter(|_| !lenient) else {
            continue;
        };
        let errors = refused(&[(variable.name, text)]);
        let expected = format!(
            "{}={text:?} is not valid: expected {}",
            variable.name, variable.kind.expected
        );
        assert!(
            messages(&errors).contains(&expected),
            "{} in {errors}",
            variable.name
        );
        assert_eq!(errors.summary(), "invalid environment variable");
    }
}

#[test]
fn text_that_is_not_utf_8_is_told() {
    let bytes = || OsString::from_vec(vec![b'a', 0xff]);
    let mut env = env(&[]);
    env.set("LINKERD2_PROXY_DESTINATION_CONTEXT", bytes());
    env.set("LINKERD2_PROXY_POLICY_WORKLOAD", bytes());
    for ignored in [
        "HOSTNAME",
        "OTEL_RESOURCE_ATTRIBUTES",
        "LINKERD2_PROXY_TRACE_PROTOCOL",
        "PATH",
        "LINKERD2_PROXY_X",
    ] {
        env.set(ignored, bytes());
    }
    let errors = Config::load(&env).unwrap_err();
    assert_eq!(
        messages(&errors),
        [
            "LINKERD2_PROXY_POLICY_WORKLOAD is not encoded in Unicode",
            "LINKERD2_PROXY_DESTINATION_CONTEXT is not encoded in Unicode",
        ]
    );
}

#[test]
fn without_controllers_there_is_nobody_to_ask() {
    let errors = Config::load(&Env::default()).unwrap_err();
    assert_eq!(
        messages(&errors),
        [
            "LINKERD2_PROXY_DESTINATION_SVC_ADDR must be set: the proxy has no destination controller to ask",
            "LINKERD2_PROXY_POLICY_SVC_ADDR must be set: the proxy has no policy controller to ask",
            "LINKERD2_PROXY_POLICY_WORKLOAD must be set: the policy controller has nothing to know this proxy by",
        ]
    );
    assert_eq!(
        errors.summary_line(),
        "Invalid configuration: no destination service configured"
    );

    let no_policy: Env = [REQUIRED[0], REQUIRED[2]].into_iter().collect();
    let errors = Config::load(&no_policy).unwrap_err();
    assert_eq!(
        errors.summary_line(),
        "Invalid configuration: no policy service configured"
    );

    let no_workload: Env = REQUIRED[..2].iter().copied().collect();
    let errors = Config::load(&no_workload).unwrap_err();
    let expected = "LINKERD2_PROXY_POLICY_WORKLOAD must be set with LINKERD2_PROXY_POLICY_SVC_ADDR";
    assert_eq!(messages(&errors), [expected]);
    assert_eq!(errors.summary(), "invalid environment variable");
}

#[test]
fn a_controller_elsewhere_needs_address_and_name() {
    let together = "LINKERD2_PROXY_DESTINATION_SVC_ADDR and LINKERD2_PROXY_DESTINATION_SVC_NAME \
                    must be specified together";
    assert_eq!(
        messages(&refused(&[("DESTINATION_SVC_ADDR", "10.0.0.1:8086")])),
        [together]
    );

    let mut only_name: Env = REQUIRED[1..].iter().copied().collect();
    only_name.set("LINKERD2_PROXY_DESTINATION_SVC_NAME", "controller");
    assert_eq!(messages(&Config::load(&only_name).unwrap_err()), [together]);

    let errors = refused(&[("DESTINATION_SVC_ADDR", "localhost:8086")]);
    let fix = "write localhost.:8086, with the dot, for a controller on loopback; it needs no name";
    assert_eq!(errors.errors[0].fix(), Some(fix));

    let wrong_address = refused(&[("DESTINATION_SVC_ADDR", "localhost")]);
    assert_eq!(
        wrong_address.errors.len(),
        1,
        "one mistake is one error: {wrong_address}"
    );
}

#[test]
fn a_backoff_is_set_as_a_whole() {
    const MIN: &str = "OUTBOUND_CONNECT_EXP_BACKOFF_MIN";
    const MAX: &str = "OUTBOUND_CONNECT_EXP_BACKOFF_MAX";
    const JITTER: &str = "OUTBOUND_CONNECT_EXP_BACKOFF_JITTER";
    for part in [(MIN, "1s"), (MAX, "1s"), (JITTER, "0.5")] {
        let expected = format!("{} and {} must be set together", full(MIN), full(MAX));
        assert_eq!(messages(&refused(&[part])), [expected]);
    }
    for (min, max, jitter) in [
        ("2s", "1s", "0"),
        ("0", "0", "0"),
        ("1s", "2s", "101"),
        ("1s", "2s", "nan"),
    ] {
        let errors = refused(&[(MIN, min), (MAX, max), (JITTER, jitter)]);
        assert!(
            messages(&errors)[0].contains("don't make a backoff: "),
            "{errors}"
        );
    }
    let errors = refused(&[(MIN, "1"), (MAX, "1s")]);
    assert_eq!(errors.errors.len(), 1, "{errors}");
}

#[test]
fn stream_limits_are_in_order() {
    const INITIAL: &str = "CONTROL_STREAM_INITIAL_TIMEOUT";
    const IDLE: &str = "CONTROL_STREAM_IDLE_TIMEOUT";
    const LIFETIME: &str = "CONTROL_STREAM_LIFETIME";
    for (shorter, longer) in [(INITIAL, IDLE), (INITIAL, LIFETIME), (IDLE, LIFETIME)] {
        let errors = refused(&[(shorter, "2s"), (longer, "1s")]);
        assert_eq!(
            messages(&errors),
            [format!(
                "{} must be less than {}",
                full(shorter),
                full(longer)
            )]
        );
        load(&[(shorter, "1s"), (longer, "1s")]);
        load(&[(shorter, "1s"), (longer, "")]);
    }
}

#[test]
fn some_default_policies_need_the_networks_of_the_cluster() {
    for policy in DefaultPolicy::ALL {
        let alone = [("INBOUND_DEFAULT_POLICY", policy.name())];
        let with_networks = [alone[0], ("POLICY_CLUSTER_NETWORKS", "10.0.0.0/8")];
        assert_eq!(load(&with_networks).inbound.default_policy, policy);
        assert_eq!(
            Config::load(&env(&alone)).is_err(),
            policy.needs_cluster_networks(),
            "{policy:?}"
        );
    }
    let errors = refused(&[("INBOUND_DEFAULT_POLICY", "audit")]);
    let expected = "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY=\"audit\" is only accepted together with \
                    LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS";
    assert_eq!(messages(&errors), [expected]);
}

#[test]
fn two_listeners_may_not_share_a_port() {
    for (inbound, outbound, shared) in [
        ("127.0.0.1:4140", "127.0.0.1:4140", true),
        ("0.0.0.0:4140", "127.0.0.1:4140", true),
        ("[::]:4140", "127.0.0.1:4140", true),
        ("127.0.0.2:4140", "127.0.0.1:4140", false),
        ("127.0.0.1:0", "127.0.0.1:0", false),
        ("0.0.0.0:4140", "[::1]:4140", false),
        ("0.0.0.0:4140", "[::]:4140", true),
        ("[::1]:4140", "[::]:4140", true),
    ] {
        let vars = [
            ("INBOUND_LISTEN_ADDR", inbound),
            ("OUTBOUND_LISTEN_ADDRS", outbound),
        ];
        let outcome = Config::load(&env(&vars));
        assert_eq!(outcome.is_err(), shared, "{inbound} {outbound}");
    }
    let errors = refused(&[("ADMIN_LISTEN_ADDR", "127.0.0.1:4143")]);
    let expected = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR (0.0.0.0:4143) and LINKERD2_PROXY_ADMIN_LISTEN_ADDR \
                    (127.0.0.1:4143) listen on the same port";
    assert_eq!(messages(&errors), [expected]);
}

#[test]
fn the_least_ttl_is_not_above_the_most() {
    let errors = refused(&[("DNS_MIN_TTL", "2s"), ("DNS_MAX_TTL", "1s")]);
    assert_eq!(
        messages(&errors),
        ["LINKERD2_PROXY_DNS_MIN_TTL must not be more than LINKERD2_PROXY_DNS_MAX_TTL"]
    );
    load(&[("DNS_MIN_TTL", "1s"), ("DNS_MAX_TTL", "1s")]);
}

#[test]
fn identity_can_not_be_disabled() {
    let errors = refused(&[("IDENTITY_DISABLED", "1")]);
    assert_eq!(errors.errors[0].fix(), Some("unset the variable"));
    load(&[("IDENTITY_DISABLED", "")]);
}

#[test]
fn long_values_are_shortened_and_warnings_follow_the_errors() {
    let text = refused(&[
        ("INBOUND_IPS", &"1".repeat(1_000)),
        ("INBOUND_IP", "10.0.0.1"),
    ])
    .to_string();
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].len() < 250 && lines[0].contains("111...\" is not valid"),
        "{text}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("warning: ") && line.contains("INBOUND_IPS?")),
        "{text}"
    );
}

/// Texts that many grammars accept, and some that all refuse.
fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,20}(ms|s|m|h|d)?",
        "[0-9]{1,3}(\\.[0-9]{1,3})?",
        "(127\\.0\\.0\\.1|10\\.0\\.0\\.1|localhost\\.|web):[0-9]{1,5}",
        "(true|false|1|0|\\.|audit|deny|json)",
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn no_environment_panics(vars in proptest::collection::vec((0..VARIABLES.len(), any_value()), 0..12)) {
        let mut env = env(&[]);
        for (row, value) in vars {
            env.set(VARIABLES[row].name, value);
        }
        match Config::load(&env) {
            Ok(loaded) => drop(effective_text(&loaded.effective)),
            Err(errors) => prop_assert!(!errors.errors.is_empty() && !errors.to_string().is_empty()),
        }
    }
}
