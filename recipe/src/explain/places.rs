//! The fields of a request body: found by the address of their text, and named by their JSON path.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use crate::json::{Value, write_string};
use crate::prompt::Address;
use crate::protocol::{Stored, reference};

/// One value of a body, by its place in the list of all.
pub(super) type Place = usize;

/// The whole body.
pub(super) const ROOT: Place = 0;

/// What leads from a value to one that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step<'v> {
    /// A member of an object.
    Key(&'v str),
    /// An item of an array.
    Index(usize),
}

/// All values of a body.
pub(super) struct Places<'v> {
    values: Vec<&'v Value<'v>>,
    /// What holds each value and the step to it. Unused for the body as a whole.
    parents: Vec<(Place, Step<'v>)>,
    children: HashMap<(Place, Step<'v>), Place>,
    /// Where texts lie, in the order of their addresses, and what they belong to.
    texts: Vec<(Address, Place)>,
    /// Those that stand for something that is stored.
    names: HashSet<Place>,
}

impl<'v> Places<'v> {
    /// The fields of `body`. What is stored counts to the field that names it.
    pub(super) fn new(body: &'v Value<'v>, stored: &Stored) -> Self {
        let (values, parents, children) = (Vec::new(), Vec::new(), HashMap::new());
        let mut places = Self { values, parents, children, texts: Vec::new(), names: HashSet::new() };
        places.add(body, ROOT, Step::Index(0));
        places.add_stored(stored);
        places.texts.sort_unstable_by_key(|(address, _)| address.start);
        places
    }

    fn add_stored(&mut self, stored: &Stored) {
        if let Some(name) = self.member(ROOT, &["previous_response_id"]) {
            self.name(name, &stored.earlier);
        }
        let mut seen = HashSet::new();
        let items: Vec<Place> = self.member(ROOT, &["input"]).into_iter().flat_map(|input| self.items(input)).collect();
        for item in items {
            let id = reference(self.value(item)).filter(|id| seen.insert(*id));
            if let Some(values) = id.and_then(|id| stored.referenced.get(id)) {
                self.name(item, values);
            }
        }
    }

    fn name(&mut self, name: Place, values: &[Value<'_>]) {
        self.names.insert(name);
        for value in values {
            self.add_texts(value, name);
        }
    }

    /// Adds the texts of a value that is no part of the body.
    fn add_texts(&mut self, value: &Value<'_>, name: Place) {
        match value {
            Value::String(text) => self.add_text(text, name),
            Value::Number(number) => self.add_text(number.literal(), name),
            Value::Array(items) => items.iter().for_each(|item| self.add_texts(item, name)),
            Value::Object(object) => object.iter().for_each(|(key, member)| {
                self.add_text(key, name);
                self.add_texts(member, name);
            }),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Whether a field names something that is stored.
    pub(super) fn is_name(&self, place: Place) -> bool {
        self.names.contains(&place)
    }

    /// Adds a value and all that it holds. The depth of bodies is limited where they are read.
    fn add(&mut self, value: &'v Value<'v>, parent: Place, step: Step<'v>) -> Place {
        let place = self.values.len();
        self.values.push(value);
        self.parents.push((parent, step));
        match value {
            Value::String(text) => self.add_text(text, place),
            Value::Number(number) => self.add_text(number.literal(), place),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add_child(item, place, Step::Index(index));
                }
            }
            Value::Object(object) => {
                for (key, member) in object.iter() {
                    let member = self.add_child(member, place, Step::Key(key));
                    self.add_text(key, member);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        place
    }

    fn add_child(&mut self, value: &'v Value<'v>, parent: Place, step: Step<'v>) -> Place {
        let place = self.add(value, parent, step);
        self.children.insert((parent, step), place);
        place
    }

    fn add_text(&mut self, text: &str, place: Place) {
        if !text.is_empty() {
            self.texts.push((Address::of(text), place));
        }
    }

    /// The value whose text, or whose key, contains the text at `address`.
    pub(super) fn find(&self, address: Address) -> Option<Place> {
        let after = self.texts.partition_point(|(text, _)| text.start <= address.start);
        let (text, place) = self.texts.get(after.checked_sub(1)?)?;
        (address.start < address.end && address.end <= text.end).then_some(*place)
    }

    /// The value itself.
    pub(super) fn value(&self, place: Place) -> &'v Value<'v> {
        self.values[place]
    }

    /// What holds `place`, and the step to it.
    pub(super) fn parent(&self, place: Place) -> Option<(Place, Step<'v>)> {
        (place != ROOT).then(|| self.parents[place])
    }

    /// The value one step away.
    pub(super) fn child(&self, place: Place, step: Step<'_>) -> Option<Place> {
        self.children.get(&(place, step)).copied()
    }

    /// The value some keys away.
    pub(super) fn member(&self, place: Place, keys: &[&str]) -> Option<Place> {
        keys.iter().try_fold(place, |place, key| self.child(place, Step::Key(key)))
    }

    /// The items of the array at `place`, if it is one.
    pub(super) fn items(&self, place: Place) -> impl Iterator<Item = Place> {
        (0..).map_while(move |index| self.child(place, Step::Index(index)))
    }

    /// The string some keys away.
    pub(super) fn string(&self, place: Place, keys: &[&str]) -> Option<&'v str> {
        self.member(place, keys).and_then(|member| self.value(member).as_str())
    }

    /// The value and everything that holds it, from the body inwards.
    pub(super) fn line(&self, place: Place) -> Vec<Place> {
        let mut line: Vec<Place> =
            std::iter::successors(Some(place), |place| self.parent(*place).map(|(parent, _)| parent)).collect();
        line.reverse();
        line
    }

    /// The path of a value: `messages[2].content`. Keys of anything but letters, digits, `_`, `-` and `$` are quoted.
    pub(super) fn path(&self, place: Place) -> String {
        let mut path = String::new();
        for (_, step) in self.line(place).into_iter().filter_map(|place| self.parent(place)) {
            match step {
                Step::Index(index) => drop(write!(path, "[{index}]")),
                Step::Key(key) if is_plain(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
                Step::Key(key) => {
                    path.push('[');
                    write_string(key, &mut path);
                    path.push(']');
                }
            }
        }
        path
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|character| character.is_alphanumeric() || "_-$".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn a_text_and_its_parts_are_found_by_address() {
        let body = parse(br#"{"a": ["xy", {"b c": "z\n", "n": 12}], "e": ""}"#).unwrap();
        let places = Places::new(&body, &Stored::default());
        let found = |text: &str| places.find(Address::of(text)).map(|place| places.path(place));
        let items = body.get("a").and_then(Value::as_array).unwrap();
        let text = items[0].as_str().unwrap();
        assert_eq!(found(text).as_deref(), Some("a[0]"));
        assert_eq!(found(&text[1..]).as_deref(), Some("a[0]"));
        assert_eq!(found(&text[2..]), None, "an empty text is nowhere");
        assert_eq!(found(items[1].get("b c").unwrap().as_str().unwrap()).as_deref(), Some("a[1][\"b c\"]"));
        let key = items[1].as_object().unwrap().iter().nth(1).unwrap().0;
        assert_eq!(found(key).as_deref(), Some("a[1].n"));
        assert_eq!(found("xy"), None, "an equal text elsewhere is another one");
    }
}
