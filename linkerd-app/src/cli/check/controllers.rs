//! Controllers: their names resolve, they accept connections, and they show a certificate that the proxy would trust.
//!
//! - **Bounds**: [`STEP`] for each of look-up, connect and handshake; [`MAX_TRIED`] addresses of a name.

use super::{
    report::CheckLine,
    within::{STEP, within},
};
use crate::{
    config::{Config, ControlAddr, variables},
    control::control_addr,
};
use futures::future::join_all;
use linkerd_discover::dns::{self, DnsError, SystemResolver};
use linkerd_proxy_core::tls::{CertificateDetails, ProbeError, ServerProbe, TrustAnchors};
use std::{io, net::SocketAddr, time::SystemTime};
use tokio::net::TcpStream;

/// The lines of the controllers, and that of the clock.
pub(super) struct ControllerLines {
    /// Name, connection and TLS of each controller.
    pub(super) controllers: Vec<CheckLine>,
    /// The clock of this host against the certificate of a controller.
    pub(super) clock: CheckLine,
}

/// A controller, with the roles that it has: several may be at one address.
struct ConfiguredController<'a> {
    roles: String,
    addr: &'a ControlAddr,
    addr_variable: &'static str,
    name_variable: &'static str,
}

/// Checks all controllers at the same time. `anchors` are the trust anchors, or the reason why there are none.
pub(super) async fn check(
    config: &Config,
    anchors: Result<&TrustAnchors, &str>,
) -> ControllerLines {
    let resolver = SystemResolver::new();
    let all = controllers(config);
    let checks = all.iter().map(|it| it.check(&resolver, anchors));
    let (mut controllers, mut certificates) = (Vec::new(), Vec::new());
    for (lines, certificate) in join_all(checks).await {
        controllers.extend(lines);
        certificates.extend(certificate);
    }
    ControllerLines {
        controllers,
        clock: clock(&certificates, SystemTime::now()),
    }
}

fn controllers(config: &Config) -> Vec<ConfiguredController<'_>> {
    let control = &config.control;
    let identity = config.identity.as_ref().and_then(|it| it.controller());
    let trace = config.trace.as_ref().and_then(|it| it.collector.as_ref());
    let all = [
        (
            "destination",
            Some(&control.destination),
            variables::DESTINATION_SVC_ADDR.name(),
            variables::DESTINATION_SVC_NAME.name(),
        ),
        (
            "policy",
            Some(&control.policy),
            variables::POLICY_SVC_ADDR.name(),
            variables::POLICY_SVC_NAME.name(),
        ),
        (
            "identity",
            identity,
            variables::IDENTITY_SVC_ADDR.name(),
            variables::IDENTITY_SVC_NAME.name(),
        ),
        (
            "trace collector",
            trace,
            variables::TRACE_COLLECTOR_SVC_ADDR.name(),
            variables::TRACE_COLLECTOR_SVC_NAME.name(),
        ),
    ];
    let mut distinct: Vec<ConfiguredController<'_>> = Vec::new();
    for (role, addr, addr_variable, name_variable) in all {
        let Some(addr) = addr else {
            continue;
        };
        let same = |other: &&mut ConfiguredController<'_>| {
            (&other.addr.addr, &other.addr.tls_name) == (&addr.addr, &addr.tls_name)
        };
        match distinct.iter_mut().find(same) {
            Some(other) => other.roles.push_str(&format!(", {role}")),
            None => distinct.push(ConfiguredController {
                roles: role.to_owned(),
                addr,
                addr_variable,
                name_variable,
            }),
        }
    }
    distinct
}

