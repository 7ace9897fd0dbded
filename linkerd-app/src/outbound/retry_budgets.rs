//! Retry budgets of a target.

use linkerd_profiles::{Backend, Distribution, HttpBackend, RetryBudget, RetryBudgetSettings};
use serde_json::{Value, json};
use std::{cell::RefCell, rc::Rc, time::Duration};
use tokio::time::Instant;

/// This worker's share of the budgets for retries and hedges of a target's routes.
///
/// - **Bounds**: one budget for each set of backends that a rule of the present policy names, and one of the profile.
pub struct RetryBudgets {
    workers: usize,
    /// The budget of the current profile, and its settings.
    profile: RefCell<Option<(RetryBudgetSettings, SharedBudget)>>,
    /// The budgets of all other routes.
    policy: RefCell<Vec<(BackendSet, SharedBudget)>>,
}

/// A budget that routes share.
pub type SharedBudget = Rc<RefCell<RetryBudget>>;

/// The backends of a rule, whatever their order and weights.
#[derive(Debug)]
pub struct BackendSet(Vec<Backend>);

impl RetryBudgets {
    /// The budgets of a target on one of `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            profile: RefCell::default(),
            policy: RefCell::default(),
        }
    }

    /// The budget of the rules of a policy that distribute to these backends: a backend that fails uses up the retries of its
    /// own rules alone.
    pub fn of_policy(&self, distribution: &Distribution<HttpBackend>) -> SharedBudget {
        let mut budgets = self.policy.borrow_mut();
        let known = budgets.iter().find(|(set, _)| set.is_of(distribution));
        if let Some((_, budget)) = known {
            return budget.clone();
        }
        let budget = self.make(BUDGET);
        // Most targets have one.
        budgets.reserve_exact(1);
        budgets.push((BackendSet::of(distribution), budget.clone()));
        budget
    }

    /// Drops the budgets of backends that no rule of the present policy names.
    pub fn forget_unused(&self, is_named: impl Fn(&BackendSet) -> bool) {
        self.policy.borrow_mut().retain(|(set, _)| is_named(set));
    }

    /// The first budgets of the policy, for `/state`.
    pub fn inspect(&self) -> Value {
        let now = Instant::now();
        let budgets = self.policy.borrow();
        let shown = budgets.iter().take(MAX_SHOWN).map(|(set, budget)| {
            let backends = set.0.iter().map(|backend| backend.meta.to_string());
            json!({
                "backends": backends.collect::<Vec<_>>(),
                "retries_left": budget.borrow_mut().left(now),
            })
        });
        shown.collect()
    }

    /// The budget of all routes of a profile. It outlives an update that does not change its settings.
    pub fn of_profile(&self, settings: RetryBudgetSettings) -> SharedBudget {
        let mut present = self.profile.borrow_mut();
        if let Some((same, budget)) = &*present
            && *same == settings
        {
            return budget.clone();
        }
        let budget = self.make(settings);
        *present = Some((settings, budget.clone()));
        budget
    }

    fn make(&self, settings: RetryBudgetSettings) -> SharedBudget {
        let settings = settings.share(self.workers);
        Rc::new(RefCell::new(RetryBudget::new(settings, Instant::now())))
    }
}

impl BackendSet {
    fn of(distribution: &Distribution<HttpBackend>) -> Self {
        let mut set = Vec::new();
        for used in distribution.backends() {
            if !set.contains(&used.backend) {
                set.push(used.backend.clone());
            }
        }
        Self(set)
    }

    /// Whether a distribution is to these backends.
    pub fn is_of(&self, distribution: &Distribution<HttpBackend>) -> bool {
        let mut used = distribution.backends();
        let mut known = self.0.iter();
        used.all(|used| self.0.contains(&used.backend))
            && known.all(|known| distribution.backends().any(|used| used.backend == *known))
    }
}

/// The budget of the rules of a policy with the same backends. The API has none: the incumbent multiplies the requests to a service that
/// fails by the number of retries.
///
/// A third of the attempts may fail before it is used up. A service that fails altogether gets no more retries than the reserve.
pub const BUDGET: RetryBudgetSettings = RetryBudgetSettings {
    ratio: 0.5,
    min_retries_per_second: 10,
    ttl: Duration::from_secs(10),
};

/// The budgets that `/state` shows.
const MAX_SHOWN: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_profiles::{Dispatcher, Meta};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_profiles_budget_outlives_an_update_that_leaves_it_as_it_is() {
        let budgets = RetryBudgets::new(1);
        let first = budgets.of_profile(BUDGET);
        assert!(Rc::ptr_eq(&first, &budgets.of_profile(BUDGET)));
        let other = RetryBudgetSettings {
            ratio: 0.1,
            ..BUDGET
        };
        let changed = budgets.of_profile(other);
        assert!(!Rc::ptr_eq(&first, &changed));
        let policy = budgets.of_policy(&Distribution::Empty);
        assert!(!Rc::ptr_eq(&changed, &policy));
    }

    fn backend(name: &str) -> HttpBackend {
        HttpBackend::from(Backend {
            meta: Arc::new(Meta::new_default(name)),
            dispatcher: Dispatcher::Fail(String::new()),
            filter: None,
        })
    }

    #[tokio::test]
    async fn rules_with_the_same_backends_share_a_budget_and_a_split_has_its_own() {
        let budgets = RetryBudgets::new(1);
        let only = |name| Distribution::only(backend(name));
        let split = |weights: [(&str, u32); 2]| {
            let weighted = weights.map(|(name, weight)| (backend(name), weight));
            Distribution::RandomAvailable(weighted.to_vec())
        };
        let is_shared = |one, other| {
            let (one, other) = (budgets.of_policy(&one), budgets.of_policy(&other));
            Rc::ptr_eq(&one, &other)
        };
        let first = Distribution::FirstAvailable(vec![backend("b"), backend("a")]);
        assert!(is_shared(only("a"), only("a")));
        assert!(is_shared(
            split([("a", 1), ("b", 9)]),
            split([("b", 2), ("a", 1)])
        ));
        assert!(is_shared(split([("a", 1), ("b", 9)]), first));
        assert!(is_shared(split([("a", 1), ("a", 9)]), only("a")));
        assert!(!is_shared(only("a"), only("b")));
        assert!(!is_shared(only("a"), split([("a", 1), ("b", 9)])));
        assert!(!is_shared(Distribution::Empty, only("b")));
    }

    #[tokio::test]
    async fn a_budget_leaves_with_the_last_rule_of_its_backends() {
        let budgets = RetryBudgets::new(1);
        let [a, b] = ["a", "b"].map(|name| Distribution::only(backend(name)));
        let (of_a, of_b) = (budgets.of_policy(&a), budgets.of_policy(&b));
        of_a.borrow_mut().withdraw(Instant::now());
        budgets.forget_unused(|set| set.is_of(&a));
        let shown = budgets.inspect();
        let expected =
            json!([{ "backends": [backend("a").backend.meta.to_string()], "retries_left": 99 }]);
        assert_eq!(shown, expected);
        assert!(Rc::ptr_eq(&of_a, &budgets.of_policy(&a)));
        assert!(!Rc::ptr_eq(&of_b, &budgets.of_policy(&b)));
    }
}
