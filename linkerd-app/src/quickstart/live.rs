//! Runs the parts of the quickstart, and shows the result.

use super::{
    authority::issue_certificates,
    backend::{Backend, Pace},
    environment::{self, ControlPlane},
    events::Events,
    fetch,
    mesh::{self, Mesh},
    options::{QuickstartOptions, Sidecars},
    sidecars::{Encryption, GuestLine, MeshView},
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
    /// Sends the control plane, which is served.
    pub(super) serving: mpsc::SyncSender<ControlPlane>,
    /// Receives the addresses of the sidecars.
    pub(super) sidecars: oneshot::Receiver<Sidecars>,
}

/// Runs to the end. `true` if all backends were used and no request failed.
pub(super) fn run(
    options: &QuickstartOptions,
    mesh: Mesh,
    terminal: bool,
    start: Start,
) -> Result<bool, BoxError> {
    let runtime = crate::runtime::local()?;
    let is_good = runtime.block_on(live(options, mesh, terminal, start))?;
    if is_good.is_some() {
        // The proxies, which run as long as the process, would complain about the end of their controller.
        std::mem::forget(runtime);
    }
    Ok(is_good.unwrap_or(false))
}

/// Runs to the end, as [`run`]; `None` if the sidecars do not start.
async fn live(
    options: &QuickstartOptions,
    mesh: Mesh,
    terminal: bool,
    start: Start,
) -> Result<Option<bool>, BoxError> {
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let Mesh {
        path,
        backends,
        switch,
        sidecar,
        mut moved,
        removal: _removal,
    } = mesh;
    let switch_at = switch.local_addr()?;
    let backends: Rc<[Backend]> = named(backends)?.into();
    let switched = Switched::default();
    let switch = switch::serve(switch, backends.clone(), switched.clone());
    let switch = spawn_local(switch);

    let controller = Controller::new();
    let (identity, _token) = issue_certificates(&controller)?;
    let server = controller.spawn().await?;
    let file = watch_file(controller, &path).await;
    file.last().outcome?;
    let mut loads = file.loads();

    start.serving.send(ControlPlane {
        addr: server.addr(),
        identity,
        sidecar,
        backends: backends.iter().map(|backend| backend.addr.port()).collect(),
    })?;
    let Ok(sidecars) = start.sidecars.await else {
        // The other thread has the error.
        return Ok(None);
    };
    for proxy in [sidecars.web, sidecars.frontend, sidecars.guest] {
        until_ready(proxy.admin).await?;
    }
    let addresses = sidecars.frontend;
    moved.extend(environment::moved(&addresses));

    let tally = Rc::new(RefCell::new(Tally::default()));
    let traffic = Rc::new(Traffic::new(addresses.outbound, SERVICE, tally.clone())?);
    let flow = spawn_local(traffic.clone().flow(options.rate));
    let guest = Rc::new(RefCell::new(Tally::default()));
    let guest_at = sidecars.guest.outbound;
    let guests = Rc::new(Traffic::new(guest_at, SERVICE, guest.clone())?);
    let guest_flow = spawn_local(guests.clone().flow(GUEST_RATE));
    let mut view = View {
        start: Instant::now(),
        terminal,
        backends,
        sidecars,
        switch: switch_at,
        mesh: MeshView {
            guest_at,
            guest: guest.clone(),
            guest_line: GuestLine::find(&path),
            last: Encryption::default(),
            all: Encryption::default(),
        },
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
                view.mesh.guest_line = GuestLine::find(&view.file);
                if let Ok(text) = std::fs::read_to_string(&view.file)
                    && let Err(error) = mesh::check_service(&view.file, &text)
                {
                    view.events.note(at, error.to_string());
                }
            }
            _ = tick.tick() => {
                seconds += 1;
                tally.borrow_mut().second();
                guest.borrow_mut().second();
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
    guests.end();
    flow.await?;
    guest_flow.await?;
    view.look().await;
    switch.abort();
    let tally = tally.borrow();
    // The output may be closed.
    let _ = view.end(&tally, options.once);
    Ok(Some(!options.once || view.is_good(&tally)))
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

/// Enough to be seen each second.
const GUEST_RATE: u32 = 2;

const SECOND: Duration = Duration::from_secs(1);

/// Time for bursts to reach a backend without requests.
const BURST_SECONDS: u32 = 5;

const READY_WITHIN: Duration = Duration::from_secs(10);
const READY_POLL: Duration = Duration::from_millis(50);
