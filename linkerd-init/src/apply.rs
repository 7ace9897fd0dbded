//! Sets the rules of all families, or none.
//!
//! Each family has tables of its own, and no program changes both. So everything that can be known before is checked before: the
//! programs, the rules by `--test`, and the kernel setting. If a step fails nevertheless, the steps before it are undone.

use crate::{
    InitError,
    backend::other_backend,
    capabilities,
    kernel::CloseWait,
    rules::{Hooks, Redirection},
    tools::{Family, Tools, run},
    undo::undo_script,
};

/// The rules to set, and the way to set them.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The rules.
    pub redirection: &'a Redirection,
    /// The address families that are redirected.
    pub families: &'a [Family],
    /// The programs.
    pub tools: &'a Tools,
    /// The time after which the kernel forgets connections that one side has closed, in seconds.
    pub close_wait_seconds: Option<u32>,
}

/// A change that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The programs that set rules, and their scripts.
    pub scripts: Vec<(String, String)>,
    /// Rules elsewhere that have an effect, too.
    pub warnings: Vec<String>,
}

/// Makes a change as a whole. Making it again changes nothing.
pub fn apply(change: &Change<'_>) -> Result<Applied, InitError> {
    capabilities::pass_on();
    let tools = change.tools;
    let prepared: Result<Vec<_>, _> = change
        .families
        .iter()
        .map(|family| Step::prepare(change.redirection, *family, tools))
        .collect();
    let prepared = prepared?;
    let close_wait = change.close_wait_seconds.map(CloseWait::prepare);
    let close_wait = close_wait.transpose()?;
    for (n, step) in prepared.iter().enumerate() {
        step.restore(&[], &step.script)
            .map_err(|error| undone(error, &prepared[..n]))?;
    }
    if let Some(close_wait) = close_wait {
        close_wait.set().map_err(|error| undone(error, &prepared))?;
    }
    let warnings = change.families.iter();
    let warnings = warnings.filter_map(|family| other_backend(*family, tools));
    Ok(Applied {
        warnings: warnings.collect(),
        scripts: prepared
            .into_iter()
            .map(|step| (step.program, step.script))
            .collect(),
    })
}

/// The rules of one family.
struct Step {
    family: Family,
    program: String,
    waits: bool,
    script: String,
    /// The script that restores the state before.
    undo: String,
}

impl Step {
    /// Reads the state, and has the program check the rules.
    fn prepare(
        redirection: &Redirection,
        family: Family,
        tools: &Tools,
    ) -> Result<Self, InitError> {
        let saved = run(&tools.save(family), &["-t", "nat"], None)?;
        let saved = String::from_utf8_lossy(&saved.stdout);
        let step = Self {
            family,
            program: tools.restore(family),
            waits: tools.waits,
            script: redirection.script(family == Family::V6, Hooks::of(&saved)),
            undo: undo_script(&saved),
        };
        step.restore(&["--test"], &step.script)?;
        Ok(step)
    }

    /// Changes the table as a whole or not at all.
    fn restore(&self, args: &[&str], script: &str) -> Result<(), InitError> {
        let wait: &[&str] = if self.waits { &["--wait"] } else { &[] };
        let args = [&["--noflush"], wait, args].concat();
        run(&self.program, &args, Some(script)).map(|_| ())
    }
}

/// Undoes the steps before a failed one.
fn undone(error: InitError, done: &[Step]) -> InitError {
    let mut remaining = Vec::new();
    for step in done {
        if let Err(error) = step.restore(&[], &step.undo) {
            remaining.push(format!("{} stays redirected ({error})", step.family));
        }
    }
    match (done.is_empty(), remaining.is_empty()) {
        (true, _) => error,
        (false, is_undone) => InitError::Incomplete {
            error: Box::new(error),
            state: match is_undone {
                true => "all tables are as they were before".to_owned(),
                false => remaining.join(", "),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named() {
        let tools = Tools {
            firewall: "no-such-iptables".into(),
            save: "no-such-iptables-save".into(),
            waits: false,
        };
        let change = Change {
            redirection: &Redirection::default(),
            families: &[Family::V4],
            tools: &tools,
            close_wait_seconds: None,
        };
        let error = apply(&change).unwrap_err().to_string();
        assert!(error.contains("no-such-iptables-save") && error.contains("--firewall-bin-path"));
    }
}
