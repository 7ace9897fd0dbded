//! Upgrades of a peer's connection that the application agrees to: WebSocket, CONNECT.

use crate::inbound::{application::Application, context::Context, tunnel};
use http::{Method, Request, Response};
use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, ResponseBody, Upgrade},
    transport::ClientInfo,
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Joins the peer's connection with the application's when both agree, for as long as the policy lets the request in.
#[derive(Clone)]
pub struct UpgradesLayer(Rc<Joining>);

/// See [`UpgradesLayer`].
#[derive(Clone)]
pub struct Upgrades<S> {
    inner: S,
    joining: Rc<Joining>,
}

struct Joining {
    ctx: Rc<Context>,
    application: Rc<Application>,
}

/// The peer's side of an upgrade.
struct Asked {
    upgrade: Upgrade,
    /// The head of the request.
    request: Request<()>,
    client: Rc<ClientInfo>,
    joining: Rc<Joining>,
}

impl UpgradesLayer {
    /// Joins connections with those to `application`.
    pub fn new(ctx: &Rc<Context>, application: &Rc<Application>) -> Self {
        Self(Rc::new(Joining {
            ctx: ctx.clone(),
            application: application.clone(),
        }))
    }
}

impl<S> Layer<S> for UpgradesLayer {
    type Service = Upgrades<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let joining = self.0.clone();
        Upgrades { inner, joining }
    }
}

impl<S> Service<HttpRequest> for Upgrades<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = UpgradesFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        // Boxed: few requests ask for an upgrade.
        let asked = Upgrade::of(&request).zip(request.context().client.clone());
        let asked = asked.map(|(upgrade, client)| {
            Box::new(Asked {
                upgrade,
                request: head(&request),
                client,
                joining: self.joining.clone(),
            })
        });
        UpgradesFuture {
            inner: self.inner.call(request),
            asked,
        }
    }
}

pin_project! {
    /// The future of [`Upgrades`].
    pub struct UpgradesFuture<F> {
        #[pin]
        inner: F,
        asked: Option<Box<Asked>>,
    }
}

impl<F> Future for UpgradesFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        if let Poll::Ready(Ok(response)) = &mut polled
            && let Some(asked) = this.asked.take()
            && let Err(error) = asked.join(response)
        {
            polled = Poll::Ready(Err(error));
        }
        polled
    }
}

impl Asked {
    fn join(self, response: &mut Response<ResponseBody>) -> Result<(), Error> {
        let Joining { ctx, application } = &*self.joining;
        let (request, client) = (self.request, self.client.clone());
        let connects = request.method() == Method::CONNECT;
        let policy = application.policy().clone();
        let revoked = async move { policy.upgrade_revoked(&request, &client).await };
        match connects {
            true => {
                let asked = (&self.client, self.upgrade);
                tunnel::join(ctx, application, asked, response, revoked)
            }
            false => {
                let guard = self.client.listener.connection();
                self.upgrade
                    .join(response, &ctx.pipes, Some(guard), revoked)
            }
        }
    }
}

/// The head of a request, by which its route is found.
fn head<B>(request: &Request<B>) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    head
}
