//! A query for an explanation, as parameters, as JSON or from the command line.

use super::ExplainAnswer;
use crate::dst_override::{override_target, take_override};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header::HOST};
use linkerd_profiles::Target;
use linkerd_proxy_core::http::host_and_port;
use serde_json::{Value, json};

/// The request that is to be explained.
#[derive(Clone, Debug)]
pub struct ExplainQuery {
    /// The method.
    pub method: Method,
    /// The URL in full.
    pub url: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The target of its connection.
    pub target: Target,
    /// The version of HTTP. `None`: that of the policy, or else HTTP/1.1.
    pub version: Option<Version>,
    /// Whether the control plane is asked for a target that is not in use.
    pub discover: bool,
}

/// The texts of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryFields {
    /// The method; GET by default.
    pub method: Option<String>,
    /// The URL.
    pub url: Option<String>,
    /// Headers, as `name: value`.
    pub headers: Vec<String>,
    /// The target, if it is not the authority of the URL.
    pub target: Option<String>,
    /// The version of HTTP: 1 or 2.
    pub version: Option<String>,
    /// 1 to ask the control plane for a target that is not in use; 0 by default.
    pub discover: Option<String>,
    /// The port of an inbound request; without one it is outbound.
    pub port: Option<String>,
    /// The address of an inbound request's client.
    pub client: Option<String>,
    /// The identity of that client.
    pub identity: Option<String>,
}

impl ExplainQuery {
    /// Sets the target to the service that `l5d-dst-override` names, as in ingress mode. `Err` is the answer if it names none.
    pub fn take_override(&mut self) -> Result<(), ExplainAnswer> {
        let named = take_override(&mut self.headers);
        let target = named.and_then(|named| named.as_ref().map(override_target).transpose());
        match target {
            Ok(Some(named)) => self.target = named,
            Ok(None) => {}
            Err(error) => {
                return Err(ExplainAnswer::Explained(json!({
                    "target": self.target.to_string(),
                    "refused": error.to_string(),
                })));
            }
        }
        Ok(())
    }
}

/// A query that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {problem}; {fix}")]
pub struct InvalidQuery {
    /// The parameter.
    pub parameter: &'static str,
    /// The problem with its value.
    pub problem: String,
    /// A value that works.
    pub fix: &'static str,
}

