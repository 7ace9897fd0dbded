//! The events of a tap on their way to standard output.

use super::line;
use crate::utc::UtcClock;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// Prints events, and requests that take long.
pub(super) struct Screen {
    json: bool,
    clock: UtcClock,
    /// Requests that have not ended, by their ids.
    open: BTreeMap<String, OpenRequest>,
    dropped: (u64, u64),
}

/// A request that has not ended.
struct OpenRequest {
    since: Instant,
    is_printed: bool,
    request: Value,
    response: Option<Value>,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            clock: UtcClock::default(),
            open: BTreeMap::new(),
            dropped: (0, 0),
        }
    }

    /// Prints an event, or keeps it until the end of its request.
    pub(super) fn event(&mut self, event: &Value) -> io::Result<()> {
        if self.json {
            return writeln!(io::stdout(), "{event}");
        }
        let id = event["id"].as_str().unwrap_or_default();
        match event["event"].as_str() {
            Some("request") if self.open.len() < MAX_OPEN => {
                let open = OpenRequest {
                    since: Instant::now(),
                    is_printed: false,
                    request: event.clone(),
                    response: None,
                };
                self.open.insert(id.to_owned(), open);
            }
            Some("response") => {
                if let Some(open) = self.open.get_mut(id) {
                    open.response = Some(event.clone());
                }
            }
            Some("end") => {
                let open = self.open.remove(id);
                self.print(&line::end(event))?;
                let request = open.as_ref().map(|open| &open.request);
                let response = open.as_ref().and_then(|open| open.response.as_ref());
                self.print_headers(request, response, event)?;
            }
            Some("dropped") => self.note_dropped(event),
            _ => {}
        }
        Ok(())
    }

    /// Prints the requests that have become old.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let mut lines = Vec::new();
        for open in self.open.values_mut() {
            let age = now.saturating_duration_since(open.since);
            if !open.is_printed && age >= OLD {
                open.is_printed = true;
                let known = open.response.as_ref().unwrap_or(&open.request);
                lines.push(line::open(known, age));
            }
        }
        lines.iter().try_for_each(|line| self.print(line))
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        let mut line = Vec::new();
        self.clock.push_time_of_day(&mut line, SystemTime::now());
        line.push(b' ');
        line.extend_from_slice(text.as_bytes());
        line.push(b'\n');
        io::stdout().write_all(&line)
    }

    fn print_headers(
        &self,
        request: Option<&Value>,
        response: Option<&Value>,
        end: &Value,
    ) -> io::Result<()> {
        let mut out = io::stdout();
        for (mark, headers) in [
            ('>', request.map(|request| &request["headers"])),
            ('<', response.map(|response| &response["headers"])),
            ('<', Some(&end["trailers"])),
        ] {
            for header in headers.and_then(Value::as_array).into_iter().flatten() {
                writeln!(out, "    {mark} {}", line::header(header))?;
            }
        }
        Ok(())
    }

    /// Notes dropped events, on standard error: the note is no request.
    fn note_dropped(&mut self, event: &Value) {
        let number = |name| event[name].as_u64().unwrap_or(0);
        let now = (number("events"), number("skipped_requests"));
        let (events, requests) = (
            now.0.saturating_sub(self.dropped.0),
            now.1.saturating_sub(self.dropped.1),
        );
        if events > 0 {
            eprintln!("{events} events are missing: they came faster than they were read");
        }
        if requests > 0 {
            eprintln!(
                "{requests} requests are missing: there were more in a second than --max-rps"
            );
        }
        self.dropped = now;
    }
}

/// Requests that are kept until their end; those beyond are printed at their end alone.
const MAX_OPEN: usize = 1000;

/// Age at which a request is printed although it has not ended.
const OLD: Duration = Duration::from_secs(2);
