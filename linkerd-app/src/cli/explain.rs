//! `explain`: prints the way that a request would take, by a running proxy or by a mesh file.

mod admin;
mod failure;
mod inbound_text;
mod mesh;
mod text;

use super::output;
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

/// Explains a request. The exit code is 0 if it meets a route, or an inbound one is let in; 1 if not, 64 on bad usage.
pub fn run(fields: &QueryFields, source: ExplainSource, json: bool) -> ExitCode {
    let is_inbound = fields.port.is_some();
    let answer = match fields.check_any() {
        Err(error) => Err(Failure::Usage(error.to_string())),
        Ok(query) => match (source, query) {
            (ExplainSource::Mesh(file), Some(query)) => mesh::explain(&file, &query),
            (ExplainSource::Mesh(_), None) => Err(Failure::Usage(NO_MESH.to_owned())),
            (ExplainSource::Admin(addr), _) => admin::explain(addr, fields),
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
    let text = match json {
        true => format!("{document:#}\n"),
        false if is_inbound => inbound_text::render(&document),
        false => text::render(&document),
    };
    if let Err(failed) = output::print(&text) {
        return failed;
    }
    if is_inbound {
        return match document.get("refused") {
            None | Some(Value::Null) => ExitCode::SUCCESS,
            Some(_) => ExitCode::FAILURE,
        };
    }
    match document.get("route") {
        None | Some(Value::Null) => ExitCode::FAILURE,
        Some(_) => ExitCode::SUCCESS,
    }
}

const NO_MESH: &str =
    "--mesh explains outbound requests only; ask a running proxy for inbound ones (--admin)";
