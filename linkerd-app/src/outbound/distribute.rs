//! Stage 5: the choice of a backend for a request.

use super::backends::BackendStatus;
use linkerd_profiles::Distribution;
use linkerd_proxy_core::{Error, Reason, Refusable, Unavailable};
use rand::{Rng, RngExt, rngs::SmallRng};
use std::{
    rc::Rc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Sends each request to one of the backends of a route.
///
/// - **Fails as** `Unavailable` when no backend takes requests, and as `NoBackend` when none ever could.
pub struct Distribute<S> {
    backends: RouteBackends<S>,
    rng: SmallRng,
}

/// The backends of a route, and the rule for choosing one.
pub enum RouteBackends<S> {
    /// The first available backend.
    First(Vec<RouteBackend<S>>),
    /// A random available backend, by weight.
    Random(Vec<RouteBackend<S>>),
    /// No backend: none has a weight above 0.
    Weightless,
}

/// A backend of a route.
pub struct RouteBackend<S> {
    /// Sends requests to the backend.
    pub service: S,
    /// The availability of the backend.
    pub status: Rc<dyn BackendStatus>,
    /// Its share of the requests, relative to the others. The first available one gets all.
    pub weight: u32,
}

impl<S> RouteBackends<S> {
    /// The backends of a distribution; `new` makes the service of each, and returns it with its status.
    pub fn new<B>(
        distribution: &Distribution<B>,
        new: impl Fn(&B) -> (S, Rc<dyn BackendStatus>),
    ) -> Self {
        let new = |backend: &B, weight| {
            let (service, status) = new(backend);
            RouteBackend {
                service,
                status,
                weight,
            }
        };
        match distribution {
            Distribution::Empty => Self::First(Vec::new()),
            Distribution::Weightless => Self::Weightless,
            Distribution::FirstAvailable(backends) => {
                Self::First(backends.iter().map(|backend| new(backend, 1)).collect())
            }
            Distribution::RandomAvailable(backends) => {
                let backends = backends
                    .iter()
                    .map(|(backend, weight)| new(backend, *weight));
                Self::Random(backends.collect())
            }
        }
    }
}

impl<S> Distribute<S> {
    /// A choice among `backends`; there may be none.
    pub fn new(backends: RouteBackends<S>, rng: SmallRng) -> Self {
        Self { backends, rng }
    }

    /// Chooses a backend.
    fn choose(&mut self) -> Result<&mut S, Error> {
        let (backends, chosen) = match &mut self.backends {
            RouteBackends::First(backends) => {
                let chosen = first(backends);
                (backends, chosen)
            }
            RouteBackends::Random(backends) => {
                let chosen = random(backends, &mut self.rng);
                (backends, chosen)
            }
            RouteBackends::Weightless => return Err(Reason::NoBackend.into()),
        };
        match chosen {
            Ok(index) => Ok(&mut backends[index].service),
            Err(cause) => {
                let cause = cause.unwrap_or(Unavailable::NoEndpoints);
                Err(Error::new(Reason::Unavailable(cause)))
            }
        }
    }
}

impl<S, Req> Service<Req> for Distribute<S>
where
    S: Service<Req, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = Refusable<S::Future, Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        match self.choose() {
            Ok(backend) => Refusable::called(backend.call(request)),
            Err(error) => Refusable::refused(error),
        }
    }
}

/// The index of the first available backend, or the reason why the last one is not available; `None` without any backend.
fn first<S>(backends: &[RouteBackend<S>]) -> Result<usize, Option<Unavailable>> {
    let mut cause = None;
    for (index, backend) in backends.iter().enumerate() {
        cause = backend.status.unavailable();
        if cause.is_none() {
            return Ok(index);
        }
    }
    Err(cause)
}

/// The index of a random available backend, or the reason why the first draw is not available; `None` if none has a weight.
fn random<S>(
    backends: &[RouteBackend<S>],
    rng: &mut impl Rng,
) -> Result<usize, Option<Unavailable>> {
    // The first draw is almost always available; the others are asked only if it is not.
    let drawn = draw(backends, |_| true, rng).ok_or(None)?;
    let Some(cause) = backends[drawn].status.unavailable() else {
        return Ok(drawn);
    };
    let available: Vec<_> = backends
        .iter()
        .map(|backend| backend.status.unavailable().is_none())
        .collect();
    draw(backends, |index| available[index], rng).ok_or(Some(cause))
}

