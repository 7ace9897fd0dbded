//! Serving the HTTP of a client's connection.

use http::{Request, Response, Version};
use hyper::{body::Incoming, service::Service as HyperService};
use linkerd_proxy_core::{
    drain,
    http::{
        Connection, HttpRequest, RequestBody, RequestContext, ResponseBody, ServeError,
        ServerSettings, Upload, serve_http1, serve_http2,
    },
    transport::{ClientInfo, Io},
};
use std::{cell::RefCell, rc::Rc};
use tower_service::Service;

/// Serves requests by `stack` until the connection ends, or until its exchanges have ended when `drain` is signalled.
pub fn serve<S>(
    io: Io,
    client: Rc<ClientInfo>,
    version: Version,
    connection: Rc<Connection>,
    stack: S,
    settings: ServerSettings,
    drain: drain::Watch,
) -> impl Future<Output = Result<(), ServeError>> + use<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = h2::Error, Future: 'static>
        + 'static,
{
    // Shared, as the futures of a connection would have room for several of it.
    let server = Rc::new(Server {
        stack: RefCell::new(stack),
        connection: connection.clone(),
        client,
    });
    async move {
        match version {
            Version::HTTP_2 => serve_http2(io, server, &settings, connection, drain).await,
            _ => serve_http1(io, server, &settings, connection, drain).await,
        }
    }
}

/// The stack of one connection, as hyper calls it.
struct Server<S> {
    stack: RefCell<S>,
    connection: Rc<Connection>,
    client: Rc<ClientInfo>,
}

impl<S> HyperService<Request<Incoming>> for Server<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = h2::Error>,
{
    type Response = Response<ResponseBody>;
    type Error = h2::Error;
    type Future = S::Future;

    /// Puts the request into its context. An endpoint that is ready has it when this returns.
    fn call(&self, request: Request<Incoming>) -> S::Future {
        let (head, body) = request.into_parts();
        let upload = || Upload::new(Some(self.connection.uploading(&head)));
        let body = RequestBody::new(body, upload);
        let request = Request::from_parts(head, body);
        let context = RequestContext::arriving(Some(self.client.clone()));
        let mut stack = self.stack.borrow_mut();
        stack.call(HttpRequest::new(request, context))
    }
}
