//! Explanation of the way that a request would take, without sending it.
//!
//! - **Sits** beside the proxy: the admin server (`/explain`) and the command `explain` share it.
//! - **Reads** the present policies, and asks the workers for the state of the backends. It makes no stack. Unless the query asks
//!   for it, it discovers nothing and keeps no target in use, so that an explanation changes nothing.
//! - **Bounds**: the size of a query; the rules, conditions, backends and names that are shown.

mod backend;
mod document;
mod filter;
mod inbound;
mod known;
mod query;
mod rule;

pub use backend::BackendsQuery;
pub use document::Explanation;
pub use inbound::{InboundExplainer, InboundQuery, explain_inbound};
pub use known::{explain_known, unknown_target};
pub use query::{ExplainQuery, InvalidQuery, QueryFields};
pub use rule::rule_settings;

use futures::future::BoxFuture;
use serde_json::Value;

/// Answers queries from the policies that the proxy holds.
pub type Explainer = Box<dyn Fn(ExplainQuery) -> BoxFuture<'static, ExplainAnswer>>;

/// The answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub enum ExplainAnswer {
    /// The way of the request.
    Explained(Value),
    /// The target is not in use.
    UnknownTarget(Value),
}
