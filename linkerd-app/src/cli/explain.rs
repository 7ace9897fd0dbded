//! `explain`: prints the way that a request would take, by a running proxy or by a mesh file.

mod admin;
mod failure;
mod mesh;
mod text;

use crate::{
    config::EXIT_USAGE,
    explain::{ExplainAnswer, QueryFields},
};
use failure::Failure;
use serde_json::Value;
use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

/// The source of an explanation.
#[derive(Clone, Debug)]
pub enum ExplainSource {
    /// The admin server of a running proxy.
    Admin(SocketAddr),
    /// A mesh file. Nothing is started.
    Mesh(PathBuf),
}

/// Explains a request. The exit code is 0 if it meets a route, 1 if not, 64 on bad usage.
pub fn run(fields: &QueryFields, source: ExplainSource, json: bool) -> ExitCode {
    let answer = match fields.check() {
        Err(error) => Err(Failure::Usage(error.to_string())),
        Ok(query) => match source {
            ExplainSource::Admin(addr) => admin::explain(addr, fields),
            ExplainSource::Mesh(file) => mesh::explain(&file, &query),
        },
    };
    let document = match answer {
        Ok(ExplainAnswer::Explained(document) | ExplainAnswer::UnknownTarget(document)) => document,
        Err(Failure::Usage(error)) => {
            eprintln!("error: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
        Err(Failure::Unanswered(error)) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match json {
        true => println!("{document:#}"),
        false => print!("{}", text::render(&document)),
    }
    match document.get("route") {
        None | Some(Value::Null) => ExitCode::FAILURE,
        Some(_) => ExitCode::SUCCESS,
    }
}
