//! The listeners of one worker, as they are added and removed.

use super::{
    Direction, ListenerDrain, ListenerError, ListenerId, ListenerMessage, ListenerName,
    ListenerSocket, ListenerSpec, ListenerTable, MAX_LISTENERS,
};
use crate::config::Config;
use futures::future::LocalBoxFuture;
use linkerd_proxy_core::{
    Reason, drain,
    task::spawn_local,
    tls::{NoTlsReason, TlsStatus},
    transport::{Listener, ListenerContext, ListeningSocket, SocketOptions},
};
use serde_json::Value;
use std::{cell::RefCell, io, net::TcpListener, pin::pin, rc::Rc};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

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
    socket: ListeningSocket,
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

    /// Adds and removes listeners until the sender of the messages is gone; the listeners stay.
    pub async fn run(self: Rc<Self>, mut messages: mpsc::Receiver<ListenerMessage>) {
        while let Some(message) = messages.recv().await {
            match message {
                ListenerMessage::Add {
                    id,
                    listener,
                    socket,
                    reply,
                } => {
                    // The sender may have been dropped. The listener stays: removing it takes another message.
                    let _ = reply.send(self.add(id, listener, socket));
                }
                ListenerMessage::Remove {
                    id,
                    name,
                    drain,
                    reply,
                } => {
                    let removed = self.table.borrow_mut().remove(id);
                    let Some(active) = removed else {
                        let _ = reply.send(Err(ListenerError::Unknown(name)));
                        continue;
                    };
                    let (drained, draining) = oneshot::channel();
                    let closed = move || drop(reply.send(Ok(draining)));
                    let removal = self.clone().drain(id, active, drain, closed, move |left| {
                        let _ = drained.send(left);
                    });
                    // Other messages do not wait for the connections.
                    spawn_local(removal);
                }
                ListenerMessage::CutOff { reason, reply } => {
                    let _ = reply.send(Ok(self.cut_off(reason).await));
                }
            }
        }
    }

    /// The listeners, for `/state`.
    pub fn inspect(&self) -> Value {
        self.table.borrow().inspect()
    }

    fn add(
        &self,
        id: ListenerId,
        listener: ListenerSpec,
        socket: ListenerSocket,
    ) -> Result<(), ListenerError> {
        if self.drain.is_draining() {
            return Err(ListenerError::Draining);
        }
        self.table.borrow().check()?;
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
        let socket = self.socket(socket).map_err(failed(&listener.name))?;
        let socket =
            Listener::new(socket, options, tls, context.clone()).map_err(failed(&listener.name))?;
        let addr = socket.local_addr().map_err(failed(&listener.name))?;
        let active = ActiveListener {
            signal,
            socket: socket.socket(),
            accepting: spawn_local((self.accept)(listener.direction, socket)),
            context: context.clone(),
        };
        self.table
            .borrow_mut()
            .add(id, listener, addr, context, active)
    }

    /// The socket of a new listener.
    fn socket(&self, socket: ListenerSocket) -> io::Result<TcpListener> {
        match socket {
            ListenerSocket::Bound(socket) => Ok(socket),
            ListenerSocket::Of(id) => match self.table.borrow().active(id) {
                Some(active) => active.socket.try_clone(),
                None => Err(io::ErrorKind::NotConnected.into()),
            },
        }
    }

    /// Cuts off all connections, and waits until their tasks have ended. Returns the number of connections.
    async fn cut_off(&self, reason: Reason) -> usize {
        let contexts = self.table.borrow().contexts();
        let open = || -> usize { contexts.iter().map(|context| context.connections()).sum() };
        let left = open();
        for context in &contexts {
            context.cut_off(reason);
        }
        // The tasks are woken; each ends with its next turn.
        for _ in 0..CUT_OFF_TURNS {
            if open() == 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        left
    }

    /// Drains a listener. Calls `closed` once its socket is closed, and `drained` with the number of connections that are
    /// open when the time of the drain is over, after they have been cut off if that is asked for.
    async fn drain(
        self: Rc<Self>,
        id: ListenerId,
        active: ActiveListener,
        drain: ListenerDrain,
        closed: impl FnOnce(),
        drained: impl FnOnce(usize),
    ) {
        let ActiveListener {
            signal,
            accepting,
            context,
            socket: _,
        } = active;
        signal.signal();
        // The task closes the socket: the address is free when the sender has its answer.
        if let Err(error) = accepting.await {
            tracing::error!(%error, "a listener failed");
        }
        closed();
        let mut ended = pin!(signal.drain());
        if timeout(drain.timeout, &mut ended).await.is_ok() {
            self.table.borrow_mut().drained(id);
            return drained(0);
        }
        let left = context.connections();
        if !drain.cuts_off {
            drained(left);
            ended.await;
            return self.table.borrow_mut().drained(id);
        }
        context.cut_off(Reason::ListenerRemoved);
        ended.await;
        self.table.borrow_mut().drained(id);
        drained(left);
    }
}

/// Turns of the worker in which connections that are cut off end: a tunnel ends after the connection that opened it.
const CUT_OFF_TURNS: usize = 100;

/// Outbound clients are in this pod.
const LOOPBACK: TlsStatus = TlsStatus::None(NoTlsReason::Loopback);

/// Inbound clients are other pods.
const FROM_REMOTE: TlsStatus = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
