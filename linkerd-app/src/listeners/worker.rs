//! The listeners of one worker, as they are added and removed.

use super::{
    Direction, ListenerError, ListenerId, ListenerMessage, ListenerName, ListenerSpec,
    ListenerTable, MAX_LISTENERS,
};
use crate::config::Config;
use futures::future::LocalBoxFuture;
use linkerd_proxy_core::{
    drain,
    task::spawn_local,
    transport::{Listener, ListenerContext, NoTlsReason, SocketOptions, TlsStatus},
};
use serde_json::Value;
use std::{cell::RefCell, net::TcpListener, pin::pin, rc::Rc, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

/// The listeners of a worker. Runs on the worker's thread.
pub struct WorkerListeners {
    outbound: SocketOptions,
    inbound: SocketOptions,
    drain: drain::Handle,
    accept: Accept,
    table: RefCell<ListenerTable<ActiveListener>>,
}

/// Accepts connections of a listener until its drain is signalled.
type Accept = Box<dyn Fn(Direction, Listener) -> LocalBoxFuture<'static, ()>>;

/// A listener that accepts connections.
struct ActiveListener {
    signal: drain::Signal,
    accepting: JoinHandle<()>,
    context: Rc<ListenerContext>,
}

impl WorkerListeners {
    /// No listeners. Their drains are below `drain`; `accept` accepts connections until a listener's drain is signalled.
    pub fn new(
        config: &Config,
        drain: drain::Handle,
        accept: impl Fn(Direction, Listener) -> LocalBoxFuture<'static, ()> + 'static,
    ) -> Rc<Self> {
        Rc::new(Self {
            outbound: config.outbound.accept,
            inbound: config.inbound.accept,
            drain,
            accept: Box::new(accept),
            table: RefCell::new(ListenerTable::new(MAX_LISTENERS)),
        })
    }

    /// Adds and removes listeners until the sender of the messages is gone; they stay.
    pub async fn run(self: Rc<Self>, mut messages: mpsc::Receiver<ListenerMessage>) {
        while let Some(message) = messages.recv().await {
            match message {
                ListenerMessage::Add {
                    listener,
                    socket,
                    reply,
                } => {
                    // The sender may have been dropped. The listener stays: removing it takes another message.
                    let _ = reply.send(self.add(listener, socket));
                }
                ListenerMessage::Remove { name, drain, reply } => {
                    let removed = self.table.borrow_mut().remove(&name);
                    match removed {
                        Ok((id, active)) => {
                            let removal = self.clone().drain(id, active, drain, move |left| {
                                let _ = reply.send(Ok(left));
                            });
                            // Other messages do not wait for the connections.
                            spawn_local(removal);
                        }
                        Err(error) => {
                            let _ = reply.send(Err(error));
                        }
                    }
                }
            }
        }
    }

    /// The listeners, for `/state`.
    pub fn inspect(&self) -> Value {
        self.table.borrow().inspect()
    }

    fn add(&self, listener: ListenerSpec, socket: TcpListener) -> Result<(), ListenerError> {
        if self.drain.is_draining() {
            return Err(ListenerError::Draining);
        }
        self.table.borrow().check(&listener.name)?;
        let (signal, drain) = self.drain.child();
        let context = ListenerContext::new(drain);
        let (options, tls) = match listener.direction {
            Direction::Outbound => (self.outbound, LOOPBACK),
            Direction::Inbound => (self.inbound, FROM_REMOTE),
        };
        let failed = |name: &ListenerName| {
            let name = name.clone();
            move |error| ListenerError::Socket { name, error }
        };
        let socket =
            Listener::new(socket, options, tls, context.clone()).map_err(failed(&listener.name))?;
        let addr = socket.local_addr().map_err(failed(&listener.name))?;
        let active = ActiveListener {
            signal,
            accepting: spawn_local((self.accept)(listener.direction, socket)),
            context: context.clone(),
        };
        self.table
            .borrow_mut()
            .add(listener, addr, context, active)?;
        Ok(())
    }

    /// Drains a listener; passes the number of connections that are open after `patience` at most to `reply`.
    async fn drain(
        self: Rc<Self>,
        id: ListenerId,
        active: ActiveListener,
        patience: Duration,
        reply: impl FnOnce(usize),
    ) {
        let ActiveListener {
            signal,
            accepting,
            context,
        } = active;
        signal.signal();
        // It closes the socket: the address is free when the sender has its answer.
        if let Err(error) = accepting.await {
            tracing::error!(%error, "a listener failed");
        }
        let mut drained = pin!(signal.drain());
        if timeout(patience, &mut drained).await.is_ok() {
            self.table.borrow_mut().drained(id);
            return reply(0);
        }
        reply(context.connections());
        drained.await;
        self.table.borrow_mut().drained(id);
    }
}

/// Outbound clients are in this pod.
const LOOPBACK: TlsStatus = TlsStatus::None(NoTlsReason::Loopback);

/// Inbound clients are other pods.
const FROM_REMOTE: TlsStatus = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
