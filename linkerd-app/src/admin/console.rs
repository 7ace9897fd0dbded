//! `/console`: a page that shows the state of this proxy, from assets inside the binary.
//!
//! The page reads `/state`, `/metrics`, `/env.json` and `/explain` of this server and nothing else: its policy allows no
//! other origin, no inline script and no frame around it.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::AdminRequest,
};
use crate::config::ConsoleAccess;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A file of the console.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConsoleAsset {
    content_type: &'static str,
    text: &'static str,
}

/// The file at `/console/` and this name, or the page for the empty name.
pub(super) fn asset(name: &str) -> Option<ConsoleAsset> {
    let found = ASSETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, asset)| *asset)
}

/// Answers with a file of the console, to the clients that its setting lets in.
pub(super) fn serve(admin: &AdminContext, request: &AdminRequest, asset: ConsoleAsset) -> Reply {
    if admin.console == ConsoleAccess::Off {
        return reply::empty(StatusCode::NOT_FOUND);
    }
    if let Some(refusal) = request.refuse_readers(admin) {
        return refusal;
    }
    if !matches!(*request.http.method(), Method::GET | Method::HEAD) {
        return reply::not_allowed(&[Method::GET]);
    }
    let tag = asset.tag();
    let known = request.http.headers().get_all(header::IF_NONE_MATCH);
    let is_known = known
        .iter()
        .filter_map(|tags| tags.to_str().ok())
        .any(|tags| tags.contains(&*tag));
    let mut reply = match is_known {
        true => reply::empty(StatusCode::NOT_MODIFIED),
        false => reply::bare(StatusCode::OK, asset.text),
    };
    let headers = reply.headers_mut();
    let content_type = HeaderValue::from_static(asset.content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// The scripts, by name.
#[cfg(test)]
pub(super) fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let scripts = ASSETS.iter().filter(|(name, _)| name.ends_with(".js"));
    scripts.map(|(name, asset)| (*name, asset.text))
}

impl ConsoleAsset {
    /// The entity tag: another build with other contents has another one.
    fn tag(self) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

/// The headers of each file. A browser asks for it again each time, so that the page is that of the running build.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-cache"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];

/// A script of the page, by the name of its file.
macro_rules! script {
    ($name:literal) => {
        (
            $name,
            ConsoleAsset {
                content_type: "text/javascript; charset=utf-8",
                text: include_str!(concat!("console/", $name)),
            },
        )
    };
}

/// The files, by name.
const ASSETS: [(&str, ConsoleAsset); 17] = [
    (
        "",
        ConsoleAsset {
            content_type: "text/html; charset=utf-8",
            text: include_str!("console/console.html"),
        },
    ),
    (
        "console.css",
        ConsoleAsset {
            content_type: "text/css; charset=utf-8",
            text: include_str!("console/console.css"),
        },
    ),
    script!("console.js"),
    script!("configuration.js"),
    script!("elements.js"),
    script!("explain.js"),
    script!("failures.js"),
    script!("filter.js"),
    script!("fold.js"),
    script!("live.js"),
    script!("mesh.js"),
    script!("now.js"),
    script!("outputs.js"),
    script!("series.js"),
    script!("texts.js"),
    script!("topology.js"),
    script!("traffic.js"),
];
