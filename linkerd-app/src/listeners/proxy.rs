//! The listeners of the whole proxy.

use super::{
    Draining, ListenerDrain, ListenerError, ListenerId, ListenerMessage, ListenerName,
    ListenerSocket, ListenerSpec,
};
use futures::future::join_all;
use linkerd_proxy_core::{
    Reason,
    transport::{self, OwnListeners},
};
use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Adds listeners to all workers, replaces and removes them.
///
/// Its one owner makes one change after the other, so that all workers have the same listeners. Changes are not cancel safe: a
/// cancelled one may have reached some of the workers. The proxy does not dial the address of a listener, from before it accepts
/// until its sockets are closed.
#[derive(Debug)]
pub struct ProxyListeners {
    workers: Vec<mpsc::Sender<ListenerMessage>>,
    next: u64,
    /// The listeners that accept connections: at most one of each name.
    active: Vec<ActiveListener>,
    own: OwnListeners,
}

/// A listener that accepts connections.
#[derive(Debug)]
struct ActiveListener {
    id: ListenerId,
    name: ListenerName,
    addr: SocketAddr,
}

/// A listener in place of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Address of the new listener.
    pub addr: SocketAddr,
    /// Connections of the old one that were open when the time of its drain was over.
    pub left: usize,
}

/// Cuts off the connections of all listeners.
#[derive(Debug)]
pub struct CutOff(Vec<mpsc::Sender<ListenerMessage>>);

impl CutOff {
    /// Ends all connections for this reason, and returns their number. Waits until their tasks have ended.
    pub async fn cut_off(self, reason: Reason) -> usize {
        let sent = self.0.iter().enumerate().map(|(index, worker)| {
            request(index, worker, |reply| ListenerMessage::CutOff {
                reason,
                reply,
            })
        });
        // A worker that has ended has no connections.
        let ended = join_all(sent).await.into_iter();
        ended.map(|number| number.unwrap_or(0)).sum()
    }
}

impl ProxyListeners {
    /// Without listeners, for this many workers, and the receiver of each worker's messages. `own` follows the addresses.
    pub fn channel(
        workers: usize,
        own: OwnListeners,
    ) -> (Self, Vec<mpsc::Receiver<ListenerMessage>>) {
        let (workers, messages) = (0..workers).map(|_| mpsc::channel(MESSAGES)).unzip();
        let listeners = Self {
            workers,
            next: 0,
            active: Vec::new(),
            own,
        };
        (listeners, messages)
    }

    /// Binds an address and adds its listener. Returns the address, whose port may have been left open.
    pub async fn bind(
        &mut self,
        listener: ListenerSpec,
        addr: SocketAddr,
        backlog: Option<u32>,
    ) -> Result<SocketAddr, ListenerError> {
        self.check_new(&listener.name)?;
        let (addr, sockets) = self.sockets(&listener.name, addr, backlog)?;
        self.open(listener, addr, sockets).await
    }

    /// Adds a listener with one socket for each worker. If a worker refuses, the listener is removed from the others.
    pub async fn add(
        &mut self,
        listener: ListenerSpec,
        addr: SocketAddr,
        sockets: Vec<TcpListener>,
    ) -> Result<SocketAddr, ListenerError> {
        self.check_new(&listener.name)?;
        let sockets = sockets.into_iter().map(ListenerSocket::Bound).collect();
        self.open(listener, addr, sockets).await
    }

    /// Replaces the listener of the same name: the new one accepts before the old one stops, and then the connections of
    /// the old one drain. With the address of the old one it shares its sockets; an error leaves the old one as it was.
    pub async fn replace(
        &mut self,
        listener: ListenerSpec,
        addr: SocketAddr,
        backlog: Option<u32>,
        drain: ListenerDrain,
    ) -> Result<Replaced, ListenerError> {
        let old = &self.active[self.position(&listener.name)?];
        let old_id = old.id;
        let (addr, sockets) = match old.addr == addr {
            true => {
                let shared = self.workers.iter().map(|_| ListenerSocket::Of(old_id));
                (addr, shared.collect())
            }
            false => self.sockets(&listener.name, addr, backlog)?,
        };
        let name = listener.name.clone();
        let addr = self.open(listener, addr, sockets).await?;
        // The first of the name is the old one: the new one was added behind it.
        let left = self.close(self.position(&name)?, drain).await?;
        Ok(Replaced { addr, left })
    }

