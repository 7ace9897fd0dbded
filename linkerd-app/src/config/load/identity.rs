//! The identity of the proxy, and the issuer of its certificate.

use super::control::{Peers, controller};
use super::spire;
use crate::config::errors::ConfigError;
use crate::config::grammar::Grammar;
use crate::config::reader::Reader;
use crate::config::variables::*;
use crate::config::{AnchorsConfig, CertifyConfig, ConnectConfig, IdentityConfig, IssuerConfig};
use linkerd_proxy_core::subscription::StreamLimits;
use linkerd_proxy_core::tls::{LocalIdentity, RefreshBounds};

/// The identity. `None` if nothing of it is set, or a part is missing or invalid; the reader has the errors.
pub(super) fn identity(
    r: &mut Reader<'_>,
    inbound: ConnectConfig,
    outbound: ConnectConfig,
) -> Option<IdentityConfig> {
    r.given(&IDENTITY_DISABLED);
    let (refresh, spire) = (refresh(r), spire::spire(r));
    let found = found(r)?;
    let mut missing = missing_names(r);
    let local = local(r);
    let uses_spire = spire::is_set(r);
    let anchors = match uses_spire && !has_anchors(r) {
        true => Some(AnchorsConfig::Bundle),
        false => anchors(r, &mut missing),
    };
    let issuer = match uses_spire {
        true => {
            spire::note_unused(r);
            spire.map(IssuerConfig::Spire)
        }
        false => certify(r, inbound, outbound, refresh, &mut missing)
            .map(|certify| IssuerConfig::Controller(Box::new(certify))),
    };
    if !missing.is_empty() {
        let no_anchors = missing.contains(&IDENTITY_TRUST_ANCHORS.name());
        let file = IDENTITY_TRUST_ANCHORS_FILE.name();
        let fix = no_anchors.then(|| format!("trust anchors may be in a file instead: {file}"));
        r.errors.push(ConfigError::NoIdentity {
            found,
            missing,
            fix,
        });
        return None;
    }
    Some(IdentityConfig {
        local: local?,
        trust_anchors: anchors?,
        issuer: issuer?,
    })
}

/// The identity controller, and the documents for it.
fn certify(
    r: &mut Reader<'_>,
    inbound: ConnectConfig,
    outbound: ConnectConfig,
    refresh: RefreshBounds,
    missing: &mut Vec<&'static str>,
) -> Option<CertifyConfig> {
    let directory = required(r, &IDENTITY_DIR, missing);
    let token_file = required(r, &IDENTITY_TOKEN_FILE, missing);
    let peers = Peers {
        inbound,
        outbound,
        limits: StreamLimits::default(),
    };
    let controller = controller(r, &IDENTITY_SVC_ADDR, &IDENTITY_SVC_NAME, &peers, None);
    if !r.is_set(&IDENTITY_SVC_ADDR) && !r.is_set(&IDENTITY_SVC_NAME) {
        missing.push(IDENTITY_SVC_ADDR.name());
    }
    Some(CertifyConfig {
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
        (
            r.is_set(&IDENTITY_TRUST_ANCHORS_FILE),
            IDENTITY_TRUST_ANCHORS_FILE.name(),
        ),
        (r.is_set(&IDENTITY_DIR), IDENTITY_DIR.name()),
        (r.is_set(&IDENTITY_TOKEN_FILE), IDENTITY_TOKEN_FILE.name()),
        (r.is_set(&IDENTITY_SVC_ADDR), IDENTITY_SVC_ADDR.name()),
        (r.is_set(&IDENTITY_SVC_NAME), IDENTITY_SVC_NAME.name()),
        (spire::is_set(r), IDENTITY_SPIRE_WORKLOAD_API_ADDRESS.name()),
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
        // A SPIFFE ID is no server name.
        (_, false, false) if spire::is_set(r) => {
            vec![IDENTITY_SERVER_ID.name(), IDENTITY_SERVER_NAME.name()]
        }
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
    if spire::is_set(r) {
        if !identity.is_spiffe_id() {
            let fix = format!(
                "set {} to the SPIFFE ID of this workload, and {} to the server name",
                IDENTITY_SERVER_ID.name(),
                IDENTITY_SERVER_NAME.name()
            );
            let problem = "Spire support requires a SPIFFE TLS Id".to_owned();
            r.inconsistent(problem, Some(fix));
            return None;
        }
    } else if identity.dns_name() != Some(&server_name) {
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

fn has_anchors(r: &Reader<'_>) -> bool {
    r.is_set(&IDENTITY_TRUST_ANCHORS) || r.is_set(&IDENTITY_TRUST_ANCHORS_FILE)
}

/// The trust anchors, from one variable or the other.
fn anchors(r: &mut Reader<'_>, missing: &mut Vec<&'static str>) -> Option<AnchorsConfig> {
    let (text, file) = (&IDENTITY_TRUST_ANCHORS, &IDENTITY_TRUST_ANCHORS_FILE);
    match (r.is_set(text), r.is_set(file)) {
        (true, true) => {
            let problem = format!("{} and {} exclude each other", text.name(), file.name());
            let fix = format!(
                "keep {} for anchors that never change, or {} for a file that is read again",
                text.name(),
                file.name()
            );
            r.inconsistent(problem, Some(fix));
            None
        }
        (false, true) => r.given(file).map(|path| AnchorsConfig::File(path.into())),
        (_, false) => required(r, text, missing).map(AnchorsConfig::Pem),
    }
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
