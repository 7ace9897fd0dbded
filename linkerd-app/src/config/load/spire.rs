//! SPIRE as the issuer of the certificate.

use crate::config::SpireConfig;
use crate::config::grammar::Grammar;
use crate::config::grammar::kinds::{Duration as DurationGrammar, Float, Text};
use crate::config::reader::Reader;
use crate::config::variables::*;
use linkerd_proxy_core::Backoff;
use std::path::PathBuf;
use std::time::Duration;

/// Whether a workload API is set.
pub(super) fn is_set(r: &Reader<'_>) -> bool {
    address_key(r).is_some()
}

/// The workload API. `None` without a usable one; the reader has the errors.
pub(super) fn spire(r: &mut Reader<'_>) -> Option<SpireConfig> {
    let parts = BackoffParts::read(r);
    let address = IDENTITY_SPIRE_WORKLOAD_API_ADDRESS;
    let key = address_key(r)?;
    let backoff = parts.backoff(r);
    let text = r.given(&key)?;
    if key.name() != address.name() {
        let (old, new) = (key.name(), address.name());
        r.warnings
            .push(format!("{old} has been deprecated; use {new}"));
        r.derive(&address, &text);
    }
    match socket(&text) {
        Some(socket) => Some(SpireConfig {
            socket,
            backoff: backoff?,
        }),
        None => {
            let problem = format!("{}={text:?} is no Unix socket", key.name());
            let fix = "set it to a path, such as unix:///run/spire/sockets/agent.sock";
            r.inconsistent(problem, Some(fix.to_owned()));
            None
        }
    }
}

/// Notes the variables of the identity controller that are set and not used with SPIRE.
pub(super) fn note_unused(r: &mut Reader<'_>) {
    let set = [
        (r.is_set(&IDENTITY_DIR), IDENTITY_DIR.name()),
        (r.is_set(&IDENTITY_TOKEN_FILE), IDENTITY_TOKEN_FILE.name()),
        (r.is_set(&IDENTITY_SVC_ADDR), IDENTITY_SVC_ADDR.name()),
        (r.is_set(&IDENTITY_SVC_NAME), IDENTITY_SVC_NAME.name()),
    ];
    let unused = set.into_iter().filter(|(is_set, _)| *is_set);
    let unused: Vec<_> = unused.map(|(_, name)| name).collect();
    if !unused.is_empty() {
        r.notes.push(format!(
            "{} has no effect: SPIRE issues the certificate",
            unused.join(", ")
        ));
    }
}

/// The variable that is set. An empty one counts as not set.
fn address_key(r: &Reader<'_>) -> Option<OptionalKey<Text>> {
    let keys = [IDENTITY_SPIRE_WORKLOAD_API_ADDRESS, IDENTITY_SPIRE_SOCKET];
    let mut keys = keys.into_iter();
    keys.find(|key| r.is_set(key) && !r.is_empty(key))
}

/// The path of an address; `None` for an address of another kind.
fn socket(address: &str) -> Option<PathBuf> {
    let path = match address.split_once(':') {
        Some(("unix", path)) => path,
        Some((scheme, _)) if !scheme.contains('/') => return None,
        _ => address,
    };
    let is_path = !path.trim_start_matches('/').is_empty();
    is_path.then(|| match path.strip_prefix("//") {
        Some(path) => PathBuf::from(format!("/{}", path.trim_start_matches('/'))),
        None => PathBuf::from(path),
    })
}

/// A part of the backoff: its value, if it is set, from either name.
struct BackoffPart<T> {
    name: &'static str,
    is_set: bool,
    value: Option<T>,
}

/// The variables of the pauses between two tries.
struct BackoffParts {
    min: BackoffPart<Duration>,
    max: BackoffPart<Duration>,
    jitter: BackoffPart<f64>,
}

impl BackoffParts {
    fn read(r: &mut Reader<'_>) -> Self {
        Self {
            min: part(r, &IDENTITY_SPIRE_EXP_BACKOFF_MIN, &MIN),
            max: part(r, &IDENTITY_SPIRE_EXP_BACKOFF_MAX, &MAX),
            jitter: part(r, &IDENTITY_SPIRE_EXP_BACKOFF_JITTER, &JITTER),
        }
    }

    /// The backoff. As soon as any part of it is set, minimum and maximum must be, and the jitter is 0 unless set.
    fn backoff(self, r: &mut Reader<'_>) -> Option<Backoff> {
        let Self { min, max, jitter } = self;
        let (least, most, share) = match (min.is_set, max.is_set, jitter.is_set) {
            (false, false, false) => (MIN.default(), MAX.default(), JITTER.default()),
            (true, true, true) => (min.value?, max.value?, jitter.value?),
            (true, true, false) => {
                r.derive(&JITTER, 0);
                (min.value?, max.value?, 0.0)
            }
            _ => {
                let problem = format!("{} and {} must be set together", min.name, max.name);
                r.inconsistent(problem, None);
                return None;
            }
        };
        let backoff = Backoff::new(least, most, share);
        let made = backoff.map_err(|error| {
            let names = [min.name, max.name, jitter.name].join(", ");
            r.inconsistent(format!("{names} don't make a backoff: {error}"), None);
        });
        made.ok()
    }
}

fn part<G: Grammar>(
    r: &mut Reader<'_>,
    corrected: &OptionalKey<G>,
    doubled: &DefaultedKey<G>,
) -> BackoffPart<G::Value> {
    let (first, second) = (r.given(corrected), r.given(doubled));
    match r.is_set(corrected) {
        true => BackoffPart {
            name: corrected.name(),
            is_set: true,
            value: first,
        },
        false => BackoffPart {
            name: doubled.name(),
            is_set: r.is_set(doubled),
            value: second,
        },
    }
}

const MIN: DefaultedKey<DurationGrammar> = LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MIN;
const MAX: DefaultedKey<DurationGrammar> = LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MAX;
const JITTER: DefaultedKey<Float> = LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_JITTER;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_with_or_without_a_scheme() {
        for (address, path) in [
            ("/run/agent.sock", Some("/run/agent.sock")),
            ("run/agent.sock", Some("run/agent.sock")),
            ("unix:/run/agent.sock", Some("/run/agent.sock")),
            ("unix:///run/agent.sock", Some("/run/agent.sock")),
            ("unix:run/agent.sock", Some("run/agent.sock")),
            ("/run/a:b.sock", Some("/run/a:b.sock")),
            ("tcp://127.0.0.1:8000", None),
            ("unix:", None),
            ("unix:///", None),
        ] {
            assert_eq!(
                socket(address).as_deref(),
                path.map(AsRef::as_ref),
                "{address}"
            );
        }
    }
}
