//! The mesh file as it is written.

use super::error::{MeshError, Problem};
use crate::policy::Protocol;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_saphyr::{Error, MessageFormatter, Spanned, UserMessageFormatter};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// `None` if nothing is written, which is more likely a half-written file than a mesh of no services.
    pub(super) services: Option<Vec<Service>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Service {
    pub(super) name: Spanned<String>,
    pub(super) namespace: Option<Spanned<String>>,
    pub(super) port: Option<Spanned<Number>>,
    pub(super) ports: Option<Spanned<Vec<Spanned<Number>>>>,
    #[serde(default)]
    pub(super) protocol: Protocol,
    #[serde(default)]
    pub(super) addresses: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) hostnames: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) endpoints: Vec<Spanned<Endpoint>>,
    #[serde(default)]
    pub(super) backends: Vec<Backend>,
}

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: String,
    pub(super) weight: Option<f64>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) protocol: Option<Hint>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hint {
    H2,
    Opaque,
}

/// A whole number of any size, so that the check can tell which ones are good.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) i128);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backend {
    pub(super) service: Spanned<String>,
    pub(super) weight: Option<Spanned<Number>>,
}

pub(super) fn parse(file: &str, text: &str) -> Result<File, MeshError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let error = error.without_snippet();
        let location = error.location();
        let reason = match error {
            Error::Eof { .. } => "the file is empty; begin with `services:`".into(),
            Error::Unexpected {
                expected: "sequence start",
                ..
            } => "expected a list, each item on a line that begins with `- `".into(),
            Error::Unexpected {
                expected: "mapping start",
                ..
            } => "expected fields, such as `name: web`".into(),
            Error::DuplicateMappingKey { key, .. } => {
                let field = key.as_deref().unwrap_or("the field");
                format!("{field} is given twice; remove one")
            }
            error => UserMessageFormatter.format_message(error).into_owned(),
        };
        MeshError::Invalid {
            file: file.to_owned(),
            problems: vec![Problem {
                line: location.map_or(0, |l| l.line()),
                column: location.map_or(0, |l| l.column()),
                reason,
            }],
        }
    })
}

/// Either the short form, `10.0.0.1:80`, or the long one. By hand, because an untagged enum would report neither an
/// unknown field nor where it is.
impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            address: String,
            weight: Option<f64>,
            #[serde(default)]
            labels: BTreeMap<String, String>,
            protocol: Option<Hint>,
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Endpoint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "an address such as 127.0.0.1:9001, or `address:` with what belongs to it",
                )
            }

            fn visit_str<E: de::Error>(self, address: &str) -> Result<Endpoint, E> {
                Ok(Endpoint {
                    address: address.to_owned(),
                    weight: None,
                    labels: BTreeMap::new(),
                    protocol: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Endpoint, A::Error> {
                let long = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Endpoint {
                    address: long.address,
                    weight: long.weight,
                    labels: long.labels,
                    protocol: long.protocol,
                })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;

        impl Visitor<'_> for Whole {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number.into()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number.into()))
            }
        }

        deserializer.deserialize_any(Whole)
    }
}
