//! The sizes of futures, from `/state`: the heap memory of each connection and each request.

use super::Counted;
use crate::{
    error::{Error, Result},
    http,
    net::ADMIN,
};
use serde_json::Value;

/// Reads the sizes from a sidecar that has served a request.
pub fn sizes() -> Result<Counted> {
    let state = http::document(ADMIN, "/state")?;
    let unexpected = || Error::unexpected("/state", &String::from_utf8_lossy(&state));
    let parsed = serde_json::from_slice(&state).map_err(|_| unexpected())?;
    parse(&parsed).ok_or_else(unexpected)
}

/// The sizes on the first worker; all workers have the same.
fn parse(state: &Value) -> Option<Counted> {
    let worker = state.get("workers")?.get(0)?;
    let bytes = |direction: &str| worker.get(direction)?.get("future_bytes");
    let outbound = bytes("outbound")?;
    let request = outbound.get("request")?;
    let client = positive(request.get("client")?)?;
    let sizes = [
        (CONNECTION, positive(outbound.get("connection")?)?),
        (INBOUND, positive(bytes("inbound")?.get("connection")?)?),
        (REQUEST, positive(request.get("route")?)? + client),
    ];
    Some(sizes.map(|(name, size)| (name.to_owned(), size)).into())
}

/// An unknown size is shown as zero.
fn positive(size: &Value) -> Option<f64> {
    size.as_f64().filter(|size| *size > 0.0)
}

const CONNECTION: &str = "bytes-of-a-connection";
const INBOUND: &str = "bytes-of-an-inbound-connection";
const REQUEST: &str = "bytes-of-a-request";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(client: u32) -> Value {
        let request = json!({ "route": 500, "client": client });
        json!({ "workers": [{
            "outbound": { "future_bytes": { "connection": 2500, "request": request } },
            "inbound": { "future_bytes": { "connection": 2400 } },
        }]})
    }

    #[test]
    fn a_request_has_what_route_and_client_box() {
        let sizes = parse(&state(300)).unwrap();
        assert_eq!(sizes[REQUEST], 800.0);
        assert_eq!((sizes[CONNECTION], sizes[INBOUND]), (2500.0, 2400.0));
    }

    #[test]
    fn what_is_not_known_is_no_size() {
        assert_eq!(parse(&state(0)), None);
        assert_eq!(parse(&json!({ "workers": [] })), None);
    }
}
