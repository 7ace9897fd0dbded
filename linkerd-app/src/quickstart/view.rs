//! The view: figures of the traffic beside the proxy's state.

use super::{
    backend::Backend,
    events::Events,
    fetch,
    options::{ProxyAddresses, Sidecars},
    screen::{self, Size, cut, wrap},
    sidecars::{Encryption, MeshView},
    state::{self, Seen},
    table::{Row, summary, table},
    tally::{Series, Slice, Tally},
};
use linkerd_proxy_core::BoxError;
use std::{
    collections::BTreeSet, fmt::Write, io, net::SocketAddr, path::PathBuf, rc::Rc, time::Duration,
};
use tokio::time::Instant;

/// The view and its sources.
pub(super) struct View {
    pub(super) start: Instant,
    pub(super) terminal: bool,
    pub(super) backends: Rc<[Backend]>,
    pub(super) sidecars: Sidecars,
    pub(super) switch: SocketAddr,
    pub(super) file: PathBuf,
    pub(super) mesh: MeshView,
    /// Ports that were in use, and their replacements.
    pub(super) moved: Vec<(u16, u16)>,
    pub(super) events: Events,
}

impl View {
    /// Fetches the state and the metrics of the frontend's sidecar.
    pub(super) async fn look(&mut self) {
        let at = self.start.elapsed();
        let metrics = fetch::once(self.sidecars.frontend.admin, "/metrics", LOOK).await;
        if let Ok(metrics) = metrics {
            let read = Encryption::read(&String::from_utf8_lossy(&metrics.body));
            self.mesh.observe(read);
        }
        let state = async {
            let answer = fetch::once(self.sidecars.frontend.admin, "/state", LOOK).await?;
            Ok::<_, BoxError>(serde_json::from_slice(&answer.body)?)
        };
        // If it is not available, the last one stays.
        if let Ok(document) = state.await {
            self.events.observe(at, state::endpoints(&document));
        }
    }

    pub(super) fn begin(&self) -> io::Result<()> {
        match self.terminal {
            true => screen::begin(),
            false => screen::print(&format!("{}\n", self.head(Size::now().columns))),
        }
    }

    pub(super) fn draw(&mut self, tally: &Tally) -> io::Result<()> {
        let size = Size::now();
        if self.terminal {
            return screen::draw(&self.screen(tally, size), size);
        }
        let mut text = String::new();
        for event in self.events.take_new() {
            text.push_str(&cut(&event, size.columns));
            text.push('\n');
        }
        let last = tally.last();
        let rows = self.rows(tally, Series::last, now);
        let (at, rate) = (self.start.elapsed(), last.requests as f64);
        text.push_str(&summary(at, rate, last.success(), &rows));
        text.push_str(&self.mesh.summary());
        if let Some(waiting) = tally.waiting() {
            text.push_str(&format!("  {waiting} waiting"));
        }
        text.push('\n');
        screen::print(&text)
    }

    /// Shows the results of all requests.
    pub(super) fn end(&self, tally: &Tally, once: bool) -> io::Result<()> {
        if self.terminal {
            screen::end()?;
        }
        let total = tally.total();
        let seconds = self.start.elapsed().as_secs_f64();
        let rate = |series: &Series| series.total.requests as f64 / seconds;
        let rows = self.rows(tally, |series| series.total.clone(), rate);
        let table = table(&rows, Size::now().columns);
        let (requests, failed) = (total.requests, total.failed);
        let mut text =
            format!("\nAll of {seconds:.0} s:\n\n{table}\n{requests} requests, {failed} failed\n");
        if let Some(failure) = tally.last_failure() {
            text.push_str(&format!("the last one that failed: {failure}\n"));
        }
        for line in [self.mesh.all_encrypted(), self.mesh.guest()] {
            text.push_str(&format!("{line}\n"));
        }
        if once {
            for name in self.unasked(tally) {
                text.push_str(&format!("{name} got no request\n"));
            }
        }
        screen::print(&text)
    }

    pub(super) fn is_good(&self, tally: &Tally) -> bool {
        let total = tally.total();
        total.requests > 0 && total.failed == 0 && self.unasked(tally).next().is_none()
    }

    /// Backends without any response yet.
    pub(super) fn unasked<'a>(&'a self, tally: &'a Tally) -> impl Iterator<Item = &'a str> {
        let names = self.backends.iter().map(|backend| backend.name.as_str());
        names.filter(|name| tally.backend(name).is_none())
    }

