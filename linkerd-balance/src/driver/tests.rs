use super::*;
use crate::{
    Balance, LoadSettings, Metrics, Params,
    breaker::{BreakerGate, BreakerGroup, OutcomeKind},
};
use linkerd_proxy_core::{
    Backoff, EndpointStatus,
    endpoint::{Capacity, FailureAccrual},
    http::QueueSettings,
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{num::NonZeroU32, time::Duration};
use tokio::{
    task::{LocalSet, yield_now},
    time::advance,
};
use tower::service_fn;

const SECOND: Duration = Duration::from_secs(1);

/// The breaker of an endpoint that one failure ejects for a second.
fn breaker(status: &EndpointStatus) -> Rc<crate::breaker::EndpointBreaker> {
    let rules = FailureAccrual {
        max_consecutive: NonZeroU32::new(1),
        success_rate: None,
        limits_count: false,
        backoff: Backoff::new(SECOND, 60 * SECOND, 0.0).unwrap(),
        respects_retry_after: false,
        min_ready_endpoints: 0,
    };
    let group = BreakerGroup::new("test", rules, SmallRng::seed_from_u64(1));
    group.breaker("endpoint", status.clone())
}

fn params(metrics: Metrics) -> Params {
    Params {
        name: "test".to_owned(),
        queue: QueueSettings {
            capacity: 1,
            failfast: SECOND,
        },
        load: LoadSettings::default(),
        preferences: None,
        metrics,
        rng: SmallRng::seed_from_u64(1),
        on_unreachable: Box::new(|| {}),
    }
}

#[tokio::test(start_paused = true)]
async fn an_ejected_endpoint_is_not_counted_as_ready_although_no_request_comes() {
    let no_request_comes = async {
        let metrics = Metrics::detached();
        let counts = || (metrics.ready.value(), metrics.pending.value());
        let status = EndpointStatus::new(Capacity::OnDemand);
        let breaker = breaker(&status);
        let mut gate = BreakerGate::new(breaker.clone());
        let taken = service_fn(|()| std::future::ready(Ok::<_, Rejected<()>>(())));
        let mut member = Member::new(taken, status, 1);
        member.breaker = Some(breaker);
        let balance = Balance::one::<()>("endpoint", member, params(metrics.clone()));
        yield_now().await;
        assert_eq!(counts(), (1, 0));

        gate.admit()
            .record(OutcomeKind::Failure, None, Instant::now());
        yield_now().await;
        assert_eq!(counts(), (0, 1), "it is ejected");
        assert_eq!(balance.inspect()["ready"], 0);

        advance(SECOND).await;
        yield_now().await;
        assert_eq!(counts(), (1, 0), "it may be probed");
        let probe = gate.admit();
        yield_now().await;
        assert_eq!(counts(), (0, 1), "it has its probe");
        probe.record(OutcomeKind::Success, None, Instant::now());
        yield_now().await;
        assert_eq!(counts(), (1, 0), "it has recovered");
    };
    LocalSet::new().run_until(no_request_comes).await;
}
