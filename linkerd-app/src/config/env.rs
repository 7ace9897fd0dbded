//! A snapshot of the process environment, which tests replace.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Environment variables at the time of the snapshot.
#[derive(Clone, Debug, Default)]
pub struct Env {
    values: BTreeMap<OsString, OsString>,
}

/// The value is set, but not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotUnicode;

impl Env {
    /// The environment of this process.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
    pub fn from_process() -> Self {
        std::env::vars_os().collect()
    }

    /// Sets a variable in the snapshot, not in the process. For embedded modes and tests.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.values.insert(name.into(), value.into());
    }

    /// Whether the variable is set, even to the empty string.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(OsStr::new(name))
    }

    /// The value of a variable, as it is.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.values.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// All variables, sorted by name; invalid UTF-8 is replaced.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.values
            .iter()
            .map(|(name, value)| (name.to_string_lossy(), value.to_string_lossy()))
    }

    /// The value of a variable.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, NotUnicode> {
        match self.values.get(OsStr::new(name)) {
            Some(value) => value.to_str().map(Some).ok_or(NotUnicode),
            None => Ok(None),
        }
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(iter: I) -> Self {
        let values = iter
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self { values }
    }
}
