//! The server's side of both directions: connections are accepted, their protocol is detected, and HTTP is served.
//!
//! | layer | effect |
//! |---|---|
//! | [`RespondLayer`] | an error becomes an answer, here and nowhere else |
//! | [`InFlightLimitLayer`] | bounds the requests of a worker |
//! | [`NormaliseLayer`] | checks the message, and removes hop-by-hop fields |

mod accept;
mod certificate;
mod claims;
mod detect;
mod in_flight;
mod in_use;
mod normalise;
mod relayed;
mod respond;
mod serve;
mod silence;

pub use accept::accept;
pub use certificate::wait_for_certificate;
pub use claims::{
    L5D_CLIENT_ID, L5D_DST_CANONICAL, remove_claims, remove_other_spellings, remove_spellings,
};
pub use detect::{DetectSettings, detect};
pub use in_flight::{InFlightLimit, InFlightLimitLayer, share};
pub use in_use::InUse;
pub use normalise::{ClientClaims, NormaliseLayer};
pub use relayed::{BROKEN_OFF, FoundRequest, RelayEnd, relay_connection, relay_until_request};
pub use respond::{Answers, RespondLayer};
pub use serve::serve;
pub use silence::{FirstSpeaker, SilentDestinations};
