//! Texts of ways to endpoints, for lines of the full form. A worker keeps formatted texts: most requests take the way of an
//! earlier one.

use linkerd_proxy_core::http::RequestWay;
use serde_json::{Value, json};
use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
};

/// The texts of ways that requests took. A new text may replace an old one.
pub struct WayTexts(Box<[Option<WayText>]>);

struct WayText {
    way: RequestWay,
    text: Box<[u8]>,
}

impl WayTexts {
    /// The text of a way, made by `format` if it is not known.
    pub fn text(&mut self, way: &RequestWay, format: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let slot = &mut self.0[slot(way)];
        if slot.as_ref().is_none_or(|known| !is_same(&known.way, way)) {
            *slot = None;
        }
        let known = slot.get_or_insert_with(|| {
            let mut text = Vec::new();
            format(&mut text);
            WayText {
                way: way.clone(),
                text: text.into(),
            }
        });
        &known.text
    }

    /// The number and bytes of the texts, for `/state`.
    pub fn inspect(&self) -> Value {
        let texts = self.0.iter().flatten();
        json!({
            "known": texts.clone().count(),
            "limit": SLOTS,
            "bytes": texts.map(|known| known.text.len()).sum::<usize>(),
        })
    }
}

impl Default for WayTexts {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| None).collect())
    }
}

/// Whether ways are the same. Names are compared by their address in memory: a kept way keeps its names there.
fn is_same(one: &RequestWay, other: &RequestWay) -> bool {
    is_same_name(one.route.as_ref(), other.route.as_ref())
        && is_same_name(one.backend.as_ref(), other.backend.as_ref())
        && one.endpoint == other.endpoint
        && one.identity == other.identity
}

fn is_same_name(one: Option<&Rc<str>>, other: Option<&Rc<str>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Rc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// The slot of a way, by its endpoint and the address of its route in memory.
fn slot(way: &RequestWay) -> usize {
    let host = match way.endpoint.map(|endpoint| endpoint.ip()) {
        Some(IpAddr::V4(ip)) => ip.to_bits() as usize,
        Some(IpAddr::V6(ip)) => ip.to_bits() as usize,
        None => 0,
    };
    let port = way.endpoint.as_ref().map_or(0, SocketAddr::port);
    let route = way.route.as_ref();
    let route = route.map_or(0, |route| Rc::as_ptr(route).addr() / 16);
    (host ^ usize::from(port) ^ route) % SLOTS
}

/// Some 100 KB of text and their keys.
const SLOTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn way(route: &Rc<str>, last: u8) -> RequestWay {
        RequestWay {
            route: Some(route.clone()),
            endpoint: Some(([10, 0, 0, last], 80).into()),
            ..RequestWay::default()
        }
    }

    #[test]
    fn a_way_is_formatted_once_and_again_after_another_in_its_place() {
        let mut texts = WayTexts::default();
        let route: Rc<str> = "r".into();
        let mut formatted = 0;
        let other = RequestWay {
            identity: Some("web.shop".parse().unwrap()),
            ..way(&route, 1)
        };
        for (way, expected) in [
            (way(&route, 1), 1),
            (way(&route, 1), 1),
            (way(&route, 2), 2),
            (way(&route, 1), 2),
            (other, 3),
            (way(&route, 1), 4),
        ] {
            let name = format!("{way:?}");
            let text = texts.text(&way, |text| {
                formatted += 1;
                text.extend_from_slice(name.as_bytes());
            });
            assert_eq!(text, name.as_bytes());
            assert_eq!(formatted, expected, "{name}");
        }
        let state = texts.inspect();
        assert_eq!((&state["known"], &state["limit"]), (&json!(2), &json!(256)));
        assert_ne!(state["bytes"], 0);
    }
}
