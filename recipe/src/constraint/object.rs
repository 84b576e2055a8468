//! What the members of an object may be, all schemas of it taken together.

use std::collections::{HashMap, HashSet};

use crate::error::Error;
use crate::json::{NumberValue, Object, Value};

use super::schema::{Goal, Id, Schemas, union};

/// Most members with names of their own.
const NAMES_LIMIT: usize = 2000;

/// The members of an object.
#[derive(Debug, Default)]
pub(super) struct Members<'v> {
    /// Names in the order of the schemas, and what each must match.
    pub(super) named: Vec<(&'v str, Goal)>,
    places: HashMap<&'v str, usize>,
    pub(super) required: HashSet<&'v str>,
    /// What members of other names must match; `None` if there are none.
    pub(super) others: Option<Goal>,
}

impl<'v> Members<'v> {
    /// The members that the keywords of `parts` allow.
    pub(super) fn of(schemas: &Schemas<'v>, parts: &[Id]) -> Result<Self, Error> {
        let mut members = Self { others: Some(Goal::new()), ..Self::default() };
        for &id in parts {
            members.declare(schemas, id)?;
        }
        for &id in parts {
            schemas.spend(id, members.named.len())?;
            members.constrain(schemas, id)?;
        }
        for &id in parts {
            members.count(schemas, id)?;
        }
        Ok(members)
    }

    /// What the member `name` must match; `None` if it cannot be there.
    pub(super) fn goal(&self, name: &str) -> Option<&Goal> {
        self.places.get(name).map(|&place| &self.named[place].1).or(self.others.as_ref())
    }

    /// Notes the names of one schema.
    fn declare(&mut self, schemas: &Schemas<'v>, id: Id) -> Result<(), Error> {
        let properties = properties(schemas, id)?.into_iter().flat_map(Object::iter).map(|(name, _)| name);
        let required = match schemas.keyword(id, "required") {
            None => &[][..],
            Some(Value::Array(names)) => names,
            Some(_) => return Err(schemas.fault(id, "required", "it must be a list")),
        };
        let required: Vec<&'v str> = required.iter().filter_map(Value::as_str).collect();
        for name in properties.chain(required.iter().copied()) {
            if !self.places.contains_key(name) {
                self.places.insert(name, self.named.len());
                self.named.push((name, Goal::new()));
            }
        }
        if schemas.is_closed(id) {
            self.required.extend(self.named.iter().map(|(name, _)| *name));
        }
        self.required.extend(required);
        if self.named.len() > NAMES_LIMIT {
            return Err(schemas.fault(id, "properties", &format!("at most {NAMES_LIMIT} properties are supported")));
        }
        Ok(())
    }

    /// Holds all names to one schema.
    fn constrain(&mut self, schemas: &Schemas<'v>, id: Id) -> Result<(), Error> {
        let properties = properties(schemas, id)?;
        // A loose schema with patterns for names is open: which names they are is not known.
        let is_patterned = schemas.is_loose() && schemas.keyword(id, "patternProperties").is_some();
        let others = schemas.keyword(id, "additionalProperties").filter(|_| !is_patterned);
        let others = others.map(|value| schemas.within(id, value, ".additionalProperties"));
        let own: HashMap<&str, &'v Value<'v>> = properties.into_iter().flat_map(Object::iter).collect();
        for (name, goal) in &mut self.named {
            let own = own.get(name).map(|value| schemas.within(id, value, format!(".properties.{name}")));
            if let Some(schema) = own.or(others) {
                *goal = union(goal, &[schema]);
            }
        }
        if let (Some(schema), Some(goal)) = (others, &mut self.others) {
            *goal = union(goal, &[schema]);
        }
        if others.map_or(schemas.is_closed(id), |schema| *schemas.value(schema) == Value::Bool(false)) {
            self.others = None;
        }
        Ok(())
    }

    /// Checks that the numbers of members that one schema asks for are those there are anyway.
    fn count(&self, schemas: &Schemas<'v>, id: Id) -> Result<(), Error> {
        let limit = |key| schemas.keyword(id, key).map(|value| as_count(value).unwrap_or(usize::MAX));
        if limit("minProperties").is_some_and(|least| least > self.required.len()) {
            schemas.refuse(id, "minProperties", "it is supported only up to the number of required properties")?;
        }
        let most = if self.others.is_none() { self.named.len() } else { usize::MAX };
        if limit("maxProperties").is_some_and(|limit| limit < most) {
            schemas.refuse(
                id,
                "maxProperties",
                "it is supported only in objects without other properties that all fit",
            )?;
        }
        Ok(())
    }
}

fn properties<'v>(schemas: &Schemas<'v>, id: Id) -> Result<Option<&'v Object<'v>>, Error> {
    match schemas.keyword(id, "properties") {
        None => Ok(None),
        Some(Value::Object(properties)) => Ok(Some(properties)),
        Some(_) => Err(schemas.fault(id, "properties", "it must be an object")),
    }
}

/// A count: a number that is an integer of at least zero, however it is spelled.
pub(super) fn as_count(value: &Value<'_>) -> Option<usize> {
    let Value::Number(number) = value else { return None };
    match number.value() {
        NumberValue::Unsigned(count) => usize::try_from(count).ok(),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a small integer")]
        NumberValue::Float(count) if count >= 0.0 && count.fract() == 0.0 && count < 1e9 => Some(count as usize),
        _ => None,
    }
}
