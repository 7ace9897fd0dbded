use super::Endpoint;
use crate::{
    body::Body,
    ledger::{AttemptEnd, Ledger, Serving},
    plan::{Abort, Answer, Ending, Framing},
};
use bytes::Bytes;
use futures::future::poll_fn;
use h2::{Reason, RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

/// An action of a stream on its connection.
#[derive(Clone, Copy, Debug)]
enum Order {
    GoAway,
    Kill,
    CloseIdle(u64),
}

/// Serves a connection until one side ends it. An error is a violation.
pub async fn serve(endpoint: &Endpoint, stream: TcpStream) -> Result<(), String> {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return Ok(());
    };
    let (order, mut orders) = mpsc::channel(16);
    // Dropped before the connection.
    let served = Served {
        ledger: endpoint.ledger.clone(),
        attempts: Arc::default(),
    };
    let mut streams = JoinSet::new();
    let mut idle_end = None;
    let mut gone = false;
    loop {
        let idle = streams.is_empty();
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else {
                    // When the endpoint ends a connection, unread frames are lost, and the RST caused by them discards
                    // sent ones.
                    if !gone {
                        served.attempts.lock().clear();
                    }
                    return Ok(());
                };
                let stream = Stream { endpoint: endpoint.clone(), order: order.clone(), begun: served.attempts.clone() };
                streams.spawn(stream.serve(request, respond));
            }
            Some(done) = streams.join_next(), if !idle => done.unwrap_or(Ok(()))?,
            Some(order) = orders.recv() => match order {
                Order::GoAway => {
                    gone = true;
                    connection.graceful_shutdown();
                }
                Order::Kill => return Ok(()),
                Order::CloseIdle(after) => {
                    idle_end = Some(Instant::now() + Duration::from_millis(after));
                }
            },
            () = sleep_until(idle_end.unwrap_or_else(Instant::now)), if idle && idle_end.is_some() => {
                endpoint.ledger.count(|tally| tally.idle_ends += 1);
                return Ok(());
            }
        }
    }
}

/// The last attempts of a connection. The end of a response may still be in the connection after its stream has sent
/// it: if the connection is killed, they are aborted.
struct Served {
    ledger: Arc<Ledger>,
    attempts: Begun,
}

/// The last attempts begun by streams of a connection.
type Begun = Arc<Mutex<VecDeque<(u64, usize)>>>;

impl Drop for Served {
    fn drop(&mut self) {
        for &(id, number) in &*self.attempts.lock() {
            self.ledger.update(id, number, |attempt| {
                if attempt.end == AttemptEnd::Answered {
                    attempt.end = AttemptEnd::Broken;
                }
            });
        }
    }
}

/// A stream of a connection.
struct Stream {
    endpoint: Endpoint,
    order: mpsc::Sender<Order>,
    begun: Begun,
}

impl Stream {
    async fn serve(
        self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), String> {
        let id = id(&request)?;
        let serving = Serving::begin(&self.endpoint.ledger, id, self.endpoint.index)?;
        let answer = serving.answer().clone();
        self.begin((id, serving.number));
        if answer.end == Ending::Refuse {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Ok(());
        }
        let ask = &serving.exchange.ask;
        if request.method().as_str() != ask.method {
            return Err(format!(
                "{} of {id} instead of {}",
                request.method(),
                ask.method
            ));
        }
        let mut body = request.into_body();
        let mut offset = 0;
        let most = answer.after.map_or(u64::MAX, |after| after as u64);
        if !read(&serving, &mut body, &mut offset, most).await? {
            serving.end(AttemptEnd::Left);
            return Ok(());
        }
        sleep(Duration::from_millis(answer.delay)).await;
        for status in &answer.interims {
            let interim = Response::builder().status(*status).header("x-id", id);
            let _ = respond.send_informational(interim.body(()).unwrap());
        }
        if !answer.is_whole() {
            serving.end(AttemptEnd::Broken);
        }
        if !self.respond(&serving, &answer, &mut respond).await {
            serving.end(AttemptEnd::Left);
            return Ok(());
        }
        serving.end(AttemptEnd::Answered);
        let order = match answer.end {
            Ending::Close => Some(Order::GoAway),
            Ending::CloseIdle(after) => Some(Order::CloseIdle(after)),
            _ => None,
        };
        if let Some(order) = order {
            let _ = self.order.send(order).await;
        }
        if answer.after.is_some() && answer.end == Ending::Keep {
            read(&serving, &mut body, &mut offset, u64::MAX).await?;
        }
        Ok(())
    }

