//! What there is to see: figures of the traffic beside what the proxy thinks.

use super::{
    Addresses,
    backend::Backend,
    events::Events,
    fetch, state,
    table::{Row, cut, summary, table},
    tally::{Series, Slice, Tally},
};
use linkerd_proxy_core::BoxError;
use std::{
    collections::BTreeSet,
    fmt::Write,
    io,
    net::SocketAddr,
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant},
};

/// What is shown, and where it comes from.
pub(super) struct View {
    pub(super) start: Instant,
    pub(super) terminal: bool,
    pub(super) backends: Rc<[Backend]>,
    pub(super) addresses: Addresses,
    pub(super) switch: SocketAddr,
    pub(super) file: PathBuf,
    pub(super) events: Events,
}

impl View {
    /// Asks the proxy for what it sees.
    pub(super) async fn look(&mut self) {
        let at = self.start.elapsed();
        let state = async {
            let answer = fetch::once(self.addresses.admin, "/state", LOOK).await?;
            Ok::<_, BoxError>(serde_json::from_slice(&answer.body)?)
        };
        // What cannot be seen now is shown as it was.
        if let Ok(document) = state.await {
            self.events.observe(at, state::endpoints(&document));
        }
    }

    pub(super) fn begin(&self) {
        if self.terminal {
            // Clears the screen and hides the cursor.
            print!("\x1b[2J\x1b[?25l");
        } else {
            println!("{}", self.head());
        }
    }

    pub(super) fn draw(&mut self, tally: &Tally) {
        if self.terminal {
            let shown = self.screen(tally);
            // Each line erases what is left of the old one, so that nothing flickers.
            print!("\x1b[H{}\x1b[J", shown.replace('\n', "\x1b[K\n"));
            return io::Write::flush(&mut io::stdout()).unwrap_or_default();
        }
        for event in self.events.take_new() {
            println!("{}", cut(&event));
        }
        let last = tally.last();
        let rows = self.rows(tally, Series::last, now);
        let (at, rate) = (self.start.elapsed(), last.requests as f64);
        println!("{}", summary(at, rate, last.success(), &rows));
    }

    /// Shows what became of all requests.
    pub(super) fn end(&self, tally: &Tally, once: bool) {
        if self.terminal {
            println!("\x1b[?25h");
        }
        let total = tally.total();
        let seconds = self.start.elapsed().as_secs_f64();
        let rate = |series: &Series| series.total.requests as f64 / seconds;
        let rows = self.rows(tally, |series| series.total.clone(), rate);
        println!("\nAll of {seconds:.0} s:\n");
        print!("{}", table(&rows));
        println!("\n{} requests, {} failed", total.requests, total.failed);
        if let Some(failure) = tally.last_failure() {
            println!("the last one that failed: {failure}");
        }
        if once {
            for name in self.unasked(tally) {
                println!("{name} got no request");
            }
        }
    }

    pub(super) fn is_good(&self, tally: &Tally) -> bool {
        let total = tally.total();
        total.requests > 0 && total.failed == 0 && self.unasked(tally).next().is_none()
    }

    /// The backends that have answered no request.
    pub(super) fn unasked<'a>(&'a self, tally: &'a Tally) -> impl Iterator<Item = &'a str> {
        let names = self.backends.iter().map(|backend| backend.name.as_str());
        names.filter(|name| tally.backend(name).is_none())
    }

    fn screen(&self, tally: &Tally) -> String {
        let mut text = self.head();
        text.push('\n');
        text.push_str(&table(&self.rows(tally, Series::recent, now)));
        let all = tally.total();
        write!(text, "\n{} requests, {} failed", all.requests, all.failed)
            .expect("writing to a string does not fail");
        if let Some(failure) = tally.last_failure() {
            text.push_str(&cut(&format!("; the last one that failed: {failure}")));
        }
        text.push_str("\n\n");
        for event in self.events.lines() {
            text.push_str(&cut(event));
            text.push('\n');
        }
        text
    }

    fn head(&self) -> String {
        let Addresses {
            outbound, admin, ..
        } = self.addresses;
        let (file, switch) = (self.file.display(), self.switch);
        let port = self
            .backends
            .first()
            .map_or(0, |backend| backend.addr.port());
        format!(
            "Requests for {SERVICE} run through the proxy to three backends. Ctrl-C ends it.\n\n\
             \x20 send one      curl -x http://{outbound} http://web/    (also /echo, /slow, /stream)\n\
             \x20 look inside   curl http://{admin}/state    and http://{admin}/metrics\n\
             \x20 change it     edit {file} and save\n\
             \x20 break it      curl http://{switch}/stop/{port}    and /start/{port}\n"
        )
    }

    /// A row for each backend, and for each other endpoint that the proxy sees.
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
            success: shown.success(),
            p50: shown.latencies.percentile(0.5),
            p99: shown.latencies.percentile(0.99),
            estimate_ms: seen.and_then(|seen| seen.estimate_ms),
            in_flight: seen.and_then(|seen| seen.in_flight),
            state: seen.map_or("-", |seen| &seen.state).to_owned(),
        }
    }
}

/// Requests in the last second.
fn now(series: &Series) -> f64 {
    series.last().requests as f64
}

/// Whom the requests are for.
pub(super) const SERVICE: &str = "web.default.svc.cluster.local";

/// How long the proxy may take to tell its state.
const LOOK: Duration = Duration::from_secs(1);
