//! The quickstart: a mesh on one machine, in one process, with traffic to watch.
//!
//! It starts four backends on loopback, one of them a canary, the controller with a mesh file and an authority, and three
//! proxies with identities: the sidecar of the backends, that of a frontend, and that of a guest, which the mesh file does not
//! let in. It sends a steady stream of requests through the frontend's sidecar and a few through the guest's, and shows their
//! endpoints and the balancer's state. All parts but the proxies, which have their own threads, run on one thread.
//!
//! None of it is part of the proxy that runs in a pod.

mod authority;
mod backend;
mod environment;
mod events;
mod fetch;
mod histogram;
mod live;
mod mesh;
mod options;
mod screen;
mod sidecars;
mod state;
mod switch;
mod table;
mod tally;
mod temporary_file;
#[cfg(test)]
mod tests;
mod traffic;
mod view;

pub use options::{ProxyAddresses, QuickstartOptions, StartProxy};

use linkerd_proxy_core::BoxError;
use options::Sidecars;
use std::{io::IsTerminal, process::ExitCode, sync::mpsc};
use tokio::sync::oneshot;

/// Runs the quickstart until Ctrl-C, or for a while. It fails if it cannot start and, with `once`, if a request failed
/// or a backend got none.
pub fn run(options: QuickstartOptions, proxy: impl StartProxy) -> ExitCode {
    match try_run(options, proxy) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: QuickstartOptions, proxy: impl StartProxy) -> Result<bool, BoxError> {
    if options.rate == 0 {
        return Err("a rate of 0 requests a second shows nothing; --rate takes 1 or more".into());
    }
    let mesh = mesh::prepare(&options)?;
    let printed = options.printed;
    // Lines of requests would disturb the table.
    let has_lines = printed.is_any() && std::io::stderr().is_terminal();
    let terminal = !options.once
        && std::io::stdout().is_terminal()
        && !environment::has_dumb_terminal()
        && !has_lines;
    let (serving, controller) = mpsc::sync_channel(1);
    let (started, sidecars) = oneshot::channel();
    let start = live::Start { serving, sidecars };
    let live = std::thread::Builder::new()
        .name("quickstart".to_owned())
        .spawn(move || live::run(&options, mesh, terminal, start))?;
    // Without a controller, the thread returns the error.
    let mut refused = None;
    if let Ok(control) = controller.recv() {
        match start_sidecars(environment::of_sidecars(&control, printed, terminal), proxy) {
            Ok(sidecars) => drop(started.send(sidecars)),
            Err(error) => {
                drop(started);
                refused = Some(error);
            }
        }
    }
    let ended = live
        .join()
        .map_err(|_| "the quickstart's thread panicked")?;
    refused.map_or(ended, Err)
}

fn start_sidecars(
    envs: environment::SidecarEnvs,
    mut proxy: impl StartProxy,
) -> Result<Sidecars, BoxError> {
    Ok(Sidecars {
        frontend: proxy.start(envs.frontend)?,
        web: proxy.start(envs.web)?,
        guest: proxy.start(envs.guest)?,
    })
}
