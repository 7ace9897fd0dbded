//! The stream of requests.

use super::{
    backend::BACKEND,
    fetch::{Answer, Client},
    tally::{Outcome, Tally},
};
use http::Uri;
use linkerd_proxy_core::BoxError;
use std::{cell::RefCell, net::SocketAddr, rc::Rc, time::Duration};
use tokio::{sync::Notify, task::JoinSet, time::Instant, time::MissedTickBehavior};

/// Requests to one service, through the proxy.
pub(super) struct Traffic {
    proxy: SocketAddr,
    uri: Uri,
    host: String,
    idle: RefCell<Vec<Client>>,
    tally: Rc<RefCell<Tally>>,
    /// Ends the stream.
    end: Notify,
    /// Triggers many requests at once.
    burst: Notify,
}

impl Traffic {
    pub(super) fn new(
        proxy: SocketAddr,
        host: &str,
        tally: Rc<RefCell<Tally>>,
    ) -> Result<Self, BoxError> {
        Ok(Self {
            proxy,
            uri: format!("http://{host}/").parse()?,
            host: host.to_owned(),
            idle: RefCell::default(),
            tally,
            end: Notify::new(),
            burst: Notify::new(),
        })
    }

    /// Makes requests at a rate until the stream is ended; returns when all have finished.
    pub(super) async fn flow(self: Rc<Self>, rate: u32) {
        let mut requests = JoinSet::new();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut due, mut bursts) = (0.0, 0.0);
        loop {
            tokio::select! {
                biased;
                () = self.end.notified() => break,
                () = self.burst.notified() => {
                    // Each further burst is larger, in case the last one was too small.
                    bursts += 1.0;
                    due += BURST * bursts;
                }
                Some(_) = requests.join_next() => continue,
                _ = tick.tick() => due += f64::from(rate) * TICK.as_secs_f64(),
            }
            while due >= 1.0 {
                due -= 1.0;
                // A stuck proxy gets no more than these; requests due meanwhile are not made later.
                if requests.len() < MAX_IN_FLIGHT {
                    requests.spawn_local(self.clone().request());
                }
            }
        }
        while requests.join_next().await.is_some() {}
    }

    /// Ends the flow.
    pub(super) fn end(&self) {
        self.end.notify_one();
    }

    /// Makes many requests at once, so that even a slow endpoint gets one: a balancer that counts requests in flight
    /// avoids it otherwise.
    pub(super) fn burst(&self) {
        self.burst.notify_one();
    }

    async fn request(self: Rc<Self>) {
        self.tally.borrow_mut().begin();
        let start = Instant::now();
        let answer = match tokio::time::timeout(TIMEOUT, self.exchange()).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {TIMEOUT:?}").into()),
        };
        let latency = start.elapsed();
        let outcome = match answer {
            Ok(answer) => Outcome {
                backend: header(&answer, BACKEND),
                latency,
                failure: failure(&answer),
            },
            Err(error) => Outcome {
                backend: None,
                latency,
                failure: Some(error.to_string()),
            },
        };
        self.tally.borrow_mut().record(outcome);
    }

    async fn exchange(&self) -> Result<Answer, BoxError> {
        let mut client = match self.idle_client() {
            Some(client) => client,
            None => Client::connect(self.proxy).await?,
        };
        let answer = client.get(&self.uri, &self.host).await?;
        self.idle.borrow_mut().push(client);
        Ok(answer)
    }

    fn idle_client(&self) -> Option<Client> {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|client| !client.is_closed());
        idle.pop()
    }
}

fn failure(answer: &Answer) -> Option<String> {
    if answer.status.is_success() {
        return None;
    }
    let reason = header(answer, "proxy-status").and_then(|status| {
        let (_, details) = status.split_once("details=\"")?;
        Some(details.split('"').next()?.to_owned())
    });
    let why = header(answer, "l5d-proxy-error");
    let status = answer.status.as_u16();
    Some(cause_first(status, reason.as_deref(), why.as_deref()))
}

/// The failure with its root cause first: the end of a long line is cut off.
fn cause_first(status: u16, reason: Option<&str>, why: Option<&str>) -> String {
    let mut text = status.to_string();
    if let Some(reason) = reason {
        text = format!("{text} {reason}");
    }
    match why.map(|why| why.rsplit_once(": ").unwrap_or(("", why))) {
        Some(("", cause)) => format!("{text}: {cause}"),
        Some((way, cause)) => format!("{text}: {cause} (at {way})"),
        None => text,
    }
}

fn header(answer: &Answer, name: &str) -> Option<String> {
    let value = answer.headers.get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

/// Short enough for a steady stream, long enough to cost little.
const TICK: Duration = Duration::from_millis(10);

/// Longer than any of the proxy's limits that lead to a response.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Also bounds the connections to the proxy.
const MAX_IN_FLIGHT: usize = 512;

/// As many as two quick endpoints have in flight when a third, ten times as slow, is as good a choice.
const BURST: f64 = 48.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_failure_comes_before_the_way_there() {
        let why = "logical service web:80: route default.http: service in fail-fast";
        assert_eq!(
            cause_first(504, Some("failfast_no_endpoints"), Some(why)),
            "504 failfast_no_endpoints: service in fail-fast (at logical service web:80: route default.http)"
        );
        assert_eq!(cause_first(502, None, Some("refused")), "502: refused");
        assert_eq!(cause_first(500, None, None), "500");
    }
}
