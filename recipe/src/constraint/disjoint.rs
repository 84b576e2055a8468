//! Whether the choices of `oneOf` exclude each other: then one of them is any of them.

use crate::error::Error;

use super::object::Members;
use super::schema::{Branch, Schemas, same};
use super::types::{Types, type_of};

/// Whether no value matches two of `choices`, as far as can be told at `depth` levels of properties.
pub(super) fn are_disjoint(schemas: &Schemas<'_>, choices: &[Vec<Branch<'_>>], depth: usize) -> Result<bool, Error> {
    for (index, left) in choices.iter().enumerate() {
        for right in &choices[index + 1..] {
            if !exclude(schemas, left, right, depth)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn exclude(schemas: &Schemas<'_>, left: &[Branch<'_>], right: &[Branch<'_>], depth: usize) -> Result<bool, Error> {
    for left in left {
        for right in right {
            if !pair_excludes(schemas, left, right, depth)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn pair_excludes(schemas: &Schemas<'_>, left: &Branch<'_>, right: &Branch<'_>, depth: usize) -> Result<bool, Error> {
    let types = left.types & right.types;
    match (&left.values, &right.values) {
        (Some(left), Some(right)) if !left.iter().any(|left| right.iter().any(|right| same(left, right))) => {
            return Ok(true);
        }
        (Some(values), _) | (_, Some(values)) if !values.iter().any(|value| types.holds(type_of(value))) => {
            return Ok(true);
        }
        _ => {}
    }
    if types.is_empty() {
        return Ok(true);
    }
    if types != Types::OBJECT || left.values.is_some() || right.values.is_some() || depth == 0 {
        return Ok(false);
    }
    let (left, right) = (Members::of(schemas, &left.parts)?, Members::of(schemas, &right.parts)?);
    for name in left.required.union(&right.required) {
        let (Some(left), Some(right)) = (left.goal(name), right.goal(name)) else { return Ok(true) };
        if exclude(schemas, &schemas.branches(left)?, &schemas.branches(right)?, depth - 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}
