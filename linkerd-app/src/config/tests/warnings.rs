//! Accepted configurations with warnings.

use super::*;

/// The warnings, without that of the required variables.
fn warnings(vars: &[(&str, &str)]) -> Vec<String> {
    let mut vars = vars.to_vec();
    vars.push(("INBOUND_DEFAULT_POLICY", "deny"));
    loaded(&vars).warnings
}

#[test]
fn the_least_environment_says_what_is_assumed() {
    let LoadedConfig {
        warnings, notes, ..
    } = loaded(&[]);
    assert_eq!(
        warnings,
        ["LINKERD2_PROXY_INBOUND_DEFAULT_POLICY is not set: all-unauthenticated is used"]
    );
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn unknown_names_are_told_with_the_nearest_known_one() {
    let unknown = |name: &str| warnings(&[(name, "1s")]);
    for (name, nearest) in [
        (
            "LINKERD2_PROXY_OUTBOUND_CONECT_TIMEOUT",
            "LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT",
        ),
        (
            "LINKERD_PROXY_OUTBOUND_CONNECT_TIMEOUT",
            "LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT",
        ),
        (
            "LINKERD2_PROXY_OUTBOUND_EXPLICIT",
            "LINKERD_PROXY_OUTBOUND_EXPLICIT",
        ),
        ("LINKERD2_PROXY_LOGS", "LINKERD2_PROXY_LOG"),
    ] {
        let expected = format!(
            "{name} is not a variable of this proxy and has no effect; did you mean {nearest}?"
        );
        assert_eq!(unknown(name), [expected]);
    }
    assert_eq!(
        unknown("LINKERD2_PROXY_FLUX_CAPACITOR"),
        ["LINKERD2_PROXY_FLUX_CAPACITOR is not a variable of this proxy and has no effect"]
    );
}

#[test]
fn names_of_others_are_not_told() {
    let vars = [
        "LINKERD2_PROXY_VERSION",
        "LINKERD2_PROXY_VENDOR",
        "LINKERD_PROXY_INJECTOR_SERVICE_HOST",
        "LINKERD_PROXY_INJECTOR_SERVICE_PORT",
        "LINKERD_PROXY_INJECTOR_SERVICE_PORT_PROXY_INJECTOR",
        "LINKERD_PROXY_INJECTOR_PORT",
        "LINKERD_PROXY_INJECTOR_PORT_443_TCP",
        "LINKERD_PROXY_INJECTOR_PORT_443_TCP_ADDR",
    ];
    let vars: Vec<_> = vars.into_iter().map(|name| (name, "1")).collect();
    assert_eq!(warnings(&vars), [""; 0]);

    let mut env = env(&[]);
    for name in [
        "_pod_name",
        "_l5d_ns",
        "PATH",
        "linkerd2_proxy_log",
        "MY_LINKERD2_PROXY_LOG",
    ] {
        env.set(name, "1");
    }
    assert_eq!(Config::load(&env).unwrap().warnings.len(), 1);
    assert_eq!(
        warnings(&[("LINKERD_PROXY_OTHER_PORT", "1")]).len(),
        1,
        "not a Service without its host"
    );
}

#[test]
fn a_controller_whose_name_is_not_checked_is_told() {
    let told = warnings(&[
        ("DESTINATION_SVC_ADDR", "dst.linkerd:8086"),
        ("DESTINATION_SVC_NAME", "dst.linkerd.identity"),
    ]);
    let [warning] = &told[..] else {
        panic!("{told:?}")
    };
    let start = "LINKERD2_PROXY_DESTINATION_SVC_NAME is set, but this proxy has no identity: dst.linkerd:8086 is \
                 called in the clear";
    assert!(warning.starts_with(start), "{warning}");
    let on_loopback = warnings(&[("DESTINATION_SVC_NAME", "dst.linkerd.identity")]);
    assert_eq!(on_loopback, [""; 0], "it has no TLS anyway");
}

#[test]
fn a_policy_that_lets_nobody_in_is_told() {
    for (policy, open) in [
        ("all-authenticated", "all-unauthenticated"),
        ("cluster-authenticated", "cluster-unauthenticated"),
    ] {
        let vars = [
            ("INBOUND_DEFAULT_POLICY", policy),
            ("POLICY_CLUSTER_NETWORKS", "10.0.0.0/8"),
        ];
        let told = loaded(&vars).warnings;
        let [warning] = &told[..] else {
            panic!("{told:?}")
        };
        let start = format!("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY={policy} lets nobody in: this");
        assert!(warning.starts_with(&start), "{warning}");
        assert!(warning.contains(&format!("or {open} to let")), "{warning}");
    }
    assert_eq!(warnings(&[]), [""; 0], "deny is meant");
}

#[test]
fn cores_that_make_no_sense_are_skipped() {
    for (name, value) in [
        ("CORES", "0"),
        ("CORES_MIN", "a"),
        ("CORES_MAX", "-1"),
        ("CORES_MAX_RATIO", "1.5"),
    ] {
        let loaded = loaded(&[(name, value), ("INBOUND_DEFAULT_POLICY", "deny")]);
        assert_eq!(
            loaded.config.workers,
            WorkersConfig {
                min: 1,
                max: None,
                max_ratio: None
            }
        );
        let [warning] = &loaded.warnings[..] else {
            panic!("{:?}", loaded.warnings)
        };
        assert!(
            warning.starts_with(&format!("{}={value:?} is not valid: ", full(name))),
            "{warning}"
        );
        assert!(warning.ends_with("; it is ignored"), "{warning}");
    }
}

#[test]
fn log_forms_that_make_no_sense_are_skipped() {
    let loaded = loaded(&[("LOG_FORMAT", "xml"), ("ACCESS_LOG", "common")]);
    assert_eq!(
        (loaded.config.log.format, loaded.config.access_log),
        (LogFormat::Plain, None)
    );
    assert_eq!(loaded.warnings.len(), 3);
}

#[test]
fn half_a_pair_is_told() {
    for (set, missing, value) in [
        (
            "INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL",
            "INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT",
            "1s",
        ),
        (
            "OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT",
            "OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL",
            "1s",
        ),
        (
            "INBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE",
            "INBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE",
            "1",
        ),
    ] {
        let expected = format!(
            "{} has no effect unless {} is set, too",
            full(set),
            full(missing)
        );
        assert_eq!(warnings(&[(set, value)]), [expected]);
    }
}

#[test]
fn of_two_names_for_one_thing_one_wins() {
    let both = [
        ("MAX_IDLE_CONNS_PER_ENDPOINT", "5"),
        ("INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", "6"),
    ];
    assert_eq!(load(&both).inbound.pool.max_idle, 5);
    assert_eq!(warnings(&both).len(), 1);

    let both = [
        ("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:1"),
        ("OUTBOUND_LISTEN_ADDR", "127.0.0.1:2"),
    ];
    assert_eq!(
        load(&both).outbound.listen,
        ["127.0.0.1:1".parse().unwrap()]
    );
    assert_eq!(warnings(&both).len(), 1);

    let wrong = [
        ("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:1"),
        ("OUTBOUND_LISTEN_ADDR", "nowhere"),
    ];
    assert_eq!(
        warnings(&wrong).len(),
        1,
        "a wrong address that doesn't count is no reason to fail"
    );
}
