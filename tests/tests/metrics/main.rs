//! Metric families, their label sets and the bounds on their series.

#![allow(clippy::unwrap_used, missing_docs)]

mod budgets;
mod families;
mod native;
mod traffic;
mod values;
mod workers;

use families::{Incumbent, Scraped, documented_differences};
use linkerd_tests::netns::isolated;
use std::collections::BTreeSet;
use values::ClosedValues;

#[test]
fn families_are_those_of_the_incumbent_but_for_documented_differences() {
    isolated(
        "families_are_those_of_the_incumbent_but_for_documented_differences",
        async {
            let mut scraped = Scraped::default();
            // `inbound` comes last: it redirects the traffic of the namespace.
            traffic::outbound(&mut scraped).await;
            traffic::profiles(&mut scraped).await;
            traffic::meshed(&mut scraped).await;
            traffic::inbound(&mut scraped).await;
            let incumbent = Incumbent::read();
            let differences = incumbent.differences(&scraped);
            let documented = documented_differences();
            let mut undocumented = differences.clone();
            undocumented.retain(|name, _| !documented.contains(name));
            assert!(undocumented.is_empty(), "{undocumented:#?}");
            // A documented difference that no longer exists must leave the list.
            let different: BTreeSet<_> = differences.into_keys().collect();
            let stale: Vec<_> = documented.difference(&different).collect();
            assert!(stale.is_empty(), "{stale:?}");
            assert!(incumbent.names().count() > 150);
            let closed = ClosedValues::read();
            assert_eq!(closed.foreign(&scraped), BTreeSet::new());
            assert_eq!(closed.unused(&scraped), BTreeSet::new());
        },
    );
}
