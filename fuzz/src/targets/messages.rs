//! The response of a call to the control plane, in arbitrary frames.

use super::{Target, join, parts, runtime};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use linkerd_api_proto::{
    destination::{NoEndpoints, Update, update},
    stream::Messages,
};
use prost::Message;
use std::convert::Infallible;

pub(super) const TARGET: Target = Target {
    name: "messages",
    run,
    seeds,
    words: &[&[0, 0, 0, 0, 2], &[1], &[0xff, 0xff, 0xff, 0xff], &[0; 5]],
};

/// Reading ends, with the same messages and status for any division into frames.
fn run(input: &[u8]) {
    let frames: Vec<_> = parts(input).map(Bytes::copy_from_slice).collect();
    let whole = Bytes::from(frames.concat());
    assert_eq!(read(frames), read(vec![whole]));
}

fn read(frames: Vec<Bytes>) -> Vec<Result<Update, String>> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let frames = frames.into_iter().map(Frame::data);
    let frames = frames.chain([Frame::trailers(trailers)]);
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>)));
    let messages = Messages::of(Response::new(body)).expect("the headers tell of no failure");
    let read = messages.map(|message| message.map_err(|status| status.to_string()));
    runtime().block_on(read.collect())
}

fn seeds() -> Vec<Vec<u8>> {
    let message = |exists| {
        let update = Some(update::Update::NoEndpoints(NoEndpoints { exists }));
        let message = Update { update }.encode_to_vec();
        let length = u32::try_from(message.len()).expect("it is short");
        [&[0], &length.to_be_bytes()[..], &message].concat()
    };
    let both = [message(true), message(false)].concat();
    let (head, tail) = both.split_at(7);
    vec![
        join(&[message(true)]),
        join(std::slice::from_ref(&both)),
        join(&[head.to_vec(), tail.to_vec()]),
        join(&[head.to_vec()]),
        join(&[Vec::new(), both.clone()]),
    ]
}
