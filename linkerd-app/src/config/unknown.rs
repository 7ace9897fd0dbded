//! Warnings about unknown names with the proxy's prefixes.

use super::env::Env;
use super::variables::{PREFIXES, VARIABLES};

/// One warning for each unknown name with a prefix of the proxy, with the nearest known one as a suggestion.
pub(super) fn warnings(env: &Env) -> Vec<String> {
    let names = env.iter().map(|(name, _)| name);
    names
        .filter(|name| is_unknown(name, env))
        .map(|name| warning(&name))
        .collect()
}

/// Whether a variable is one of the proxy's own.
pub fn is_own_variable(name: &str) -> bool {
    VARIABLES.iter().any(|variable| variable.name == name)
}

fn is_unknown(name: &str, env: &Env) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !is_own_variable(name)
        && !is_service_link(name, env)
}

fn warning(name: &str) -> String {
    let nearest = VARIABLES
        .iter()
        .map(|variable| (distance(name, variable.name), variable.name))
        .min();
    match nearest {
        Some((distance, known)) if distance <= MAX_DISTANCE => {
            format!(
                "{name} is not a variable of this proxy and has no effect; did you mean {known}?"
            )
        }
        _ => format!("{name} is not a variable of this proxy and has no effect"),
    }
}

/// Whether Kubernetes set the variable for a Service: one called `linkerd-proxy-injector` makes
/// `LINKERD_PROXY_INJECTOR_SERVICE_HOST`, `..._SERVICE_PORT` and `..._PORT_443_TCP_ADDR` in each pod of its namespace.
fn is_service_link(name: &str, env: &Env) -> bool {
    let ends = name
        .match_indices("_SERVICE_")
        .chain(name.match_indices("_PORT"))
        .map(|(end, _)| end);
    ends.into_iter()
        .any(|end| env.is_set(&format!("{}_SERVICE_HOST", &name[..end])))
}

/// The edit distance of two names: insertions, removals, replacements and swaps of neighbours.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(MAX_COMPARED).collect(), b.chars().collect());
    let mut before_last = vec![];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Covers a misspelt word, or the wrong prefix and a slip; more is another name.
const MAX_DISTANCE: usize = 3;

/// Names are shorter than this; longer ones are not compared, which bounds the work.
const MAX_COMPARED: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slips_are_counted_once() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "abd", 1),
            ("abc", "ab", 1),
            ("LINKERD_PROXY_LOG", "LINKERD2_PROXY_LOG", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    proptest! {
        #[test]
        fn no_name_panics(name: String) {
            warning(&name);
            is_service_link(&name, &Env::default());
        }
    }
}
