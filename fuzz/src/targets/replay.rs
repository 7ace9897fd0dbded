//! Bodies that are read twice, over a real connection.
//!
//! The first byte is the limit, the second the number of frames that the first reading takes; each part is a chunk.

use super::{Target, join, parts, runtime};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::{
    http::{BodyError, RequestBody, Upload},
    task::spawn_local,
};
use std::{cell::RefCell, convert::Infallible};
use tokio::{io::AsyncWriteExt, sync::oneshot, task::LocalSet};

pub(super) const TARGET: Target = Target {
    name: "replay",
    run,
    seeds: || {
        let chunks = join(&[b"abc".into(), b"d".into(), vec![b'e'; 40]]);
        let seed = |limit, frames| [&[limit, frames], &chunks[..]].concat();
        vec![
            seed(255, 0),
            seed(255, 2),
            seed(5, 3),
            seed(0, 1),
            seed(4, 9),
        ]
    },
    words: &[b"\x01a", b"\x00"],
};

fn run(input: &[u8]) {
    let [limit, frames, chunks @ ..] = input else {
        return;
    };
    let chunks: Vec<_> = parts(chunks).filter(|chunk| !chunk.is_empty()).collect();
    let whole = chunks.concat();
    let (limit, frames) = (usize::from(*limit), usize::from(*frames));
    LocalSet::new().block_on(&runtime(), async {
        let body = receive(&chunks).await;
        let mut first = RequestBody::new(body, http::Version::HTTP_11, || Upload::new(None));
        let Some(second) = first.replayable(limit) else {
            panic!("the length of a chunked body is not known beforehand");
        };
        let mut taken = Vec::new();
        for _ in 0..frames {
            match first.frame().await {
                Some(frame) => taken.extend(data(frame)),
                None => break,
            }
        }
        assert!(whole.starts_with(&taken));
        assert_eq!(second.is_whole(), taken.len() <= limit);
        if second.is_whole() {
            // A complete reading gets all bytes, although the first reading was dropped half-way.
            drop(first);
            let again = second.collect().await.expect("the body is valid");
            assert_eq!(again.to_bytes(), whole);
        } else {
            let rest = first.collect().await.expect("the body is valid");
            taken.extend(rest.to_bytes());
            assert_eq!(taken, whole);
        }
    });
}

fn data(frame: Result<hyper::body::Frame<Bytes>, BodyError>) -> Bytes {
    let frame = frame.expect("the body is valid");
    frame.into_data().unwrap_or_default()
}

/// A request's body, as received by a server.
async fn receive(chunks: &[&[u8]]) -> Incoming {
    let mut message = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for chunk in chunks {
        message.extend(format!("{:x}\r\n", chunk.len()).bytes());
        message.extend_from_slice(chunk);
        message.extend(b"\r\n");
    }
    message.extend(b"0\r\n\r\n");
    let (mut client, server) = tokio::io::duplex(64);
    let (tx, rx) = oneshot::channel();
    let tx = RefCell::new(Some(tx));
    spawn_local(async move {
        let service = service_fn(move |request: Request<Incoming>| {
            let tx = tx.borrow_mut().take().expect("there is one request");
            let _ = tx.send(request.into_body());
            // The response is withheld: it would end the request.
            std::future::pending::<Result<Response<Empty<Bytes>>, Infallible>>()
        });
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(server), service)
            .await;
    });
    spawn_local(async move {
        let _ = client.write_all(&message).await;
        std::future::pending::<()>().await;
    });
    rx.await.expect("a request arrives")
}
