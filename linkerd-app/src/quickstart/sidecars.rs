//! The mesh between the callers and the backends: how much is encrypted, and whether the guest is let in.

use super::{
    environment::{FRONTEND, GUEST, WEB},
    tally::Tally,
};
use std::{cell::RefCell, net::SocketAddr, path::Path, rc::Rc};

/// Requests of the frontend's sidecar, in its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Encryption {
    pub(super) requests: u64,
    /// With `tls="true"`.
    pub(super) encrypted: u64,
}

/// The place of the guest's identity in the mesh file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GuestLine {
    /// From 1.
    pub(super) number: usize,
    /// Whether it is a comment.
    pub(super) is_commented: bool,
}

/// The state of the mesh.
pub(super) struct MeshView {
    /// The outbound address of the guest's sidecar.
    pub(super) guest_at: SocketAddr,
    /// The results of the guest's requests.
    pub(super) guest: Rc<RefCell<Tally>>,
    pub(super) guest_line: Option<GuestLine>,
    /// The requests of the last second.
    pub(super) last: Encryption,
    /// The requests since the start.
    pub(super) all: Encryption,
}

impl Encryption {
    /// The figures in the text of `/metrics`.
    pub(super) fn read(metrics: &str) -> Self {
        let mut read = Self::default();
        for line in metrics.lines() {
            let Some((labels, value)) = line
                .strip_prefix("request_total{")
                .and_then(|line| line.rsplit_once("} "))
            else {
                continue;
            };
            if !labels.contains(r#"direction="outbound""#) {
                continue;
            }
            let count: u64 = value.trim().parse().unwrap_or_default();
            read.requests += count;
            if labels.contains(r#"tls="true""#) {
                read.encrypted += count;
            }
        }
        read
    }

    fn text(self) -> String {
        let Self {
            requests,
            encrypted,
        } = self;
        let share = self.percent();
        format!(
            "tls=\"true\" for {encrypted} of {requests} requests ({share}), {FRONTEND} to {WEB}"
        )
    }

    fn percent(self) -> String {
        match self.encrypted * 100 {
            _ if self.requests == 0 => "-".to_owned(),
            hundredfold => format!("{}%", hundredfold / self.requests),
        }
    }
}

impl GuestLine {
    /// The first line of a file that names the guest as an item of a list.
    pub(super) fn find(file: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        Self::find_in(&text)
    }

    fn find_in(text: &str) -> Option<Self> {
        let lines = text.lines().zip(1..);
        lines
            .map(|(line, number)| (line.trim_start(), number))
            .find_map(|(line, number)| {
                let rest = line.trim_start_matches(['#', ' ', '-']);
                rest.starts_with(GUEST).then_some(Self {
                    number,
                    is_commented: line.starts_with('#'),
                })
            })
    }
}

impl MeshView {
    /// Takes new figures.
    pub(super) fn observe(&mut self, read: Encryption) {
        self.last = Encryption {
            requests: read.requests.saturating_sub(self.all.requests),
            encrypted: read.encrypted.saturating_sub(self.all.encrypted),
        };
        self.all = read;
    }

    /// The encrypted requests of the last second.
    pub(super) fn encrypted(&self) -> String {
        self.last.text()
    }

    /// The encrypted requests since the start.
    pub(super) fn all_encrypted(&self) -> String {
        self.all.text()
    }

    /// The results of the guest's requests.
    pub(super) fn guest(&self) -> String {
        let guest = self.guest.borrow();
        let total = guest.total();
        let mut text = format!(
            "{GUEST}: {} requests, {} failed",
            total.requests, total.failed
        );
        if let Some(failure) = guest.last_failure() {
            text.push_str("; the last one: ");
            text.push_str(failure);
        }
        text
    }

    /// A summary of both, for the line of a second.
    pub(super) fn summary(&self) -> String {
        let guest = self.guest.borrow();
        let last = guest.last();
        let is_denied = guest
            .last_failure()
            .is_some_and(|failure| failure.starts_with("403"));
        let result = match (last.requests, last.failed) {
            (0, _) => "-",
            (_, 0) => "ok",
            _ if is_denied => "denied",
            _ => "failed",
        };
        format!("  tls {}  guest {result}", self.last.percent())
    }

    /// Hints: sending a request as the guest, and letting the guest in.
    pub(super) fn hints(&self) -> [String; 2] {
        let hint = match self.guest_line {
            Some(GuestLine {
                number,
                is_commented: true,
            }) => format!("(denied; remove the # of line {number} to let it in)"),
            Some(GuestLine { number, .. }) => {
                format!("(let in by line {number}; put a # before it to deny it)")
            }
            None => "(see `servers` in the file)".to_owned(),
        };
        [
            format!("curl -i -x http://{} http://web/", self.guest_at),
            hint,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_control::Mesh;

    #[test]
    fn outbound_requests_are_counted_by_their_encryption() {
        let metrics = "\
# TYPE request_total counter
request_total{direction=\"outbound\",tls=\"true\",server_id=\"web.mesh.local\"} 90
request_total{direction=\"outbound\",tls=\"no_identity\",no_tls_reason=\"loopback\"} 10
request_total{direction=\"inbound\",tls=\"true\"} 7
response_total{direction=\"outbound\",tls=\"true\"} 7
";
        let read = Encryption::read(metrics);
        let expected = Encryption {
            requests: 100,
            encrypted: 90,
        };
        assert_eq!((read, &*read.percent()), (expected, "90%"));
        assert_eq!(Encryption::read("").percent(), "-");
    }

    #[test]
    fn the_line_of_the_guest_is_found_commented_or_not() {
        let line =
            |text: &str| GuestLine::find_in(text).map(|line| (line.number, line.is_commented));
        for text in [
            "a: 1\n  # - guest.mesh.local\n",
            "a: 1\n  # guest.mesh.local,\n",
        ] {
            assert_eq!(line(text), Some((2, true)));
            assert_eq!(line(&text.replace("# ", "")), Some((2, false)));
        }
        assert_eq!(line("a: guest.mesh.local"), None);
    }

    #[test]
    fn without_its_mark_the_line_of_the_example_lets_the_guest_in() {
        let example = include_str!("../../examples/mesh.yaml");
        let line = GuestLine::find_in(example).expect("a line");
        assert!(line.is_commented);
        let lets_in = |text: &str| {
            let mesh = Mesh::parse("mesh.yaml", text).expect("valid");
            let mut servers = mesh.servers();
            servers.any(|(_, server)| format!("{server:?}").contains(GUEST))
        };
        assert!(!lets_in(example));
        for mark in ["#", "# "] {
            let uncomment = |(text, number)| match number == line.number {
                true => str::replacen(text, mark, "", 1),
                false => text.to_owned(),
            };
            let lines: Vec<_> = example.lines().zip(1..).map(uncomment).collect();
            assert!(lets_in(&lines.join("\n")), "{mark:?}");
        }
    }
}
