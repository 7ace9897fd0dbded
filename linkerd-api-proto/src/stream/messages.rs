//! The messages of a response.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use prost::Message;
use std::{
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    thread,
};
use tokio_stream::Stream;
use tonic::{Code, Status};

use super::{BoxError, yielding::YieldingBuf};

pin_project! {
    /// Decodes the messages of a body. Between two messages it holds no read buffer.
    ///
    /// tonic's `Streaming` keeps one as large as its largest message took, also if it begins with 256 bytes or none. With
    /// it a proxy of 1,000 destinations has 1.7 MB more after their use and 2.0 MB more 20 s later, which is 4 and 5 % of
    /// all its memory (docs/performance.md). Below 3 % this reader would not be worth its code.
    pub struct Messages<B, M> {
        #[pin]
        body: B,
        unread: BytesMut,
        max_message: u32,
        status: StatusCode,
        // The response's headers contained the status.
        is_told: bool,
        is_over: bool,
        message: PhantomData<fn() -> M>,
    }
}

impl<B, M> Messages<B, M> {
    /// The messages of a response, unless it consists of an error only.
    pub fn of(response: Response<B>) -> Result<Self, Status> {
        let told = Status::from_header_map(response.headers());
        let is_told = told.is_some();
        if let Some(failure) = told.filter(|status| status.code() != Code::Ok) {
            return Err(failure);
        }
        let status = response.status();
        Ok(Self {
            body: response.into_body(),
            unread: BytesMut::new(),
            max_message: MAX_MESSAGE,
            status,
            is_told,
            is_over: false,
            message: PhantomData,
        })
    }

    /// Refuses messages of more than `bytes`.
    pub fn limit(mut self, bytes: u32) -> Self {
        self.max_message = bytes;
        self
    }
}

impl<B, M> Stream for Messages<B, M>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
    M: Message + Default,
{
    type Item = Result<M, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        while !*this.is_over {
            match read(this.unread, *this.max_message) {
                Ok(None) => {}
                Ok(message) => return Poll::Ready(message.map(Ok)),
                Err(status) => {
                    *this.is_over = true;
                    return Poll::Ready(Some(Err(status)));
                }
            }
            let end = match ready!(this.body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        add(this.unread, data);
                        continue;
                    }
                    Err(frame) => ending(frame.trailers_ref(), *this.status, *this.is_told),
                },
                Some(Err(error)) => Err(Status::from_error(error.into())),
                None if !this.unread.is_empty() => Ok(()),
                None => ending(None, *this.status, *this.is_told),
            };
            *this.is_over = true;
            let end = match this.unread.is_empty() {
                true => end,
                false => end.and(Err(Status::internal("the response ends within a message"))),
            };
            return Poll::Ready(end.err().map(Err));
        }
        Poll::Ready(None)
    }
}

fn add(unread: &mut BytesMut, data: Bytes) {
    match unread.is_empty() {
        // Exactly as many bytes as there are: most messages come in one frame.
        true => *unread = data.into(),
        false => unread.extend_from_slice(&data),
    }
}

/// The next message, if it is complete.
fn read<M: Message + Default>(
    unread: &mut BytesMut,
    max_message: u32,
) -> Result<Option<M>, Status> {
    let Some((&[flag, a, b, c, d], rest)) = unread.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    if flag != 0 {
        return Err(Status::internal(format!(
            "a message has the compression flag {flag}, and none was agreed on"
        )));
    }
    let length = u32::from_be_bytes([a, b, c, d]);
    if length > max_message {
        return Err(Status::out_of_range(format!(
            "a message has {length} bytes; the limit is {max_message}"
        )));
    }
    let length = length as usize;
    let missing = length.saturating_sub(rest.len());
    if missing > 0 {
        unread.reserve(missing);
        return Ok(None);
    }
    unread.advance(PREFIX);
    let message = match unread.len() == length {
        true => std::mem::take(unread),
        false => unread.split_to(length),
    };
    let message = M::decode(YieldingBuf::new(message, thread::yield_now));
    message
        .map(Some)
        .map_err(|error| Status::internal(error.to_string()))
}

/// The status of a response after its last message.
fn ending(trailers: Option<&HeaderMap>, http: StatusCode, is_told: bool) -> Result<(), Status> {
    if is_told {
        return Ok(());
    }
    if let Some(status) = trailers.and_then(Status::from_header_map) {
        return match status.code() {
            Code::Ok => Ok(()),
            _ => Err(status),
        };
    }
    // gRPC's mapping for peers that do not speak it.
    let code = match http {
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Code::Unavailable,
        _ => Code::Unknown,
    };
    Err(Status::new(
        code,
        format!("the response ends without a gRPC status (HTTP status {http})"),
    ))
}

/// The flag and length before each message.
const PREFIX: usize = 5;

/// The largest message. tonic's default of 4 MB is less than 10,000 endpoints with a dozen labels need.
const MAX_MESSAGE: u32 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
