//! Notes of a route or a backend about its requests.

use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, RequestNotes},
    metrics::LabelSet,
    stack::ObserveCall,
};
use std::rc::Rc;

/// Notes the name of a stage in the context of each request, if that has an access log or a tap.
#[derive(Clone, Debug)]
pub enum StageNote {
    /// A route, and the labels by which taps know it.
    Route(Rc<str>, LabelSet),
    /// A backend of a route.
    Backend(Rc<str>),
}

impl<Rsp> ObserveCall<HttpRequest, Rsp> for StageNote {
    type Call = ();

    #[inline]
    fn begin(&self, request: &mut HttpRequest) {
        if let Some(notes) = &request.context().notes {
            self.note(notes);
        }
    }

    fn answered(&self, (): &(), _: &mut Rsp) {}

    fn failed(&self, (): &(), _: &mut Error) {}
}

impl StageNote {
    /// Out of line: most requests have no notes.
    #[inline(never)]
    fn note(&self, notes: &RequestNotes) {
        match self {
            Self::Route(name, labels) => {
                notes.of_route(name);
                notes.of_route_labels(labels);
            }
            Self::Backend(name) => notes.of_backend(name),
        }
    }
}
