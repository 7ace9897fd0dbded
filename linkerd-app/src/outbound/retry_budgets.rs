//! Retry budgets of a target.

use linkerd_profiles::{RetryBudget, RetryBudgetSettings};
use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
    time::Duration,
};
use tokio::time::Instant;

/// This worker's share of the budgets for retries and hedges of a target's routes.
pub struct RetryBudgets {
    workers: usize,
    /// The budget of the current profile, and its settings.
    profile: RefCell<Option<(RetryBudgetSettings, SharedBudget)>>,
    /// The budget of all other routes.
    policy: OnceCell<SharedBudget>,
}

/// A budget that routes share.
pub type SharedBudget = Rc<RefCell<RetryBudget>>;

impl RetryBudgets {
    /// The budgets of a target on one of `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            profile: RefCell::default(),
            policy: OnceCell::new(),
        }
    }

    /// The budget of the routes of a policy.
    pub fn of_policy(&self) -> &SharedBudget {
        self.policy.get_or_init(|| self.make(BUDGET))
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

/// The budget of the routes of a policy. The API has none: the incumbent multiplies the requests to a service that
/// fails by the number of retries.
///
/// A third of the attempts may fail before it is used up. A service that fails altogether gets no more retries than the reserve.
pub const BUDGET: RetryBudgetSettings = RetryBudgetSettings {
    ratio: 0.5,
    min_retries_per_second: 10,
    ttl: Duration::from_secs(10),
};

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!Rc::ptr_eq(&changed, budgets.of_policy()));
    }
}
