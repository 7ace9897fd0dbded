//! `check`: checks the needs of a proxy before its start, or the state of a running one, and names the fix of each failure.
//!
//! - **waits for** each step [`STEP`] at most, and for all of them less than 30 s: controllers are checked at
//!   the same time.
//! - **never** starts anything, writes a file, or prints a secret.

mod controllers;
mod duration_text;
mod environment;
mod files;
mod listeners;
mod port_holder;
mod redirection;
mod report;
mod running;
mod within;

use crate::{
    cli::admin_request::admin_get,
    config::{Config, Env},
    runtime,
};
use environment::CheckedEnvironment;
use report::{CheckLine, CheckReport};
use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::SystemTime};
use within::{STEP, blocking_within};

/// The proxy to check.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// A file of services: the environment is then checked as for `run --mesh`.
    #[arg(long, value_name = "FILE")]
    mesh: Option<PathBuf>,
    /// Checks the mesh file alone: neither the environment nor this machine has to be the proxy's.
    #[arg(long, requires = "mesh")]
    mesh_only: bool,
    /// Checks the running proxy with this admin server, in place of the environment.
    #[arg(long, value_name = "ADDR", conflicts_with = "mesh")]
    admin: Option<SocketAddr>,
    /// The form of the report.
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = ["text", "json"])]
    output: String,
}

/// Checks, and prints the report. The exit code is 0 if all checks pass, 64 if the configuration is wrong, 1 if something
/// else fails.
pub fn check(env: Env, args: CheckArgs) -> ExitCode {
    let runtime = match runtime::local() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut report = CheckReport::default();
    match (args.admin, &args.mesh) {
        (Some(addr), _) => runtime.block_on(running::check(addr, &mut report)),
        (None, Some(file)) if args.mesh_only => {
            report.add("configuration", environment::mesh_file(file));
        }
        (None, _) => {
            let (lines, valid) = environment::check(env, args.mesh.as_deref());
            report.add("configuration", lines);
            match valid {
                Some(valid) => runtime.block_on(before_start(valid, &mut report)),
                None => report.add(
                    "configuration",
                    [CheckLine::skipped("other checks", UNREAD)],
                ),
            }
        }
    }
    report.print(args.output == "json")
}

/// Checks the needs of a proxy with this configuration.
async fn before_start(environment: CheckedEnvironment, report: &mut CheckReport) {
    let is_in_pod = environment.is_in_pod;
    let config = Arc::new(environment.loaded.config);
    let checked = on_thread(&config, |config| files::check(config, SystemTime::now())).await;
    let anchors = match checked {
        Some((lines, anchors)) => {
            report.add("files", lines);
            anchors
        }
        None => {
            let late = format!("a file cannot be read within {STEP:?}");
            let fix = "is it a pipe, or on a file system that does not answer?";
            report.add("files", [CheckLine::failed("files", late).fix(fix)]);
            None
        }
    };
    let live = admin_get(config.admin.listen, "/live").await;
    let is_proxy_there = live.is_ok_and(|reply| &reply.body[..] == b"live\n");
    let late = || {
        vec![CheckLine::failed(
            "listeners",
            format!("no answer within {STEP:?}"),
        )]
    };
    let listeners = on_thread(&config, move |config| {
        listeners::check(config, is_proxy_there)
    });
    report.add("listeners", listeners.await.unwrap_or_else(late));
    if environment.has_embedded_controller {
        let why = "the controller is part of run --mesh, and starts with it";
        report.add("controllers", [CheckLine::skipped("controllers", why)]);
    } else {
        let anchors = anchors.as_ref().ok_or(match &config.identity {
            None => "this proxy has no identity: connections are plain",
            Some(_) => "there are no trust anchors to verify it with",
        });
        let lines = controllers::check(&config, anchors).await;
        report.add("controllers", lines.controllers);
        report.add("clock", [lines.clock]);
    }
    let redirection = on_thread(&config, move |config| {
        redirection::check(config, is_in_pod, is_proxy_there)
    });
    let late = || CheckLine::failed("redirection", format!("no answer within {STEP:?}"));
    report.add("redirection", [redirection.await.unwrap_or_else(late)]);
}

/// Runs a check that blocks.
async fn on_thread<T: Send + 'static>(
    config: &Arc<Config>,
    check: impl FnOnce(&Config) -> T + Send + 'static,
) -> Option<T> {
    let config = config.clone();
    blocking_within(move || check(&config)).await
}

const UNREAD: &str = "they need a valid configuration";
