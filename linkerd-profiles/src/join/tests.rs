use super::*;
use crate::{
    HttpBackend,
    backend::{Dispatcher, Distribution},
    policy::Protocol,
};
use linkerd_proxy_core::Destination;

const ADDR: &str = "10.0.0.1:80";
const NAME: &str = "web.default.svc:80";

fn join(target: &str) -> Join {
    join_with(target, true)
}

fn join_with(target: &str, forward_unknown: bool) -> Join {
    let defaults = PolicyDefaults {
        detect_timeout: Duration::from_secs(10),
        forward_unknown,
    };
    Join::new(target.parse().unwrap(), Arc::new(defaults))
}

fn profile(name: Option<&str>, endpoint: Option<&str>) -> Profile {
    Profile {
        logical: name.map(|name| Destination::new(name, 80).unwrap()),
        opaque: false,
        targets: Vec::new(),
        endpoint: endpoint.map(|addr| Arc::new(Endpoint::new(addr.parse().unwrap()))),
        routes: Vec::new(),
        retry_budget: None,
    }
}

fn refusal(code: Code) -> Status {
    Status::new(code, "as scripted")
}

/// The result for a target: `parent -> destination`.
fn joined(target: &str, policy: Code, profile: Option<Profile>) -> String {
    let now = Instant::now();
    let mut join = join(target);
    join.policy_refused(refusal(policy), now);
    match profile {
        Some(profile) => join.profile(profile),
        None => join.no_profile(),
    }
    match join.outcome(now) {
        JoinOutcome::Ready { policy, .. } => {
            let Protocol::Detect {
                http1,
                http2,
                opaque,
                ..
            } = &policy.protocol
            else {
                panic!("{policy:?}");
            };
            assert_eq!(http1, http2);
            let Some(route) = http1.rules().first() else {
                return format!("{} -> nowhere", policy.parent);
            };
            let opaque = opaque.as_ref().unwrap().distribution.clone();
            assert_eq!(route.distribution, opaque.clone().map(HttpBackend::from));
            let Distribution::FirstAvailable(backends) = &opaque else {
                panic!("{route:?}");
            };
            match &backends[0].dispatcher {
                Dispatcher::Forward(endpoint) => format!("{} -> {}", policy.parent, endpoint.addr),
                Dispatcher::Balance { destination, .. } => {
                    format!("{} -> {destination}", policy.parent)
                }
                Dispatcher::Fail(_) => panic!("{route:?}"),
            }
        }
        JoinOutcome::Failed(status) => format!("{:?}", status.code),
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn targets_without_a_policy() {
    let logical = || Some(profile(Some("web.default.svc"), None));
    let endpoint = || Some(profile(Some("web.default.svc"), Some("10.9.9.9:8080")));
    let neither = || Some(profile(None, None));
    for code in [Code::NotFound, Code::Unimplemented] {
        for (target, profile, expected) in [
            (ADDR, endpoint(), "default.endpoint -> 10.9.9.9:8080"),
            (ADDR, logical(), "default.endpoint -> 10.0.0.1:80"),
            (ADDR, neither(), "default.endpoint -> 10.0.0.1:80"),
            (ADDR, None, "default.fallback -> 10.0.0.1:80"),
            (NAME, endpoint(), "default.endpoint -> 10.9.9.9:8080"),
            (NAME, logical(), "default.profile -> web.default.svc:80"),
            (NAME, neither(), "default.empty -> nowhere"),
        ] {
            assert_eq!(joined(target, code, profile), expected, "{target}");
        }
        assert_eq!(joined(NAME, code, None), format!("{code:?}"));
    }
    for code in [Code::InvalidArgument, Code::FailedPrecondition] {
        for target in [ADDR, NAME] {
            assert_eq!(joined(target, code, endpoint()), format!("{code:?}"));
        }
    }
}

#[test]
fn what_is_unknown_is_refused_where_it_shall_not_be_forwarded() {
    let now = Instant::now();
    for (target, profile, known) in [
        (ADDR, None, false),
        (ADDR, Some(profile(None, None)), false),
        (ADDR, Some(profile(None, Some("10.9.9.9:8080"))), true),
        (NAME, Some(profile(Some("web.default.svc"), None)), false),
    ] {
        let mut join = join_with(target, false);
        join.policy_refused(refusal(Code::NotFound), now);
        match profile {
            Some(profile) => join.profile(profile),
            None => join.no_profile(),
        }
        let ready = matches!(join.outcome(now), JoinOutcome::Ready { .. });
        assert_eq!(ready, known, "{target}");
    }
}

#[test]
fn the_profile_is_waited_for_but_not_for_ever() {
    let start = Instant::now();
    let mut join = join(ADDR);
    assert_eq!(join.outcome(start), JoinOutcome::Wait);
    join.profile(profile(None, None));
    assert_eq!(
        join.outcome(start + 9 * PROFILE_WAIT),
        JoinOutcome::Wait,
        "without a policy"
    );

    let mut join = self::join(ADDR);
    join.policy(ClientPolicy::empty(), start);
    let until = start + PROFILE_WAIT;
    assert_eq!(join.outcome(start), JoinOutcome::WaitForProfile(until));
    let JoinOutcome::Ready { profile: None, .. } = join.outcome(until) else {
        panic!("must go on without");
    };
    join.profile(profile(None, None));
    let JoinOutcome::Ready {
        profile: Some(_), ..
    } = join.outcome(until)
    else {
        panic!("must be applied when it comes");
    };
}

#[test]
fn the_last_answer_stays_in_force() {
    let now = Instant::now();
    let mut join = join(ADDR);
    join.policy(ClientPolicy::empty(), now);
    join.profile(profile(None, None));
    let before = join.outcome(now);
    join.policy_refused(refusal(Code::NotFound), now);
    join.no_profile();
    assert_eq!(join.outcome(now), before);
    assert!(!join.policy(ClientPolicy::empty(), now), "the same again");
}
