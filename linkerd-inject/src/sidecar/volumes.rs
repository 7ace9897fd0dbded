use super::{
    Sidecar,
    names::{IDENTITY_VOLUME, LOCK_VOLUME, TOKEN_VOLUME},
};
use crate::yaml::Yaml;

/// The volumes of the containers.
pub(crate) fn volumes(sidecar: &Sidecar<'_>) -> Vec<Yaml> {
    let mut volumes = Vec::new();
    if !sidecar.mesh.cni {
        volumes.push(Yaml::map([
            ("name", Yaml::str(LOCK_VOLUME)),
            ("emptyDir", Yaml::Map(Vec::new())),
        ]));
    }
    volumes.push(Yaml::map([
        ("name", Yaml::str(IDENTITY_VOLUME)),
        ("emptyDir", Yaml::map([("medium", Yaml::str("Memory"))])),
    ]));
    let token = Yaml::map([
        ("path", Yaml::str(TOKEN_VOLUME)),
        ("expirationSeconds", Yaml::plain(86400)),
        ("audience", Yaml::str("identity.l5d.io")),
    ]);
    let sources = Yaml::List(vec![Yaml::map([("serviceAccountToken", token)])]);
    volumes.push(Yaml::map([
        ("name", Yaml::str(TOKEN_VOLUME)),
        ("projected", Yaml::map([("sources", sources)])),
    ]));
    volumes
}
