//! Conditions of a profile on requests and responses. All fields of one condition must hold.

use crate::mesh::form::{FieldReader, Fields};
use crate::mesh::yaml::Node;
use crate::profile::{ProfileMatch, ResponseMatch};
use std::ops::RangeInclusive;

/// Conditions that are combined from others.
trait Combined: Sized {
    fn all(all: Vec<Self>) -> Self;
    fn any(any: Vec<Self>) -> Self;
    fn negated(self) -> Self;
}

/// A condition on a request.
pub(super) fn request_condition(r: &mut FieldReader, node: &Node) -> Option<ProfileMatch> {
    let fields = r.fields(node, &["pathRegex", "method", "all", "any", "not"])?;
    let path = r.value(&fields, "pathRegex", FieldReader::regex);
    let method = r.value(&fields, "method", FieldReader::http_method);
    let own = path.map(ProfileMatch::path).into_iter();
    let own = own.chain(method.map(|method| ProfileMatch::method(&method)));
    combined(r, &fields, own.collect(), request_condition)
}

/// A condition on a response.
pub(super) fn response_condition(r: &mut FieldReader, node: &Node) -> Option<ResponseMatch> {
    let fields = r.fields(node, &["status", "all", "any", "not"])?;
    let status = r.value(&fields, "status", statuses);
    let own = status.map(ResponseMatch::status).into_iter().collect();
    combined(r, &fields, own, response_condition)
}

/// All conditions of these fields: `own`, and combinations of nested conditions.
fn combined<C: Combined>(
    r: &mut FieldReader,
    fields: &Fields<'_>,
    own: Vec<C>,
    read: fn(&mut FieldReader, &Node) -> Option<C>,
) -> Option<C> {
    if fields.is_empty() {
        r.report(
            fields.at,
            "the condition is empty; add a field, or remove it",
        );
        return None;
    }
    let mut conditions = own;
    for (name, combine) in [
        ("all", C::all as fn(Vec<C>) -> C),
        ("any", C::any as fn(Vec<C>) -> C),
    ] {
        let Some(node) = fields.get(name) else {
            continue;
        };
        if node.is_empty_list() {
            r.report(node.at, format!("`{name}` has no condition; add one"));
        }
        conditions.push(combine(r.each(fields, name, read)));
    }
    let not = r.value(fields, "not", read);
    conditions.extend(not.map(C::negated));
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(C::all(conditions)),
    }
}

/// Statuses from `min` to `max`; if only one is given, it is the only status.
fn statuses(r: &mut FieldReader, node: &Node) -> Option<RangeInclusive<u32>> {
    let fields = r.fields(node, &["min", "max"])?;
    let status = |r: &mut FieldReader, node: &Node| r.status(node, 100..=599);
    let min = r.value(&fields, "min", status);
    let max = r.value(&fields, "max", status);
    if fields.is_empty() {
        r.report(fields.at, "the statuses have no `min` or `max`");
    }
    let (min, max) = (min.or(max)?, max.or(min)?);
    if min > max {
        r.report(fields.at, "`min` is above `max`; swap them");
    }
    Some(min..=max)
}

impl Combined for ProfileMatch {
    fn all(all: Vec<Self>) -> Self {
        Self::all(all)
    }

    fn any(any: Vec<Self>) -> Self {
        Self::any(any)
    }

    fn negated(self) -> Self {
        self.negated()
    }
}

impl Combined for ResponseMatch {
    fn all(all: Vec<Self>) -> Self {
        Self::all(all)
    }

    fn any(any: Vec<Self>) -> Self {
        Self::any(any)
    }

    fn negated(self) -> Self {
        self.negated()
    }
}
