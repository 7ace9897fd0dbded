//! Encryption: identities of the mesh, certificates, and TLS on either side of the proxy.

mod algorithms;
mod anchor_details;
mod certificate;
mod client;
mod client_hello;
mod credentials;
mod endpoint_trust;
mod identity;
mod key;
mod peer_trust;
mod probe;
mod provider;
mod publisher;
mod refresh;
mod server;
mod source;
mod status;
mod stream;
mod svid;
#[cfg(test)]
mod tests;
mod transport_header;
mod trust_anchors;
mod verify;

pub use algorithms::{cipher_suites, key_exchange_groups};
pub use anchor_details::AnchorDetails;
pub use certificate::{CertificateDetails, InvalidCertificate, Validity};
pub use client::MeshClient;
pub use client_hello::{ClientHello, FirstBytes, NoClientHello, read_client_hello};
pub use credentials::{Credentials, CredentialsIssuer, InvalidCredentials, LocalIdentity};
pub use endpoint_trust::EndpointTrust;
pub use identity::{Identity, InvalidIdentity, is_dns_name};
pub use key::{InvalidKey, KeyAndRequest, TlsKey};
pub use peer_trust::{PeerChain, PeerTrust};
pub use probe::{ProbeError, ServerProbe};
pub use publisher::{AnchorsChange, CredentialsPublisher, CredentialsWatch, PresentCredentials};
pub use refresh::RefreshBounds;
pub use rustls::{Error as TlsError, pki_types::DnsName};
pub use server::{MeshServer, Terminated};
pub use source::{
    CertificateRequest, CertificateSource, CertifyError, IssuedCertificate, SvidSource,
};
pub use status::{NoTlsReason, TlsStatus};
pub use svid::{InvalidSvid, SvidContents, X509Svid};
pub use transport_header::{SessionProtocol, TransportHeader};
pub use trust_anchors::{InvalidTrustAnchors, TrustAnchors};
