//! Files of the configuration: they exist, this user may read them, and their contents can be used.

use super::{duration_text::duration_text, report::CheckLine};
use crate::{
    config::{
        AccessLogOutput, AnchorsConfig, CertifyConfig, Config, IdentityConfig, IssuerConfig,
        SpireConfig, variables,
    },
    identity::{KEY_FILE, anchors_text, check_key_and_request, check_token},
};
use linkerd_proxy_core::tls::{AnchorDetails, TrustAnchors};
use rustix::fs::{Access, access};
use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    time::{Duration, SystemTime},
};

/// The lines of all files, and the trust anchors if they can be used. It waits for the files, which may be remote.
pub(super) fn check(config: &Config, now: SystemTime) -> (Vec<CheckLine>, Option<TrustAnchors>) {
    let mut lines = Vec::new();
    let mut anchors = None;
    match &config.identity {
        None => lines.push(CheckLine::skipped(
            "identity",
            format!(
                "nothing is encrypted: {} is not set",
                variables::IDENTITY_LOCAL_NAME.name()
            ),
        )),
        Some(identity) => {
            anchors = trust_anchors(identity, now, &mut lines);
            match &identity.issuer {
                IssuerConfig::Controller(certify) => {
                    lines.push(token(certify));
                    lines.extend(directory(identity, certify));
                }
                IssuerConfig::Spire(spire) => lines.push(workload_api(spire)),
            }
        }
    }
    let access_log = config.access_log.as_ref().map(|log| &log.output);
    let trace = config.trace.as_ref().and_then(|it| it.output.as_ref());
    let outputs = [
        (
            "access log",
            access_log,
            variables::ACCESS_LOG_OUTPUT.name(),
        ),
        ("trace output", trace, variables::TRACE_OUTPUT.name()),
    ];
    for (name, output, variable) in outputs {
        if let Some(AccessLogOutput::File(path)) = output {
            lines.push(written_file(name, path, variable));
        }
    }
    (lines, anchors)
}

fn trust_anchors(
    identity: &IdentityConfig,
    now: SystemTime,
    lines: &mut Vec<CheckLine>,
) -> Option<TrustAnchors> {
    const NAME: &str = "trust anchors";
    let (place, variable) = match &identity.trust_anchors {
        AnchorsConfig::Bundle => {
            let why = "they come from the workload API";
            lines.push(CheckLine::skipped(NAME, why));
            return None;
        }
        AnchorsConfig::Pem(_) => {
            let variable = variables::IDENTITY_TRUST_ANCHORS.name();
            (variable.to_owned(), variable)
        }
        AnchorsConfig::File(path) => (
            path.display().to_string(),
            variables::IDENTITY_TRUST_ANCHORS_FILE.name(),
        ),
    };
    let read = || -> Result<_, String> {
        let text = anchors_text(&identity.trust_anchors).map_err(|error| error.to_string())?;
        let text = text.unwrap_or_default();
        let anchors = TrustAnchors::from_pem(&text).map_err(|error| error.to_string())?;
        let details = AnchorDetails::read_pem(&text).map_err(|error| error.to_string())?;
        Ok((anchors, details))
    };
    match read() {
        Err(error) => {
            let fix = format!(
                "give {variable} the root certificates of the mesh in PEM, readable by the proxy's user"
            );
            lines.push(CheckLine::failed(NAME, format!("{place}: {error}")).fix(fix));
            None
        }
        Ok((anchors, details)) => {
            lines.push(anchors_expiry(&place, &details, now));
            Some(anchors)
        }
    }
}

/// Handshakes ignore the end of a trust anchor; issuers do not, and then issue no more certificates.
fn anchors_expiry(place: &str, anchors: &[AnchorDetails], now: SystemTime) -> CheckLine {
    const NAME: &str = "trust anchors";
    const FIX: &str = "add the next root certificate beside the old one, and let the identity controller sign by it; \
                       if the times look right, set the clock of this host";
    let usable = |anchor: &&AnchorDetails| anchor.validity.contains(now);
    let invalid = anchors.iter().find(|anchor| !usable(anchor));
    let problem = invalid.and_then(|anchor| {
        let problem = anchor.validity.problem(now)?;
        Some(format!("{place}: {}: {problem}", anchor.subject))
    });
    let valid = anchors.iter().filter(usable);
    let last = valid.clone().max_by_key(|anchor| anchor.validity.not_after);
    match (problem, last) {
        (Some(problem), None) => CheckLine::failed(NAME, problem).fix(FIX),
        (Some(problem), Some(_)) => {
            CheckLine::warn(NAME, problem).fix("remove it: nothing is signed by it any more")
        }
        (None, Some(last)) => {
            let left = last.validity.left(now);
            let detail = format!(
                "{place}: {} of {}, the last one ends in {}: {}",
                valid.count(),
                anchors.len(),
                duration_text(left),
                last.subject
            );
            match left < ANCHORS_END_SOON {
                true => CheckLine::warn(NAME, detail).fix(FIX),
                false => CheckLine::ok(NAME, detail),
            }
        }
        (None, None) => CheckLine::failed(NAME, format!("{place} has none")).fix(FIX),
    }
}

fn token(certify: &CertifyConfig) -> CheckLine {
    const NAME: &str = "token";
    let path = certify.token_file.display();
    match check_token(&certify.token_file) {
        Ok(()) => CheckLine::ok(NAME, format!("{path} can be read")),
        Err(error) => CheckLine::failed(NAME, error.to_string()).fix(format!(
            "let {} name a file with a service account's token, readable by {}",
            variables::IDENTITY_TOKEN_FILE.name(),
            user()
        )),
    }
}