    fn screen(&self, tally: &Tally, size: Size) -> String {
        let mut text = self.head(size.columns);
        text.push('\n');
        let rows = self.rows(tally, Series::recent, now);
        text.push_str(&table(&rows, size.columns));
        let all = tally.total();
        write!(text, "\n{} requests, {} failed", all.requests, all.failed)
            .expect("writing to a string does not fail");
        if let Some(waiting) = tally.waiting() {
            write!(text, ", {waiting} waiting").expect("writing to a string does not fail");
        }
        if let Some(failure) = tally.last_failure() {
            text.push_str("; the last one that failed: ");
            text.push_str(failure);
        }
        text.push('\n');
        for line in [self.mesh.encrypted(), self.mesh.guest()] {
            text.push_str(&cut(&line, size.columns));
            text.push('\n');
        }
        text.push('\n');
        // The last events, as many as fit.
        let room = (size.rows - 1).saturating_sub(text.lines().count());
        let events: Vec<_> = self.events.lines().collect();
        for event in events.iter().skip(events.len().saturating_sub(room)) {
            text.push_str(event);
            text.push('\n');
        }
        text
    }

    fn head(&self, columns: usize) -> String {
        let ProxyAddresses {
            outbound, admin, ..
        } = self.sidecars.frontend;
        let (file, switch) = (self.file.display(), self.switch);
        let port = self
            .backends
            .first()
            .map_or(0, |backend| backend.addr.port());
        let line = |title: &str, phrases: &[&str]| {
            let phrases = wrap(INDENT, "    ", phrases, columns);
            format!(" {title:<width$}{phrases}\n", width = INDENT - 1)
        };
        let about = format!("Requests for {SERVICE} run through two sidecars");
        let backends = format!("with mutual TLS to {} backends.", self.backends.len());
        let about = wrap(0, " ", &[&about, &backends, "Ctrl-C ends it."], columns);
        let mut head = format!("{about}\n\n");
        head += &line(
            "send one",
            &[
                &format!("curl -x http://{outbound} http://web/"),
                "(or /slow, /fault)",
            ],
        );
        let [guest, hint] = self.mesh.hints();
        head += &line("as the guest", &[&guest, &hint]);
        head += &line(
            "look inside",
            &[
                &format!("http://{admin}/console"),
                "(or curl /state, /metrics)",
            ],
        );
        let Sidecars { web, guest, .. } = self.sidecars;
        head += &line(
            "the others",
            &[
                &format!("guest http://{}", guest.admin),
                &format!("backends http://{}", web.admin),
            ],
        );
        head += &line(
            "change it",
            &[&format!("edit {file} and save"), "(see its last lines)"],
        );
        head += &line(
            "break it",
            &[
                &format!("curl http://{switch}/stop/{port}"),
                &format!("and /start/{port}"),
            ],
        );
        let moved = self.moved.iter();
        let moved: Vec<_> = moved
            .map(|(usual, taken)| format!("{usual} is in use, {taken} taken instead"))
            .collect();
        if !moved.is_empty() {
            let moved: Vec<_> = moved.iter().map(String::as_str).collect();
            head += &line("ports", &moved);
        }
        head
    }

    /// A row for each backend, and for each other endpoint in the proxy's state.
    fn rows(
        &self,
        tally: &Tally,
        slice: impl Fn(&Series) -> Slice,
        rate: impl Fn(&Series) -> f64,
    ) -> Vec<Row> {
        let mut others: BTreeSet<_> = self.events.endpoints().keys().cloned().collect();
        let mut rows = Vec::new();
        for backend in self.backends.iter() {
            let addr = backend.addr.to_string();
            others.remove(&addr);
            let series = tally.backend(&backend.name);
            let name = format!("{} {addr}", backend.name);
            let mut row = self.row(name, &addr, series.map(&slice));
            row.service = backend.service.to_owned();
            row.rate = series.map_or(0.0, &rate);
            if !backend.is_running() {
                row.state = match row.state.as_str() {
                    "-" => "stopped".to_owned(),
                    state => format!("stopped; {state}"),
                };
            }
            rows.push(row);
        }
        rows.extend(others.iter().map(|addr| self.row(addr.clone(), addr, None)));
        let nobody = tally.nobody();
        if nobody.total.requests > 0 {
            rows.push(Row {
                rate: rate(nobody),
                ..self.row("no-backend".to_owned(), "", Some(slice(nobody)))
            });
        }
        rows
    }

    fn row(&self, endpoint: String, addr: &str, shown: Option<Slice>) -> Row {
        let shown = shown.unwrap_or_default();
        let seen = self.events.endpoints().get(addr);
        Row {
            service: "web".to_owned(),
            endpoint,
            rate: 0.0,
            requests: shown.requests,
            success: shown.success(),
            p50: shown.latencies.percentile(0.5),
            p99: shown.latencies.percentile(0.99),
            estimate_ms: seen.and_then(|seen| seen.estimate_ms),
            in_flight: seen.and_then(|seen| seen.in_flight),
            state: seen.map_or_else(|| "-".to_owned(), Seen::text),
        }
    }
}

/// Requests in the last second.
fn now(series: &Series) -> f64 {
    series.last().requests as f64
}

/// The service of the requests.
pub(super) const SERVICE: &str = "web.default.svc.cluster.local";

/// Column of the text in the head's lines.
const INDENT: usize = 15;

/// Time limit for the proxy's state.
const LOOK: Duration = Duration::from_secs(1);
