//! Connections before the first certificate of a proxy with an identity: they wait, as the incumbent accepts none of them yet.

use crate::identity::MeshIdentity;
use linkerd_proxy_core::{
    Error, Reason,
    http::{Responder, refuse},
    transport::{ClientInfo, Detected, Lookalikes, TransportStream, detect},
};
use std::time::Duration;

/// Waits for the first certificate, until `timeout` or drain. A request that has arrived meanwhile is answered.
///
/// Fails as `NoCertificate`. Must be called in a box: it is rarely needed.
pub async fn wait_for_certificate(
    mesh: &MeshIdentity,
    stream: &mut TransportStream,
    client: &ClientInfo,
    timeout: Duration,
    answers: Responder,
) -> Result<(), Error> {
    let mut drain = client.listener.drain().watch();
    let late = tokio::select! {
        biased;
        certified = tokio::time::timeout(timeout, mesh.server().certified()) => match certified {
            Ok(certified) => return certified,
            Err(_) => format!("this proxy has had no certificate for {timeout:?}: it forwards nothing before the first"),
        },
        () = drain.signaled() => "this proxy drains, and has had no certificate".to_owned(),
    };
    let error = Error::new(Reason::NoCertificate).detail(late);
    let arrived = detect(stream, Duration::ZERO, Lookalikes::Http).await;
    if let Ok((Some(Detected::Http1), _)) = arrived {
        refuse(stream, Some(answers), &error).await;
    }
    Err(error)
}
