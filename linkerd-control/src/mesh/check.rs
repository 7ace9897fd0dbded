//! Conversion of declarations to services. All problems are collected, so that they can be fixed at once.

mod backends;
mod checker;
mod endpoints;

use super::decl;
use super::error::Problems;
use super::model::Mesh;
use backends::References;
use checker::Checker;

/// Checks the declarations of a file; `problems` are the problems found by the parser.
pub(super) fn check(file: decl::File, problems: Problems) -> Result<Mesh, Problems> {
    let mut checker = Checker {
        problems,
        partial: file.partial,
        ..Checker::default()
    };
    let mut references = Vec::new();
    let mut services = Vec::new();
    for mut decl in file.services {
        references.push(References::take(&mut decl));
        services.push(checker.service(decl));
    }
    for (index, references) in references.into_iter().enumerate() {
        references.resolve(&mut checker, &mut services, index);
    }
    checker.hosts(&services);
    if checker.problems.count() == 0 {
        Ok(Mesh {
            services,
            servers: file.servers,
            default_policy: file.default_policy,
        })
    } else {
        Err(checker.problems.sorted())
    }
}

#[cfg(test)]
mod tests;
