//! The series of a route's requests by the service that each names.

use crate::{
    endpoint_metrics::EndpointSeries,
    inbound::service_name::{service_authority, service_name},
    metrics::EndpointFamilies,
};
use linkerd_proxy_core::{http::HttpRequest, metrics::Labels};
use std::{cell::RefCell, collections::HashMap, net::SocketAddr, rc::Rc, sync::Arc};

/// The series of requests that one rule and one authorization let in, with a label for the service that each names
/// (`LINKERD2_PROXY_INBOUND_METRICS_AUTHORITY_LABELS`).
///
/// - **Bounds**: [`MAX_AUTHORITIES`]; the requests of others share one series.
pub struct AuthoritySeries {
    families: Arc<EndpointFamilies>,
    addr: SocketAddr,
    /// The labels before that of the authority, and those after it.
    labels: (Labels, Labels),
    known: RefCell<HashMap<Arc<str>, Rc<EndpointSeries>>>,
}

impl AuthoritySeries {
    /// Series of the application at `addr`. `labels` are those before and after that of the authority.
    pub fn new(
        families: &Arc<EndpointFamilies>,
        addr: SocketAddr,
        labels: (Labels, Labels),
    ) -> Self {
        Self {
            families: families.clone(),
            addr,
            labels,
            known: RefCell::default(),
        }
    }

    /// The series of a request. `None`: the request names an address or nothing, and no service.
    pub fn of_request<B>(&self, request: &HttpRequest<B>) -> Option<Rc<EndpointSeries>> {
        let authority = std::str::from_utf8(service_authority(request)?).ok()?;
        let mut authority = service_name(authority)?.authority();
        let mut known = self.known.borrow_mut();
        if known.len() >= MAX_AUTHORITIES && !known.contains_key(&authority) {
            authority = OTHERS.into();
        }
        let series = known.entry(authority);
        let series = series.or_insert_with_key(|authority| self.series(authority));
        Some(series.clone())
    }

    fn series(&self, authority: &str) -> Rc<EndpointSeries> {
        let (before, after) = self.labels.clone();
        let labels = before.with("authority", authority).and(&after);
        Rc::new(EndpointSeries::new(
            &self.families,
            labels.into(),
            self.addr,
        ))
    }
}

/// The most authorities with their own series, for each rule, authorization and TLS status of clients. Clients choose them.
const MAX_AUTHORITIES: usize = 100;

/// The label of all other authorities.
const OTHERS: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestMetrics;
    use http::{Request, header::HOST};
    use linkerd_proxy_core::http::RequestContext;

    /// Counts a request for a host. `true` if the host names a service.
    fn count(series: &AuthoritySeries, host: &str) -> bool {
        let request = Request::get("/").header(HOST, host).body(()).unwrap();
        let request = HttpRequest::new(request, RequestContext::arriving(None));
        let series = series.of_request(&request);
        let latency = std::time::Duration::ZERO;
        series
            .inspect(|series| series.count_answer(http::StatusCode::OK, latency))
            .is_some()
    }

    #[test]
    fn requests_are_counted_by_authority_up_to_a_bound() {
        let metrics = TestMetrics::new();
        let labels = |name| Labels::new().with(name, 1);
        let addr = ([10, 0, 0, 9], 8080).into();
        let families = &metrics.families.endpoint;
        let series = AuthoritySeries::new(families, addr, (labels("before"), labels("after")));
        assert!(!count(&series, "10.0.0.9:8080"));
        for n in 0..MAX_AUTHORITIES + 10 {
            assert!(count(&series, &format!("Web-{n}.test:80")));
        }
        let counted = |authority| {
            let labels = format!(r#"{{before="1",authority="{authority}",after="1"}}"#);
            metrics.sum("request_total", &[&labels])
        };
        assert_eq!((counted("web-0.test"), counted("web-99.test")), (1.0, 1.0));
        assert_eq!((counted("web-100.test"), counted("other")), (0.0, 10.0));
        assert!(count(&series, "web-7.TEST"));
        assert_eq!((counted("web-7.test"), counted("other")), (2.0, 10.0));
    }
}
