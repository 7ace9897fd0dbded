//! The binary `linkerd-proxy`.

use clap::{Parser, Subcommand};
use linkerd_app::{cli, config::Env};
use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A service-mesh data-plane proxy. Without a command it runs as a sidecar, configured by the environment alone.
#[derive(Parser)]
#[command(version = linkerd_app::process::BUILD.version, about)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the proxy; with --mesh it brings a control plane of its own.
    Run {
        /// A file of services: the proxy needs no other control plane. See linkerd-control/README.md.
        #[arg(long, value_name = "FILE")]
        mesh: Option<PathBuf>,
    },
    /// Serves a file of services to proxies that run without --mesh.
    Control {
        /// A file of services. See linkerd-control/README.md.
        #[arg(long, value_name = "FILE")]
        mesh: PathBuf,
        /// Where to listen.
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8086")]
        listen: SocketAddr,
    },
    /// Reports everything that is wrong with the environment and a mesh file, and starts nothing. The exit code is 0, or
    /// 64 if something is wrong.
    Check {
        /// A file of services: the environment is then checked as for `run --mesh`.
        #[arg(long, value_name = "FILE")]
        mesh: Option<PathBuf>,
    },
    /// Prints the effective configuration, and where each value comes from.
    Env,
    /// Shows the proxy at work on this machine: a control plane, three backends, real traffic.
    Quickstart {
        /// Runs for a few seconds without a terminal; the exit code tells whether every request succeeded.
        #[arg(long)]
        once: bool,
        /// Requests a second.
        #[arg(long, default_value_t = 50)]
        rate: u32,
        /// How long --once runs, in seconds.
        #[arg(long, default_value_t = 5)]
        seconds: u32,
        /// The mesh file; written if it does not exist.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let env = Env::from_process();
    match Args::parse().command {
        None => cli::run(env, None),
        Some(Command::Run { mesh }) => cli::run(env, mesh),
        Some(Command::Control { mesh, listen }) => cli::control(&env, mesh, listen),
        Some(Command::Check { mesh }) => cli::check(env, mesh.as_deref()),
        Some(Command::Env) => cli::print_env(&env),
        Some(Command::Quickstart {
            once,
            rate,
            seconds,
            file,
        }) => cli::quickstart(linkerd_app::quickstart::Options {
            once,
            rate,
            seconds,
            file,
        }),
    }
}
