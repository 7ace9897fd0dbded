//! Clients with a certificate, for as long as it is trusted.
//!
//! A handshake verifies a client once, and its connections may stay open for weeks. So the connections of a client are a part of
//! their listener, which ends when the client's certificates lead to no trust anchor any more: because an anchor was removed, or
//! because a certificate has expired. HTTP connections end gracefully; what is still open after [`GRACE`] is cut off.
//!
//! - **Waits** a random time, at most [`SPREAD`], before connections end, so that the clients of a removed anchor do not come back at
//!   once.
//! - **Bounds**: one entry for each certificate of clients that are connected; [`AT_A_TIME`] are verified at a time, so that many
//!   clients delay no request.
//! - **Fails as** `ClientUntrusted`.

use linkerd_proxy_core::{
    Reason, drain, limits,
    tls::{CredentialsWatch, PeerChain, PeerTrust},
    transport::{ClientInfo, ListenerContext},
};
use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// The clients with a certificate of one worker.
#[derive(Debug, Default)]
pub struct Peers {
    open: RefCell<HashMap<PeerKey, Peer>>,
    ended: Cell<u64>,
}

/// A client of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PeerKey {
    chain: PeerChain,
    listener: *const ListenerContext,
}

#[derive(Debug)]
struct Peer {
    trust: PeerTrust,
    /// Held, so that its address names no other listener.
    _listener: Rc<ListenerContext>,
    connections: Rc<ListenerContext>,
    signal: drain::Signal,
    end: PeerEnd,
}

/// How far the end of a client's connections is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerEnd {
    /// The client is trusted.
    Trusted,
    /// It is not, and its connections begin to end at this time.
    DrainsAt(Instant),
    /// Those that are open at this time are cut off.
    CutOffAt(Instant),
    /// They were cut off.
    CutOff,
}

impl Peers {
    /// The context of a connection of `client`, which has shown these certificates: that of the listener if no end is to be watched.
    pub fn join(
        &self,
        client: &ClientInfo,
        chain: PeerChain,
        credentials: &CredentialsWatch,
        now: SystemTime,
    ) -> Rc<ListenerContext> {
        let listener = &client.listener;
        let key = PeerKey {
            chain,
            listener: Rc::as_ptr(listener),
        };
        let mut open = self.open.borrow_mut();
        if let Some(peer) = open.get(&key).filter(|peer| peer.end == PeerEnd::Trusted) {
            return peer.connections.clone();
        }
        let Some(trust) = PeerTrust::new(key.chain.clone(), credentials, now) else {
            return listener.clone();
        };
        let (signal, connections) = listener.part();
        let peer = Peer {
            trust,
            _listener: listener.clone(),
            connections: connections.clone(),
            signal,
            end: PeerEnd::Trusted,
        };
        // One that is there ends: its certificates were not trusted, and are again.
        if let Some(before) = open.insert(key, peer) {
            before.connections.cut_off(Reason::ClientUntrusted);
        }
        connections
    }

    /// Ends the connections of clients that are trusted no more, as long as the worker runs.
    pub async fn watch(&self, credentials: &CredentialsWatch) {
        let mut rng = SmallRng::from_rng(&mut rand::rng());
        loop {
            let pause = match self.step(credentials, SystemTime::now(), Instant::now(), &mut rng) {
                Step::Done => EVERY,
                Step::More => BRIEF,
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// The clients, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let open = self.open.borrow();
        let untrusted = open.values().filter(|peer| peer.end != PeerEnd::Trusted);
        serde_json::json!({
            "open": open.len(),
            "untrusted": untrusted.count(),
            "ended": self.ended.get(),
        })
    }

    /// Forgets clients without connections, verifies those that are due, and goes on with the ends of others.
    fn step(
        &self,
        credentials: &CredentialsWatch,
        time: SystemTime,
        now: Instant,
        rng: &mut impl Rng,
    ) -> Step {
        let mut open = self.open.borrow_mut();
        // A connection that was not served yet holds the context.
        open.retain(|_, peer| {
            peer.connections.connections() > 0 || Rc::strong_count(&peer.connections) > 1
        });
        let mut verified = 0;
        for peer in open.values_mut() {
            if peer.end == PeerEnd::Trusted && peer.trust.is_due(credentials, time) {
                verified += 1;
                if verified > AT_A_TIME {
                    return Step::More;
                }
                if let Err(problem) = peer.trust.verify(credentials, time) {
                    tracing::info!(
                        problem,
                        "the connections of a client end: its certificate is trusted no more"
                    );
                    self.ended.set(self.ended.get() + 1);
                    let wait = rng.random_range(Duration::ZERO..SPREAD);
                    peer.end = PeerEnd::DrainsAt(now + wait);
                }
            }
            peer.go_on(now);
        }
        Step::Done
    }
}

/// Whether all clients that were due are verified.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Done,
    More,
}

impl Peer {
    fn go_on(&mut self, now: Instant) {
        match self.end {
            PeerEnd::DrainsAt(at) if now >= at => {
                self.signal.signal();
                self.end = PeerEnd::CutOffAt(now + GRACE);
            }
            PeerEnd::CutOffAt(at) if now >= at => {
                self.connections.cut_off(Reason::ClientUntrusted);
                self.end = PeerEnd::CutOff;
            }
            PeerEnd::DrainsAt(_) | PeerEnd::CutOffAt(_) | PeerEnd::Trusted | PeerEnd::CutOff => {}
        }
    }
}

/// The longest wait before connections of a client end.
const SPREAD: Duration = Duration::from_secs(5);

/// The time for exchanges and relays of a client that is trusted no more.
const GRACE: Duration = limits::UNTRUSTED_GRACE;

/// The time between two checks.
const EVERY: Duration = Duration::from_secs(1);

/// The time between two checks while many clients have to be verified.
const BRIEF: Duration = Duration::from_millis(10);

/// Clients that are verified in a check. Each takes some 0.2 ms, and no request is served meanwhile.
const AT_A_TIME: usize = 10;
