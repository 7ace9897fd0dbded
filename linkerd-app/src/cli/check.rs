//! `check`: reports all errors of the environment and a mesh file at once.

use super::mesh;
use crate::config::{Config, EXIT_USAGE, Env};
use linkerd_control::Mesh;
use std::{fmt, net::Ipv4Addr, path::Path, process::ExitCode};

/// The findings of a check.
#[derive(Debug)]
struct Report {
    /// Lines for the valid parts.
    good: Vec<String>,
    warnings: Vec<String>,
    errors: Vec<String>,
}

/// Checks without starting anything. The exit code is 0, or 64 if there are errors.
pub fn run(env: Env, mesh: Option<&Path>) -> ExitCode {
    let report = report(env, mesh);
    match report.errors.is_empty() {
        true => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        false => {
            eprintln!("{report}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn report(mut env: Env, mesh: Option<&Path>) -> Report {
    let mut report = Report {
        good: Vec::new(),
        warnings: Vec::new(),
        errors: Vec::new(),
    };
    if let Some(path) = mesh {
        match Mesh::read(path) {
            Ok(mesh) => {
                let servers = match mesh.servers().count() {
                    0 => String::new(),
                    servers => format!(", and {}", count(servers, "server")),
                };
                report.good.push(format!(
                    "{}: {} and {}{servers}",
                    path.display(),
                    count(mesh.services(), "service"),
                    count(mesh.endpoints(), "endpoint")
                ));
            }
            Err(error) => report
                .errors
                .extend(error.to_string().lines().map(str::to_owned)),
        }
        // As `run --mesh` completes it; the real port is known only when it listens.
        mesh::complete(&mut env, (Ipv4Addr::LOCALHOST, 8086).into());
    }
    match Config::load(&env) {
        Ok(loaded) => {
            report.good.push("environment: valid".to_owned());
            report.warnings.extend(loaded.warnings);
        }
        Err(errors) => {
            report.warnings.extend(errors.warnings);
            for error in &errors.errors {
                let fix = error.fix().map(|fix| format!(" (fix: {fix})"));
                let fix = fix.unwrap_or_default();
                report.errors.push(format!("{error}{fix}"));
            }
        }
    }
    report
}

fn count(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.errors.iter().map(|text| format!("error: {text}"));
        let warnings = self.warnings.iter().map(|text| format!("warning: {text}"));
        let good = self.good.iter().cloned();
        let lines: Vec<_> = errors.chain(warnings).chain(good).collect();
        f.write_str(&lines.join("\n"))?;
        match self.errors.len() {
            0 => Ok(()),
            errors => write!(f, "\n{}", count(errors, "error")),
        }
    }
}
