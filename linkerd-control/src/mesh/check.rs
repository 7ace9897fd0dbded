//! From declarations to services. All problems are collected, to be fixed at once.

mod backends;
mod checker;
mod endpoints;

use super::decl;
use super::error::Problem;
use super::model::Mesh;
use backends::References;
use checker::Checker;

/// Checks the declarations of a file; `problems` are those of its form.
pub(super) fn check(file: decl::File, problems: Vec<Problem>) -> Result<Mesh, Vec<Problem>> {
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
    if checker.problems.is_empty() {
        Ok(Mesh {
            services,
            servers: file.servers,
        })
    } else {
        checker.problems.sort_by_key(|p| (p.line, p.column));
        Err(checker.problems)
    }
}

#[cfg(test)]
mod tests;
