//! Workers that accept nothing: messages, the drain of a listener, and `/state`.

use super::{ANY_PORT, config};
use crate::listeners::{
    ListenerDrain, ListenerError, ListenerSpec, ProxyListeners, Replaced, WorkerListeners,
};
use futures::FutureExt;
use linkerd_proxy_core::{
    Reason, drain,
    task::spawn_local,
    transport::{DialGuard, ListenerContext, OwnListeners},
};
use serde_json::Value;
use std::{cell::RefCell, future::pending, io, net::SocketAddr, rc::Rc, time::Duration};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep},
};

/// Workers of a proxy, on this thread.
struct Workers {
    proxy: ProxyListeners,
    guard: DialGuard,
    listeners: Vec<Rc<WorkerListeners>>,
    /// The contexts of all listeners, in the order in which they were added.
    contexts: Rc<RefCell<Vec<Rc<ListenerContext>>>>,
    drain: drain::Signal,
}

impl Workers {
    /// Starts `running` of `count` workers; the others have ended.
    fn start(count: usize, running: usize) -> Self {
        let config = config();
        let own = OwnListeners::default();
        let (proxy, messages) = ProxyListeners::channel(count, own.clone());
        let (signal, drain) = drain::channel();
        let contexts = Rc::new(RefCell::new(Vec::new()));
        let start = |messages| {
            let contexts = contexts.clone();
            let worker = WorkerListeners::new(&config, drain.clone(), move |_, listener| {
                contexts.borrow_mut().push(listener.context().clone());
                let accept = async move {
                    listener.context().drain().clone().signaled().await;
                    drop(listener);
                };
                accept.boxed_local()
            });
            spawn_local(worker.clone().run(messages));
            worker
        };
        let guard = DialGuard {
            allow_loopback: true,
            listeners: own,
            admin: None,
            local_ips: [].into(),
        };
        Self {
            proxy,
            guard,
            listeners: messages.into_iter().take(running).map(start).collect(),
            contexts: contexts.clone(),
            drain: signal,
        }
    }

    async fn bind(&mut self, name: &str, addr: SocketAddr) -> Result<SocketAddr, ListenerError> {
        let listener = ListenerSpec::outbound(name);
        self.proxy.bind(listener, addr, None).await
    }

    async fn remove(&mut self, name: &str, drain: Duration) -> Result<usize, ListenerError> {
        let drain = ListenerDrain::wait(drain);
        self.proxy.remove(&name.into(), drain).await
    }

    /// Replaces the listener `web`.
    async fn replace(&mut self, addr: SocketAddr) -> Result<Replaced, ListenerError> {
        let (listener, drain) = (ListenerSpec::inbound("web"), ListenerDrain::wait(PATIENCE));
        self.proxy.replace(listener, addr, None, drain).await
    }

    /// Whether the proxy refuses to dial an address as its own.
    fn is_own(&self, addr: SocketAddr) -> bool {
        match self.guard.check(addr) {
            Ok(()) => false,
            Err(error) => error.reason() == Reason::Loop,
        }
    }

