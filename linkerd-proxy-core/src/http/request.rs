//! A request on its way through the stages.

use super::{AttemptNotes, RequestBody, RequestNotes, ResponseClasses};
use crate::{tls::Identity, trace::AttemptSpan, transport::ClientInfo};
use http::Request;
use std::{
    any::Any,
    fmt,
    ops::{Deref, DerefMut},
    rc::Rc,
};
use tokio::time::Instant;

/// A request and its context, in a box: each stage moves it.
pub struct HttpRequest<B = RequestBody>(Box<Parts<B>>);

struct Parts<B> {
    request: Request<B>,
    context: RequestContext,
}

/// Facts about a request that are not part of its message. It carries them to its endpoint, so that a stage needs nothing
/// but the request.
///
/// Not among the message's extensions, as these are a map that would have to be allocated for each request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// When it reached its target: when it arrived, or when its target was discovered.
    pub arrived: Instant,
    /// When the present attempt began: when it arrived, or when a balancer gave it to an endpoint later.
    pub attempted: Instant,
    /// The client's connection; `None` for requests that the proxy makes itself.
    pub client: Option<Rc<ClientInfo>>,
    /// How often it came back from endpoints.
    pub returns: Returns,
    /// The bytes of its path that are the prefix by which its route was found, if it was by a prefix.
    pub matched_prefix: Option<usize>,
    /// The response classes of its route, if that has any.
    pub response_classes: Option<Rc<ResponseClasses>>,
    /// Notes about its attempts, if its route has timeouts or retries.
    pub attempts: Option<Rc<AttemptNotes>>,
    /// The series of its route, for a stage below that counts requests of several routes and knows their type.
    pub route_series: Option<Rc<dyn Any>>,
    /// Notes for its line of the access log and its spans, if there is to be one.
    pub notes: Option<Rc<RequestNotes>>,
    /// The span of the present attempt, if the request is sampled. Only a request with notes has one.
    pub attempt: Option<Rc<AttemptSpan>>,
}

/// How often a request came back from endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// With its connection lost: it may have been processed.
    pub lost: u8,
    /// Refused before it was processed.
    pub refused: u8,
}

impl<B> HttpRequest<B> {
    /// A request in its context.
    pub fn new(request: Request<B>, context: RequestContext) -> Self {
        Self(Box::new(Parts { request, context }))
    }

    /// The context.
    pub fn context(&self) -> &RequestContext {
        &self.0.context
    }

    /// The context, to be changed.
    pub fn context_mut(&mut self) -> &mut RequestContext {
        &mut self.0.context
    }

    /// The message, and its context.
    pub fn into_parts(self) -> (Request<B>, RequestContext) {
        let Parts { request, context } = *self.0;
        (request, context)
    }
}

impl RequestContext {
    /// A request that arrives now.
    pub fn arriving(client: Option<Rc<ClientInfo>>) -> Self {
        let now = Instant::now();
        Self {
            arrived: now,
            attempted: now,
            client,
            returns: Returns::default(),
            matched_prefix: None,
            response_classes: None,
            attempts: None,
            route_series: None,
            notes: None,
            attempt: None,
        }
    }

    /// Notes that a connection is opened for the request.
    pub fn begin_connect(&self) {
        if let Some(notes) = &self.notes {
            notes.begin_connect();
            if let Some(attempt) = &self.attempt {
                attempt.begin_connect();
            }
        }
    }

    /// Notes the end of that, in success or failure.
    pub fn end_connect(&self) {
        if let Some(notes) = &self.notes {
            notes.end_connect();
            if let Some(attempt) = &self.attempt {
                attempt.end_connect();
            }
        }
    }

    /// Notes the identity of the endpoint of the present attempt.
    pub fn of_endpoint(&self, identity: &Identity) {
        if let Some(notes) = &self.notes {
            notes.of_endpoint(identity);
            if let Some(attempt) = &self.attempt {
                attempt.of_endpoint(identity);
            }
        }
    }
}

impl Returns {
    /// Whether it came back at all.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

impl<B> Deref for HttpRequest<B> {
    type Target = Request<B>;

    fn deref(&self) -> &Request<B> {
        &self.0.request
    }
}

impl<B> DerefMut for HttpRequest<B> {
    fn deref_mut(&mut self) -> &mut Request<B> {
        &mut self.0.request
    }
}

impl<B: fmt::Debug> fmt::Debug for HttpRequest<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("request", &self.0.request)
            .field("context", &self.0.context)
            .finish()
    }
}
