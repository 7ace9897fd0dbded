//! `/tap`: requests as they happen, for tools on this host.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::AdminRequest,
};
use crate::tap::{OpenTap, TapEnd, TapFields, closed_line, dropped_line, event_line};
use bytes::Bytes;
use futures::stream;
use http::{Method, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use std::{convert::Infallible, time::Duration};
use tokio::time::Instant;

/// Opens a tap with the conditions of the parameters, and streams its events as lines of JSON until it ends.
pub(super) fn tap(admin: &AdminContext, request: &AdminRequest) -> Reply {
    if let Some(refusal) = request.refuse_remote(admin) {
        return refusal;
    }
    if *request.http.method() != Method::GET {
        return reply::not_allowed(&[Method::GET]);
    }
    let fields = TapFields::of_parameters(request.http.uri().query().unwrap_or_default());
    let settings = fields.and_then(|fields| fields.check(format!("admin {}", request.client.addr)));
    let settings = match settings {
        Ok(settings) => settings,
        Err(invalid) => return reply::json_error(StatusCode::BAD_REQUEST, &invalid.to_string()),
    };
    match admin.taps.open(settings) {
        Ok(tap) => lines(tap),
        Err(refused) => reply::json_error(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string()),
    }
}

/// The lines of a tap on their way to its client.
struct Lines {
    /// `None`: the last line is sent.
    tap: Option<OpenTap>,
    /// Dropped events and skipped requests that were reported to the client.
    told: (u64, u64),
    told_at: Instant,
}

fn lines(tap: OpenTap) -> Reply {
    let lines = Lines {
        tap: Some(tap),
        told: (0, 0),
        told_at: Instant::now(),
    };
    let frames = stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(line)));
        Some((frame, lines))
    });
    reply::json_stream(StreamBody::new(frames))
}

impl Lines {
    /// The next line. While there are none, a regular line detects a client that is gone.
    async fn next(&mut self) -> Option<String> {
        let tap = self.tap.as_mut()?;
        let told = (tap.tap().dropped(), tap.tap().skipped());
        if told != self.told && self.told_at.elapsed() >= TELL_EVERY {
            (self.told, self.told_at) = (told, Instant::now());
            return Some(dropped_line(told.0, told.1));
        }
        let line = match tokio::time::timeout(HEARTBEAT, tap.next()).await {
            Ok(Ok(event)) => event_line(tap.tap().id, &event),
            Ok(Err(end)) => self.close(end),
            Err(_) => {
                (self.told, self.told_at) = (told, Instant::now());
                dropped_line(told.0, told.1)
            }
        };
        Some(line)
    }

    fn close(&mut self, end: TapEnd) -> String {
        self.tap = None;
        closed_line(end)
    }
}

/// The least time between two lines about dropped events: under load each event would have one.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Interval of lines while nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(10);
