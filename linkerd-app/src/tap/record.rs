//! The record of a request for taps, and the events of its stages.

use super::{
    active::{Tap, TapStream},
    event::{Headers, TapEvent, TapEventKind, TappedEnd, TappedRequest, TappedResponse, TappedWay},
    headers, labels,
    worker_taps::WorkerTaps,
};
use crate::{cut, request_target::authority};
use http::{HeaderMap, Response, StatusCode, Version, header::HOST};
use linkerd_proxy_core::{
    Error,
    http::{
        BodyEnd, HttpRequest, Now, ObserveResponse, ObservedResponse, PeerAnswer, PeerFailure,
        RequestNotes, ResponseBody, is_grpc,
    },
    transport::{ClientInfo, Side},
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};
use tokio::time::Instant;

/// A request that taps may ask for.
pub struct TapRecord {
    request: Arc<TappedRequest>,
    is_grpc: bool,
    /// The headers, if a tap asks for them.
    headers: Option<HeaderMap>,
    notes: Rc<RequestNotes>,
    start: Instant,
    stage: RefCell<Stage>,
    status: Cell<Option<StatusCode>>,
    /// The failure that the endpoint's proxy has answered.
    peer_failure: RefCell<Option<PeerFailure>>,
    responded: Cell<Option<Instant>>,
    response_bytes: Cell<u64>,
}

/// The taps of a request, by its stage.
enum Stage {
    /// No endpoint has the request: these taps may ask for it.
    Waiting(Vec<Arc<Tap>>),
    /// These taps have taken it.
    Taken(Vec<TapStream>),
    /// All events are sent.
    Ended,
}

impl TapRecord {
    /// A request that arrives; `None` if no tap asks for it.
    pub fn begin(
        taps: &WorkerTaps,
        side: Side,
        client: &ClientInfo,
        request: &mut HttpRequest,
    ) -> Option<Rc<Self>> {
        let mut taps = taps.open();
        if taps.is_empty() {
            return None;
        }
        let tapped = TappedRequest::of(request, side, client);
        taps.retain(|tap| tap.settings.matches.find(&tapped, None) != Some(false));
        if taps.is_empty() {
            return None;
        }
        let wants_headers = taps.iter().any(|tap| tap.settings.headers);
        let start = request.context().arrived;
        let headers = wants_headers.then(|| request.headers().clone());
        let is_grpc = is_grpc(request.headers());
        // The access log's, if that is on.
        let notes = request.context_mut().notes.get_or_insert_default().clone();
        notes.want_labels();
        Some(Rc::new(Self {
            request: Arc::new(tapped),
            is_grpc,
            headers,
            notes,
            start,
            stage: RefCell::new(Stage::Waiting(taps)),
            status: Cell::default(),
            peer_failure: RefCell::default(),
            responded: Cell::default(),
            response_bytes: Cell::default(),
        }))
    }

    /// Sends the event of the request as soon as an endpoint has the request.
    pub fn advance(&self) {
        if self.notes.endpoint().is_some() {
            self.take(&Arc::default());
        }
    }

    /// The head of the response.
    pub fn answered(self: &Rc<Self>, response: &mut Response<ResponseBody>) {
        self.peer_failure.replace(response.peer_failure().cloned());
        if self.responds(response.status(), response.headers()) {
            response.body_mut().observe(self.clone(), self.start);
        }
    }

    /// The failure that the proxy answers, or passes on as a reset.
    pub fn failed(&self, error: &Error) {
        let is_http2 = self.request.version == Version::HTTP_2;
        let reset = error.reset_code().filter(|_| is_http2);
        let answers_grpc = self.is_grpc && is_http2;
        if reset.is_none() {
            let status = match answers_grpc {
                true => StatusCode::OK,
                false => error.status(),
            };
            self.responds(status, &HeaderMap::new());
        }
        let now = Instant::now();
        self.end(now, |end| {
            end.grpc_status = (answers_grpc && reset.is_none()).then(|| error.grpc_code());
            end.reset = reset.map(u32::from);
            end.failure = Some((error.reason(), error.to_string()));
        });
    }

    /// The client has given up before there was a response. Nothing happens if there was one.
    pub fn given_up(&self) {
        if self.status.get().is_none() {
            self.end(Instant::now(), |end| {
                end.is_cancelled = true;
                end.reset =
                    (self.request.version == Version::HTTP_2).then_some(h2::Reason::CANCEL.into());
            });
        }
    }

    /// Sends the event of a response's head. `true` if a tap has taken the request.
    fn responds(&self, status: StatusCode, fields: &HeaderMap) -> bool {
        let way = Arc::new(self.way());
        self.take(&way);
        let now = Instant::now();
        self.status.set(Some(status));
        self.responded.set(Some(now));
        self.send(&way, |tap| {
            TapEventKind::Response(TappedResponse {
                since_request: now.saturating_duration_since(self.start),
                status,
                headers: shown(tap, Some(fields)),
            })
        })
    }

