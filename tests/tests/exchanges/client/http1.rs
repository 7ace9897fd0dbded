use super::{End, Response, Seen, Way, check_id};
use crate::{
    body::Body,
    plan::{Abort, Case, Exchange, Framing},
    wire::{BodyReader, Delimited, Head, Source, Stop, encode},
};
use parking_lot::Mutex;
use socket2::SockRef;
use std::{pin::pin, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWriteExt},
    net::tcp::WriteHalf,
    sync::watch,
    time::{sleep, timeout},
};

/// Progress of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Requests sent in part or whole.
    sent: usize,
    /// Requests that may send their bodies, or were answered already.
    continued: usize,
    /// Requests with a complete response.
    answered: usize,
    /// Whether sending has stopped.
    stopped: bool,
}

/// The end of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    Cancelled(Abort),
}

/// Runs a case on a new connection.
pub async fn run(case: &Case, way: Way) -> Vec<Seen> {
    let seen = Mutex::new(Vec::new());
    let mut how = match case.reset_at_end {
        true => Abort::Reset,
        false => Abort::Close,
    };
    let Ok(mut stream) = way.connect(case.service).await else {
        let refused = End::Wrong("the proxy does not accept".to_owned());
        return vec![Seen::nothing(refused); case.exchanges.len()];
    };
    let mut cancelled = false;
    {
        let (read, write) = stream.split();
        let progress = watch::channel(Progress::default()).0;
        let mut writing = pin!(send(case, write, &progress));
        let mut reading = pin!(receive(case, way, read, &progress, &seen));
        let mut written = None;
        let both = async {
            loop {
                tokio::select! {
                    end = writing.as_mut(), if written.is_none() => match end {
                        Written::Cancelled(abort @ (Abort::Reset | Abort::Close)) => break Some(abort),
                        end => written = Some(end),
                    },
                    abort = reading.as_mut() => break abort,
                }
            }
        };
        let done = tokio::select! {
            done = both => Some(done),
            () = stands_still(&progress) => None,
        };
        match done {
            Some(Some(abort)) => (cancelled, how) = (true, abort),
            Some(None) => {}
            None => {
                seen.lock().push(Seen::nothing(End::Hung));
                way.print_state(case).await;
            }
        }
    }
    if how == Abort::Reset {
        let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    }
    drop(stream);
    let mut seen = seen.into_inner();
    let rest = if cancelled {
        End::Cancelled
    } else {
        End::Skipped
    };
    seen.resize(case.exchanges.len(), Seen::nothing(rest));
    seen
}

/// Sends requests, each at its planned time.
async fn send(case: &Case, mut io: WriteHalf<'_>, progress: &watch::Sender<Progress>) -> Written {
    let mut written = Written::All;
    for (index, exchange) in case.exchanges.iter().enumerate() {
        let before = match exchange.pause {
            0 => (index + 1).saturating_sub(case.depth),
            _ => index,
        };
        let _ = wait(progress, |progress| progress.answered >= before).await;
        sleep(Duration::from_millis(exchange.pause)).await;
        progress.send_modify(|progress| progress.sent = index + 1);
        let limit = exchange.cancel.filter(|cancel| cancel.sending);
        let mut left = limit.map_or(usize::MAX, |cancel| cancel.at);
        let mut parts = [head(case, exchange), body(exchange)].into_iter();
        let mut more = true;
        while more && let Some(mut part) = parts.next() {
            part.truncate(left);
            left -= part.len();
            if case.cuts.write(&mut io, &part).await.is_err() {
                more = false;
            } else if exchange.ask.expect && parts.len() == 1 {
                let continued = wait(progress, |progress| progress.continued > index);
                let _ = timeout(EXPECTANT, continued).await;
                // The request was answered without its body, which is then not sent.
                more = progress.borrow().answered <= index;
            }
        }
        if let Some(cancel) = limit
            && left == 0
        {
            written = Written::Cancelled(cancel.how);
            if cancel.how == Abort::HalfClose {
                let _ = io.shutdown().await;
            }
            break;
        }
        if !more || exchange.ask.close {
            break;
        }
    }
    progress.send_modify(|progress| progress.stopped = true);
    written
}

/// Reads responses. Returns the planned abort within one of them, if any.
async fn receive(
    case: &Case,
    way: Way,
    io: impl AsyncRead + Unpin,
    progress: &watch::Sender<Progress>,
    all: &Mutex<Vec<Seen>>,
) -> Option<Abort> {
    let mut source = Source::new(io, case.slow);
    for (index, exchange) in case.exchanges.iter().enumerate() {
        let sent = wait(progress, |progress| {
            progress.sent > index || progress.stopped
        });
        let early = tokio::select! {
            biased;
            _ = sent => None,
            filled = source.fill() => Some(filled),
        };
        let end = match early {
            None if progress.borrow().sent <= index => return None,
            None => None,
            Some(Err(Stop::Closed | Stop::Reset)) => Some(End::Closed(String::new())),
            Some(other) => Some(End::Wrong(format!(
                "before the request: {other:?} {:?}",
                String::from_utf8_lossy(source.unused())
            ))),
        };
        if let Some(end) = end {
            all.lock().push(Seen::nothing(end));
            return None;
        }
        let limit = exchange.cancel.filter(|cancel| !cancel.sending);
        if let Some(cancel) = limit {
            source.limit(cancel.at);
        }
        let seen = response(&mut source, exchange, way, index, progress).await;
        let complete = seen.end == End::Complete;
        all.lock().push(seen);
        progress.send_modify(|progress| progress.answered = index + 1);
        match limit {
            Some(cancel) => return Some(cancel.how),
            None if !complete => return None,
            None => {}
        }
    }
    if !source.unused().is_empty() {
        let rest = String::from_utf8_lossy(source.unused()).into_owned();
        let wrong = End::Wrong(format!("after the last response: {rest:?}"));
        if let Some(last) = all.lock().last_mut() {
            last.end = wrong;
        }
    }
    None
}

