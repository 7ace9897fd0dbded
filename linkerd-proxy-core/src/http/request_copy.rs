//! A copy of a request, for another attempt to send it.

use super::{HttpRequest, RequestBody, RequestContext, head_copy::HeadCopy};
use hyper::upgrade::OnUpgrade;
use std::{fmt, ops::Deref, rc::Rc};

/// A copy of a request.
pub struct RequestCopy(Box<CopyParts>);

struct CopyParts {
    head: CopiedHead,
    body: RequestBody,
    context: RequestContext,
}

/// A copy of a head, of one copy of the request or of several.
enum CopiedHead {
    Own(HeadCopy),
    Shared(Rc<HeadCopy>),
}

impl HttpRequest {
    /// Lets the copies that are made from here on share their copy of the head, until that changes. For a stage with another
    /// one below that copies the request, too.
    pub fn share_head(&mut self) {
        if self.head_copy().is_none() {
            let head = Rc::new(HeadCopy::of(self));
            *self.head_copy() = Some(head);
        }
    }

    /// Makes a copy for another attempt, the body of which may have at most `max_bytes`; from here on it is kept as it passes.
    ///
    /// `None`: the body is known to be larger, or the request can be sent once only, as its connection may become something
    /// else.
    pub fn replayable(&mut self, max_bytes: usize) -> Option<RequestCopy> {
        // Extensions hold what belongs to the connection, such as a pending upgrade. They are not copied.
        if self.extensions().get::<OnUpgrade>().is_some() {
            return None;
        }
        let body = self.body_mut().replayable(max_bytes)?;
        let head = match self.head_copy() {
            Some(head) => CopiedHead::Shared(head.clone()),
            None => CopiedHead::Own(HeadCopy::of(self)),
        };
        let context = self.context().clone();
        Some(RequestCopy(Box::new(CopyParts {
            head,
            body,
            context,
        })))
    }
}

impl RequestCopy {
    /// The body.
    pub fn body(&self) -> &RequestBody {
        &self.0.body
    }

    /// The context, to be changed.
    pub fn context_mut(&mut self) -> &mut RequestContext {
        &mut self.0.context
    }

    /// The request.
    pub fn into_request(self) -> HttpRequest {
        let copy = *self.0;
        let head = match copy.head {
            CopiedHead::Own(head) => head,
            CopiedHead::Shared(head) => Rc::unwrap_or_clone(head),
        };
        let request = head.into_request(copy.body);
        HttpRequest::new(request, copy.context)
    }
}

impl Deref for CopiedHead {
    type Target = HeadCopy;

    fn deref(&self) -> &HeadCopy {
        match self {
            Self::Own(head) => head,
            Self::Shared(head) => head,
        }
    }
}

impl fmt::Debug for RequestCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestCopy")
            .field("head", &*self.0.head)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{
        HeaderValue, Request, Version,
        header::{ACCEPT, HOST},
    };

    #[test]
    fn copies_of_a_changed_head_share_none() {
        let request = Request::get("/").header(ACCEPT, "*/*");
        let request = request.body(RequestBody::empty()).unwrap();
        let mut request = HttpRequest::new(request, RequestContext::arriving(None));
        let is_shared = |copy: &RequestCopy| matches!(copy.0.head, CopiedHead::Shared(_));
        let alone = request.replayable(0).unwrap();
        assert!(!is_shared(&alone));
        request.share_head();
        let first = request.replayable(0).unwrap();
        request.body_mut();
        let second = request.replayable(0).unwrap();
        assert!(is_shared(&first) && is_shared(&second));
        request
            .headers_mut()
            .insert(HOST, HeaderValue::from_static("web"));
        let third = request.replayable(0).unwrap();
        assert!(!is_shared(&third));
        let hosts = [alone, first, second, third].map(|copy| {
            let request = copy.into_request();
            assert_eq!(request.headers()[ACCEPT], "*/*");
            request.headers().contains_key(HOST)
        });
        assert_eq!(hosts, [false, false, false, true]);
    }

    #[test]
    fn a_copy_has_the_same_head_and_no_extensions() {
        let request = Request::post("http://web.test/a?b")
            .version(Version::HTTP_2)
            .header(ACCEPT, "text/html")
            .header(HOST, "web")
            .header(ACCEPT, "*/*")
            .extension("of the connection")
            .body(RequestBody::empty())
            .unwrap();
        let mut request = HttpRequest::new(request, RequestContext::arriving(None));
        let copy = request.replayable(0).unwrap().into_request();
        assert_eq!(copy.method(), request.method());
        assert_eq!(copy.uri(), request.uri());
        assert_eq!(copy.version(), request.version());
        assert!(copy.headers().iter().eq(request.headers()));
        assert_eq!(copy.context().arrived, request.context().arrived);
        assert!(copy.extensions().is_empty());
    }
}
