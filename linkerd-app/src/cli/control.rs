//! `control`: the embedded controller by itself, for proxies that are started without `--mesh`.

use super::{
    mesh,
    signals::Signals,
    start::{failed_to_start, start_logging},
};
use crate::{config::Env, logging::LogClock, runtime};
use linkerd_control::Controller;
use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

/// Serves a mesh file until SIGTERM or SIGINT.
pub fn run(env: &Env, file: PathBuf, listen: SocketAddr) -> ExitCode {
    match start_logging(env, LogClock::Wall) {
        Ok(log) => {
            let code = serve(file, listen);
            if let Some(log) = log {
                log.flush();
            }
            code
        }
        Err(code) => code,
    }
}

fn serve(file: PathBuf, listen: SocketAddr) -> ExitCode {
    let runtime = match runtime::local() {
        Ok(runtime) => runtime,
        Err(error) => return failed_to_start(&error),
    };
    runtime.block_on(async {
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return failed_to_start(&error),
        };
        let controller = Controller::new();
        // The file comes first: a proxy that calls before would learn that there are no services, and drop them.
        let follow = match mesh::follow(controller.clone(), file).await {
            Ok(follow) => follow,
            Err(error) => return failed_to_start(&*error),
        };
        let server = match controller.spawn_at(listen).await {
            Ok(server) => server,
            Err(error) => {
                eprintln!(
                    "Initialization failure: {error}: cannot listen on {listen}; `--listen` sets another address"
                );
                return ExitCode::FAILURE;
            }
        };
        tracing::info!("Controller listens on {}", server.addr());
        let signal = signals.terminated(Some(&follow)).await;
        tracing::info!("received {signal}, the controller ends");
        ExitCode::SUCCESS
    })
}
