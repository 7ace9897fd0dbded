use super::*;
use crate::destination::{NoEndpoints, Update, update};
use http_body::Frame;
use std::{collections::VecDeque, convert::Infallible, task::Waker};

/// A body of these frames.
struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

fn update(exists: bool) -> Update {
    Update {
        update: Some(update::Update::NoEndpoints(NoEndpoints { exists })),
    }
}

fn encoded(message: &Update) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], &message].concat()
}

fn data(bytes: &[u8]) -> Frame<Bytes> {
    Frame::data(Bytes::copy_from_slice(bytes))
}

fn trailers(status: &'static str) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.parse().unwrap());
    Frame::trailers(trailers)
}

/// All messages and errors of a response with these frames.
fn read_all(http: u16, frames: Vec<Frame<Bytes>>) -> Vec<Result<Update, Code>> {
    let mut response = Response::new(Frames(frames.into()));
    *response.status_mut() = StatusCode::from_u16(http).unwrap();
    let mut messages = Box::pin(Messages::<_, Update>::of(response).unwrap());
    let mut cx = Context::from_waker(Waker::noop());
    let mut all = Vec::new();
    while let Poll::Ready(Some(read)) = messages.as_mut().poll_next(&mut cx) {
        all.push(read.map_err(|status| status.code()));
    }
    all
}

#[test]
fn messages_are_read_however_their_bytes_come() {
    let sent = [update(true), update(false), Update::default()];
    let bytes = sent.iter().flat_map(encoded).collect::<Vec<_>>();
    for size in 1..=bytes.len() {
        let mut frames: Vec<_> = bytes.chunks(size).map(data).collect();
        frames.push(trailers("0"));
        assert_eq!(read_all(200, frames), sent.clone().map(Ok), "{size}");
    }
}

#[test]
fn between_two_messages_there_is_nothing_to_read_into() {
    let mut unread = BytesMut::new();
    add(&mut unread, encoded(&update(true)).into());
    assert_eq!(read(&mut unread, MAX_MESSAGE).unwrap(), Some(update(true)));
    assert_eq!(unread.capacity(), 0);
}

#[test]
fn how_it_ends_is_told_by_trailers_or_else_by_http() {
    let message = || data(&encoded(&update(true)));
    let read = Ok(update(true));
    let with = |status| read_all(200, vec![message(), trailers(status)]);
    assert_eq!(with("0"), std::slice::from_ref(&read));
    assert_eq!(with("5"), [read.clone(), Err(Code::NotFound)]);
    assert_eq!(read_all(200, vec![message()]), [read, Err(Code::Unknown)]);
    assert_eq!(read_all(404, vec![]), [Err(Code::Unimplemented)]);
    assert_eq!(read_all(503, vec![]), [Err(Code::Unavailable)]);
}

#[test]
fn headers_may_tell_the_end_before_it_comes() {
    let response = |status: &str| {
        let mut response = Response::new(Frames(VecDeque::new()));
        let headers = response.headers_mut();
        headers.insert("grpc-status", status.parse().unwrap());
        Messages::<_, Update>::of(response)
    };
    let mut empty = Box::pin(response("0").unwrap());
    let end = empty
        .as_mut()
        .poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(end, Poll::Ready(None)));
    assert_eq!(response("14").err().unwrap().code(), Code::Unavailable);
}

#[test]
fn what_makes_no_sense_ends_it() {
    let bytes = encoded(&update(true));
    let part = || data(&bytes[..bytes.len() - 1]);
    assert_eq!(read_all(200, vec![part()]), [Err(Code::Internal)]);
    let told = |status| read_all(200, vec![part(), trailers(status)]);
    assert_eq!(told("0"), [Err(Code::Internal)]);
    assert_eq!(told("5"), [Err(Code::NotFound)]);
    let compressed = data(&[1, 0, 0, 0, 0]);
    assert_eq!(read_all(200, vec![compressed]), [Err(Code::Internal)]);
    let html = data(b"<html>");
    assert_eq!(read_all(502, vec![html]), [Err(Code::Internal)]);
    let huge = data(&[0, 255, 0, 0, 0]);
    assert_eq!(read_all(200, vec![huge]), [Err(Code::OutOfRange)]);
    let nonsense = data(&[0, 0, 0, 0, 1, 255]);
    assert_eq!(read_all(200, vec![nonsense]), [Err(Code::Internal)]);
}

#[test]
fn a_message_over_the_limit_is_refused_before_it_is_read() {
    let message = encoded(&update(true));
    let length = u32::try_from(message.len() - PREFIX).unwrap();
    let mut unread = BytesMut::from(&message[..PREFIX]);
    let refused = read::<Update>(&mut unread, length - 1).unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    let mut unread = BytesMut::from(&message[..]);
    assert_eq!(read(&mut unread, length).unwrap(), Some(update(true)));
}