    /// Removes a listener: closes its sockets, and drains its connections. Returns the number of connections that were
    /// still open when the time of the drain was over.
    pub async fn remove(
        &mut self,
        name: &ListenerName,
        drain: ListenerDrain,
    ) -> Result<usize, ListenerError> {
        self.close(self.position(name)?, drain).await
    }

    /// A handle that cuts off all connections, when this is used elsewhere.
    pub fn cut_off_handle(&self) -> CutOff {
        CutOff(self.workers.clone())
    }

    /// Adds a listener to all workers, or to none.
    async fn open(
        &mut self,
        listener: ListenerSpec,
        addr: SocketAddr,
        sockets: Vec<ListenerSocket>,
    ) -> Result<SocketAddr, ListenerError> {
        let id = ListenerId(self.next);
        self.next += 1;
        self.own.add(addr);
        let sent = self.workers.iter().zip(sockets).enumerate();
        let sent = sent.map(|(index, (worker, socket))| {
            let listener = listener.clone();
            request(index, worker, |reply| ListenerMessage::Add {
                id,
                listener,
                socket,
                reply,
            })
        });
        let (mut added, mut refused) = (Vec::new(), None);
        for (index, answer) in join_all(sent).await.into_iter().enumerate() {
            match answer {
                Ok(()) => added.push(index),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let name = listener.name;
        if let Some(error) = refused {
            let back = added.into_iter().map(|index| {
                let drain = ListenerDrain::wait(Duration::ZERO);
                let worker = &self.workers[index];
                request(index, worker, remove(id, &name, drain))
            });
            join_all(back).await;
            self.own.remove(addr);
            return Err(error);
        }
        self.active.push(ActiveListener { id, name, addr });
        Ok(addr)
    }

    /// Removes a listener from all workers.
    async fn close(&mut self, index: usize, drain: ListenerDrain) -> Result<usize, ListenerError> {
        let ActiveListener { id, name, addr } = self.active.remove(index);
        let sent = self.workers.iter().enumerate();
        let sent = sent.map(|(index, worker)| request(index, worker, remove(id, &name, drain)));
        let closed = join_all(sent).await;
        self.own.remove(addr);
        let mut left = 0;
        for (index, draining) in closed.into_iter().enumerate() {
            left += draining?
                .await
                .map_err(|_| ListenerError::WorkerEnded(index))?;
        }
        Ok(left)
    }

    /// Sockets for all workers, and their address.
    fn sockets(
        &self,
        name: &ListenerName,
        addr: SocketAddr,
        backlog: Option<u32>,
    ) -> Result<(SocketAddr, Vec<ListenerSocket>), ListenerError> {
        let failed = |error| ListenerError::Bind {
            name: name.clone(),
            addr,
            error,
        };
        let sockets = transport::bind(addr, backlog, self.workers.len()).map_err(failed)?;
        let bound = sockets.first().map_or(Ok(addr), TcpListener::local_addr);
        let sockets = sockets.into_iter().map(ListenerSocket::Bound).collect();
        Ok((bound.map_err(failed)?, sockets))
    }

    fn check_new(&self, name: &ListenerName) -> Result<(), ListenerError> {
        match self.position(name) {
            Ok(_) => Err(ListenerError::Exists(name.clone())),
            Err(_) => Ok(()),
        }
    }

    fn position(&self, name: &ListenerName) -> Result<usize, ListenerError> {
        let position = self.active.iter().position(|active| active.name == *name);
        position.ok_or_else(|| ListenerError::Unknown(name.clone()))
    }
}

/// A message that removes a listener.
fn remove(
    id: ListenerId,
    name: &ListenerName,
    drain: ListenerDrain,
) -> impl FnOnce(oneshot::Sender<Result<Draining, ListenerError>>) -> ListenerMessage {
    let name = name.clone();
    move |reply| ListenerMessage::Remove {
        id,
        name,
        drain,
        reply,
    }
}

/// Sends a message to a worker and waits for the answer.
async fn request<T>(
    index: usize,
    worker: &mpsc::Sender<ListenerMessage>,
    message: impl FnOnce(oneshot::Sender<Result<T, ListenerError>>) -> ListenerMessage,
) -> Result<T, ListenerError> {
    let (reply, answer) = oneshot::channel();
    let ended = || ListenerError::WorkerEnded(index);
    worker.send(message(reply)).await.map_err(|_| ended())?;
    answer.await.map_err(|_| ended())?
}

/// Messages that wait for a worker: the sender waits for each answer, so that there is one at a time.
const MESSAGES: usize = 1;
