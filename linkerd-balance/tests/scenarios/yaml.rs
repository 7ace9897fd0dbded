//! A YAML text as a JSON value, from which the types of [`crate::file`] are read.

use granit_parser::{Event, Options, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// An open list or map.
enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

/// Parses a text with one document, without aliases.
pub fn parse(text: &str) -> Value {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut open = Vec::new();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, at) = event.unwrap_or_else(|error| panic!("{error}"));
        let complete = match event {
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::SequenceEnd | Event::MappingEnd => match open.pop().unwrap() {
                Open::List(list) => Value::Array(list),
                Open::Map(fields, _) => Value::Object(fields),
            },
            Event::Alias(_) => panic!("an alias at {:?}", at.start),
            _ => continue,
        };
        match open.last_mut() {
            None => return complete,
            Some(Open::List(list)) => list.push(complete),
            Some(Open::Map(_, key @ None)) => *key = Some(complete.as_str().unwrap().to_owned()),
            Some(Open::Map(fields, key)) => {
                let key = key.take().unwrap();
                assert!(
                    fields.insert(key, complete).is_none(),
                    "twice at {:?}",
                    at.start
                );
            }
        }
    }
    Value::Null
}

/// A number, a truth value or a text.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return text.into();
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
