//! X.509 SVIDs, by the call `SpiffeWorkloadAPI.FetchX509SVID`.

use crate::client::{ApiClient, ApiService};
use http::{HeaderValue, Request, Response};
use linkerd_api_proto::{
    stream::method,
    workload::{SECURITY_HEADER, X509SvidRequest, X509SvidResponse},
};
use linkerd_proxy_core::{
    subscription::Call,
    tls::{SvidSource, X509Svid},
};
use std::task::{Context, Poll};
use tonic::{body::Body, codegen::Service};

/// A workload API as a source of X.509 SVIDs.
pub struct GrpcSvidSource<T> {
    client: ApiClient<WorkloadCalls<T>>,
}

/// A service whose calls carry the metadata that a workload API requires.
#[derive(Clone)]
struct WorkloadCalls<T>(T);

impl<T: ApiService> GrpcSvidSource<T> {
    /// A source over a gRPC service.
    pub fn new(service: T) -> Self {
        Self {
            client: ApiClient::with_limit(WorkloadCalls(service), MAX_MESSAGE),
        }
    }
}

impl<T: ApiService> SvidSource for GrpcSvidSource<T> {
    fn svids(&self) -> Call<Vec<X509Svid>> {
        let request = X509SvidRequest {};
        self.client.call(method::FETCH_X509_SVID, request, svids)
    }
}

impl<T: ApiService> Service<Request<Body>> for WorkloadCalls<T> {
    type Response = Response<T::ResponseBody>;
    type Error = T::Error;
    type Future = T::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), T::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> T::Future {
        let headers = request.headers_mut();
        headers.insert(SECURITY_HEADER, HeaderValue::from_static("true"));
        self.0.call(request)
    }
}

fn svids(message: X509SvidResponse) -> Vec<X509Svid> {
    let svids = message.svids.into_iter();
    svids
        .map(|svid| X509Svid {
            spiffe_id: svid.spiffe_id,
            certificates: svid.x509_svid,
            key: svid.x509_svid_key,
            bundle: svid.bundle,
        })
        .collect()
}

/// The largest answer, in bytes: thousands of certificates. gRPC's default.
const MAX_MESSAGE: u32 = 4 * 1024 * 1024;
