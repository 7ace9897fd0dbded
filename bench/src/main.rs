//! Compares proxies side by side, and counts the cost of a request.
//!
//! `docs/performance.md` describes the method. The harness guards the proxy's speed; it is no test: it fails only if a
//! measurement is impossible, or if a count that does not depend on the machine exceeds its budget.

mod cli;
mod compare;
mod control;
mod counts;
mod cpu;
mod error;
mod http;
mod identities;
mod load;
mod measure;
mod net;
mod openloop;
mod process;
mod programs;
mod proxies;
mod report;
mod started;
mod stats;
mod tls;
mod workload;

use crate::{
    cli::{Cli, Command},
    error::{Context, Error, Result},
    programs::Programs,
};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<u8> {
    let Some(scratch) = net::inside() else {
        return outside(cli);
    };
    match &cli.command {
        Command::Compare(options) => compare::run(options, &scratch).map(|()| 0),
        Command::Counts(options) => counts::run(options, &scratch),
    }
}

/// Prepares the run, and runs this program again inside the namespace.
fn outside(cli: &Cli) -> Result<u8> {
    match &cli.command {
        Command::Compare(options) => compare::check(options)?,
        // Counts without their tools are skipped.
        Command::Counts(_) => {}
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cores < 2 {
        return Err(Error::Other(
            "the proxy needs a core of its own: two cores are needed".to_owned(),
        ));
    }
    Programs::build()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("a runtime")?;
    runtime.block_on(net::run_inside(&compare::load_cores()))
}
