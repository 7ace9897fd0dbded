//! Notes of a route or a backend about its requests.

use linkerd_proxy_core::{Error, http::HttpRequest, stack::ObserveCall};
use std::rc::Rc;

/// Notes the name of a stage in the context of each request, if that has an access log.
#[derive(Clone, Debug)]
pub enum StageNote {
    /// A route.
    Route(Rc<str>),
    /// A backend of a route.
    Backend(Rc<str>),
}

impl<Rsp> ObserveCall<HttpRequest, Rsp> for StageNote {
    type Call = ();

    fn begin(&self, request: &mut HttpRequest) {
        if let Some(notes) = &request.context().notes {
            match self {
                Self::Route(name) => notes.of_route(name),
                Self::Backend(name) => notes.of_backend(name),
            }
        }
    }

    fn answered(&self, (): &(), _: &mut Rsp) {}

    fn failed(&self, (): &(), _: &mut Error) {}
}
