//! Lines of requests that are refused before they are complete.

use super::{
    AccessLogWriter,
    exchange::{ExchangeEnd, Outcome},
    full,
    line::Line,
    text,
};
use crate::config::AccessLogFormat;
use linkerd_proxy_core::{
    Error, Reason,
    transport::{ClientInfo, Side},
};
use std::time::{Duration, SystemTime};

impl AccessLogWriter {
    /// Logs a request whose head was not read to its end, or not as HTTP: `error` has ended its connection. Other ends of a
    /// connection have no line, and neither has the incumbent's log.
    pub fn refused(&self, side: Side, client: &ClientInfo, error: &Error) {
        if self.format().is_incumbent() || !is_of_head(error.reason()) {
            return;
        }
        let end = ExchangeEnd {
            outcome: Outcome::Failure,
            // An HTTP/2 connection ends without an answer.
            status: error.reset_code().is_none().then(|| error.status()),
            grpc_status: None,
            failure: Some((error.reason(), error.to_string())),
            first_byte: None,
            duration: Duration::ZERO,
        };
        let (now, mut line) = (SystemTime::now(), Line::new(self.memory()));
        let (bytes, clock) = (&mut line.bytes, &mut *self.clock.borrow_mut());
        match self.format() {
            AccessLogFormat::Text => text::refused(bytes, clock, now, side, client, &end),
            _ => full::refused(bytes, clock, now, side, client, &end),
        }
        self.write(&mut line);
    }
}

/// Whether the reason is that of a head that no stage has seen.
fn is_of_head(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::MalformedRequest
            | Reason::HeadTooLarge
            | Reason::TargetTooLong
            | Reason::HeaderTimeout
            | Reason::HalfSentLimit
    )
}
