//! The budget of a profile's retries.
//!
//! Each request that needs no retry deposits a share of one; each retry withdraws one. Deposits and withdrawals count for the
//! time to live of the budget, so retries never exceed that share of the recent requests, however long the service was
//! healthy before. A reserve that needs no deposits lets a service with few requests retry at all.

use std::time::Duration;
use tokio::time::Instant;

/// The settings of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudgetSettings {
    /// The retries that each request allows, 0 to 1,000.
    pub ratio: f32,
    /// The retries per second that are always allowed.
    pub min_retries_per_second: u32,
    /// The time for which a request counts, 1 to 60 s.
    pub ttl: Duration,
}

impl RetryBudgetSettings {
    /// The settings for one of `parts` workers: each gets its part of the requests, and of the reserve.
    #[must_use]
    pub fn share(self, parts: usize) -> Self {
        let parts = u32::try_from(parts.max(1)).unwrap_or(u32::MAX);
        Self {
            min_retries_per_second: self.min_retries_per_second.div_ceil(parts),
            ..self
        }
    }
}

/// The balance of a budget. The time is an input, and must not run backwards.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    /// The amount of a deposit.
    deposit: i64,
    reserve: i64,
    /// The length of a slot in nanoseconds.
    slot_length: u64,
    /// The sum of each slot of the time to live; the present slot is at `now % SLOTS`.
    slots: [i64; SLOTS],
    begun: Instant,
    /// The present slot, counted from the start.
    now: u64,
}

impl RetryBudget {
    /// A budget with only its reserve.
    pub fn new(settings: RetryBudgetSettings, begun: Instant) -> Self {
        let reserve = f64::from(settings.min_retries_per_second) * settings.ttl.as_secs_f64();
        Self {
            deposit: amount(settings.ratio.into()),
            reserve: amount(reserve),
            slot_length: nanos(settings.ttl / SLOTS_U32).max(1),
            slots: [0; SLOTS],
            begun,
            now: 0,
        }
    }

    /// Counts a request that needs no retry.
    pub fn deposit(&mut self, now: Instant) {
        let deposit = self.deposit;
        let slot = self.present(now);
        *slot = slot.saturating_add(deposit);
    }

    /// Takes a retry from the budget. `false`: there is none left.
    pub fn withdraw(&mut self, now: Instant) -> bool {
        if self.left(now) == 0 {
            return false;
        }
        *self.present(now) -= RETRY;
        true
    }

    /// The retries that are left now.
    pub fn left(&mut self, now: Instant) -> u64 {
        self.present(now);
        let sum = self.slots.iter().fold(self.reserve, |sum, slot| {
            // Each slot is far from the limits, unless it has reached them.
            sum.saturating_add(*slot)
        });
        u64::try_from(sum / RETRY).unwrap_or(0)
    }

    /// The sum of the present slot. Slots older than the time to live are cleared.
    fn present(&mut self, now: Instant) -> &mut i64 {
        let part = nanos(now.saturating_duration_since(self.begun)) / self.slot_length;
        let passed = part.saturating_sub(self.now).min(SLOTS as u64);
        for age in 0..passed {
            self.slots[index(part - age)] = 0;
        }
        self.now = self.now.max(part);
        &mut self.slots[index(self.now)]
    }
}

/// Nanoseconds, for at most 584 years: dividing larger numbers would take a function call.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The index of a slot.
fn index(part: u64) -> usize {
    let index = part % SLOTS as u64;
    usize::try_from(index).expect("it is below the number of slots")
}

/// A number of retries as an amount. Integers add up exactly: ten deposits of a tenth are one retry.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast of floats saturates, and valid settings are far from that"
)]
fn amount(retries: f64) -> i64 {
    (retries * RETRY as f64).round() as i64
}

/// A retry, in millionths.
const RETRY: i64 = 1_000_000;

/// Slots of the time to live. The oldest is cleared as a whole: with ten the window is exact to a tenth.
const SLOTS: usize = 10;
const SLOTS_U32: u32 = SLOTS as u32;

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: Duration = Duration::from_secs(1);

    fn budget(ratio: f32, min_retries_per_second: u32, ttl: Duration) -> (RetryBudget, Instant) {
        let begun = Instant::now();
        let settings = RetryBudgetSettings {
            ratio,
            min_retries_per_second,
            ttl,
        };
        (RetryBudget::new(settings, begun), begun)
    }

    /// The retries that can be withdrawn.
    fn left(budget: &RetryBudget, now: Instant) -> usize {
        let mut budget = budget.clone();
        let left = budget.left(now);
        let withdrawn = (0..10_000).take_while(|_| budget.withdraw(now)).count();
        assert_eq!(left, withdrawn as u64);
        withdrawn
    }

    #[test]
    fn requests_deposit_their_share_and_retries_withdraw_one() {
        for (ratio, requests, retries) in [
            (0.1, 9, 0),
            (0.1, 10, 1),
            (0.2, 100, 20),
            (1.0, 5, 5),
            (3.0, 5, 15),
            (1000.0, 2, 2000),
            (0.0, 1000, 0),
        ] {
            let (mut budget, now) = budget(ratio, 0, 10 * SEC);
            assert!(!budget.withdraw(now), "nothing was deposited");
            for _ in 0..requests {
                budget.deposit(now);
            }
            assert_eq!(left(&budget, now), retries, "{requests} times {ratio}");
        }
    }

    #[test]
    fn deposits_and_withdrawals_count_for_the_time_to_live() {
        let (mut budget, begun) = budget(1.0, 0, 10 * SEC);
        budget.deposit(begun);
        budget.deposit(begun + 5 * SEC);
        assert_eq!(left(&budget, begun + 9 * SEC), 2);
        assert_eq!(left(&budget, begun + 10 * SEC), 1);
        assert_eq!(left(&budget, begun + 15 * SEC), 0);
        assert!(budget.withdraw(begun + 9 * SEC));
        assert_eq!(left(&budget, begun + 9 * SEC), 1);
        // The withdrawal is younger than the deposits, and outlives them.
        assert_eq!(left(&budget, begun + 10 * SEC), 0);
        budget.deposit(begun + 18 * SEC);
        assert_eq!(left(&budget, begun + 18 * SEC), 0);
        assert_eq!(left(&budget, begun + 19 * SEC), 1);
    }

    #[test]
    fn a_reserve_is_there_without_requests_and_comes_back() {
        let (mut budget, begun) = budget(0.2, 2, 5 * SEC);
        assert_eq!(left(&budget, begun), 10);
        for _ in 0..10 {
            assert!(budget.withdraw(begun));
        }
        assert!(!budget.withdraw(begun + 4 * SEC));
        assert_eq!(left(&budget, begun + 5 * SEC), 10);
    }

    #[test]
    fn no_settings_and_no_time_overflow() {
        for (ratio, min, ttl) in [
            (1000.0, u32::MAX, 60 * SEC),
            (f32::MAX, u32::MAX, Duration::MAX / 2),
            (0.0, 0, Duration::ZERO),
            (-1.0, 0, Duration::from_nanos(1)),
            (f32::NAN, 1, SEC),
        ] {
            let (mut budget, begun) = budget(ratio, min, ttl);
            for now in [begun, begun + SEC, begun + 100_000_000 * SEC, begun] {
                budget.deposit(now);
                budget.withdraw(now);
            }
        }
    }
}
