//! The listeners of the whole proxy.

use super::{ListenerError, ListenerMessage, ListenerName, ListenerSpec};
use futures::future::join_all;
use linkerd_proxy_core::transport;
use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Adds listeners to all workers, and removes them.
///
/// It has one owner, who makes one change after the other: all workers have the same listeners. Changes are not cancel
/// safe: one that is given up may have reached some of the workers.
#[derive(Debug)]
pub struct ProxyListeners {
    workers: Vec<mpsc::Sender<ListenerMessage>>,
}

impl ProxyListeners {
    /// The listeners of this many workers, none yet, and the messages to each worker.
    pub fn channel(workers: usize) -> (Self, Vec<mpsc::Receiver<ListenerMessage>>) {
        let (workers, messages) = (0..workers).map(|_| mpsc::channel(MESSAGES)).unzip();
        (Self { workers }, messages)
    }

    /// Binds an address and adds its listener. Returns the address, whose port may have been left open.
    pub async fn bind(
        &mut self,
        listener: ListenerSpec,
        addr: SocketAddr,
        backlog: Option<u32>,
    ) -> Result<SocketAddr, ListenerError> {
        let failed = |error| ListenerError::Bind {
            name: listener.name.clone(),
            addr,
            error,
        };
        let sockets = transport::bind(addr, backlog, self.workers.len()).map_err(failed)?;
        let bound = sockets.first().map_or(Ok(addr), TcpListener::local_addr);
        let bound = bound.map_err(failed)?;
        self.add(listener, sockets).await?;
        Ok(bound)
    }

    /// Adds a listener with one socket for each worker. If a worker refuses, the others give theirs up again.
    pub async fn add(
        &mut self,
        listener: ListenerSpec,
        sockets: Vec<TcpListener>,
    ) -> Result<(), ListenerError> {
        let sent = self.workers.iter().zip(sockets).enumerate();
        let sent = sent.map(|(index, (worker, socket))| {
            let listener = listener.clone();
            request(index, worker, |reply| ListenerMessage::Add {
                listener,
                socket,
                reply,
            })
        });
        let mut added = Vec::new();
        let mut refused = None;
        for (index, answer) in join_all(sent).await.into_iter().enumerate() {
            match answer {
                Ok(()) => added.push(index),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let Some(error) = refused else { return Ok(()) };
        let back = added.into_iter().map(|index| {
            let name = listener.name.clone();
            let worker = &self.workers[index];
            request(index, worker, |reply| remove(name, Duration::ZERO, reply))
        });
        join_all(back).await;
        Err(error)
    }

    /// Removes a listener: closes its sockets, and waits for its connections for `drain` at most. Returns the number of
    /// connections that are still open, which end by themselves.
    pub async fn remove(
        &mut self,
        name: &ListenerName,
        drain: Duration,
    ) -> Result<usize, ListenerError> {
        let sent = self.workers.iter().enumerate().map(|(index, worker)| {
            let name = name.clone();
            request(index, worker, move |reply| remove(name, drain, reply))
        });
        join_all(sent).await.into_iter().sum()
    }
}

fn remove(
    name: ListenerName,
    drain: Duration,
    reply: oneshot::Sender<Result<usize, ListenerError>>,
) -> ListenerMessage {
    ListenerMessage::Remove { name, drain, reply }
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
