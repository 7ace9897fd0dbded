//! The value of `proxy-additional-env`: environment variables in the form of a container's `env`.
//!
//! They are checked against the fields of `EnvVar`, because they become part of the pod as they are.

use crate::yaml::{Yaml, parse};

/// A list of environment variables. The error names the first wrong field.
pub(super) fn env_list(value: &str) -> Result<Vec<Yaml>, String> {
    let error = || "not a list of variables, such as [{name: A, value: b}]".to_owned();
    let documents = parse(value).map_err(|problem| problem.reason)?;
    let [list] = documents.as_slice() else {
        return Err(error());
    };
    let Yaml::List(items) = list.to_yaml() else {
        return Err(error());
    };
    for (n, item) in items.iter().enumerate() {
        let Yaml::Map(fields) = item else {
            return Err(error());
        };
        variable(fields).map_err(|error| format!("variable {}: {error}", n + 1))?;
    }
    Ok(items)
}

type Fields = [(String, Yaml)];

fn variable(fields: &Fields) -> Result<(), String> {
    let known = [
        ("name", Type::Text),
        ("value", Type::Text),
        ("valueFrom", Type::Map),
    ];
    checked("", fields, &known, &["name"])?;
    let name = match field(fields, "name") {
        Some(Yaml::Str(name)) => name,
        _ => "",
    };
    let is_printable = |c: char| c == ' ' || c.is_ascii_graphic();
    if name.is_empty() || name.contains('=') || !name.chars().all(is_printable) {
        return Err(format!("{name:?} is not the name of a variable"));
    }
    let Some(Yaml::Map(sources)) = field(fields, "valueFrom") else {
        return Ok(());
    };
    if field(fields, "value").is_some() {
        return Err("value and valueFrom are both set".to_owned());
    }
    let [(kind, Yaml::Map(source))] = sources.as_slice() else {
        return Err("valueFrom is not a map with one source".to_owned());
    };
    let Some((_, known, required)) = SOURCES.iter().find(|(name, ..)| name == kind) else {
        return Err(format!("valueFrom.{kind} is not known"));
    };
    checked(&format!("valueFrom.{kind}."), source, known, required)
}

/// Checks that fields are known, are there once, and have their type.
fn checked(
    prefix: &str,
    fields: &Fields,
    known: &[(&str, Type)],
    required: &[&str],
) -> Result<(), String> {
    for (n, (key, value)) in fields.iter().enumerate() {
        let Some((_, kind)) = known.iter().find(|(name, _)| name == key) else {
            return Err(format!("{prefix}{key} is not known"));
        };
        if fields[..n].iter().any(|(other, _)| other == key) {
            return Err(format!("{prefix}{key} is there twice"));
        }
        kind.check(value)
            .map_err(|error| format!("{prefix}{key} {error}"))?;
    }
    match required.iter().find(|name| field(fields, name).is_none()) {
        Some(name) => Err(format!("{prefix}{name} is missing")),
        None => Ok(()),
    }
}

/// The value of a field; a null counts as absent.
fn field<'f>(fields: &'f Fields, name: &str) -> Option<&'f Yaml> {
    let (_, value) = fields.iter().find(|(key, _)| key == name)?;
    Some(value).filter(|value| **value != Yaml::Null)
}

#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    Map,
    Quantity,
}

impl Type {
    fn check(self, value: &Yaml) -> Result<(), String> {
        let fits = match (self, value) {
            (_, Yaml::Null) => true,
            (Self::Text, Yaml::Str(_)) | (Self::Map, Yaml::Map(_)) => true,
            (Self::Bool, value) => value.boolean().is_some(),
            (Self::Quantity, Yaml::Str(_)) => true,
            (Self::Quantity, value) => value.integer().is_some(),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(match (self, value) {
            (Self::Text, Yaml::Plain(text)) => {
                format!("is {text}, not a text; write \"{text}\" in quotes")
            }
            (Self::Text | Self::Quantity, _) => "is not a text".to_owned(),
            (Self::Bool, _) => "is not true or false".to_owned(),
            (Self::Map, _) => "is not a map".to_owned(),
        })
    }
}

type Source = (
    &'static str,
    &'static [(&'static str, Type)],
    &'static [&'static str],
);

