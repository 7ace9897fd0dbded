//! Targets that the inbound side forwards to, as a gateway does: stages 2 to 8, without a connection of an application.

use super::{
    HttpRouter,
    context::Context,
    target::{TargetStack, Targets},
};
use crate::server::RelayEnd;
use http::Version;
use linkerd_profiles::{ProtocolKind, Target};
use linkerd_proxy_core::{Error, Reason, transport::Io};
use std::rc::Rc;

/// The targets of a gateway, on one worker. They are those of the outbound side, with its bounds.
#[derive(Clone)]
pub struct ForwardedTargets {
    pub(super) ctx: Rc<Context>,
    pub(super) targets: Rc<Targets>,
}

/// A target of a gateway, in use as long as it lives.
pub struct ForwardedTarget {
    ctx: Rc<Context>,
    stack: Rc<TargetStack>,
}

impl ForwardedTargets {
    /// A target. Waits for the control plane's first answer, and fails as discovery does.
    pub async fn get(&self, target: Target) -> Result<ForwardedTarget, Error> {
        Ok(ForwardedTarget {
            stack: self.targets.get(&self.ctx, target).await?,
            ctx: self.ctx.clone(),
        })
    }
}

impl ForwardedTarget {
    /// The router of requests of this version. Fails as `InvalidRequest` if the target takes none.
    pub fn router(&self, version: Version) -> Result<HttpRouter, Error> {
        match self.stack.discovered().protocol() {
            ProtocolKind::Opaque | ProtocolKind::Tls => {
                let target = self.stack.target();
                let detail = format!("{target} is opaque: its policy is not for HTTP requests");
                Err(Error::new(Reason::InvalidRequest).detail(detail))
            }
            ProtocolKind::Http1 | ProtocolKind::Http2 | ProtocolKind::Detect { .. } => {
                Ok(self.stack.router(&self.ctx, version))
            }
        }
    }

    /// Relays a connection to an endpoint until both sides have ended.
    pub async fn relay(&self, io: Io) -> Result<RelayEnd, Error> {
        self.stack.opaque(&self.ctx).relay(io, None).await
    }
}
