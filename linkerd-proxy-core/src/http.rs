//! HTTP: servers, clients, and the changes to a message on its way.

mod attempt_notes;
mod body;
mod body_error;
mod classify;
pub mod client;
mod deadline;
mod exec;
mod framing;
mod half_sent;
mod head;
mod hop_by_hop;
mod host;
mod idle;
mod merged;
mod message;
mod observe;
mod peer_failure;
mod proxy_status;
mod received;
mod replay;
mod replay_layer;
mod request;
mod request_copy;
mod request_notes;
mod respond;
mod responder;
mod response;
mod response_class;
mod retry_after;
mod server;
mod settings;
mod upgrade;
mod upload;

pub use attempt_notes::{AttemptNotes, EndpointId, QueueNote};
pub use body::{RequestBody, Scrub};
pub use body_error::BodyError;
pub use classify::{grpc_name, grpc_status, is_failure, is_grpc};
pub use deadline::{Deadline, LastFrame, TimerPool};
pub use exec::LocalExec;
pub use half_sent::{HalfSent, HalfSentBound};
pub use head::{prepare_request, prepare_response};
pub use message::{
    add_host, authority, for_http2, has_any, host_and_port, host_from_target, to_absolute_form,
    to_origin_form,
};
pub use observe::{
    BodyEnd, Now, ObserveRequest, ObserveResponse, ObservedRequest, ObservedResponse,
};
pub use peer_failure::{CloseClient, PeerAnswer, PeerFailure};
pub use proxy_status::remove_proxy_status;
pub use replay_layer::{ReplayLayer, ReplayService, is_idempotent};
pub use request::{HttpRequest, RequestContext, Returns};
pub use request_copy::RequestCopy;
pub use request_notes::{RequestNotes, RequestWay};
pub use respond::{L5D_PROXY_CONNECTION, L5D_PROXY_ERROR};
pub use responder::Responder;
pub use response::{ObserveBrokenResponse, ResponseBody};
pub use response_class::{ClassMatch, ResponseClass, ResponseClasses, ResponseMatch};
pub use retry_after::{retry_after, retry_pushback};
pub use server::{
    Busy, Connection, ServeError, ServerSettings, Uploading, refuse, serve_http1, serve_http2,
};
pub use settings::{FlowControl, Http2Settings, KeepAlive, PoolSettings, QueueSettings};
pub use upgrade::{Upgrade, decline_upgrade, upgraded, wants_upgrade};
pub use upload::Upload;