/// The sources of a value: the fields of each, and the required ones.
const SOURCES: &[Source] = &[
    (
        "fieldRef",
        &[("apiVersion", Type::Text), ("fieldPath", Type::Text)],
        &["fieldPath"],
    ),
    (
        "resourceFieldRef",
        &[
            ("containerName", Type::Text),
            ("resource", Type::Text),
            ("divisor", Type::Quantity),
        ],
        &["resource"],
    ),
    ("configMapKeyRef", KEY_OF_OBJECT, &["name", "key"]),
    ("secretKeyRef", KEY_OF_OBJECT, &["name", "key"]),
    (
        "fileKeyRef",
        &[
            ("volumeName", Type::Text),
            ("path", Type::Text),
            ("key", Type::Text),
            ("optional", Type::Bool),
        ],
        &["volumeName", "path", "key"],
    ),
];

const KEY_OF_OBJECT: &[(&str, Type)] = &[
    ("name", Type::Text),
    ("key", Type::Text),
    ("optional", Type::Bool),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_all_sources_are_accepted() {
        let value = "[{name: A, value: b}, {name: B}, {name: C, value: null}, \
            {name: D, valueFrom: {fieldRef: {fieldPath: status.podIP, apiVersion: v1}}}, \
            {name: E, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1}}}, \
            {name: F, valueFrom: {secretKeyRef: {name: a, key: b, optional: yes}}}, \
            {name: a.b-c, valueFrom: {configMapKeyRef: {name: a, key: b}}}, \
            {\"name\":\"G\",\"value\":\"1\"}]";
        assert_eq!(env_list(value).unwrap().len(), 8);
        assert_eq!(env_list("[]").unwrap(), []);
    }

    #[test]
    fn variables_that_the_api_server_refuses_are_refused() {
        for (value, error) in [
            (
                "A=b",
                "not a list of variables, such as [{name: A, value: b}]",
            ),
            (
                "[a]",
                "not a list of variables, such as [{name: A, value: b}]",
            ),
            ("[{name: A}, {value: b}]", "variable 2: name is missing"),
            (
                "[{name: A, value: 1}]",
                "variable 1: value is 1, not a text; write \"1\" in quotes",
            ),
            (
                "[{name: A, value: yes}]",
                "variable 1: value is yes, not a text; write \"yes\" in quotes",
            ),
            ("[{name: A, value: {}}]", "variable 1: value is not a text"),
            (
                "[{name: A=, value: b}]",
                "variable 1: \"A=\" is not the name of a variable",
            ),
            (
                "[{name: '', value: b}]",
                "variable 1: \"\" is not the name of a variable",
            ),
            ("[{name: A, bogus: 3}]", "variable 1: bogus is not known"),
            ("[{<<: {value: 3}, name: A}]", "variable 1: << is not known"),
            ("[{name: A, name: B}]", "variable 1: name is there twice"),
            (
                "[{name: A, value: b, valueFrom: {secretKeyRef: {name: a, key: b}}}]",
                "variable 1: value and valueFrom are both set",
            ),
            (
                "[{name: A, valueFrom: {}}]",
                "variable 1: valueFrom is not a map with one source",
            ),
            (
                "[{name: A, valueFrom: b}]",
                "variable 1: valueFrom is not a map",
            ),
            (
                "[{name: A, valueFrom: {env: {}}}]",
                "variable 1: valueFrom.env is not known",
            ),
            (
                "[{name: A, valueFrom: {secretKeyRef: {name: a}}}]",
                "variable 1: valueFrom.secretKeyRef.key is missing",
            ),
            (
                "[{name: A, valueFrom: {fieldRef: {fieldPath: a, x: b}}}]",
                "variable 1: valueFrom.fieldRef.x is not known",
            ),
            (
                "[{name: A, valueFrom: {secretKeyRef: {name: a, key: b, optional: 'no'}}}]",
                "variable 1: valueFrom.secretKeyRef.optional is not true or false",
            ),
        ] {
            assert_eq!(env_list(value), Err(error.to_owned()), "{value}");
        }
    }
}
