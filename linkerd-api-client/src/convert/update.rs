//! Updates of endpoint sets.

use super::endpoint::{Converted, endpoint, socket_addr};
use linkerd_api_proto::destination::{Update, update};
use linkerd_discover::{EndpointSetChange, EndpointUpdate, IgnoredPart};
use linkerd_proxy_core::{endpoint::SetLabels, yielding::with_yields};

/// The usable part of an update.
pub fn endpoint_update(update: Update) -> EndpointUpdate {
    let mut ignored = Vec::new();
    let change = match update.update {
        Some(update::Update::Add(set)) => {
            let labels: SetLabels = set.metric_labels.into_iter().collect();
            let mut endpoints = Vec::with_capacity(set.addrs.len());
            for addr in with_yields(set.addrs) {
                match endpoint(addr, &labels) {
                    Ok(Converted {
                        endpoint,
                        ignored: parts,
                    }) => {
                        let addr = endpoint.addr;
                        let parts = parts.into_iter();
                        ignored.extend(parts.map(|part| IgnoredPart::Metadata { addr, part }));
                        endpoints.push(endpoint);
                    }
                    Err(error) => ignored.push(IgnoredPart::Endpoint(error.to_string())),
                }
            }
            (!endpoints.is_empty()).then_some(EndpointSetChange::Add(endpoints))
        }
        Some(update::Update::Remove(set)) => {
            let mut addrs = Vec::with_capacity(set.addrs.len());
            for addr in with_yields(set.addrs) {
                match socket_addr(addr) {
                    Ok(addr) => addrs.push(addr),
                    Err(error) => ignored.push(IgnoredPart::Endpoint(error.to_string())),
                }
            }
            (!addrs.is_empty()).then_some(EndpointSetChange::Remove(addrs))
        }
        Some(update::Update::NoEndpoints(none)) => Some(EndpointSetChange::Clear {
            exists: none.exists,
        }),
        None => None,
    };
    EndpointUpdate { change, ignored }
}

#[cfg(test)]
mod tests;
