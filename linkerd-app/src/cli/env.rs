//! `env`: prints the effective configuration, and the source of each value.

use super::{mesh, output};
use crate::config::{
    Config, ConfigError, EXIT_USAGE, EffectiveValue, Env, ValueSource, effective_json,
    effective_text,
};
use linkerd_control::Mesh;
use serde_json::{Value, json};
use std::{net::Ipv4Addr, path::PathBuf, process::ExitCode};

/// The configuration to print.
#[derive(clap::Args, Debug)]
pub struct EnvArgs {
    /// Prints the configuration of `run --mesh`: the variables that it sets have the source `run --mesh`. The port of its
    /// controller, which is chosen at the start, is 0. The file is read, if it is named.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    mesh: Option<Option<PathBuf>>,
    /// Prints one JSON object: `variables` with name, value and source, `warnings` and `errors`.
    #[arg(long)]
    json: bool,
}

/// Prints the configuration, or its errors. The exit code is 64 if it is wrong.
pub(super) fn run(mut env: Env, args: &EnvArgs) -> ExitCode {
    let mut errors = Vec::new();
    let mut set = Vec::new();
    if let Some(file) = &args.mesh {
        if let Some(Err(error)) = file.as_deref().map(Mesh::read) {
            errors.push(PrintedError {
                text: error.to_string(),
                fix: None,
            });
        }
        set = mesh::complete(&mut env, (Ipv4Addr::LOCALHOST, 0).into());
    }
    let (mut values, warnings) = match Config::load(&env) {
        Ok(loaded) => (loaded.effective, loaded.warnings),
        Err(refused) => {
            errors.extend(refused.errors.iter().map(PrintedError::from));
            (Vec::new(), refused.warnings)
        }
    };
    for value in &mut values {
        if set.contains(&value.variable.name) {
            value.source = ValueSource::MeshFile;
        }
    }
    if !errors.is_empty() {
        values.clear();
    }
    let code = match errors.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_USAGE),
    };
    let printed = match args.json {
        true => output::print(&format!("{:#}\n", document(&values, &warnings, &errors))),
        false => print_text(&values, &warnings, &errors),
    };
    printed.err().unwrap_or(code)
}

fn document(values: &[EffectiveValue], warnings: &[String], errors: &[PrintedError]) -> Value {
    let errors = errors
        .iter()
        .map(|error| json!({ "error": error.text, "fix": error.fix }));
    json!({
        "variables": effective_json(values),
        "warnings": warnings,
        "errors": errors.collect::<Value>(),
    })
}

fn print_text(
    values: &[EffectiveValue],
    warnings: &[String],
    errors: &[PrintedError],
) -> Result<(), ExitCode> {
    for error in errors {
        eprintln!("{}", error.text);
        if let Some(fix) = &error.fix {
            eprintln!("  fix: {fix}");
        }
    }
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    output::print(&effective_text(values))
}

/// An error of the configuration or of the mesh file.
struct PrintedError {
    text: String,
    fix: Option<String>,
}

impl From<&ConfigError> for PrintedError {
    fn from(error: &ConfigError) -> Self {
        Self {
            text: error.to_string(),
            fix: error.fix().map(str::to_owned),
        }
    }
}
