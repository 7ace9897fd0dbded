//! The control plane: its controllers, the transport to them, and the limits of their streams.

use crate::config::errors::ConfigError;
use crate::config::grammar::kinds::{Authority, DnsName, OptionalDuration};
use crate::config::reader::Reader;
use crate::config::variables::*;
use crate::config::{Addr, ConnectConfig, ControlAddr, ControlConfig, DefaultPolicy};
use linkerd_proxy_core::http::Http2Settings;
use linkerd_proxy_core::subscription::StreamLimits;
use std::time::Duration;

/// The control plane. `None` if a controller is missing or invalid; the reader has the errors.
pub(super) fn control(
    r: &mut Reader<'_>,
    inbound: ConnectConfig,
    outbound: ConnectConfig,
    http2: Http2Settings,
) -> Option<ControlConfig> {
    let limits = stream_limits(r);
    let peers = Peers {
        inbound,
        outbound,
        limits,
    };
    let missing = ConfigError::NoDestination {
        addr: DESTINATION_SVC_ADDR.name(),
    };
    let destination = controller(
        r,
        &DESTINATION_SVC_ADDR,
        &DESTINATION_SVC_NAME,
        &peers,
        Some(missing),
    );
    let missing = ConfigError::NoPolicy {
        missing: POLICY_SVC_ADDR.name(),
    };
    let policy = controller(r, &POLICY_SVC_ADDR, &POLICY_SVC_NAME, &peers, Some(missing));
    let workload = workload(r);
    let (context, profile_suffixes) = (
        r.value(&DESTINATION_CONTEXT),
        r.value(&DESTINATION_PROFILE_SUFFIXES),
    );
    let profile_networks = r.value(&DESTINATION_PROFILE_NETWORKS);
    let cluster_networks = r.value(&POLICY_CLUSTER_NETWORKS);
    if cluster_networks.is_empty() && r.value(&INBOUND_ENABLED) {
        let name = POLICY_CLUSTER_NETWORKS.name();
        r.notes.push(format!("{name} is not set: default policies that depend on the cluster's networks are not supported"));
    }
    Some(ControlConfig {
        destination: destination?,
        policy: policy?,
        http2,
        context,
        workload: workload?,
        profile_suffixes,
        profile_networks,
        cluster_networks,
    })
}

/// Checks that a default policy about the networks of the cluster has them.
pub(super) fn check_default_policy(r: &mut Reader<'_>, policy: DefaultPolicy) {
    let (name, networks) = (
        INBOUND_DEFAULT_POLICY.name(),
        POLICY_CLUSTER_NETWORKS.name(),
    );
    if !r.is_set(&INBOUND_DEFAULT_POLICY) {
        r.warnings
            .push(format!("{name} is not set: {} is used", policy.name()));
    }
    if policy.needs_cluster_networks() && r.value(&POLICY_CLUSTER_NETWORKS).is_empty() {
        let problem = format!(
            "{name}={:?} is only accepted together with {networks}",
            policy.name()
        );
        r.inconsistent(
            problem,
            Some(format!(
                "set {networks} to the networks of the cluster, such as 10.0.0.0/8"
            )),
        );
    }
}

/// Dialling of controllers, by location.
pub(super) struct Peers {
    pub(super) inbound: ConnectConfig,
    pub(super) outbound: ConnectConfig,
    pub(super) limits: StreamLimits,
}

/// A controller on loopback is another container of this pod: no TLS, no limits, and dialled like the application.
pub(super) fn controller(
    r: &mut Reader<'_>,
    addr_key: &OptionalKey<Authority>,
    name_key: &OptionalKey<DnsName>,
    peers: &Peers,
    missing: Option<ConfigError>,
) -> Option<ControlAddr> {
    let (addr, name) = (r.given(addr_key), r.given(name_key));
    if !r.is_set(addr_key) && !r.is_set(name_key) {
        r.errors.extend(missing);
        return None;
    }
    if let Some(addr) = addr.clone().filter(Addr::is_loopback) {
        let connect = peers.inbound;
        return Some(ControlAddr {
            addr,
            tls_name: None,
            is_loopback: true,
            connect,
            limits: StreamLimits::default(),
        });
    }
    if r.is_set(addr_key) && r.is_set(name_key) {
        let (connect, limits) = (peers.outbound, peers.limits);
        return Some(ControlAddr {
            addr: addr?,
            tls_name: Some(name?),
            is_loopback: false,
            connect,
            limits,
        });
    }
    // A refused address may have been meant to be on loopback: then one error is enough.
    if addr.is_some() || !r.is_set(addr_key) {
        let problem = format!(
            "{} and {} must be specified together",
            addr_key.name(),
            name_key.name()
        );
        r.inconsistent(problem, together(addr.as_ref()));
    }
    None
}

fn together(addr: Option<&Addr>) -> Option<String> {
    match addr {
        Some(Addr::Name { host, port }) if host == "localhost" => Some(format!(
            "write localhost.:{port}, with the dot, for a controller on loopback; it needs no name"
        )),
        _ => None,
    }
}

/// The workload, which is required as soon as there is a policy controller.
fn workload(r: &mut Reader<'_>) -> Option<String> {
    let workload = r.given(&POLICY_WORKLOAD);
    if !r.is_set(&POLICY_WORKLOAD) {
        let (missing, addr) = (POLICY_WORKLOAD.name(), POLICY_SVC_ADDR.name());
        if r.is_set(&POLICY_SVC_ADDR) {
            r.inconsistent(format!("{missing} must be set with {addr}"), None);
        } else {
            r.errors.push(ConfigError::NoPolicy { missing });
        }
    }
    workload
}

fn stream_limits(r: &mut Reader<'_>) -> StreamLimits {
    let limits = StreamLimits {
        initial: r.given(&CONTROL_STREAM_INITIAL_TIMEOUT).flatten(),
        idle: r.given(&CONTROL_STREAM_IDLE_TIMEOUT).flatten(),
        lifetime: r.given(&CONTROL_STREAM_LIFETIME).flatten(),
    };
    type Limit<'a> = (&'a OptionalKey<OptionalDuration>, Option<Duration>);
    let initial: Limit<'_> = (&CONTROL_STREAM_INITIAL_TIMEOUT, limits.initial);
    let idle: Limit<'_> = (&CONTROL_STREAM_IDLE_TIMEOUT, limits.idle);
    let lifetime: Limit<'_> = (&CONTROL_STREAM_LIFETIME, limits.lifetime);
    for ((key, value), (other, most)) in [(initial, idle), (initial, lifetime), (idle, lifetime)] {
        if let (Some(value), Some(most)) = (value, most)
            && value > most
        {
            let problem = format!("{} must be less than {}", key.name(), other.name());
            r.inconsistent(problem, Some(format!("{value:?} is more than {most:?}")));
        }
    }
    limits
}