impl ConfiguredController<'_> {
    /// Its lines, as far as it can be reached, and the certificate that it shows.
    async fn check(
        &self,
        resolver: &Result<SystemResolver, DnsError>,
        anchors: Result<&TrustAnchors, &str>,
    ) -> (Vec<CheckLine>, Option<CertificateDetails>) {
        let mut lines = Vec::new();
        let addrs = match self.resolve(resolver).await {
            Ok(addrs) => addrs,
            Err(line) => return (vec![line], None),
        };
        let stream = match self.connect(&addrs).await {
            Ok((line, stream)) => {
                lines.push(line);
                stream
            }
            Err(line) => return (vec![line], None),
        };
        let (line, certificate) = self.handshake(stream, anchors).await;
        lines.extend(line);
        (lines, certificate)
    }

    async fn resolve(
        &self,
        resolver: &Result<SystemResolver, DnsError>,
    ) -> Result<Vec<SocketAddr>, CheckLine> {
        let addr = control_addr(&self.addr.addr);
        if let dns::ControlAddr::Socket(addr) = addr {
            return Ok(vec![addr]);
        }
        let failed = |error: String| {
            let detail = format!("{} cannot be resolved: {error}", self.addr.addr);
            let fix = format!(
                "check the host in {}, and the name servers in /etc/resolv.conf",
                self.addr_variable
            );
            CheckLine::failed(self.name("name"), detail).fix(fix)
        };
        let resolver = resolver.as_ref();
        let resolver = resolver.map_err(|error| failed(error.to_string()))?;
        let resolved = dns::resolve_once(addr, resolver, self.addr.connect.backoff);
        match within(resolved).await {
            Ok(resolved) => resolved.map_err(failed),
            Err(_) => Err(failed(format!("no answer within {STEP:?}"))),
        }
    }

    /// Connects to all addresses, and keeps one connection.
    async fn connect(&self, addrs: &[SocketAddr]) -> Result<(CheckLine, TcpStream), CheckLine> {
        let name = self.name("connection");
        let tried = addrs.iter().take(MAX_TRIED);
        let attempts = tried.map(|addr| async move {
            let connected = match within(TcpStream::connect(addr)).await {
                Ok(connected) => connected,
                Err(_) => {
                    let late = format!("no answer within {STEP:?}");
                    Err(io::Error::new(io::ErrorKind::TimedOut, late))
                }
            };
            (addr, connected)
        });
        let (mut streams, mut errors) = (Vec::new(), Vec::new());
        for (addr, connected) in join_all(attempts).await {
            match connected {
                Ok(stream) => streams.push((addr, stream)),
                Err(error) => errors.push((addr, error)),
            }
        }
        let (accepted, number) = (streams.len(), addrs.len());
        let refused = errors.first();
        let refused = refused.map(|(addr, error)| (format!("{addr}: {error}"), error.kind()));
        match (streams.into_iter().next(), refused) {
            (Some((addr, stream)), None) => {
                let detail = match number {
                    1 => format!("{addr} accepts connections"),
                    _ => format!("{accepted} of {number} addresses accept connections"),
                };
                Ok((CheckLine::ok(name, detail), stream))
            }
            (Some((_, stream)), Some((error, _))) => {
                let detail =
                    format!("{accepted} of {number} addresses accept connections; {error}");
                let fix = "the controller has pods that do not answer: are they ready?";
                Ok((CheckLine::warn(name, detail).fix(fix), stream))
            }
            (None, refused) => {
                let none = || ("it has no address".to_owned(), io::ErrorKind::NotFound);
                let (error, kind) = refused.unwrap_or_else(none);
                let fix = match kind {
                    io::ErrorKind::ConnectionRefused => format!(
                        "start the controller, or let {} name its port",
                        self.addr_variable
                    ),
                    _ => format!(
                        "admit connections to it (firewall, NetworkPolicy), or correct {}",
                        self.addr_variable
                    ),
                };
                Err(CheckLine::failed(name, error).fix(fix))
            }
        }
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        anchors: Result<&TrustAnchors, &str>,
    ) -> (Option<CheckLine>, Option<CertificateDetails>) {
        let name = self.name("TLS");
        let Some(server) = self.addr.server_tls() else {
            let why = match self.addr.is_loopback {
                true => "on loopback connections are plain",
                false => "connections are plain: it has no name",
            };
            return (Some(CheckLine::skipped(name, why)), None);
        };
        let anchors = match anchors {
            Ok(anchors) => anchors,
            Err(why) => return (Some(CheckLine::skipped(name, why)), None),
        };
        let Ok(probe) = within(ServerProbe::handshake(stream, anchors, &server)).await else {
            let line = CheckLine::failed(name, format!("no handshake within {STEP:?}"));
            return (Some(line.fix(self.no_tls_fix())), None);
        };
        let line = match &probe.verified {
            Ok(()) => CheckLine::ok(name, format!("{} is verified", server.identity)),
            Err(error) => self.mistrust(name, error),
        };
        (Some(line), probe.certificate)
    }

    fn mistrust(&self, name: String, error: &ProbeError) -> CheckLine {
        let fix = match error {
            ProbeError::Time(_) => {
                let text = "its certificate is not valid at this time";
                return CheckLine::failed(name, text).fix("see the clock below");
            }
            ProbeError::Name { .. } => format!(
                "let {} be the identity of the controller, and {} lead to no other",
                self.name_variable, self.addr_variable
            ),
            ProbeError::Untrusted(_) => format!(
                "put the root certificate of the controller's mesh into {} or {}",
                variables::IDENTITY_TRUST_ANCHORS.name(),
                variables::IDENTITY_TRUST_ANCHORS_FILE.name()
            ),
            ProbeError::Handshake(_) | ProbeError::Setup(_) => self.no_tls_fix(),
        };
        CheckLine::failed(name, error.to_string()).fix(fix)
    }

    fn no_tls_fix(&self) -> String {
        format!(
            "let {} name the port at which the controller speaks TLS of the mesh",
            self.addr_variable
        )
    }

    fn name(&self, what: &str) -> String {
        format!("{}: {what}", self.roles)
    }
}

