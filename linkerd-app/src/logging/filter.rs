//! The filter of the log: its directives at the start and while the proxy runs.

use super::streams::Streamed;
use crate::config::distance;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    filter::{Directive, EnvFilter},
    reload,
};

/// Reads and replaces the filter of a proxy that is running.
#[derive(Clone, Debug)]
pub struct LogFilter {
    handle: reload::Handle<EnvFilter, Streamed>,
}

/// Errors of a replacement of the filter.
#[derive(Debug, thiserror::Error)]
pub enum LogFilterError {
    /// The directives are not valid.
    #[error(transparent)]
    Invalid(#[from] tracing_subscriber::filter::ParseError),
    /// The logger is gone.
    #[error("the logger is gone")]
    Gone(#[source] reload::Error),
    /// A word that was probably meant as a level. By itself it would be the name of a module.
    #[error("{found:?} is no level; did you mean {level}?")]
    Misspelt {
        /// The word.
        found: String,
        /// The level.
        level: &'static str,
    },
}

impl LogFilter {
    pub(super) fn new(handle: reload::Handle<EnvFilter, Streamed>) -> Self {
        Self { handle }
    }

    /// The current directives, the most specific ones first.
    pub fn current(&self) -> Result<String, LogFilterError> {
        self.handle
            .with_current(ToString::to_string)
            .map_err(LogFilterError::Gone)
    }

    /// Replaces the directives, all or none.
    pub fn replace(&self, directives: &str) -> Result<(), LogFilterError> {
        let filter = without_access_log(parse(directives)?);
        self.handle.reload(filter).map_err(LogFilterError::Gone)
    }
}

/// A filter of the valid directives. The problems with the others are reported on standard error, as there is no log yet.
pub(super) fn at_start(directives: &str) -> EnvFilter {
    let (kept, notes) = sound(directives);
    for note in notes {
        eprintln!("LINKERD2_PROXY_LOG: {note}");
    }
    without_access_log(builder().parse_lossy(kept))
}

/// The valid directives, and notes about the others.
fn sound(directives: &str) -> (String, Vec<String>) {
    let mut notes = Vec::new();
    let words = directives.split(',').map(str::trim);
    let words = words.filter(|word| !word.is_empty());
    let kept: Vec<_> = words
        .filter(|word| match parse(word) {
            Ok(_) => true,
            Err(error) => {
                notes.push(format!("{word} is left out: {error}"));
                false
            }
        })
        .collect();
    if !kept.is_empty() && !kept.iter().any(|word| concerns_the_proxy(word)) {
        let all = kept.join(",");
        notes.push(format!("{all} names no level and no module of the proxy, whose log it ends; put a level before it: warn,{all}"));
    }
    (kept.join(","), notes)
}

/// Whether a directive is a level for all modules, or for some of the proxy's.
fn concerns_the_proxy(directive: &str) -> bool {
    directive.starts_with("linkerd") || directive.parse::<LevelFilter>().is_ok()
}

fn parse(directives: &str) -> Result<EnvFilter, LogFilterError> {
    if let Some((found, level)) = misspelt_level(directives) {
        let found = found.to_owned();
        return Err(LogFilterError::Misspelt { found, level });
    }
    Ok(builder().parse(directives.trim())?)
}

/// A directive that is nearly a level, and that level: `infoo` would disable the log of all modules but one of this name.
fn misspelt_level(directives: &str) -> Option<(&str, &'static str)> {
    let words = directives.split(',').map(str::trim);
    let words = words.filter(|word| word.chars().all(char::is_alphabetic));
    let near = |word: &str| {
        let word = word.to_ascii_lowercase();
        let distance = |level: &&str| distance(&word, level);
        let level = LEVELS.into_iter().min_by_key(distance)?;
        (1..=MOST_TYPOS)
            .contains(&distance(&level))
            .then_some(level)
    };
    words
        .filter(|word| word.len() >= SHORTEST_LEVEL)
        .find_map(|word| Some((word, near(word)?)))
}

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
const SHORTEST_LEVEL: usize = 3;
/// `h2`, `hyper` and `tower` are modules.
const MOST_TYPOS: usize = 1;

/// Values are compared literally: patterns chosen at run time could cost any amount of time.
fn builder() -> tracing_subscriber::filter::Builder {
    EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .with_regex(false)
}

/// Excludes the target of access log lines, which have a separate output.
fn without_access_log(filter: EnvFilter) -> EnvFilter {
    let off: Directive = "_access_log=off"
        .parse()
        .expect("a constant directive that a test installs");
    filter.add_directive(off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_told_and_a_module_is_not() {
        for (directives, expected) in [
            ("infoo", Some(("infoo", "info"))),
            ("warn,debgu", Some(("debgu", "debug"))),
            ("info", None),
            ("INFO,linkerd=debug", None),
            ("tower", None),
            ("linkerd_app::inbound=trace,hyper", None),
            ("", None),
        ] {
            assert_eq!(misspelt_level(directives), expected, "{directives}");
        }
    }

    #[test]
    fn what_would_end_the_log_at_the_start_is_told() {
        for (directives, kept, note) in [
            ("", "", None),
            (
                "warn,linkerd=info,[{headers}]=off",
                "warn,linkerd=info,[{headers}]=off",
                None,
            ),
            (
                "linkerd_app::inbound=debug",
                "linkerd_app::inbound=debug",
                None,
            ),
            (
                "infoo",
                "",
                Some("infoo is left out: \"infoo\" is no level; did you mean info?"),
            ),
            (
                "nonsense=foo, info",
                "info",
                Some("nonsense=foo is left out: "),
            ),
            ("[{", "", Some("[{ is left out: ")),
            (
                "hyper",
                "hyper",
                Some("hyper names no level and no module of the proxy"),
            ),
        ] {
            let (found, notes) = sound(directives);
            assert_eq!(found, kept);
            match note {
                None => assert!(notes.is_empty(), "{notes:?}"),
                Some(note) => assert!(notes[0].starts_with(note), "{notes:?}"),
            }
        }
    }
}
