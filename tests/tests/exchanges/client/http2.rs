use super::{End, Response, Seen, Way, check_id};
use crate::{
    body::Body,
    endpoint,
    plan::{Abort, Case, Exchange, Framing},
    wire::Head,
};
use bytes::Bytes;
use futures::future::{join_all, poll_fn};
use h2::{
    Reason, SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use parking_lot::Mutex;
use std::{pin::pin, time::Duration};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// Runs a case on a new connection, with concurrent exchanges.
pub async fn run(case: &Case, way: Way) -> Vec<Seen> {
    let all = |end: End| vec![Seen::nothing(end); case.exchanges.len()];
    let Ok(stream) = way.connect(case.service).await else {
        return all(End::Wrong("the proxy does not accept".to_owned()));
    };
    let Ok((send, connection)) = h2::client::handshake(stream).await else {
        return all(End::Wrong("the proxy does not speak HTTP/2".to_owned()));
    };
    let seen = Mutex::new(vec![None; case.exchanges.len()]);
    let killed = watch::channel(false).0;
    let exchanges = case.exchanges.iter().enumerate().map(|(index, exchange)| {
        let client = Client {
            case,
            exchange,
            way,
            send: send.clone(),
            killed: &killed,
        };
        let seen = &seen;
        async move {
            sleep(Duration::from_millis(exchange.pause)).await;
            let end = client.run().await;
            seen.lock()[index] = Some(end);
        }
    });
    let mut kill = killed.subscribe();
    let kill = kill.wait_for(|killed| *killed);
    let mut connection = Some(Box::pin(connection));
    let mut exchanges = pin!(join_all(exchanges));
    let mut kill = pin!(kill);
    let both = async {
        loop {
            let ended = async {
                match connection.as_mut() {
                    Some(connection) => drop(connection.await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Dropped, like a connection that fails to write, which does not notify its streams first.
                () = ended => connection = None,
                _ = exchanges.as_mut() => return,
                _ = kill.as_mut() => return,
            }
        }
    };
    let hung = timeout(PATIENCE, both).await.is_err();
    if hung {
        way.print_state(case).await;
    }
    let rest = match hung {
        true => End::Hung,
        false => End::Cancelled,
    };
    let seen = std::mem::take(&mut *seen.lock()).into_iter();
    seen.map(|seen| seen.unwrap_or_else(|| Seen::nothing(rest.clone())))
        .collect()
}

/// One exchange.
struct Client<'a> {
    case: &'a Case,
    exchange: &'a Exchange,
    way: Way,
    send: SendRequest<Bytes>,
    killed: &'a watch::Sender<bool>,
}

impl Client<'_> {
    async fn run(self) -> Seen {
        let ask = &self.exchange.ask;
        let mut send = match self.send.clone().ready().await {
            Ok(send) => send,
            Err(error) => return Seen::nothing(ended(error)),
        };
        let bare = ask.framing == Framing::None;
        let (response, stream) = match send.send_request(self.head(), bare) {
            Ok(sent) => sent,
            Err(error) => return Seen::nothing(ended(error)),
        };
        let mut receiving = pin!(self.receive(response));
        let mut sending = pin!(self.send(stream, bare));
        let mut sent = None;
        loop {
            tokio::select! {
                seen = receiving.as_mut() => {
                    if seen.end == End::Cancelled {
                        self.give_up();
                    }
                    // Dropping the stream resets its open half.
                    return seen;
                }
                ended = sending.as_mut(), if sent.is_none() => match ended {
                    Sent::Cancelled => {
                        self.give_up();
                        return Seen::nothing(End::Cancelled);
                    }
                    // Kept, as dropping it would reset the stream.
                    ended => sent = Some(ended),
                },
            }
        }
    }

    /// Sends the body.
    async fn send(&self, mut stream: SendStream<Bytes>, bare: bool) -> Sent {
        let ask = &self.exchange.ask;
        let cancel = self.exchange.cancel.filter(|cancel| cancel.sending);
        let most = cancel.map_or(ask.length, |cancel| ask.length.min(cancel.at));
        let body = Body::request(self.exchange.id);
        let pieces = endpoint::Pieces {
            largest: ask.chunk,
            empty_frames: ask.empty_frames,
        };
        if !bare && !endpoint::send(&mut stream, body, most, pieces).await {
            return Sent::Stopped { _stream: stream };
        }
        match cancel {
            Some(cancel) => {
                if cancel.how == Abort::Reset {
                    stream.send_reset(Reason::CANCEL);
                }
                return Sent::Cancelled;
            }
            None if bare => {}
            None if ask.trailers => drop(stream.send_trailers(trailers(self.exchange.id))),
            None => drop(stream.send_data(Bytes::new(), true)),
        }
        Sent::Stopped { _stream: stream }
    }

    /// Drops the whole connection, unless only the stream is aborted.
    fn give_up(&self) {
        if self
            .exchange
            .cancel
            .is_some_and(|cancel| cancel.how != Abort::Reset)
        {
            self.killed.send_replace(true);
        }
    }

    async fn receive(&self, response: ResponseFuture) -> Seen {
        let mut seen = Seen::nothing(End::Hung);
        seen.end = match self.response(response, &mut seen).await {
            Ok(()) => End::Complete,
            Err(end) => end,
        };
        seen
    }

    async fn response(&self, mut response: ResponseFuture, seen: &mut Seen) -> Result<(), End> {
        let (id, cancel) = (self.exchange.id, self.exchange.cancel);
        let most = cancel
            .filter(|cancel| !cancel.sending)
            .map(|cancel| cancel.at as u64);
        if most.is_some_and(|most| most < HEAD) {
            // A pause, in which a response may begin.
            sleep(Duration::from_millis(most.unwrap_or(0) / 10)).await;
            return Err(End::Cancelled);
        }
        while let Some(interim) = poll_fn(|cx| response.poll_informational(cx)).await {
            let interim = interim.map_err(ended)?;
            let head = head_of(interim.headers());
            if !check_id(&head, id).map_err(End::Wrong)? && interim.status() != 100 {
                return Err(End::Wrong(format!("{} of nobody", interim.status())));
            }
        }
        let response = response.await.map_err(ended)?;
        let (head, mut body) = response.into_parts();
        let response = Response::of(
            head.status.as_u16(),
            &head_of(&head.headers),
            self.exchange,
            self.way,
        );
        let response = seen.response.insert(response.map_err(End::Wrong)?);
        let expected = response.attempt.map(|attempt| Body::response(id, attempt));
        while let Some(data) = body.data().await {
            let data = data.map_err(ended)?;
            match expected {
                Some(expected) => expected.check(seen.body, &data).map_err(End::Wrong)?,
                None => response.text += &String::from_utf8_lossy(&data),
            }
            seen.body += data.len() as u64;
            if most.is_some_and(|most| seen.body > most) {
                return Err(End::Cancelled);
            }
            if self.case.slow {
                sleep(Duration::from_millis(1)).await;
            }
            let _ = body.flow_control().release_capacity(data.len());
        }
        let trailers = body.trailers().await.map_err(ended)?.unwrap_or_default();
        response.trailers = head_of(&trailers).fields;
        Ok(())
    }

    fn head(&self) -> Request<()> {
        let (id, ask) = (self.exchange.id, &self.exchange.ask);
        let mut head = Request::builder()
            .method(ask.method)
            .uri(format!("http://{}/x/{id}", self.case.service.name()))
            .header("x-id", id)
            .header("te", "trailers");
        if ask.framing == Framing::Length {
            head = head.header("content-length", ask.length);
        }
        head.body(()).unwrap()
    }
}

/// The end of sending.
enum Sent {
    Cancelled,
    Stopped { _stream: SendStream<Bytes> },
}

fn ended(error: h2::Error) -> End {
    match error.reason() {
        Some(reason) if error.is_reset() => End::Reset(Some(reason)),
        _ => End::Closed(format!("{error:?}")),
    }
}

fn head_of(fields: &HeaderMap) -> Head {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let fields = fields
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value)));
    Head {
        first: String::new(),
        fields: fields.collect(),
    }
}

fn trailers(id: u64) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static("x-trailer"), id.into())])
}

/// Longer than any plan takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The assumed length of a head.
const HEAD: u64 = 100;