    /// Names of a worker's listeners; those that drain have brackets.
    fn open(&self, worker: usize) -> Vec<String> {
        let state = self.listeners[worker].inspect();
        let show = |listener: &Value| {
            let name = listener["name"].as_str().unwrap();
            match listener["draining"].as_bool().unwrap() {
                true => format!("({name})"),
                false => name.to_owned(),
            }
        };
        state["open"].as_array().unwrap().iter().map(show).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_waits_for_connections_as_long_as_it_may() {
    let test = async {
        let mut workers = Workers::start(2, 2);
        let addr = workers.bind("web", ANY_PORT).await.unwrap();
        let connection = workers.contexts.borrow()[0].connection();
        let start = Instant::now();
        assert_eq!(workers.remove("web", PATIENCE).await.unwrap(), 1);
        assert_eq!(start.elapsed(), PATIENCE);
        assert_eq!(workers.open(0), ["(web)"]);
        assert!(workers.open(1).is_empty(), "nothing held it up there");

        // The name and the address are free, although a connection of the first is still open.
        assert_eq!(workers.bind("web", addr).await.unwrap(), addr);
        assert_eq!(workers.open(0), ["(web)", "web"]);
        drop(connection);
        sleep(MOMENT).await;
        assert_eq!(
            (workers.open(0), workers.open(1)),
            (workers.open(1), vec!["web".to_owned()])
        );
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_ends_with_the_last_connection() {
    let test = async {
        let mut workers = Workers::start(1, 1);
        workers.bind("web", ANY_PORT).await.unwrap();
        workers.bind("api", ANY_PORT).await.unwrap();
        let [web, api] = [0, 1].map(|index: usize| workers.contexts.borrow()[index].clone());
        let (connection, other) = (web.connection(), api.connection());
        spawn_local(async move {
            web.drain().clone().signaled().await;
            sleep(PATIENCE / 2).await;
            drop(connection);
        });
        let start = Instant::now();
        assert_eq!(workers.remove("web", PATIENCE).await.unwrap(), 0);
        assert_eq!(start.elapsed(), PATIENCE / 2);
        assert_eq!(workers.open(0), ["api"]);
        assert!(!api.drain().is_draining());

        // The drain of the process is that of the other one, too.
        let mut drained = tokio_test::task::spawn(workers.drain.drain());
        assert!(drained.poll().is_pending());
        assert!(api.drain().is_draining());
        drop(other);
        assert!(drained.poll().is_ready());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn errors_come_back_to_the_sender_and_nothing_else_is_lost() {
    let test = async {
        let mut workers = Workers::start(2, 2);
        let addr = workers.bind("web", ANY_PORT).await.unwrap();
        let error = workers.bind("other", addr).await.unwrap_err();
        assert!(
            matches!(&error, ListenerError::Bind { error, .. } if error.kind() == io::ErrorKind::AddrInUse),
            "{error}"
        );
        let error = workers.bind("web", ANY_PORT).await.unwrap_err();
        assert!(matches!(error, ListenerError::Exists(_)), "{error}");
        let error = workers.remove("other", PATIENCE).await.unwrap_err();
        assert!(matches!(error, ListenerError::Unknown(_)), "{error}");
        assert_eq!(
            (workers.open(0), workers.open(1)),
            (workers.open(1), vec!["web".to_owned()])
        );

        workers.drain.signal();
        let error = workers.bind("late", ANY_PORT).await.unwrap_err();
        assert!(matches!(error, ListenerError::Draining), "{error}");
        assert_eq!(workers.open(0), ["(web)"]);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_one_worker_does_not_take_is_given_back_by_the_others() {
    let test = async {
        let mut workers = Workers::start(3, 2);
        let error = workers.bind("web", ANY_PORT).await.unwrap_err();
        assert!(matches!(error, ListenerError::WorkerEnded(2)), "{error}");
        assert_eq!(workers.contexts.borrow().len(), 2);
        assert!(workers.open(0).is_empty() && workers.open(1).is_empty());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_is_replaced_without_a_moment_in_which_none_accepts() {
    let test = async {
        let mut workers = Workers::start(2, 2);
        let addr = workers.bind("web", ANY_PORT).await.unwrap();
        // At the same address, and at another one.
        for replaced_at in [addr, ANY_PORT] {
            let [old, _other] = &workers.contexts.borrow().clone()[..] else {
                panic!("there are two workers");
            };
            let connection = old.connection();
            let contexts = workers.contexts.clone();
            contexts.borrow_mut().clear();
            let replacing = spawn_local({
                let (old, contexts) = (old.clone(), contexts.clone());
                async move {
                    old.drain().clone().signaled().await;
                    assert_eq!(contexts.borrow().len(), 2, "the new one accepts");
                    sleep(PATIENCE / 2).await;
                    drop(connection);
                }
            });
            let start = Instant::now();
            let replaced = workers.replace(replaced_at).await.unwrap();
            assert_eq!((replaced.left, start.elapsed()), (0, PATIENCE / 2));
            replacing.await.unwrap();
            assert_eq!(workers.open(0), ["web"]);
            assert_eq!(replaced.addr == addr, replaced_at == addr);
            assert!(workers.is_own(replaced.addr));
            let connected = tokio::net::TcpStream::connect(replaced.addr).await;
            assert!(connected.is_ok(), "{connected:?}");
        }
        assert!(!workers.is_own(addr), "nothing listens there any more");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_fails_leaves_the_old_listener() {
    let test = async {
        let mut workers = Workers::start(1, 1);
        let error = workers.replace(ANY_PORT).await.unwrap_err();
        assert!(matches!(error, ListenerError::Unknown(_)), "{error}");
        let addr = workers.bind("web", ANY_PORT).await.unwrap();
        let other = workers.bind("other", ANY_PORT).await.unwrap();
        let error = workers.replace(other).await.unwrap_err();
        assert!(matches!(error, ListenerError::Bind { .. }), "{error}");
        assert_eq!(workers.open(0), ["web", "other"]);
        assert!(workers.is_own(addr) && workers.is_own(other));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_with_a_limit_cuts_off_the_connections_that_are_left() {
    let test = async {
        let mut workers = Workers::start(2, 2);
        workers.bind("web", ANY_PORT).await.unwrap();
        workers.bind("api", ANY_PORT).await.unwrap();
        let [web, _, api, _] = &workers.contexts.borrow().clone()[..] else {
            panic!("there are two listeners of two workers");
        };
        let endless = |context: &Rc<ListenerContext>| {
            spawn_local(context.connection().until_cut_off(pending::<()>()))
        };
        let (cut, other) = (endless(web), endless(api));
        let start = Instant::now();
        let (name, drain) = ("web".into(), ListenerDrain::cut_off_after(PATIENCE));
        assert_eq!(workers.proxy.remove(&name, drain).await.unwrap(), 1);
        assert_eq!(start.elapsed(), PATIENCE);
        assert_eq!((web.connections(), api.connections()), (0, 1));
        assert_eq!(workers.open(0), ["api"]);
        let error = cut.await.unwrap().unwrap_err();
        assert_eq!(error.reason(), Reason::ListenerRemoved);
        assert!(!other.is_finished());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn an_address_is_not_dialled_while_its_listener_accepts() {
    let test = async {
        let mut workers = Workers::start(1, 1);
        let addr = workers.bind("web", ANY_PORT).await.unwrap();
        assert!(workers.is_own(addr));
        let connection = workers.contexts.borrow()[0].connection();
        workers.remove("web", Duration::ZERO).await.unwrap();
        assert!(!workers.is_own(addr), "its socket is closed");
        drop(connection);
    };
    LocalSet::new().run_until(test).await;
}

const PATIENCE: Duration = Duration::from_secs(10);

const MOMENT: Duration = Duration::from_millis(1);
