//! Backends and the choice between them.

use super::{
    invalid::InvalidPolicy,
    parts::{duration, meta, required},
};
use crate::convert::endpoint::endpoint;
use linkerd_api_proto::{outbound as wire_outbound, prost_types};
use linkerd_profiles::{
    Backend, Dispatcher, Distribution, FailureAccrual, LoadPenalty, PeakEwma, TcpFilter,
};
use linkerd_proxy_core::endpoint::SetLabels;
use std::{sync::Arc, time::Duration};

/// A distribution: the API has a type for each kind of route, all of the same shape.
pub(super) enum Shape<B> {
    Empty,
    First(Vec<B>),
    Random(Vec<(Option<B>, u32)>),
}

impl<B> Shape<B> {
    /// The same distribution, over other backends.
    pub(super) fn map<C>(self, mut map: impl FnMut(B) -> C) -> Shape<C> {
        match self {
            Self::Empty => Shape::Empty,
            Self::First(backends) => Shape::First(backends.into_iter().map(map).collect()),
            Self::Random(backends) => {
                let backends = backends.into_iter();
                let mapped = backends.map(|(backend, weight)| (backend.map(&mut map), weight));
                Shape::Random(mapped.collect())
            }
        }
    }
}

/// Reads the distribution of one kind of route into its [`Shape`].
macro_rules! shape {
    ($wire:expr, $module:ident) => {{
        use linkerd_api_proto::outbound::$module::distribution::Kind;
        match $wire.and_then(|distribution| distribution.kind) {
            None => Err(InvalidPolicy::Missing("a rule's distribution")),
            Some(Kind::Empty(_)) => Ok(Shape::Empty),
            Some(Kind::FirstAvailable(first)) => Ok(Shape::First(first.backends)),
            Some(Kind::RandomAvailable(random)) => Ok(Shape::Random(
                random
                    .backends
                    .into_iter()
                    .map(|weighted| (weighted.backend, weighted.weight))
                    .collect(),
            )),
        }
    }};
}
pub(super) use shape;

/// Converts a distribution, and its backends by `convert`.
pub(super) fn distribution<B, C>(
    shape: Shape<B>,
    mut convert: impl FnMut(B) -> Result<C, InvalidPolicy>,
) -> Result<Distribution<C>, InvalidPolicy> {
    match shape {
        Shape::Empty => Ok(Distribution::Empty),
        // This rule alone fails: the other rules of the policy can be followed.
        Shape::First(backends) if backends.is_empty() => Ok(Distribution::Weightless),
        Shape::First(backends) => {
            let mut chosen = Vec::with_capacity(backends.len());
            for backend in backends {
                chosen.push(convert(backend)?);
            }
            // Not collected: that would convert in place, and keep the memory of the messages, a few KB for each backend.
            Ok(Distribution::FirstAvailable(chosen))
        }
        Shape::Random(backends) => {
            let mut chosen = Vec::with_capacity(backends.len());
            for (backend, weight) in backends {
                let backend = convert(required(backend, "a weighted backend")?)?;
                // A backend without weight is never chosen.
                if weight > 0 {
                    chosen.push((backend, weight));
                }
            }
            chosen
                .iter()
                .try_fold(0u32, |sum, (_, weight)| sum.checked_add(*weight))
                .ok_or(InvalidPolicy::Weights)?;
            if chosen.len() > 1 {
                return Ok(Distribution::RandomAvailable(chosen));
            }
            Ok(match chosen.pop() {
                Some((only, _)) => Distribution::only(only),
                None => Distribution::Weightless,
            })
        }
    }
}

/// A backend of requests. `accrual` is the breaker of its protocol.
pub(super) fn http_backend(
    wire: Option<wire_outbound::Backend>,
    accrual: Option<&Arc<FailureAccrual>>,
) -> Result<Backend, InvalidPolicy> {
    let mut backend = backend(wire)?;
    if let Dispatcher::Balance { breaker, .. } = &mut backend.dispatcher {
        *breaker = accrual.cloned();
    }
    Ok(backend)
}

