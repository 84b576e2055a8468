//! JSON Schema → branches: what a value may be, one type at a time.
//!
//! A [`Goal`] is a set of schemas that a value must match all of. [`Schemas::branches`] takes one apart: references, `allOf`,
//! `anyOf` and `oneOf` are resolved until only keywords of single types are left, in [`Branch`]es of which a value must match
//! one. Only keywords that can be enforced exactly are taken: in a strict schema any other is refused, in a loose one it is
//! left out, so that what is enforced is never more than the schema says.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use crate::error::{Error, ErrorCode};
use crate::json::{Number, NumberValue, Object, Value};

use super::disjoint;
use super::number::Decimal;
use super::types::{Types, type_of};

/// Most alternatives that one value may have once all choices are multiplied out.
const BRANCH_LIMIT: usize = 256;
/// Most references, choices and conjunctions within each other, without a value between them.
const DEPTH_LIMIT: usize = 64;
/// Most schemas taken apart for one document, those met again included.
const STEPS_LIMIT: usize = 200_000;
/// Most values of one list.
const VALUES_LIMIT: usize = 10_000;

/// Where a schema stands among those seen.
pub(super) type Id = usize;

/// Schemas that a value must match all of, in order of their ids.
pub(super) type Goal = Vec<Id>;

/// What a value may be: of one of these types, one of these values if any are listed, and as the parts say.
#[derive(Debug, Clone)]
pub(super) struct Branch<'v> {
    pub(super) types: Types,
    pub(super) values: Option<Vec<&'v Value<'v>>>,
    /// Schemas with keywords for the types; only these keywords are meant.
    pub(super) parts: Goal,
}

impl<'v> Branch<'v> {
    /// Anything.
    fn free() -> Self {
        Self { types: Types::ALL, values: None, parts: Vec::new() }
    }

    /// What both allow; `None` if that is nothing.
    fn and(&self, other: &Self) -> Option<Self> {
        let types = self.types & other.types;
        let values = match (&self.values, &other.values) {
            (Some(left), Some(right)) => {
                Some(left.iter().filter(|value| right.iter().any(|other| same(value, other))).copied().collect())
            }
            (Some(values), None) | (None, Some(values)) => Some(values.clone()),
            (None, None) => None,
        };
        let fits = |values: Vec<&'v Value<'v>>| -> Vec<_> {
            values.into_iter().filter(|value| types.holds(type_of(value))).collect()
        };
        let values = values.map(fits);
        let parts = union(&self.parts, &other.parts);
        let is_possible = !types.is_empty() && values.as_ref().is_none_or(|values| !values.is_empty());
        is_possible.then_some(Self { types, values, parts })
    }
}

/// The union of two sets of schemas.
pub(super) fn union(left: &[Id], right: &[Id]) -> Goal {
    let mut all = [left, right].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// How a schema is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Exactly, or the request is refused.
    Strict,
    /// Exactly, with all objects closed and all their properties required: what the strict mode of OpenAI's protocols means
    /// where a schema does not say.
    Closed,
    /// As far as that is possible.
    Loose,
}

/// A schema and where it stands.
#[derive(Debug)]
struct Place<'v> {
    value: &'v Value<'v>,
    parent: Option<Id>,
    step: String,
}

/// The schemas of one document.
#[derive(Debug)]
pub(super) struct Schemas<'v> {
    root: &'v Value<'v>,
    /// Path of the document in the request.
    path: &'v str,
    mode: Mode,
    places: RefCell<Vec<Place<'v>>>,
    ids: RefCell<HashMap<*const Value<'v>, Id>>,
    /// Schemas taken apart so far.
    steps: Cell<usize>,
}

/// Keywords that say nothing about a value.
const ANNOTATIONS: &[&str] = &[
    "$schema",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentMediaType",
    "contentEncoding",
    "contentSchema",
    "$anchor",
    "$vocabulary",
];
/// Keywords that could not be enforced exactly.
const REFUSED: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "patternProperties",
    "propertyNames",
    "additionalItems",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
];
/// Keywords of single types; `branches` leaves them to what writes the type.
const PARTS: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
];

