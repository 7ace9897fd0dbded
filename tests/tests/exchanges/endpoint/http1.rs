use super::Endpoint;
use crate::{
    body::Body,
    ledger::{AttemptEnd, Serving},
    plan::{Abort, Answer, Ending, Exchange, Framing},
    wire::{BodyReader, Delimited, Head, Source, Stop, encode},
};
use socket2::SockRef;
use std::time::Duration;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

/// Serves a connection until one side ends it. An error is a violation.
pub async fn serve(endpoint: &Endpoint, mut stream: TcpStream) -> Result<(), String> {
    let (read, mut write) = stream.split();
    let mut source = Source::new(read, false);
    loop {
        let head = match source.head().await {
            Ok(Some(head)) => head,
            Ok(None) | Err(Stop::Closed | Stop::Reset | Stop::Limit) => return Ok(()),
            Err(Stop::Wrong(wrong)) => return Err(format!("instead of a request: {wrong}")),
        };
        let id = id(&head)?;
        let serving = Serving::begin(&endpoint.ledger, id, endpoint.index)?;
        let (exchange, answer) = (&*serving.exchange, serving.answer());
        check_head(&head, exchange)?;
        if head.field("expect").is_some()
            && write
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await
                .is_err()
        {
            serving.end(AttemptEnd::Left);
            return Ok(());
        }
        let mut reader = BodyReader::new(
            Some(Body::request(id)),
            head.delimited(Delimited::Length(0)),
        );
        let most = answer.after.map_or(u64::MAX, |after| after as u64);
        match source.body(&mut reader, most).await {
            Ok(Some(trailers)) => came(&serving, reader.offset, &trailers)?,
            Ok(None) => {}
            Err(Stop::Wrong(wrong)) => return Err(format!("request {id}: {wrong}")),
            Err(_) => {
                serving.end(AttemptEnd::Left);
                return Ok(());
            }
        }
        if answer.after.is_none() && !source.unused().is_empty() {
            return Err(format!("bytes after request {id}, which is not answered"));
        }
        sleep(Duration::from_millis(answer.delay)).await;
        let mut bytes = response(exchange, serving.number);
        // Unread bytes turn the end of the connection into an RST, which may overtake the response.
        let torn =
            answer.after.is_some() && !matches!(answer.end, Ending::Keep | Ending::CloseIdle(_));
        if torn || !answer.is_whole() {
            serving.end(AttemptEnd::Broken);
        }
        if answer.framing == Framing::Close {
            // Dropping it within the body must not look like the body's end.
            let _ = SockRef::from(write.as_ref()).set_linger(Some(Duration::ZERO));
        }
        if let Ending::Break { at, .. } = answer.end {
            bytes.truncate(at);
        }
        if answer.cuts.write(&mut write, &bytes).await.is_err() {
            serving.end(AttemptEnd::Left);
            return Ok(());
        }
        match answer.end {
            Ending::Break { how, .. } => {
                let linger = (how == Abort::Reset).then_some(Duration::ZERO);
                let _ = SockRef::from(write.as_ref()).set_linger(linger);
                return Ok(());
            }
            _ => serving.end(AttemptEnd::Answered),
        }
        if answer.end == Ending::Close || answer.framing == Framing::Close {
            let _ = SockRef::from(write.as_ref()).set_linger(None);
            let _ = write.shutdown().await;
            return Ok(());
        }
        if answer.after.is_some() {
            match source.body(&mut reader, u64::MAX).await {
                Ok(Some(trailers)) => came(&serving, reader.offset, &trailers)?,
                Err(Stop::Wrong(wrong)) => return Err(format!("request {id}: {wrong}")),
                _ => return Ok(()),
            }
        }
        if let Ending::CloseIdle(after) = answer.end
            && source.unused().is_empty()
        {
            match timeout(Duration::from_millis(after), source.fill()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ok(()),
                Err(_) => {
                    endpoint.ledger.count(|tally| tally.idle_ends += 1);
                    return Ok(());
                }
            }
        }
    }
}

/// Checks the complete body against the plan.
fn came(serving: &Serving, length: u64, trailers: &Head) -> Result<(), String> {
    let exchange = &serving.exchange;
    let (id, ask) = (exchange.id, &exchange.ask);
    if length != ask.length as u64 {
        let planned = ask.length;
        return Err(format!(
            "request {id} ends well after {length} bytes of {planned}"
        ));
    }
    let right = match trailers.field("x-trailer") {
        Some(value) => ask.trailers && value == id.to_string(),
        None => trailers.fields.is_empty(),
    };
    if !right {
        return Err(format!("trailers of request {id}: {trailers:?}"));
    }
    serving.came(length);
    Ok(())
}

/// The id of a request, from its target and a field.
fn id(head: &Head) -> Result<u64, String> {
    let target = head.words().nth(1).unwrap_or_default();
    let id = target.rsplit("/x/").next().and_then(|id| id.parse().ok());
    match id {
        Some(id) if head.number("x-id") == Some(id) => Ok(id),
        _ => Err(format!("a request without one id: {head:?}")),
    }
}

fn check_head(head: &Head, exchange: &Exchange) -> Result<(), String> {
    let ask = &exchange.ask;
    let framed = match ask.framing {
        Framing::Length => head.number("content-length") == Some(ask.length as u64),
        _ => true,
    };
    match framed && head.words().next() == Some(ask.method) {
        true => Ok(()),
        false => Err(format!("not what was sent: {head:?} for {exchange:?}")),
    }
}

/// A response as bytes, interim ones before it.
fn response(exchange: &Exchange, attempt: usize) -> Vec<u8> {
    let answer: &Answer = exchange.answer(attempt);
    let id = exchange.id;
    let mut head = String::new();
    for status in &answer.interims {
        head += &format!("HTTP/1.1 {status} Interim\r\nx-id: {id}\r\n\r\n");
    }
    let status = answer.status;
    head += &format!("HTTP/1.1 {status} Status\r\nx-id: {id}\r\nx-attempt: {attempt}\r\n");
    match answer.framing {
        Framing::Length => head += &format!("content-length: {}\r\n", answer.length),
        Framing::Chunked => head += "transfer-encoding: chunked\r\n",
        Framing::None | Framing::Close => {}
    }
    if answer.trailers {
        head += "trailer: x-trailer\r\n";
    }
    if answer.end == Ending::Close || answer.framing == Framing::Close {
        head += "connection: close\r\n";
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    if answer.framing != Framing::None {
        let trailers = match answer.trailers {
            true => format!("x-trailer: {id}\r\n"),
            false => String::new(),
        };
        let body = Body::response(id, attempt);
        let chunked = answer.framing == Framing::Chunked;
        bytes.extend(encode(
            body,
            answer.length,
            answer.chunk,
            chunked,
            &trailers,
        ));
    }
    bytes
}
