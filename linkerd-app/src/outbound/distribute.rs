//! Stage 5: which of a route's backends takes a request.

use linkerd_proxy_core::Unavailable;
use rand::{Rng, RngExt};

/// A choice among backends.
#[derive(Debug)]
pub enum Distribute<B> {
    /// There is none.
    Empty,
    /// The first that is available.
    First(Vec<B>),
    /// At random by weight, among those that are available.
    Random(Vec<(B, u32)>),
}

impl<B> Distribute<B> {
    /// Chooses a backend, or says why the last one asked is not available. `None`: there is no backend at all.
    pub fn choose(
        &self,
        unavailable: impl Fn(&B) -> Option<Unavailable>,
        rng: &mut impl Rng,
    ) -> Result<&B, Option<Unavailable>> {
        match self {
            Self::Empty => Err(None),
            Self::First(backends) => {
                let mut cause = None;
                for backend in backends {
                    match unavailable(backend) {
                        None => return Ok(backend),
                        Some(why) => cause = Some(why),
                    }
                }
                Err(cause)
            }
            Self::Random(backends) => {
                // Almost always the first draw is available; only then are the others asked.
                let drawn = draw(backends.iter(), rng).ok_or(None)?;
                let Some(cause) = unavailable(drawn) else {
                    return Ok(drawn);
                };
                let available = backends
                    .iter()
                    .filter(|(backend, _)| unavailable(backend).is_none())
                    .collect::<Vec<_>>();
                draw(available.into_iter(), rng).ok_or(Some(cause))
            }
        }
    }
}

/// Draws one by weight.
fn draw<'a, B: 'a>(
    backends: impl Iterator<Item = &'a (B, u32)> + Clone,
    rng: &mut impl Rng,
) -> Option<&'a B> {
    let total: u64 = backends.clone().map(|(_, weight)| u64::from(*weight)).sum();
    if total == 0 {
        return None;
    }
    let mut left = rng.random_range(0..total);
    for (backend, weight) in backends {
        let weight = u64::from(*weight);
        if left < weight {
            return Some(backend);
        }
        left -= weight;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::SmallRng};

    const DOWN: Option<Unavailable> = Some(Unavailable::NoEndpoints);

    #[test]
    fn the_first_available_is_chosen() {
        let mut rng = SmallRng::seed_from_u64(1);
        let backends = Distribute::First(vec!["a", "b"]);
        let down = |name: &'static str| move |b: &&str| DOWN.filter(|_| *b == name);
        assert_eq!(backends.choose(|_| None, &mut rng), Ok(&"a"));
        assert_eq!(backends.choose(down("a"), &mut rng), Ok(&"b"));
        assert_eq!(backends.choose(|_| DOWN, &mut rng), Err(DOWN));
        assert_eq!(
            Distribute::<u8>::Empty.choose(|_| None, &mut rng),
            Err(None)
        );
    }

    #[test]
    fn weights_are_shares_and_what_is_down_gets_none() {
        let mut rng = SmallRng::seed_from_u64(1);
        let backends = Distribute::Random(vec![("a", 9), ("b", 1), ("c", 0)]);
        let mut share = |down: Option<&str>| {
            let mut seen = std::collections::HashMap::new();
            for _ in 0..10_000 {
                let unavailable = |b: &&str| DOWN.filter(|_| down == Some(*b));
                *seen
                    .entry(*backends.choose(unavailable, &mut rng).unwrap())
                    .or_insert(0) += 1;
            }
            (
                seen.remove("a").unwrap_or(0),
                seen.remove("b").unwrap_or(0),
                seen.len(),
            )
        };
        let (a, b, others) = share(None);
        assert!((8_800..9_200).contains(&a) && a + b == 10_000 && others == 0);
        assert_eq!(share(Some("a")), (0, 10_000, 0));
    }
}
