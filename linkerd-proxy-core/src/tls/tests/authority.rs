//! An authority that signs certificates of a mesh.

use super::super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer,
    KeyPair,
};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) struct Authority {
    root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    pub(super) anchors: TrustAnchors,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let name = format!("root {:?}", &key.public_key_raw()[..8]);
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap();
        Self {
            root: root.der().clone(),
            issuer: Issuer::new(params, key),
            anchors: TrustAnchors::from_pem(&root.pem()).unwrap(),
        }
    }

    /// The certificate of the authority.
    pub(super) fn root(&self) -> &[u8] {
        &self.root
    }

    pub(super) fn issuer(&self, name: &str) -> CredentialsIssuer {
        let local = LocalIdentity {
            identity: name.parse().unwrap(),
            server_name: name.into(),
        };
        CredentialsIssuer::new(local, self.anchors.clone()).unwrap()
    }

    /// A certificate that is valid for `lifetime` from a minute before `from`.
    pub(super) fn sign(
        &self,
        request: &[u8],
        from: SystemTime,
        lifetime: Duration,
    ) -> CertificateDer<'static> {
        let request = CertificateSigningRequestDer::from(request.to_vec());
        let mut request = CertificateSigningRequestParams::from_der(&request).unwrap();
        request.params.not_before = (from - Duration::from_secs(60)).into();
        request.params.not_after = (from + lifetime).into();
        request.signed_by(&self.issuer).unwrap().der().clone()
    }

    /// Credentials with a certificate for `name`, as verified by a proxy at `now`.
    pub(super) fn issue(
        &self,
        name: &str,
        from: SystemTime,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Arc<Credentials>, InvalidCredentials> {
        let (key, chain) = self.certified(name, from, lifetime);
        self.issuer(name).issue(&key, chain, now).map(Arc::new)
    }

    /// A key and a certificate for `name`.
    pub(super) fn certified(
        &self,
        name: &str,
        from: SystemTime,
        lifetime: Duration,
    ) -> (TlsKey, Vec<CertificateDer<'static>>) {
        let request = KeyAndRequest::generate(&name.parse().unwrap()).unwrap();
        let leaf = self.sign(&request.request, from, lifetime);
        (request.key, vec![leaf])
    }
}
