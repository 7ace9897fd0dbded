//! The identity of the proxy, and the controller that issues its certificate.

use super::control::{Peers, controller};
use crate::config::errors::ConfigError;
use crate::config::grammar::Grammar;
use crate::config::reader::Reader;
use crate::config::variables::*;
use crate::config::{ConnectConfig, IdentityConfig};
use linkerd_proxy_core::subscription::StreamLimits;
use linkerd_proxy_core::tls::{LocalIdentity, RefreshBounds};

/// The identity. `None` if nothing of it is set, or a part is missing or invalid; the reader has the errors.
pub(super) fn identity(
    r: &mut Reader<'_>,
    inbound: ConnectConfig,
    outbound: ConnectConfig,
) -> Option<IdentityConfig> {
    r.given(&IDENTITY_DISABLED);
    let refresh = refresh(r);
    let found = found(r)?;
    let mut missing = missing_names(r);
    let local = local(r);
    let anchors = required(r, &IDENTITY_TRUST_ANCHORS, &mut missing);
    let directory = required(r, &IDENTITY_DIR, &mut missing);
    let token_file = required(r, &IDENTITY_TOKEN_FILE, &mut missing);
    let peers = Peers {
        inbound,
        outbound,
        limits: StreamLimits::default(),
    };
    let controller = controller(r, &IDENTITY_SVC_ADDR, &IDENTITY_SVC_NAME, &peers, None);
    let has_controller = r.is_set(&IDENTITY_SVC_ADDR) || r.is_set(&IDENTITY_SVC_NAME);
    if !has_controller {
        missing.push(IDENTITY_SVC_ADDR.name());
    }
    if !missing.is_empty() {
        r.errors.push(ConfigError::NoIdentity { found, missing });
        return None;
    }
    Some(IdentityConfig {
        local: local?,
        trust_anchors: anchors?,
        controller: controller?,
        directory: directory?.into(),
        token_file: token_file?.into(),
        refresh,
    })
}

/// A variable that is set and only makes sense with an identity.
fn found(r: &Reader<'_>) -> Option<&'static str> {
    let set = [
        (r.is_set(&IDENTITY_LOCAL_NAME), IDENTITY_LOCAL_NAME.name()),
        (r.is_set(&IDENTITY_SERVER_ID), IDENTITY_SERVER_ID.name()),
        (r.is_set(&IDENTITY_SERVER_NAME), IDENTITY_SERVER_NAME.name()),
        (
            r.is_set(&IDENTITY_TRUST_ANCHORS),
            IDENTITY_TRUST_ANCHORS.name(),
        ),
        (r.is_set(&IDENTITY_DIR), IDENTITY_DIR.name()),
        (r.is_set(&IDENTITY_TOKEN_FILE), IDENTITY_TOKEN_FILE.name()),
        (r.is_set(&IDENTITY_SVC_ADDR), IDENTITY_SVC_ADDR.name()),
        (r.is_set(&IDENTITY_SVC_NAME), IDENTITY_SVC_NAME.name()),
    ];
    set.into_iter()
        .find_map(|(is_set, name)| is_set.then_some(name))
}

/// The names of this proxy that are missing: one variable gives both, or two give one each.
fn missing_names(r: &Reader<'_>) -> Vec<&'static str> {
    let (id, server) = (
        r.is_set(&IDENTITY_SERVER_ID),
        r.is_set(&IDENTITY_SERVER_NAME),
    );
    match (r.is_set(&IDENTITY_LOCAL_NAME), id, server) {
        (true, ..) | (_, true, true) => Vec::new(),
        (_, false, false) => vec![IDENTITY_LOCAL_NAME.name()],
        (_, true, false) => vec![IDENTITY_SERVER_NAME.name()],
        (_, false, true) => vec![IDENTITY_SERVER_ID.name()],
    }
}

fn local(r: &mut Reader<'_>) -> Option<LocalIdentity> {
    let name = r.given(&IDENTITY_LOCAL_NAME);
    let (id, server_name) = (r.given(&IDENTITY_SERVER_ID), r.given(&IDENTITY_SERVER_NAME));
    let identity: linkerd_proxy_core::tls::Identity = id.or_else(|| name.clone())?.parse().ok()?;
    let server_name = server_name.or(name)?.to_ascii_lowercase();
    if identity.dns_name() != Some(&server_name) {
        r.inconsistent(
            "linkerd identity requires a TLS Id and server name to be the same".to_owned(),
            Some(format!("set {} alone", IDENTITY_LOCAL_NAME.name())),
        );
        return None;
    }
    Some(LocalIdentity {
        identity,
        server_name: server_name.into(),
    })
}

/// A text without which there is no identity.
fn required<G: Grammar<Value = String>>(
    r: &mut Reader<'_>,
    key: &OptionalKey<G>,
    missing: &mut Vec<&'static str>,
) -> Option<String> {
    if !r.is_set(key) {
        missing.push(key.name());
    }
    r.given(key)
}

fn refresh(r: &mut Reader<'_>) -> RefreshBounds {
    let (min, max) = (
        r.value(&IDENTITY_MIN_REFRESH),
        r.value(&IDENTITY_MAX_REFRESH),
    );
    if min > max {
        let (min, max) = (IDENTITY_MIN_REFRESH.name(), IDENTITY_MAX_REFRESH.name());
        r.inconsistent(format!("{min} must not be more than {max}"), None);
    }
    RefreshBounds { min, max }
}
