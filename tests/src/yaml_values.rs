//! YAML as JSON values.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The documents of a text, with scalars read by the rules of JSON.
pub fn documents(text: &str) -> Vec<Value> {
    let mut documents = Vec::new();
    let mut open: Vec<(Value, Option<String>)> = Vec::new();
    for next in Parser::new_from_str(text) {
        let value = match next.unwrap().0 {
            Event::SequenceStart(..) => {
                open.push((Value::Array(Vec::new()), None));
                continue;
            }
            Event::MappingStart(..) => {
                open.push((Value::Object(Map::new()), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().unwrap().0,
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
            _ => continue,
        };
        match open.last_mut() {
            // A document with only comments.
            None if value.is_null() => {}
            None => documents.push(value),
            Some((Value::Array(items), _)) => items.push(value),
            Some((Value::Object(fields), key)) => match key.take() {
                None => *key = Some(value.as_str().unwrap().to_owned()),
                Some(key) => drop(fields.insert(key, value)),
            },
            Some(_) => unreachable!(),
        }
    }
    documents
}

fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}