impl<'v> Schemas<'v> {
    /// The schemas of the document at `path`, and the goal that it sets.
    pub(super) fn new(root: &'v Value<'v>, path: &'v str, mode: Mode) -> (Self, Goal) {
        let schemas =
            Self { root, path, mode, places: RefCell::default(), ids: RefCell::default(), steps: Cell::default() };
        let id = schemas.id(root, None, String::new());
        (schemas, vec![id])
    }

    /// The id of a schema; the first place it is met at is the one that errors name.
    fn id(&self, value: &'v Value<'v>, parent: Option<Id>, step: String) -> Id {
        *self.ids.borrow_mut().entry(std::ptr::from_ref(value)).or_insert_with(|| {
            let mut places = self.places.borrow_mut();
            places.push(Place { value, parent, step });
            places.len() - 1
        })
    }

    /// The schema within schema `parent` that `step` leads to.
    pub(super) fn within(&self, parent: Id, value: &'v Value<'v>, step: impl Into<String>) -> Id {
        self.id(value, Some(parent), step.into())
    }

    pub(super) fn value(&self, id: Id) -> &'v Value<'v> {
        self.places.borrow()[id].value
    }

    /// A keyword of a schema; one that is null says nothing, but for constants.
    pub(super) fn keyword(&self, id: Id, key: &str) -> Option<&'v Value<'v>> {
        self.value(id).get(key).filter(|value| **value != Value::Null || key == "const")
    }