/// The directory of the key. Nothing is written there: a proxy that finds no key keeps its own in memory.
fn directory(identity: &IdentityConfig, certify: &CertifyConfig) -> Vec<CheckLine> {
    const NAME: &str = "key and request";
    let directory = &certify.directory;
    match check_key_and_request(directory, &identity.local.identity) {
        Err(error) => vec![CheckLine::failed(NAME, error.to_string()).fix(format!(
            "put a key in PKCS #8 and its request into {}, readable by {}, or remove both",
            directory.display(),
            user()
        ))],
        Ok(false) => {
            let detail = format!(
                "{} has none: the proxy makes its own, in memory",
                directory.display()
            );
            vec![CheckLine::ok(NAME, detail)]
        }
        Ok(true) => {
            let key = directory.join(KEY_FILE);
            let line = CheckLine::ok(NAME, format!("{} can be used", key.display()));
            [Some(line), key_permissions(&key)]
                .into_iter()
                .flatten()
                .collect()
        }
    }
}

/// A warning if other users may read the key.
fn key_permissions(key: &Path) -> Option<CheckLine> {
    let mode = fs::metadata(key).ok()?.permissions().mode() & 0o777;
    let is_open = mode & OTHERS_READ != 0;
    let detail = format!(
        "{} has mode {mode:o}: other users can read it",
        key.display()
    );
    let fix = format!("chmod 600 {}", key.display());
    is_open.then(|| CheckLine::warn("private key", detail).fix(fix))
}

fn workload_api(spire: &SpireConfig) -> CheckLine {
    const NAME: &str = "workload API";
    let path = spire.socket.display();
    match UnixStream::connect(&spire.socket) {
        Ok(_) => CheckLine::ok(NAME, format!("{path} accepts connections")),
        Err(error) => CheckLine::failed(NAME, format!("{path}: {error}")).fix(format!(
            "start the SPIRE agent, and let {} name its socket",
            variables::IDENTITY_SPIRE_WORKLOAD_API_ADDRESS.name()
        )),
    }
}

/// A file that the proxy appends to. It is not created.
fn written_file(name: &str, path: &Path, variable: &str) -> CheckLine {
    let directory = path.parent().unwrap_or(path);
    let tested = if path.exists() { path } else { directory };
    match access(tested, Access::WRITE_OK) {
        Ok(()) => CheckLine::ok(name, format!("{} can be written", path.display())),
        Err(error) => {
            let fix = format!(
                "set {variable} to a file that {} may write, or to stderr",
                user()
            );
            CheckLine::failed(name, format!("{}: {error}", tested.display())).fix(fix)
        }
    }
}

fn user() -> String {
    let user = rustix::process::geteuid().as_raw();
    format!("user {user}, who runs this check")
}

/// Anchors are replaced with an overlap, which takes a roll-out of all proxies.
const ANCHORS_END_SOON: Duration = Duration::from_secs(60 * 24 * 3600);

/// The permission of all users to read. That of the group is how Kubernetes gives files to a pod's user.
const OTHERS_READ: u32 = 0o004;

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::tls::Validity;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn anchor(name: &str, from: SystemTime, until: SystemTime) -> AnchorDetails {
        AnchorDetails {
            subject: name.to_owned(),
            validity: Validity {
                not_before: from,
                not_after: until,
            },
        }
    }

    #[test]
    fn anchors_pass_warn_or_fail_by_their_end() {
        let now = SystemTime::now();
        let good = anchor("CN=good", now - DAY, now + 100 * DAY);
        let late = anchor("CN=late", now - DAY, now + 10 * DAY);
        let old = anchor("CN=old", now - 2 * DAY, now - DAY);
        let early = anchor("CN=early", now + DAY, now + 2 * DAY);
        let line = |anchors: &[&AnchorDetails]| {
            let anchors: Vec<_> = anchors.iter().map(|anchor| (*anchor).clone()).collect();
            format!("{:?}", anchors_expiry("anchors.pem", &anchors, now))
        };
        for (anchors, status, text) in [
            (
                &[&good][..],
                "Ok",
                "1 of 1, the last one ends in 100 d: CN=good",
            ),
            (&[&late, &good], "Ok", "2 of 2, the last one ends in 100 d"),
            (&[&late], "Warn", "ends in 10 d: CN=late"),
            (
                &[&old, &good],
                "Warn",
                "CN=old: the certificate has expired",
            ),
            (&[&old], "Failed", "CN=old: the certificate has expired"),
            (
                &[&early],
                "Failed",
                "CN=early: the certificate is not valid yet",
            ),
            (&[], "Failed", "has none"),
        ] {
            let line = line(anchors);
            assert!(line.contains(&format!("status: {status}")), "{line}");
            assert!(line.contains(text), "{text} in {line}");
        }
    }

    #[test]
    fn a_key_that_others_can_read_is_a_warning() {
        let files = tempfile::tempdir().unwrap();
        let key = files.path().join(KEY_FILE);
        fs::write(&key, "").unwrap();
        for (mode, warns) in [(0o600, false), (0o640, false), (0o644, true)] {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(key_permissions(&key).is_some(), warns, "{mode:o}");
        }
    }
}
