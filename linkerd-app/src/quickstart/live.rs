//! Runs the parts of the quickstart, and shows the result.

use super::{
    backend::{Backend, Pace},
    environment,
    events::Events,
    fetch,
    mesh::{self, Mesh},
    options::{ProxyAddresses, QuickstartOptions},
    switch::{self, Switched},
    tally::Tally,
    traffic::Traffic,
    view::{SERVICE, View},
};
use linkerd_control::{Controller, watch_file};
use linkerd_proxy_core::{BoxError, task::spawn_local};
use std::{cell::RefCell, io, net::SocketAddr, rc::Rc, sync::mpsc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    time::Instant,
};

/// Synchronises this thread with the one that starts the proxy.
pub(super) struct Start {
    /// Sends the address of the controller.
    pub(super) serving: mpsc::SyncSender<SocketAddr>,
    /// Receives the addresses of the proxy.
    pub(super) addresses: oneshot::Receiver<ProxyAddresses>,
}

/// Runs to the end. `true` if all backends were used and no request failed.
pub(super) fn run(
    options: &QuickstartOptions,
    mesh: Mesh,
    terminal: bool,
    start: Start,
) -> Result<bool, BoxError> {
    crate::runtime::local()?.block_on(live(options, mesh, terminal, start))
}

async fn live(
    options: &QuickstartOptions,
    mesh: Mesh,
    terminal: bool,
    start: Start,
) -> Result<bool, BoxError> {
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let Mesh {
        path,
        backends,
        switch,
        mut moved,
        removal: _removal,
    } = mesh;
    let switch_at = switch.local_addr()?;
    let backends: Rc<[Backend]> = named(backends)?.into();
    let switched = Switched::default();
    let switch = switch::serve(switch, backends.clone(), switched.clone());
    let switch = spawn_local(switch);

    let controller = Controller::new();
    let server = controller.spawn().await?;
    let file = watch_file(controller, &path).await;
    file.last().outcome?;
    let mut loads = file.loads();

    start.serving.send(server.addr())?;
    let Ok(addresses) = start.addresses.await else {
        // The other thread has the error.
        return Ok(false);
    };
    until_ready(addresses.admin).await?;
    moved.extend(environment::moved(&addresses));

    let tally = Rc::new(RefCell::new(Tally::default()));
    let traffic = Rc::new(Traffic::new(addresses.outbound, SERVICE, tally.clone())?);
    let flow = spawn_local(traffic.clone().flow(options.rate));
    let mut view = View {
        start: Instant::now(),
        terminal,
        backends,
        addresses,
        switch: switch_at,
        file: path,
        moved,
        events: Events::default(),
    };
    // A closed output ends the run, as Ctrl-C does.
    let mut is_read = view.begin().is_ok();
    let mut tick = tokio::time::interval_at(Instant::now() + SECOND, SECOND);
    let mut seconds = 0;
    while is_read {
        tokio::select! {
            biased;
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            Ok(()) = loads.changed() => {
                let load = loads.borrow_and_update().clone();
                let at = view.start.elapsed();
                view.events.loaded(at, &load);
                if let Ok(text) = std::fs::read_to_string(&view.file)
                    && let Err(error) = mesh::check_service(&view.file, &text)
                {
                    view.events.note(at, error.to_string());
                }
            }
            _ = tick.tick() => {
                seconds += 1;
                tally.borrow_mut().second();
                for event in switched.take() {
                    view.events.note(view.start.elapsed(), event);
                }
                view.look().await;
                is_read = view.draw(&tally.borrow()).is_ok();
                if seconds <= BURST_SECONDS && view.unasked(&tally.borrow()).next().is_some() {
                    traffic.burst();
                }
                if options.once && seconds >= options.seconds {
                    break;
                }
            }
        }
    }
    traffic.end();
    flow.await?;
    switch.abort();
    let tally = tally.borrow();
    // The output may be closed.
    let _ = view.end(&tally, options.once);
    Ok(!options.once || view.is_good(&tally))
}

fn named(listeners: Vec<std::net::TcpListener>) -> io::Result<Vec<Backend>> {
    let all = listeners.into_iter().zip(BACKENDS);
    all.map(|(listener, (name, service, pace))| {
        Backend::start(name.to_owned(), service, pace, listener)
    })
    .collect()
}

/// Waits until the proxy is ready.
async fn until_ready(admin: SocketAddr) -> Result<(), BoxError> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let said = match fetch::once(admin, "/ready", SECOND).await {
            Ok(answer) if answer.status.is_success() => return Ok(()),
            Ok(answer) => String::from_utf8_lossy(&answer.body).replace('\n', "; "),
            Err(error) => error.to_string(),
        };
        if Instant::now() > deadline {
            return Err(format!("the proxy was not ready within {READY_WITHIN:?}: {said}").into());
        }
        tokio::time::sleep(READY_POLL).await;
    }
}

/// The backends, their services and paces.
const BACKENDS: [(&str, &str, Pace); 4] = [
    ("web-1", "web", Pace::QUICK),
    ("web-2", "web", Pace::QUICK),
    ("web-3", "web", Pace::SLOW),
    ("canary", "web-canary", Pace::QUICK),
];

const SECOND: Duration = Duration::from_secs(1);

/// Time for bursts to reach a backend without requests.
const BURST_SECONDS: u32 = 5;

const READY_WITHIN: Duration = Duration::from_secs(10);
const READY_POLL: Duration = Duration::from_millis(50);