    fn path(&self, id: Id) -> String {
        let places = self.places.borrow();
        let mut steps = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            steps.push(places[id].step.as_str());
            next = places[id].parent;
        }
        std::iter::once(self.path).chain(steps.into_iter().rev()).collect()
    }

    /// The error of a schema that cannot be enforced, at one of its keywords.
    pub(super) fn fault(&self, id: Id, key: &str, detail: &str) -> Error {
        let path = if key.is_empty() { self.path(id) } else { format!("{}.{key}", self.path(id)) };
        Error::new(ErrorCode::UnsupportedSchema, path, &[("detail", &detail)])
    }

    /// Refuses a keyword of a strict schema; one of a loose schema is left out.
    pub(super) fn refuse(&self, id: Id, key: &str, detail: &str) -> Result<(), Error> {
        match self.mode {
            Mode::Strict | Mode::Closed => Err(self.fault(id, key, detail)),
            Mode::Loose => Ok(()),
        }
    }

    pub(super) fn is_loose(&self) -> bool {
        self.mode == Mode::Loose
    }

    /// Whether a schema's objects have the properties that it names, all of them and no others.
    pub(super) fn is_closed(&self, id: Id) -> bool {
        let is_object = || self.keyword(id, "type").and_then(Value::as_str) == Some("object");
        self.mode == Mode::Closed && (is_object() || self.keyword(id, "properties").is_some())
    }

    /// What a value may be that must match all of `goal`.
    pub(super) fn branches(&self, goal: &[Id]) -> Result<Vec<Branch<'v>>, Error> {
        self.all(goal, &mut Vec::new())
    }

    /// Notes so much work on a schema.
    pub(super) fn spend(&self, id: Id, steps: usize) -> Result<(), Error> {
        self.steps.set(self.steps.get() + steps);
        if self.steps.get() > STEPS_LIMIT {
            return Err(self.fault(id, "", &format!("it is met when {STEPS_LIMIT} schemas were looked at already")));
        }
        Ok(())
    }

    fn all(&self, goal: &[Id], open: &mut Vec<Id>) -> Result<Vec<Branch<'v>>, Error> {
        let mut branches = vec![Branch::free()];
        for &id in goal {
            branches = self.multiply(id, &branches, &self.one(id, open)?)?;
        }
        Ok(branches)
    }

    fn multiply(&self, id: Id, left: &[Branch<'v>], right: &[Branch<'v>]) -> Result<Vec<Branch<'v>>, Error> {
        if left.len() * right.len() > BRANCH_LIMIT {
            return Err(self.fault(id, "", &format!("its choices multiply to more than {BRANCH_LIMIT} alternatives")));
        }
        Ok(left.iter().flat_map(|left| right.iter().filter_map(|right| left.and(right))).collect())
    }

    /// What a value may be that must match one schema.
    fn one(&self, id: Id, open: &mut Vec<Id>) -> Result<Vec<Branch<'v>>, Error> {
        let schema = match self.value(id) {
            Value::Bool(true) => return Ok(vec![Branch::free()]),
            Value::Bool(false) => return Ok(Vec::new()),
            Value::Object(schema) => schema,
            // `parameters` may be absent in the codec's own form.
            Value::Null if id == 0 => return Ok(vec![Branch::free()]),
            _ => return Err(self.fault(id, "", "a schema must be an object, true or false")),
        };
        if open.contains(&id) {
            return Err(self.fault(id, "", "it refers to itself"));
        }
        if open.len() >= DEPTH_LIMIT {
            return Err(self.fault(
                id,
                "",
                &format!("more than {DEPTH_LIMIT} references and choices follow each other"),
            ));
        }
        self.spend(id, 1)?;
        open.push(id);
        let branches = self.of_object(id, schema, open);
        open.pop();
        branches
    }

    fn of_object(&self, id: Id, schema: &'v Object<'v>, open: &mut Vec<Id>) -> Result<Vec<Branch<'v>>, Error> {
        self.check_keywords(id, schema)?;
        let has_parts = schema.iter().any(|(key, _)| PARTS.contains(&key));
        let own = Branch {
            types: self.types(id)?,
            values: self.values(id)?,
            parts: if has_parts { vec![id] } else { Vec::new() },
        };
        let mut branches: Vec<_> = own.and(&Branch::free()).into_iter().collect();
        if let Some(reference) = schema.get("$ref") {
            match self.target(reference) {
                Ok(target) => branches = self.multiply(id, &branches, &self.one(target, open)?)?,
                Err(detail) => self.refuse(id, "$ref", &detail)?,
            }
        }
        for schema in self.list(id, "allOf")? {
            branches = self.multiply(id, &branches, &self.one(schema, open)?)?;
        }
        if schema.get("anyOf").is_some() {
            let choices = self.choices(&self.list(id, "anyOf")?, open)?;
            branches = self.multiply(id, &branches, &choices.concat())?;
        }
        if schema.get("oneOf").is_some() {
            let choices = self.choices(&self.list(id, "oneOf")?, open)?;
            if !disjoint::are_disjoint(self, &choices, DISJOINT_DEPTH)? {
                self.refuse(id, "oneOf", "its choices must exclude each other by type, constant or required property")?;
            }
            branches = self.multiply(id, &branches, &choices.concat())?;
        }
        Ok(branches)
    }

    fn choices(&self, list: &[Id], open: &mut Vec<Id>) -> Result<Vec<Vec<Branch<'v>>>, Error> {
        list.iter().map(|&schema| self.one(schema, open)).collect()
    }

    fn check_keywords(&self, id: Id, schema: &Object<'_>) -> Result<(), Error> {
        for (key, value) in schema.iter() {
            if REFUSED.contains(&key) {
                self.refuse(id, key, "this keyword is not supported")?;
            }
            if key == "$id" && id != 0 && value.as_str().is_some() {
                self.refuse(id, key, "schemas within a schema cannot have names of their own")?;
            }
            let says_nothing = ANNOTATIONS.contains(&key) || PARTS.contains(&key);
            if !says_nothing && key == "$ref" && self.hides_siblings() {
                let constrains = |key: &str| key != "$ref" && !ANNOTATIONS.contains(&key) && is_known(key);
                if schema.iter().any(|(key, _)| constrains(key)) {
                    self.refuse(id, key, "in this draft a reference hides the keywords beside it")?;
                }
            }
        }
        Ok(())
    }

    /// Whether the document's draft ignores what stands beside a reference.
    fn hides_siblings(&self) -> bool {
        let draft = self.root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|old| draft.contains(old))
    }

    fn types(&self, id: Id) -> Result<Types, Error> {
        let word = |value: &Value<'_>| value.as_str().and_then(Types::of_word);
        let types = match self.keyword(id, "type") {
            None => return Ok(Types::ALL),
            Some(Value::Array(words)) => {
                words.iter().map(word).try_fold(Types::NONE, |types, word| Some(types | word?))
            }
            Some(value) => word(value),
        };
        match types {
            Some(types) => Ok(types),
            None => self.refuse(id, "type", "the type is unknown").map(|()| Types::ALL),
        }
    }

    fn values(&self, id: Id) -> Result<Option<Vec<&'v Value<'v>>>, Error> {
        let constant = self.keyword(id, "const").map(|value| vec![value]);
        let listed = match self.keyword(id, "enum") {
            None => None,
            Some(Value::Array(values)) if values.len() <= VALUES_LIMIT => Some(values.iter().collect::<Vec<_>>()),
            Some(Value::Array(values)) => {
                let detail = format!("{} values are listed, and at most {VALUES_LIMIT} are supported", values.len());
                self.refuse(id, "enum", &detail)?;
                None
            }
            Some(_) => {
                self.refuse(id, "enum", "it must be a list")?;
                None
            }
        };
        Ok(match (constant, listed) {
            (Some(constant), Some(listed)) => {
                Some(constant.into_iter().filter(|value| listed.iter().any(|other| same(value, other))).collect())
            }
            (constant, listed) => constant.or(listed),
        })
    }

    /// The schemas of a list of schemas.
    pub(super) fn list(&self, id: Id, key: &str) -> Result<Vec<Id>, Error> {
        match self.keyword(id, key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let schema = |(index, value)| self.within(id, value, format!(".{key}[{index}]"));
                Ok(items.iter().enumerate().map(schema).collect())
            }
            Some(_) => Err(self.fault(id, key, "it must be a list")),
        }
    }

    /// The schema that a reference within the document leads to.
    fn target(&self, reference: &'v Value<'v>) -> Result<Id, String> {
        let Some(pointer) = reference.as_str().and_then(|reference| reference.strip_prefix('#')) else {
            return Err("only references within the schema (#/…) are supported".to_owned());
        };
        if !(pointer.is_empty() || pointer.starts_with('/')) {
            return Err("references to anchors are not supported".to_owned());
        }
        let (mut value, mut place) = (self.root, 0);
        for step in pointer.split('/').skip(1) {
            let step = decoded(step).replace("~1", "/").replace("~0", "~");
            let (next, text) = match value {
                Value::Object(object) => (object.get(&step), format!(".{step}")),
                Value::Array(items) => {
                    (step.parse().ok().and_then(|index: usize| items.get(index)), format!("[{step}]"))
                }
                _ => (None, String::new()),
            };
            value = next.ok_or_else(|| format!("nothing stands at #{pointer}"))?;
            place = self.within(place, value, text);
            if value.get("$id").is_some_and(|name| name.as_str().is_some()) {
                return Err("schemas within a schema cannot have names of their own".to_owned());
            }
        }
        Ok(place)
    }
}

/// How deep choices are compared.
const DISJOINT_DEPTH: usize = 3;

fn is_known(key: &str) -> bool {
    PARTS.contains(&key)
        || REFUSED.contains(&key)
        || ["type", "enum", "const", "allOf", "anyOf", "oneOf"].contains(&key)
}

/// Undoes percent encoding, as far as it is text.
fn decoded(step: &str) -> String {
    let mut bytes = Vec::with_capacity(step.len());
    let mut rest = step.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(coded) if byte == b'%' => {
                bytes.push(coded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether two values are the same to JSON Schema: numbers by value, objects in any order.
pub(super) fn same(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => same_number(left, right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has = |(key, value): (&str, &Value<'_>)| right.get(key).is_some_and(|other| same(value, other));
            left.len() == right.len() && left.iter().all(has)
        }
        (left, right) => left == right,
    }
}

fn same_number(left: &Number<'_>, right: &Number<'_>) -> bool {
    match (Decimal::read(left.literal()), Decimal::read(right.literal())) {
        (Some(left), Some(right)) => left == right,
        _ => match (left.value(), right.value()) {
            (NumberValue::Float(left), NumberValue::Float(right)) => left.to_bits() == right.to_bits(),
            (left, right) => left == right,
        },
    }
}
