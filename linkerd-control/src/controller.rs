use crate::authority::Authority;
use crate::content::EndpointSet;
use crate::identity::IdentityScript;
use crate::limits::ControllerLimits;
use crate::lookups::{ExpectationError, Lookup, LookupKind};
use crate::mesh::{Known, Mesh};
use crate::script::Script;
use crate::serve::{self, Server};
use crate::state::{Content, ControllerState};
use crate::target::{TargetKey, canonical};
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_api_proto::inbound;
use linkerd_api_proto::outbound::OutboundPolicy;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// The state of a control plane. Clones share it, and any number of servers can serve it.
#[derive(Clone)]
pub struct Controller {
    pub(crate) state: Arc<ControllerState>,
}

impl Controller {
    /// An empty controller with the default limits.
    pub fn new() -> Self {
        Self::with_limits(ControllerLimits::default())
    }

    /// An empty controller.
    pub fn with_limits(limits: ControllerLimits) -> Self {
        Self {
            state: Arc::new(ControllerState::new(limits)),
        }
    }

    /// Serves the gRPC APIs on a listener, until the server is killed or dropped. Must be called within a runtime.
    pub fn serve(&self, listener: TcpListener) -> std::io::Result<Server> {
        serve::serve(self.state.clone(), listener, None)
    }

    /// Serves as [`serve`](Self::serve) does, over TLS with a certificate of `authority` for `names`, which are not issued to
    /// proxies.
    pub fn serve_tls(
        &self,
        listener: TcpListener,
        authority: &Authority,
        names: &[impl AsRef<str>],
    ) -> std::io::Result<Server> {
        let tls = authority.server(names).map_err(std::io::Error::other)?;
        self.identity().reserve(names);
        serve::serve(self.state.clone(), listener, Some(tls))
    }

    /// Serves on a free port of the loopback address.
    pub async fn spawn(&self) -> std::io::Result<Server> {
        self.spawn_at((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Serves on an address, for example the one of a server that was killed.
    pub async fn spawn_at(&self, addr: SocketAddr) -> std::io::Result<Server> {
        self.serve(TcpListener::bind(addr).await?)
    }

    /// The endpoints of a destination such as `web.ns.svc.cluster.local:80`.
    pub fn destination(&self, path: impl AsRef<str>) -> Script<EndpointSet> {
        self.script(path)
    }

    /// The profile of an address or a name with a port.
    pub fn profile(&self, target: impl AsRef<str>) -> Script<DestinationProfile> {
        self.script(target)
    }

    /// The outbound policy of an address or an authority.
    pub fn policy(&self, target: impl AsRef<str>) -> Script<OutboundPolicy> {
        self.script(target)
    }

    /// Certificates of proxies.
    pub fn identity(&self) -> IdentityScript {
        IdentityScript::new(self.state.clone())
    }

    /// The policy of an inbound port. For a port without a policy, streams stay silent.
    pub fn server(&self, port: u16) -> Script<inbound::Server> {
        self.script(format!(":{port}"))
    }

    /// All destinations: endpoints for destinations without their own, and behaviour for all.
    pub fn any_destination(&self) -> Script<EndpointSet> {
        Script::new(self.state.clone(), TargetKey::Any)
    }

    /// All targets: a profile for targets without their own, and behaviour for all.
    pub fn any_profile(&self) -> Script<DestinationProfile> {
        Script::new(self.state.clone(), TargetKey::Any)
    }

    /// All targets: a policy for targets without their own, and behaviour for all.
    pub fn any_policy(&self) -> Script<OutboundPolicy> {
        Script::new(self.state.clone(), TargetKey::Any)
    }

    /// All inbound ports: a policy for ports without their own, and behaviour for all.
    pub fn any_server(&self) -> Script<inbound::Server> {
        Script::new(self.state.clone(), TargetKey::Any)
    }

    /// Replaces the mesh that was applied before, and pushes the differences to open streams.
    ///
    /// Host names of endpoints are not resolved here; [`watch_file`](crate::watch_file) does that.
    pub fn apply(&self, mesh: &Mesh) {
        self.apply_with(mesh, &Known::new());
    }

    pub(crate) fn apply_with(&self, mesh: &Mesh, known: &Known) {
        let answers = mesh.answers(known);
        answers.apply(&mut self.state.tables.lock());
        self.state.notify();
    }

    /// The last look-ups, oldest first, up to [`ControllerLimits::recorded_lookups`].
    pub fn lookups(&self) -> Vec<Lookup> {
        self.state.tables.lock().lookups.all().cloned().collect()
    }

    /// The number of open streams of a target.
    pub fn open_streams(&self, kind: LookupKind, target: &str) -> usize {
        match kind {
            LookupKind::Destination => self.destination(target).open_streams(),
            LookupKind::Profile => self.profile(target).open_streams(),
            LookupKind::Policy => self.policy(target).open_streams(),
            LookupKind::Server => self.script::<inbound::Server>(target).open_streams(),
        }
    }

    /// The number of open streams of all targets.
    pub fn all_open_streams(&self) -> usize {
        self.streams().iter().map(|(_, open)| open).sum()
    }

    /// The number of open streams of each kind.
    pub fn streams(&self) -> [(LookupKind, usize); 4] {
        let tables = self.state.tables.lock();
        let any = &TargetKey::Any;
        [
            (
                LookupKind::Destination,
                tables.destinations.open_streams(any),
            ),
            (LookupKind::Profile, tables.profiles.open_streams(any)),
            (LookupKind::Policy, tables.policies.open_streams(any)),
            (LookupKind::Server, tables.servers.open_streams(any)),
        ]
    }

    /// The number of connections, and their limit for each server.
    pub fn connections(&self) -> (usize, usize) {
        let open = Arc::strong_count(&self.state.connections) - 1;
        (open, self.state.limits.connections)
    }

    /// Waits for a look-up that no earlier call returned, so that two calls expect two look-ups.
    pub async fn expect_lookup(
        &self,
        kind: LookupKind,
        target: &str,
        within: Duration,
    ) -> Result<Lookup, ExpectationError> {
        self.state
            .expect(kind, &TargetKey::One(canonical(target)), within)
            .await
    }

    fn script<C: Content>(&self, target: impl AsRef<str>) -> Script<C> {
        Script::new(
            self.state.clone(),
            TargetKey::One(canonical(target.as_ref())),
        )
    }
}

impl Default for Controller {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("open_streams", &self.all_open_streams())
            .finish_non_exhaustive()
    }
}