/// A backend of connections. A load with penalties is one without, as with the incumbent: connections have no responses to
/// penalise.
pub(super) fn tcp_backend(
    wire: Option<wire_outbound::Backend>,
    filter: Option<TcpFilter>,
) -> Result<Backend, InvalidPolicy> {
    let mut backend = backend(wire)?;
    if let Dispatcher::Balance { load, .. } = &mut backend.dispatcher {
        load.penalty = None;
    }
    Ok(Backend { filter, ..backend })
}

fn backend(wire: Option<wire_outbound::Backend>) -> Result<Backend, InvalidPolicy> {
    use wire_outbound::backend::Kind;
    let wire = required(wire, "a backend")?;
    let meta = meta(wire.metadata, "a backend's metadata")?;
    // Checked but not used: the environment sets the bounds of queues.
    let queue = required(wire.queue, "a backend's queue")?;
    duration(queue.failfast_timeout, "a queue's failfast timeout")?;
    let dispatcher = match wire.kind {
        // The rest of the policy may be valid, so only this backend fails.
        None => Dispatcher::Fail(format!("backend {meta} has no dispatcher")),
        Some(Kind::Forward(addr)) => {
            let converted = endpoint(addr, &SetLabels::default())?;
            Dispatcher::Forward(Arc::new(converted.endpoint))
        }
        Some(Kind::Balancer(balancer)) => balance(balancer)?,
    };
    Ok(Backend {
        meta,
        dispatcher,
        filter: None,
    })
}

fn balance(wire: wire_outbound::backend::BalanceP2c) -> Result<Dispatcher, InvalidPolicy> {
    use wire_outbound::backend::{balance_p2c::Load, endpoint_discovery::Kind};
    let discovery = wire.discovery.and_then(|discovery| discovery.kind);
    let Kind::Dst(dst) = required(discovery, "a balancer's discovery")?;
    let destination = dst.path.parse()?;
    let load = match required(wire.load, "a balancer's load")? {
        Load::PeakEwma(load) => peak_ewma(
            duration(load.default_rtt, "a balancer's default RTT")?,
            duration(load.decay, "a balancer's decay")?,
        ),
        Load::PenaltyPeakEwma(load) => penalty_peak_ewma(load)?,
    };
    Ok(Dispatcher::Balance {
        destination,
        load,
        breaker: None,
    })
}

fn peak_ewma(default_rtt: Duration, decay: Duration) -> PeakEwma {
    PeakEwma {
        default_rtt,
        decay: window(decay),
        penalty: None,
    }
}

/// Each part has a default.
fn penalty_peak_ewma(
    wire: wire_outbound::backend::balance_p2c::PenaltyPeakEwma,
) -> Result<PeakEwma, InvalidPolicy> {
    let or = |wire: Option<prost_types::Duration>, default: Duration, part| match wire {
        Some(_) => duration(wire, part),
        None => Ok(default),
    };
    let standard = PeakEwma::default();
    let default_rtt = or(
        wire.default_rtt,
        standard.default_rtt,
        "a balancer's default RTT",
    )?;
    let decay = or(wire.decay, standard.decay, "a balancer's decay")?;
    let penalty = LoadPenalty {
        penalty: or(wire.penalty, PENALTY, "a balancer's penalty")?,
        decay: window(or(
            wire.penalty_decay,
            PENALTY_DECAY,
            "the decay of a balancer's penalty",
        )?),
        max_retry_after: or(
            wire.max_retry_after,
            MAX_RETRY_AFTER,
            "a balancer's longest retry-after",
        )?,
    };
    Ok(PeakEwma {
        penalty: Some(Arc::new(penalty)),
        ..peak_ewma(default_rtt, decay)
    })
}

/// A window of an average, which divides by the window: it cannot be 0.
fn window(wire: Duration) -> Duration {
    wire.max(Duration::from_millis(1))
}

// The API's defaults.
const PENALTY: Duration = Duration::from_secs(5);
const PENALTY_DECAY: Duration = Duration::from_secs(10);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);
