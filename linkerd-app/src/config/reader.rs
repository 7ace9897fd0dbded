//! Reads variables by their rows and collects everything there is to say about them.

use super::effective::{Effective, Source};
use super::env::Env;
use super::errors::ConfigError;
use super::grammar::kinds::Text;
use super::grammar::{Grammar, Invalid, Kind};
use super::unknown;
use super::variables::{CONTROL_LISTEN_ADDR, Default, Defaulted, Key, Status, VARIABLES, Variable};
use std::collections::{BTreeMap, BTreeSet};

/// An environment that is being read.
pub(super) struct Reader<'e> {
    env: &'e Env,
    /// What is wrong so far.
    pub(super) errors: Vec<ConfigError>,
    /// What is to be remarked so far.
    pub(super) warnings: Vec<String>,
    /// What is worth a line in the log so far.
    pub(super) notes: Vec<String>,
    /// Names whose errors have been reported.
    refused: BTreeSet<&'static str>,
    /// Names whose values were set but don't count.
    skipped: BTreeSet<&'static str>,
    /// Values that came from other variables.
    derived: BTreeMap<&'static str, String>,
}

impl<'e> Reader<'e> {
    /// Nothing has been read yet.
    pub(super) fn new(env: &'e Env) -> Self {
        Self {
            env,
            errors: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            refused: BTreeSet::new(),
            skipped: BTreeSet::new(),
            derived: BTreeMap::new(),
        }
    }

    /// The value of a variable or its default, which also stands in for one that is refused.
    pub(super) fn value<G: Grammar>(&mut self, key: &Defaulted<G>) -> G::Value {
        self.given(key).unwrap_or_else(|| key.default())
    }

    /// The value that the environment gives, if it gives a valid one.
    pub(super) fn given<G: Grammar, const D: bool>(&mut self, key: &Key<G, D>) -> Option<G::Value> {
        match self.read(key)? {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(key.name(), error);
                None
            }
        }
    }

    /// The value that the environment gives. One that is not valid is warned about, and counts as not given.
    pub(super) fn lenient<G: Grammar, const D: bool>(
        &mut self,
        key: &Key<G, D>,
    ) -> Option<G::Value> {
        match self.read(key)? {
            Ok(value) => Some(value),
            Err(error) => {
                self.skip(key.name(), format!("{error}; it is ignored"));
                None
            }
        }
    }

    /// Whether the environment gives a value, be it a wrong one.
    pub(super) fn is_set<G: Grammar, const D: bool>(&self, key: &Key<G, D>) -> bool {
        self.env.is_set(key.name())
    }

    /// Reports values that don't fit together.
    pub(super) fn inconsistent(&mut self, problem: String, fix: Option<String>) {
        self.errors.push(ConfigError::Inconsistent { problem, fix });
    }

    /// Remarks that a value is set but doesn't count.
    pub(super) fn skip(&mut self, name: &'static str, warning: String) {
        self.skipped.insert(name);
        self.warnings.push(warning);
    }

    /// Notes that the value of a variable came from elsewhere.
    pub(super) fn derive<G: Grammar, const D: bool>(
        &mut self,
        key: &Key<G, D>,
        value: impl ToString,
    ) {
        self.derived.insert(key.name(), value.to_string());
    }

    /// Checks the variables whose features come later, and looks for names that nobody knows.
    pub(super) fn finish(&mut self) {
        for variable in VARIABLES {
            let Status::Later(feature) = variable.status else {
                continue;
            };
            match read(self.env, variable, variable.kind.check) {
                // What was skipped has been warned about.
                Some(Err(_)) if self.skipped.contains(variable.name) => {}
                Some(Err(error)) if !is_tracing_text(variable) => self.refuse(variable.name, error),
                // One warning for all of them is given elsewhere.
                Some(Ok(())) if feature == "identity" => {}
                Some(Ok(())) if warns_when_set(variable) && !self.says_nothing(variable) => {
                    self.warnings.push(format!(
                        "{} is set, but {feature} comes in a later version",
                        variable.name
                    ));
                }
                _ => {}
            }
        }
        self.warnings.extend(unknown::warnings(self.env));
    }

    /// The variables of a feature that comes later which are set, and not to what they would be anyway.
    pub(super) fn set_for(&self, feature: &str) -> Vec<&'static str> {
        let later = VARIABLES.iter().filter(|variable| {
            matches!(variable.status, Status::Later(name) if name == feature)
                && matches!(self.env.text(variable.name), Ok(Some(_)))
                && warns_when_set(variable)
                && !self.says_nothing(variable)
        });
        later.map(|variable| variable.name).collect()
    }

    /// Whether a variable is set to nothing, or to what it would be anyway.
    fn says_nothing(&self, variable: &Variable) -> bool {
        match (self.env.text(variable.name), variable.default) {
            (Ok(Some("")), _) => true,
            (Ok(Some(text)), Default::Text(default)) => text == default,
            _ => false,
        }
    }

    /// Every variable with the value that counts and where it came from.
    pub(super) fn effective(&self) -> Vec<Effective> {
        VARIABLES
            .iter()
            .map(|variable| self.effective_of(variable))
            .collect()
    }

    fn effective_of(&self, variable: &'static Variable) -> Effective {
        let (value, source) = match (self.env.text(variable.name), variable.default) {
            (Ok(Some(text)), _) if !self.skipped.contains(variable.name) => {
                (Some(text.to_owned()), Source::Environment)
            }
            (_, default) => match (self.derived.get(variable.name), default) {
                (Some(value), _) => (Some(value.clone()), Source::Derived),
                (None, Default::Text(text)) => (Some(text.to_owned()), Source::Default),
                (None, _) => (None, Source::Default),
            },
        };
        Effective {
            variable,
            value,
            source,
        }
    }

    fn read<G: Grammar, const D: bool>(
        &self,
        key: &Key<G, D>,
    ) -> Option<Result<G::Value, ConfigError>> {
        read(self.env, key.variable(), G::parse)
    }

    fn refuse(&mut self, name: &'static str, error: ConfigError) {
        if self.refused.insert(name) {
            self.errors.push(error);
        }
    }
}

fn read<T>(
    env: &Env,
    variable: &Variable,
    parse: impl Fn(&str) -> Result<T, Invalid>,
) -> Option<Result<T, ConfigError>> {
    let name = variable.name;
    let text = match env.text(name) {
        Ok(text) => text?,
        Err(_) => return Some(Err(ConfigError::NotUnicode { name })),
    };
    let Kind { expected, .. } = variable.kind;
    Some(parse(text).map_err(|invalid| ConfigError::Invalid {
        name,
        value: shorten(text),
        expected,
        fix: invalid.fix,
    }))
}

/// The linkerd injector sets the address of the tap server whether tap is on or not, and names without a prefix are
/// there for other programs.
fn warns_when_set(variable: &Variable) -> bool {
    variable.is_prefixed() && variable.name != CONTROL_LISTEN_ADDR.name()
}

/// The texts about tracing are taken over from files and other programs: one that is not UTF-8 is no reason to fail.
fn is_tracing_text(variable: &Variable) -> bool {
    variable.status == Status::Later("tracing") && variable.kind.name == Text::NAME
}

/// A value as messages quote it: whole certificates would hide the message.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

const MAX_QUOTED: usize = 80;