/// Reads one response.
async fn response(
    source: &mut Source<impl AsyncRead + Unpin>,
    exchange: &Exchange,
    way: Way,
    index: usize,
    progress: &watch::Sender<Progress>,
) -> Seen {
    let mut seen = Seen::nothing(End::Hung);
    let ended = async {
        let head = loop {
            let Some(head) = source.head().await? else {
                return Err(Stop::Closed);
            };
            progress.send_modify(|progress| progress.continued = index + 1);
            let status = status(&head)?;
            match status {
                100 if exchange.ask.expect => {}
                100..=199 => match check_id(&head, exchange.id) {
                    Ok(true) => {}
                    Ok(false) => return Err(Stop::Wrong(format!("{status} of nobody"))),
                    Err(wrong) => return Err(Stop::Wrong(wrong)),
                },
                _ => break head,
            }
        };
        let status = status(&head)?;
        let response = Response::of(status, &head, exchange, way).map_err(Stop::Wrong)?;
        let body = response
            .attempt
            .map(|attempt| Body::response(exchange.id, attempt));
        let response = seen.response.insert(response);
        let delimited = match exchange.ask.method == "HEAD" || matches!(status, 204 | 304) {
            true => Delimited::Length(0),
            false => head.delimited(Delimited::Closed),
        };
        let mut reader = BodyReader::new(body, delimited);
        let read = source.body(&mut reader, u64::MAX).await;
        seen.body = reader.offset;
        response.text = String::from_utf8_lossy(&reader.other).into_owned();
        response.trailers = read?.map(|trailers| trailers.fields).unwrap_or_default();
        Ok(())
    };
    seen.end = match ended.await {
        Ok(()) => End::Complete,
        Err(Stop::Closed) => End::Closed(String::new()),
        Err(Stop::Reset) => End::Reset(None),
        Err(Stop::Limit) => End::Cancelled,
        Err(Stop::Wrong(wrong)) => End::Wrong(wrong),
    };
    seen
}

fn status(head: &Head) -> Result<u16, Stop> {
    let status = head.words().nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| Stop::Wrong(format!("no status: {head:?}")))
}

/// Waits until there was no progress for a while.
async fn stands_still(progress: &watch::Sender<Progress>) {
    let mut progress = progress.subscribe();
    while let Ok(Ok(())) = timeout(PATIENCE, progress.changed()).await {}
}

async fn wait(progress: &watch::Sender<Progress>, until: impl Fn(&Progress) -> bool) {
    let _ = progress
        .subscribe()
        .wait_for(|progress| until(progress))
        .await;
}

fn head(case: &Case, exchange: &Exchange) -> Vec<u8> {
    let (id, ask, name) = (exchange.id, &exchange.ask, case.service.name());
    let form = if ask.absolute_form {
        format!("http://{name}")
    } else {
        String::new()
    };
    let mut head = format!(
        "{} {form}/x/{id} HTTP/1.1\r\nhost: {name}\r\nx-id: {id}\r\n",
        ask.method
    );
    match ask.framing {
        Framing::Length => head += &format!("content-length: {}\r\n", ask.length),
        Framing::Chunked => head += "transfer-encoding: chunked\r\n",
        Framing::None | Framing::Close => {}
    }
    for (wanted, line) in [
        (ask.trailers, "trailer: x-trailer\r\n"),
        (true, "te: trailers\r\n"),
        (ask.expect, "expect: 100-continue\r\n"),
        (ask.close, "connection: close\r\n"),
    ] {
        if wanted {
            head += line;
        }
    }
    (head + "\r\n").into_bytes()
}

fn body(exchange: &Exchange) -> Vec<u8> {
    let ask = &exchange.ask;
    let trailers = match ask.trailers {
        true => format!("x-trailer: {}\r\n", exchange.id),
        false => String::new(),
    };
    match ask.framing {
        Framing::None | Framing::Close => Vec::new(),
        framing => {
            let body = Body::request(exchange.id);
            encode(
                body,
                ask.length,
                ask.chunk,
                framing == Framing::Chunked,
                &trailers,
            )
        }
    }
}

/// Longer than any exchange takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time that a client waits for 100 before it sends its body anyway.
const EXPECTANT: Duration = Duration::from_millis(300);
