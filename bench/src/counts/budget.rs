//! The budget: the limit of each count.

use super::Counted;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::{collections::BTreeMap, fmt::Write};

/// The limit of each count.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Budget(BTreeMap<String, Limit>);

/// The limit of a count.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    /// The accepted value.
    limit: f64,
    /// The share by which it may be exceeded: compilers and kernels differ.
    slack: f64,
}

impl Budget {
    /// Reads the file.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::Other(format!("the budget: {error}")))
    }

    /// The names of the counts beyond their limit and its slack.
    pub fn exceeded(&self, counted: &Counted) -> Vec<String> {
        let is_over = |(name, limit): &(&String, &Limit)| {
            counted
                .get(*name)
                .is_some_and(|count| *count > limit.limit * (1.0 + limit.slack))
        };
        let over = self.0.iter().filter(is_over);
        over.map(|(name, _)| name.clone()).collect()
    }

    /// The file with these counts as limits. Limits without a count are kept.
    pub fn updated(&self, counted: &Counted) -> String {
        let mut limits = self.0.clone();
        for (name, count) in counted {
            let slack = limits.get(name).map_or(SLACK, |limit| limit.slack);
            limits.insert(
                name.clone(),
                Limit {
                    limit: *count,
                    slack,
                },
            );
        }
        let mut text = HEADER.to_owned();
        for (name, Limit { limit, slack }) in limits {
            // Writing to a string does not fail.
            let _ = write!(text, "\n[{name}]\nlimit = {limit:.1}\nslack = {slack}\n");
        }
        text
    }

    /// A table of the counts, the floor's and the limits.
    pub fn table(&self, ours: &Counted, floor: &Counted) -> String {
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let mut text = format!(
            "{:<34} {:>9} {:>9} {:>9}\n",
            "", "ours", "forwarder", "budget"
        );
        for (name, count) in ours {
            let limit = self.0.get(name).map(|limit| limit.limit);
            let _ = writeln!(
                text,
                "{name:<34} {count:>9.1} {:>9} {:>9}",
                cell(floor.get(name).copied()),
                cell(limit)
            );
        }
        text
    }
}

const HEADER: &str = "\
# What the proxy may cost, in counts that do not depend on the machine: `cargo run --profile dist -p bench -- counts`.
# A count that is over its limit by more than its slack (a share) fails. After a change for the better, or for a reason
# that is worth its cost, `counts --update` writes what is counted.
# Megabytes of the image, the package and their binary are compared by deploy/size.sh.
";

/// The slack of a new count.
const SLACK: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &str, count: f64) -> Counted {
        [(name.to_owned(), count)].into()
    }

    #[test]
    fn a_count_may_be_over_its_limit_by_its_slack() {
        let budget = Budget::parse("[calls]\nlimit = 100\nslack = 0.1\n").unwrap();
        assert!(budget.exceeded(&counted("calls", 109.0)).is_empty());
        assert_eq!(budget.exceeded(&counted("calls", 111.0)), ["calls"]);
        assert!(budget.exceeded(&counted("unknown", 1e9)).is_empty());
    }

    #[test]
    fn an_updated_budget_is_one() {
        let budget = Budget::parse("[calls]\nlimit = 100.0\nslack = 0.1\n").unwrap();
        let mut new = counted("calls", 90.04);
        new.insert("more".to_owned(), 2.0);
        let updated = Budget::parse(&budget.updated(&new)).unwrap();
        assert_eq!(updated.exceeded(&counted("calls", 100.0)), ["calls"]);
        assert!(updated.exceeded(&counted("more", 2.05)).is_empty());
    }

    #[test]
    fn the_budget_of_this_workspace_is_understood() {
        Budget::parse(include_str!("../../budget.toml")).unwrap();
    }
}
