//! Conditions of authorizations.

use std::fmt;

/// A condition of an authorization that a client does not meet. Conditions are checked in this order, so that a later one
/// is nearer to an admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnmetCondition {
    /// The client is in none of the networks.
    Network,
    /// The client is in an excluded part of a network.
    ExceptedNetwork,
    /// The proxy does not terminate the client's TLS, or there is none.
    NoTls,
    /// The client has not shown a certificate.
    NoIdentity,
    /// The identity of the client is not among the admitted ones.
    IdentityNotListed,
}

impl UnmetCondition {
    /// The name of the condition in logs and in `/explain`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::ExceptedNetwork => "excepted network",
            Self::NoTls => "no TLS",
            Self::NoIdentity => "no identity",
            Self::IdentityNotListed => "identity not listed",
        }
    }
}

impl fmt::Display for UnmetCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