/// The clock is right if a certificate that is in use is valid by it.
fn clock(certificates: &[CertificateDetails], now: SystemTime) -> CheckLine {
    const NAME: &str = "clock";
    let problems = certificates.iter().map(|it| it.validity.problem(now));
    let problem = problems.flatten().next();
    match (problem, certificates.first()) {
        (Some(problem), _) => CheckLine::failed(NAME, problem).fix(
            "if the clock is wrong, synchronize it (NTP); if it is right, renew the certificate of the controller",
        ),
        (None, Some(certificate)) => {
            let detail = format!(
                "within the validity of a controller's certificate, {}",
                certificate.validity
            );
            CheckLine::ok(NAME, detail)
        }
        (None, None) => CheckLine::skipped(NAME, "no controller has shown a certificate"),
    }
}

/// More addresses of a name are not tried: a controller has a handful of pods.
const MAX_TRIED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::tls::Validity;
    use std::time::Duration;

    #[test]
    fn a_clock_outside_of_the_validity_is_explained_with_all_three_times() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let certificate = CertificateDetails {
            identities: Vec::new(),
            validity: Validity {
                not_before: at(1_000_000_000),
                not_after: at(1_000_086_400),
            },
        };
        let line = |now| format!("{:?}", clock(std::slice::from_ref(&certificate), at(now)));
        for (now, state, clock) in [
            (999_999_000, "is not valid yet", "01:30:00"),
            (1_000_090_000, "has expired", "02:46:40"),
        ] {
            let line = line(now);
            for text in [state, clock, "01:46:40", "status: Failed", "NTP"] {
                assert!(line.contains(text), "{text} in {line}");
            }
        }
        assert!(line(1_000_000_001).contains("status: Ok"));
        let none = format!("{:?}", super::clock(&[], at(0)));
        assert!(none.contains("status: Skipped"), "{none}");
    }
}