    /// Sends the response. `false` if the proxy reset the stream.
    async fn respond(
        &self,
        serving: &Serving,
        answer: &Answer,
        respond: &mut SendResponse<Bytes>,
    ) -> bool {
        let id = serving.exchange.id;
        let breaks = match answer.end {
            Ending::Break { at, how, code } => Some((at, how, Reason::from(code))),
            _ => None,
        };
        if let Some((at, how, code)) = breaks
            && at < HEAD
        {
            match how {
                Abort::Reset => respond.send_reset(code),
                _ => self.kill().await,
            }
            return true;
        }
        let mut head = Response::builder()
            .status(answer.status)
            .header("x-id", id)
            .header("x-attempt", serving.number);
        if answer.framing == Framing::Length {
            head = head.header("content-length", answer.length);
        }
        if answer.trailers {
            // HTTP/1 needs it to have trailers.
            head = head.header("trailer", "x-trailer");
        }
        let bare = answer.framing == Framing::None;
        let Ok(mut stream) =
            respond.send_response(head.body(()).unwrap(), bare && breaks.is_none())
        else {
            return false;
        };
        let body = Body::response(id, serving.number);
        let most = breaks.map_or(answer.length, |(at, ..)| answer.length.min(at - HEAD));
        let pieces = Pieces {
            largest: answer.chunk,
            empty_frames: answer.empty_frames,
        };
        if !send(&mut stream, body, most, pieces).await {
            return false;
        }
        match breaks {
            Some((_, Abort::Reset, code)) => stream.send_reset(code),
            Some(_) => self.kill().await,
            None if bare => {}
            None if answer.trailers => {
                let trailers = HeaderMap::from_iter([("x-trailer".parse().unwrap(), id.into())]);
                return stream.send_trailers(trailers).is_ok();
            }
            None => return stream.send_data(Bytes::new(), true).is_ok(),
        }
        true
    }

    fn begin(&self, attempt: (u64, usize)) {
        let mut begun = self.begun.lock();
        begun.push_back(attempt);
        if begun.len() > SERVED {
            begun.pop_front();
        }
    }

    async fn kill(&self) {
        let _ = self.order.send(Order::Kill).await;
        // This task ends with the connection.
        std::future::pending().await
    }
}

/// Reads a request's body up to `most` bytes. `false` if it ended early.
async fn read(
    serving: &Serving,
    body: &mut RecvStream,
    offset: &mut u64,
    most: u64,
) -> Result<bool, String> {
    let (id, ask) = (serving.exchange.id, &serving.exchange.ask);
    while *offset < most {
        let Some(data) = body.data().await else {
            let trailers = match body.trailers().await {
                Ok(trailers) => trailers.unwrap_or_default(),
                Err(_) => return Ok(false),
            };
            if *offset != ask.length as u64 {
                return Err(format!(
                    "request {id} ends well after {offset} bytes of {}",
                    ask.length
                ));
            }
            let right = match trailers.get("x-trailer") {
                Some(value) => ask.trailers && value.as_bytes() == id.to_string().as_bytes(),
                None => trailers.is_empty() && !ask.trailers,
            };
            if !right {
                return Err(format!("trailers of request {id}: {trailers:?}"));
            }
            serving.came(*offset);
            return Ok(true);
        };
        let Ok(data) = data else { return Ok(false) };
        let wrong = |wrong| format!("request {id}: {wrong}");
        Body::request(id).check(*offset, &data).map_err(wrong)?;
        *offset += data.len() as u64;
        let _ = body.flow_control().release_capacity(data.len());
    }
    Ok(true)
}

/// The frames of a body.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    /// The most bytes of one.
    pub largest: usize,
    /// Whether an empty one comes behind each other one.
    pub empty_frames: bool,
}

/// Sends a body without its end. `false` if the peer reset the stream.
pub async fn send(
    stream: &mut SendStream<Bytes>,
    body: Body,
    length: usize,
    pieces: Pieces,
) -> bool {
    let (mut sent, chunk) = (0, pieces.largest);
    while sent < length {
        stream.reserve_capacity(chunk.min(length - sent));
        let Some(Ok(capacity)) = poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return false;
        };
        let piece = body.piece(sent as u64, capacity.min(chunk).min(length - sent));
        sent += piece.len();
        if stream.send_data(piece.into(), false).is_err() {
            return false;
        }
        if pieces.empty_frames && stream.send_data(Bytes::new(), false).is_err() {
            return false;
        }
    }
    true
}

/// The id of a request, from its target and a field.
fn id(request: &Request<RecvStream>) -> Result<u64, String> {
    let id = request
        .uri()
        .path()
        .rsplit("/x/")
        .next()
        .and_then(|id| id.parse::<u64>().ok());
    let field = request
        .headers()
        .get("x-id")
        .and_then(|value| value.to_str().ok());
    match (id, field) {
        (Some(id), Some(field)) if field == id.to_string() => Ok(id),
        _ => Err(format!("a request without one id: {request:?}")),
    }
}

/// The assumed length of a head.
const HEAD: usize = 100;

/// Attempts whose responses may not have been sent completely.
const SERVED: usize = 200;