impl QueryFields {
    /// Reads the parameters of a URL.
    pub fn of_parameters(query: &str) -> Result<Self, InvalidQuery> {
        let mut fields = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            fields.set(&name, value.into_owned())?;
        }
        Ok(fields)
    }

    /// Reads an object with the same names. `headers` is an object, or `header` a list of `name: value`.
    pub fn of_json(body: &[u8]) -> Result<Self, InvalidQuery> {
        let parsed: Value = serde_json::from_slice(body)
            .map_err(|error| InvalidQuery::new("body", error.to_string(), JSON))?;
        let Value::Object(members) = parsed else {
            return Err(InvalidQuery::new("body", "it is no object", JSON));
        };
        let mut fields = Self::default();
        for (name, value) in members {
            match (&*name, value) {
                (_, Value::String(value)) => fields.set(&name, value)?,
                ("version" | "port" | "discover", Value::Number(number)) => {
                    fields.set(&name, number.to_string())?;
                }
                ("header", Value::Array(values)) => {
                    for value in values {
                        let value = value.as_str().ok_or_else(|| {
                            InvalidQuery::new("header", "a value is no text", HEADER)
                        })?;
                        fields.set("header", value.to_owned())?;
                    }
                }
                ("headers", Value::Object(headers)) => {
                    for (name, value) in headers {
                        let value = value.as_str().ok_or_else(|| {
                            let problem = format!("the value of {name:?} is no text");
                            InvalidQuery::new("headers", problem, JSON)
                        })?;
                        fields.set("header", format!("{name}:{value}"))?;
                    }
                }
                _ => {
                    let problem = format!("the value of {:?} has another type", shortened(&name));
                    return Err(InvalidQuery::new("body", problem, JSON));
                }
            }
        }
        Ok(fields)
    }

    /// The parameters of a URL.
    pub fn to_parameters(&self) -> String {
        let mut parameters = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("method", &self.method),
            ("url", &self.url),
            ("target", &self.target),
            ("version", &self.version),
            ("discover", &self.discover),
            ("port", &self.port),
            ("client", &self.client),
            ("identity", &self.identity),
        ] {
            if let Some(value) = value {
                parameters.append_pair(name, value);
            }
        }
        for header in &self.headers {
            parameters.append_pair("header", header);
        }
        parameters.finish()
    }

    /// Checks the fields.
    pub fn check(&self) -> Result<ExplainQuery, InvalidQuery> {
        let method = self.checked_method()?;
        let url = self.checked_url()?;
        let authority = url.authority().ok_or_else(|| {
            InvalidQuery::new("url", "it names no host", "for example url=http://web/path")
        })?;
        let target = match &self.target {
            Some(target) => target.parse().map_err(|_| {
                let problem = format!("{:?} is no target", shortened(target));
                InvalidQuery::new("target", problem, "for example target=10.0.0.1:80")
            })?,
            None => {
                let (host, port) = host_and_port(authority, 80);
                Target::new(&host, port).map_err(|_| {
                    let problem = format!("{:?} names no host and port", shortened(&host));
                    InvalidQuery::new("url", problem, "for example url=http://web:8080/path")
                })?
            }
        };
        Ok(ExplainQuery {
            method,
            headers: self.checked_headers()?,
            target,
            version: match self.version.as_deref() {
                None => None,
                Some("1" | "1.0" | "1.1") => Some(Version::HTTP_11),
                Some("2" | "2.0") => Some(Version::HTTP_2),
                Some(other) => {
                    let problem = format!("{:?} is no version of HTTP", shortened(other));
                    return Err(InvalidQuery::new("version", problem, "use 1 or 2"));
                }
            },
            discover: match self.discover.as_deref() {
                None | Some("0" | "false") => false,
                Some("1" | "true") => true,
                Some(other) => {
                    let problem = format!("{:?} is neither 0 nor 1", shortened(other));
                    return Err(InvalidQuery::new("discover", problem, "use 0 or 1"));
                }
            },
            url,
        })
    }

    pub(super) fn checked_method(&self) -> Result<Method, InvalidQuery> {
        let method = self.method.as_deref().unwrap_or("GET");
        Method::from_bytes(method.as_bytes()).map_err(|_| {
            let problem = format!("{:?} is no method", shortened(method));
            InvalidQuery::new("method", problem, "for example method=GET")
        })
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), InvalidQuery> {
        let (field, parameter) = match name {
            "method" => (&mut self.method, "method"),
            "url" => (&mut self.url, "url"),
            "target" => (&mut self.target, "target"),
            "version" => (&mut self.version, "version"),
            "discover" => (&mut self.discover, "discover"),
            "port" => (&mut self.port, "port"),
            "client" => (&mut self.client, "client"),
            "identity" => (&mut self.identity, "identity"),
            "header" => {
                self.headers.push(value);
                return Ok(());
            }
            other => {
                let problem = format!("{:?} is not known", shortened(other));
                return Err(InvalidQuery::new("parameter", problem, PARAMETERS));
            }
        };
        match field.replace(value) {
            None => Ok(()),
            Some(_) => Err(InvalidQuery::new(
                parameter,
                "it is there twice",
                "keep one",
            )),
        }
    }

    pub(super) fn checked_url(&self) -> Result<Uri, InvalidQuery> {
        let url = self.url.as_deref().unwrap_or_default();
        if url.is_empty() {
            let example = "add url=http://web/path";
            return Err(InvalidQuery::new("url", "it is missing", example));
        }
        let url = match url.contains("://") {
            true => url.to_owned(),
            false => format!("http://{url}"),
        };
        let parsed: Uri = url.parse().map_err(|_| {
            let problem = format!("{:?} is no URL", shortened(&url));
            InvalidQuery::new("url", problem, "for example url=http://web/path")
        })?;
        match parsed.scheme_str() {
            Some("http") => Ok(parsed),
            _ => Err(InvalidQuery::new(
                "url",
                "its scheme is not http",
                "requests within TLS pass as bytes and meet no route; use http://",
            )),
        }
    }

    pub(super) fn checked_headers(&self) -> Result<HeaderMap, InvalidQuery> {
        if self.headers.len() > MAX_HEADERS {
            let problem = format!("there are {}", self.headers.len());
            return Err(InvalidQuery::new("header", problem, "at most 100 are read"));
        }
        let mut headers = HeaderMap::new();
        for header in &self.headers {
            let invalid = || {
                let problem = format!("{:?} is no header", shortened(header));
                InvalidQuery::new("header", problem, HEADER)
            };
            let (name, value) = header.split_once(':').ok_or_else(invalid)?;
            let name = HeaderName::try_from(name.trim()).map_err(|_| invalid())?;
            let value = HeaderValue::try_from(value.trim()).map_err(|_| invalid())?;
            headers.append(name, value);
        }
        Ok(headers)
    }
}

impl ExplainQuery {
    /// The request at the routes of the target. An explicit `Host` comes before that of the URL, as with curl.
    pub fn request(&self, version: Version) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.version_mut() = version;
        *request.headers_mut() = self.headers.clone();
        *request.uri_mut() = match (self.headers.contains_key(HOST), self.url.path_and_query()) {
            (true, Some(path)) => Uri::from(path.clone()),
            _ => self.url.clone(),
        };
        request
    }
}

impl InvalidQuery {
    pub(super) fn new(
        parameter: &'static str,
        problem: impl Into<String>,
        fix: &'static str,
    ) -> Self {
        let problem = problem.into();
        Self {
            parameter,
            problem,
            fix,
        }
    }
}

/// The beginning of a text, for an error.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

const PARAMETERS: &str = "use method, url, header, target, version or discover; of an inbound request port, client or identity";

const HEADER: &str = "for example header=x-version:2";

const JSON: &str =
    r#"for example {"method": "GET", "url": "http://web/path", "headers": {"x-version": "2"}}"#;

/// Servers accept about as many.
const MAX_HEADERS: usize = 100;

/// Characters of a value in an error.
const MAX_SHOWN: usize = 100;

#[cfg(test)]
mod tests;
