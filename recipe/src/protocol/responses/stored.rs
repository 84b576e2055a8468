//! Responses: what a request goes on from, found by the caller's lookup: earlier responses, and items named by their ids.

use std::collections::HashSet;

use crate::error::{Error, ErrorCode};
use crate::json::{Object, Value};
use crate::protocol::request::{Lookup, Stored};
use crate::wire::{Node, Path, Wire as _};

/// The member that names the response before.
const PREVIOUS: &str = "previous_response_id";
/// The type of an item that only names another.
const REFERENCE: &str = "item_reference";

/// Finds all that `body` refers to. Without a lookup, items that are only named are left to be left out.
pub(crate) fn find_stored(body: &Value<'_>, lookup: Option<&dyn Lookup>) -> Result<Stored, Error> {
    let node = Node { value: body, path: &Path::Root };
    let previous: Option<&str> = body
        .get(PREVIOUS)
        .map_or(Ok(None), |value| Option::read(Node { value, path: &Path::Key(node.path, PREVIOUS) }))?;
    let Some(lookup) = lookup else {
        return match previous {
            Some(id) => Err(Error::new(
                ErrorCode::Unsupported,
                PREVIOUS,
                &[("found", &format!("going on from an earlier response ({id}) without stored responses"))],
            )),
            None => Ok(Stored::default()),
        };
    };
    let mut stored = Stored::default();
    if let Some(id) = previous {
        stored.earlier = conversation(lookup, id)?;
    }
    let input = Path::Key(&Path::Root, "input");
    let items = body.get("input").and_then(Value::as_array).unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        if let Some(id) = reference(item)
            && !stored.referenced.contains_key(id)
        {
            let item = Path::Index(&input, index);
            let path = Path::Key(&item, "id").to_string();
            let items = match found(lookup, id, &path)? {
                Value::Object(item) if item.get("output").is_none() => vec![Value::Object(item)],
                response => items_of(response, id, &path)?.0,
            };
            stored.referenced.insert(id.to_owned(), items);
        }
    }
    Ok(stored)
}

/// The id of the item that another one stands for.
pub(crate) fn reference<'v>(item: &'v Value<'_>) -> Option<&'v str> {
    let kind = item.get("type").and_then(Value::as_str);
    item.get("id").and_then(Value::as_str).filter(|_| kind == Some(REFERENCE))
}

/// All items up to and including a response, the oldest first.
fn conversation(lookup: &dyn Lookup, id: &str) -> Result<Vec<Value<'static>>, Error> {
    let mut responses = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(id.to_owned());
    while let Some(id) = next {
        let (items, before) = items_of(found(lookup, &id, PREVIOUS)?, &id, PREVIOUS)?;
        responses.push(items);
        // A response that comes before itself would never end.
        next = before.filter(|before| *before != id && !seen.contains(before));
        seen.insert(id);
    }
    Ok(responses.into_iter().rev().flatten().collect())
}

fn found(lookup: &dyn Lookup, id: &str, path: &str) -> Result<Value<'static>, Error> {
    lookup.find(id)?.ok_or_else(|| Error::new(ErrorCode::NotStored, path, &[("found", &id)]))
}

/// The items of what is stored, and the id of the response before it.
fn items_of(stored: Value<'static>, id: &str, path: &str) -> Result<(Vec<Value<'static>>, Option<String>), Error> {
    let fault = || Error::new(ErrorCode::InvalidStored, path, &[("found", &id)]);
    let response = match stored {
        Value::Array(items) => return Ok((items, None)),
        Value::Object(response) => response,
        _ => return Err(fault()),
    };
    let before = response.get(PREVIOUS).and_then(Value::as_str).map(str::to_owned);
    let (mut input, mut output) = (Vec::new(), None);
    for (key, value) in response {
        match (key.as_ref(), value) {
            ("input", Value::String(text)) => {
                let members = [("role", "user".into()), ("content", Value::String(text))];
                input.push(Value::Object(Object::from_iter(members)));
            }
            ("input", Value::Array(items)) => input = items,
            ("output", Value::Array(items)) => output = Some(items),
            _ => {}
        }
    }
    input.extend(output.ok_or_else(fault)?);
    Ok((input, before))
}
