//! The end of the proxy.
//!
//! | state | ends with | readiness | new connections | open connections |
//! |---|---|---|---|---|
//! | serving | SIGTERM or SIGINT: leaving; `POST /shutdown`: draining | ready | served | served |
//! | leaving | no connection for the shutdown window | not ready | served, and asked to move after a window | asked to move, evenly over the window |
//! | draining | the last connection | not ready | refused | asked to move |
//!
//! The grace period limits leaving and draining together. The exit code is 0 in any case, so that a supervisor that
//! restarts failed processes does not restart a proxy that has done its work.

use super::{mesh::MeshFileFollower, service_manager::ServiceManager, signals::Signals};
use crate::{config::ShutdownConfig, listeners::CutOff, proxy::RunningProxy};
use linkerd_proxy_core::Reason;
use std::{process::ExitCode, time::Duration};

/// Waits for a reason to end, then lets clients move and drains; a second signal or the end of the grace period ends it at
/// once.
pub(super) async fn until_shutdown(
    mut running: RunningProxy,
    mut signals: Signals,
    file: Option<&MeshFileFollower>,
    shutdown: ShutdownConfig,
    manager: Option<&ServiceManager>,
) -> ExitCode {
    let access_log = running.access_log.clone();
    let tracing = running.tracing.clone();
    let reload = || {
        if let Some(log) = &access_log {
            tracing::info!("received SIGHUP, opening the access log again");
            log.reopen();
        }
        if let Some(tracing) = &tracing {
            tracing.reopen();
        }
        if let Some(file) = file {
            tracing::info!("received SIGHUP, reading the mesh file again");
            file.reload();
        }
    };
    let has_reload = file.is_some() || access_log.is_some() || tracing.is_some();
    let reload = has_reload.then_some(&reload as &dyn Fn());
    let window = tokio::select! {
        signal = signals.terminated(reload) => {
            tracing::info!("received {signal}, starting shutdown");
            shutdown.window
        }
        // The application has ended, and there is no other client to serve.
        Some(()) = running.shutdown.recv() => {
            tracing::info!("Received shutdown via admin interface");
            Duration::ZERO
        }
    };
    if let Some(manager) = manager {
        manager.stopping(shutdown.grace);
    }
    let cut_off = running.listeners.cut_off_handle();
    tokio::select! {
        () = running.end(window) => tracing::info!("Shutdown completed gracefully"),
        () = tokio::time::sleep(shutdown.grace) => {
            let grace = shutdown.grace;
            tracing::warn!("Graceful shutdown did not complete in {grace:?}, terminating now");
            terminate(cut_off).await;
        }
        signal = signals.terminated(None) => {
            tracing::warn!("received {signal} again, terminating now");
            terminate(cut_off).await;
        }
    }
    ExitCode::SUCCESS
}

/// Ends the open connections, so that each has its lines in the logs, with the reason. A worker that is stuck is not waited for.
async fn terminate(cut_off: CutOff) {
    let ended = tokio::time::timeout(CUT_OFF, cut_off.cut_off(Reason::ShutdownDeadline));
    match ended.await {
        Ok(0) => {}
        Ok(connections) => {
            let hint = Reason::ShutdownDeadline.hint();
            tracing::warn!(connections, hint, "Open connections were cut off");
        }
        Err(_) => tracing::warn!("A worker did not end its connections in {CUT_OFF:?}"),
    }
}

/// Time for the tasks of connections to end: they have their turn within milliseconds.
const CUT_OFF: Duration = Duration::from_millis(500);
