//! Bodies of requests and responses.

use crate::BoxError;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;

/// Any body.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// No body.
pub fn empty() -> Body {
    body(Bytes::new())
}

/// A body in one piece, with its length.
pub fn body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A body with a frame for each item of a stream.
pub fn chunks<S>(stream: S) -> Body
where
    S: Stream<Item = Result<Frame<Bytes>, BoxError>> + Send + 'static,
{
    StreamBody::new(stream).boxed_unsync()
}

/// A body with a frame for each text from a channel.
pub fn from_channel(texts: tokio::sync::mpsc::Receiver<&'static str>) -> Body {
    let texts = tokio_stream::wrappers::ReceiverStream::new(texts);
    chunks(texts.map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
}