/// Draws the index of a candidate, by weight.
fn draw<S>(
    backends: &[RouteBackend<S>],
    is_candidate: impl Fn(usize) -> bool,
    rng: &mut impl Rng,
) -> Option<usize> {
    let weights = || {
        let weights = backends.iter().map(|backend| u64::from(backend.weight));
        weights
            .enumerate()
            .filter(|(index, _)| is_candidate(*index))
    };
    let total: u64 = weights().map(|(_, weight)| weight).sum();
    if total == 0 {
        return None;
    }
    let mut left = match backends.len() {
        1 => 0,
        _ => rng.random_range(0..total),
    };
    for (index, weight) in weights() {
        if left < weight {
            return Some(index);
        }
        left -= weight;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use serde_json::Value;
    use std::{cell::Cell, collections::HashMap};
    use tokio_test::assert_ready_ok;
    use tower_test::mock;

    /// A backend whose availability the test sets.
    #[derive(Default)]
    struct Switch(Cell<bool>);

    impl BackendStatus for Switch {
        fn name(&self) -> String {
            String::new()
        }

        fn unavailable(&self) -> Option<Unavailable> {
            self.0.get().then_some(Unavailable::Unreachable)
        }

        fn inspect(&self) -> Value {
            Value::Null
        }
    }

    type Choice<S> = fn(Vec<RouteBackend<S>>) -> RouteBackends<S>;

    fn distribute<S>(
        choice: Choice<S>,
        backends: Vec<(S, u32)>,
    ) -> (Distribute<S>, Vec<Rc<Switch>>) {
        let switches: Vec<Rc<Switch>> = backends.iter().map(|_| Rc::default()).collect();
        let backends = backends.into_iter().zip(&switches);
        let backends = backends.map(|((service, weight), status)| RouteBackend {
            service,
            status: status.clone(),
            weight,
        });
        let rng = SmallRng::seed_from_u64(1);
        let distribute = Distribute::new(choice(backends.collect()), rng);
        (distribute, switches)
    }

    fn reason<T>(result: Result<T, Error>) -> Option<Reason> {
        result.err().map(|error| error.reason())
    }

    #[test]
    fn the_first_available_is_chosen() {
        let (mut distribute, down) = distribute(RouteBackends::First, vec![("a", 1), ("b", 1)]);
        assert_eq!(distribute.choose().unwrap(), &"a");
        down[0].0.set(true);
        assert_eq!(distribute.choose().unwrap(), &"b");
        down[1].0.set(true);
        let unreachable = Reason::Unavailable(Unavailable::Unreachable);
        assert_eq!(reason(distribute.choose()), Some(unreachable));
    }

    #[test]
    fn without_backends_there_is_no_endpoint() {
        for choice in [RouteBackends::First as Choice<()>, RouteBackends::Random] {
            let (mut distribute, _) = distribute(choice, vec![]);
            let none = Reason::Unavailable(Unavailable::NoEndpoints);
            assert_eq!(reason(distribute.choose()), Some(none));
        }
    }

    #[test]
    fn without_weights_there_is_no_backend() {
        let weightless = RouteBackends::<()>::Weightless;
        let mut distribute = Distribute::new(weightless, SmallRng::seed_from_u64(1));
        assert_eq!(reason(distribute.choose()), Some(Reason::NoBackend));
    }

    #[test]
    fn weights_are_shares_and_a_backend_that_is_down_gets_none() {
        let backends = vec![("a", 9), ("b", 1), ("c", 0)];
        let (mut distribute, down) = distribute(RouteBackends::Random, backends);
        let mut shares = || {
            let mut seen = HashMap::new();
            for _ in 0..10_000 {
                *seen.entry(*distribute.choose().unwrap()).or_insert(0) += 1;
            }
            ["a", "b", "c"].map(|name| seen.remove(name).unwrap_or(0))
        };
        let [a, b, c] = shares();
        assert!((8_800..9_200).contains(&a) && a + b == 10_000 && c == 0);
        down[0].0.set(true);
        assert_eq!(shares(), [0, 10_000, 0]);
    }

    #[tokio::test]
    async fn the_chosen_backend_gets_the_request_at_once() {
        let (service, mut handle) = mock::pair::<&str, &str>();
        let mut service = tower::util::MapErr::new(service, |_| Error::new(Reason::Unexpected));
        handle.allow(1);
        assert_ready_ok!(tokio_test::task::spawn(()).enter(|cx, _| service.poll_ready(cx)));
        let (mut distribute, down) = distribute(RouteBackends::Random, vec![(service, 1)]);
        let response = distribute.call("request");
        let (request, respond) = handle.next_request().await.unwrap();
        assert_eq!(request, "request");
        respond.send_response("response");
        assert_eq!(response.await.unwrap(), "response");
        down[0].0.set(true);
        let unreachable = Reason::Unavailable(Unavailable::Unreachable);
        assert_eq!(reason(distribute.call("again").await), Some(unreachable));
    }
}
