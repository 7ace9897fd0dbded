//! Reads variables by their rows and collects errors, warnings and notes.

use super::effective::{EffectiveValue, ValueSource};
use super::env::Env;
use super::errors::ConfigError;
use super::grammar::{Grammar, InvalidValue, ValueKind};
use super::mask::without_credentials;
use super::unknown;
use super::variables::{DefaultedKey, VARIABLES, Variable, VariableDefault, VariableKey};
use std::collections::{BTreeMap, BTreeSet};

/// A reader of an environment.
pub(super) struct Reader<'e> {
    env: &'e Env,
    /// Errors so far.
    pub(super) errors: Vec<ConfigError>,
    /// Warnings so far.
    pub(super) warnings: Vec<String>,
    /// Notes for the log so far.
    pub(super) notes: Vec<String>,
    /// Names whose errors were reported.
    refused: BTreeSet<&'static str>,
    /// Names whose values are set but have no effect.
    skipped: BTreeSet<&'static str>,
    /// Values derived from other variables.
    derived: BTreeMap<&'static str, String>,
}

impl<'e> Reader<'e> {
    /// A reader at the start.
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

    /// The value of a variable or its default, which also replaces an invalid one.
    pub(super) fn value<G: Grammar>(&mut self, key: &DefaultedKey<G>) -> G::Value {
        self.given(key).unwrap_or_else(|| key.default())
    }

    /// The variable's value in the environment, if valid.
    pub(super) fn given<G: Grammar, const D: bool>(
        &mut self,
        key: &VariableKey<G, D>,
    ) -> Option<G::Value> {
        match self.read(key)? {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(key.name(), error);
                None
            }
        }
    }

    /// The variable's value in the environment. An invalid one only causes a warning.
    pub(super) fn lenient<G: Grammar, const D: bool>(
        &mut self,
        key: &VariableKey<G, D>,
    ) -> Option<G::Value> {
        match self.read(key)? {
            Ok(value) => Some(value),
            Err(error) => {
                self.skip(key.name(), format!("{error}; it is ignored"));
                None
            }
        }
    }

    /// Whether the environment has a value, valid or not.
    pub(super) fn is_set<G: Grammar, const D: bool>(&self, key: &VariableKey<G, D>) -> bool {
        self.env.is_set(key.name())
    }

    /// Whether a variable is set to nothing.
    pub(super) fn is_empty<G: Grammar, const D: bool>(&self, key: &VariableKey<G, D>) -> bool {
        matches!(self.env.text(key.name()), Ok(Some("")))
    }

    /// Reports a conflict between values.
    pub(super) fn inconsistent(&mut self, problem: String, fix: Option<String>) {
        self.errors.push(ConfigError::Inconsistent { problem, fix });
    }

    /// Warns that a value is set but has no effect.
    pub(super) fn skip(&mut self, name: &'static str, warning: String) {
        self.skipped.insert(name);
        self.warnings.push(warning);
    }

    /// Records that a variable's value was derived.
    pub(super) fn derive<G: Grammar, const D: bool>(
        &mut self,
        key: &VariableKey<G, D>,
        value: impl ToString,
    ) {
        self.derived.insert(key.name(), value.to_string());
    }

    /// Warns about unknown names.
    pub(super) fn finish(&mut self) {
        self.warnings.extend(unknown::warnings(self.env));
    }

    /// Effective values and sources of all variables.
    pub(super) fn effective(&self) -> Vec<EffectiveValue> {
        VARIABLES
            .iter()
            .map(|variable| self.effective_of(variable))
            .collect()
    }

    fn effective_of(&self, variable: &'static Variable) -> EffectiveValue {
        let (value, source) = match (self.env.text(variable.name), variable.default) {
            (Ok(Some(text)), _) if !self.skipped.contains(variable.name) => {
                (Some(text.to_owned()), ValueSource::Environment)
            }
            (_, default) => match (self.derived.get(variable.name), default) {
                (Some(value), _) => (Some(value.clone()), ValueSource::Derived),
                (None, VariableDefault::Text(text)) => {
                    (Some(text.to_owned()), ValueSource::Default)
                }
                (None, _) => (None, ValueSource::Default),
            },
        };
        EffectiveValue {
            variable,
            value,
            source,
        }
    }

    fn read<G: Grammar, const D: bool>(
        &self,
        key: &VariableKey<G, D>,
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
    parse: impl Fn(&str) -> Result<T, InvalidValue>,
) -> Option<Result<T, ConfigError>> {
    let name = variable.name;
    let text = match env.text(name) {
        Ok(text) => text?,
        Err(_) => return Some(Err(ConfigError::NotUnicode { name })),
    };
    let ValueKind { expected, .. } = variable.kind;
    Some(parse(text).map_err(|invalid| ConfigError::Invalid {
        name,
        value: shorten(text),
        expected,
        fix: invalid.fix,
    }))
}

/// A value as messages quote it: a whole certificate would hide the message.
fn shorten(text: &str) -> String {
    let text = &*without_credentials(text);
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

const MAX_QUOTED: usize = 80;