    /// Hands the request to the taps that ask for it, unless that has happened. An empty `way` is looked up.
    fn take(&self, way: &Arc<TappedWay>) {
        let taps = match &mut *self.stage.borrow_mut() {
            Stage::Waiting(taps) => std::mem::take(taps),
            Stage::Taken(_) | Stage::Ended => return,
        };
        let way = match **way == TappedWay::default() {
            true => &Arc::new(self.way()),
            false => way,
        };
        let is_asked_for = |tap: &Arc<Tap>| {
            let matches = &tap.settings.matches;
            matches.find(&self.request, Some(way)) == Some(true)
        };
        let taken = taps.iter().filter(|tap| is_asked_for(tap));
        let taken = taken.filter_map(Tap::claim).collect();
        *self.stage.borrow_mut() = Stage::Taken(taken);
        self.send(way, |tap| TapEventKind::Request {
            headers: shown(tap, self.headers.as_ref()),
        });
    }

    /// Sends the event of the end, once.
    fn end(&self, now: Instant, describe: impl FnOnce(&mut TappedEnd)) {
        let way = Arc::new(self.way());
        self.take(&way);
        let mut end = TappedEnd {
            since_request: now.saturating_duration_since(self.start),
            since_response: self
                .responded
                .get()
                .map(|responded| now.saturating_duration_since(responded)),
            status: self.status.get(),
            response_bytes: self.response_bytes.get(),
            grpc_status: None,
            reset: None,
            failure: None,
            is_cancelled: false,
            trailers: None,
        };
        describe(&mut end);
        self.send(&way, |tap| {
            let mut end = end.clone();
            end.trailers = end.trailers.filter(|_| tap.settings.headers);
            TapEventKind::End(end)
        });
        *self.stage.borrow_mut() = Stage::Ended;
    }

    /// Sends an event to all taps that have taken the request. `false` if there are none.
    fn send(&self, way: &Arc<TappedWay>, kind: impl Fn(&Tap) -> TapEventKind) -> bool {
        let stage = self.stage.borrow();
        let Stage::Taken(taken) = &*stage else {
            return false;
        };
        for stream in taken {
            stream.send(|number| TapEvent {
                stream: number,
                request: self.request.clone(),
                way: way.clone(),
                kind: kind(stream.tap()),
            });
        }
        !taken.is_empty()
    }

    fn way(&self) -> TappedWay {
        labels::way(self.request.side, &self.notes)
    }

    /// Whether a tap that shows headers also shows secrets. It is the same for all taps.
    fn shows_secrets(&self) -> bool {
        match &*self.stage.borrow() {
            Stage::Taken(taken) => taken.iter().any(|stream| stream.tap().shows_secrets),
            Stage::Waiting(_) | Stage::Ended => false,
        }
    }
}

impl ObserveResponse for TapRecord {
    fn data(&self, _: &ObservedResponse<'_>, len: usize, _: &Now) {
        let bytes = &self.response_bytes;
        bytes.set(bytes.get() + len as u64);
    }

    fn end(&self, response: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        let code = response.grpc_code(end);
        let trailers = match end {
            BodyEnd::Complete(trailers) => trailers,
            BodyEnd::Dropped | BodyEnd::Failed(_) => None,
        };
        self.end(now.get(), |told| {
            told.grpc_status = code.map(u16::from);
            let failure = self.peer_failure.take();
            told.failure = failure.as_ref().map(PeerFailure::describe);
            told.trailers =
                trailers.map(|trailers| headers::copied(trailers, self.shows_secrets()));
            match end {
                BodyEnd::Complete(_) => {}
                BodyEnd::Dropped => {
                    told.is_cancelled = true;
                    told.reset = (self.request.version == Version::HTTP_2)
                        .then_some(h2::Reason::CANCEL.into());
                }
                BodyEnd::Failed(error) => {
                    told.reset = error.reset_code().map(u32::from);
                    told.failure = Some((error.reason(), error.to_string()));
                }
            }
        });
    }
}

impl TappedRequest {
    fn of(request: &HttpRequest, side: Side, client: &ClientInfo) -> Self {
        let uri = request.uri();
        let authority = authority(uri, request.headers().get(HOST));
        Self {
            side,
            source: client.addr,
            source_tls: client.tls.clone(),
            going_to: client.going_to(),
            version: request.version(),
            method: request.method().clone(),
            scheme: uri.scheme_str().unwrap_or("http").to_owned(),
            authority: cut::start(&String::from_utf8_lossy(authority), MAX_TEXT).to_owned(),
            path: cut::start(uri.path(), MAX_TEXT).to_owned(),
        }
    }
}

/// The headers that a tap shows, if it asks for them.
fn shown(tap: &Tap, fields: Option<&HeaderMap>) -> Option<Headers> {
    let fields = fields.filter(|_| tap.settings.headers)?;
    Some(headers::copied(fields, tap.shows_secrets))
}

/// The longest authority or path, in bytes, also for a condition on it.
const MAX_TEXT: usize = 2048;
