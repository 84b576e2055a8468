//! JSON values: what a goal allows → rules of a grammar.
//!
//! White space, escapes and numbers are those that the prompt format writes; members come in the order in which they are
//! declared. Objects and arrays lie at most [`NESTING_LIMIT`] deep, so nothing of a grammar is without end but texts and lists.

use std::collections::HashMap;

use crate::error::Error;
use crate::json::{FloatStyle, Value, write_python, write_string};

use super::lark::{self, TOO_LARGE, Writer, either, expression, literal};
use super::number::{Bound, Decimal, Range};
use super::object::{Members, as_count};
use super::schema::{Branch, Goal, Id, Schemas};
use super::strings::{Strings, json_string};
use super::types::{Types, type_of};

/// Deepest nesting of objects and arrays.
pub(super) const NESTING_LIMIT: usize = 24;
/// Most items that a schema may ask for or allow.
const ITEMS_LIMIT: usize = 10_000;
/// Largest divisor that is held to.
const DIVISOR_LIMIT: usize = 1_000_000;

/// Writes the values of one document's schemas.
pub(super) struct JsonWriter<'w, 'v> {
    pub(super) writer: &'w mut Writer,
    schemas: &'w Schemas<'v>,
    style: FloatStyle,
    written: &'w mut Written,
}

/// What was written already: values by goal, arrays and objects by the schemas that say what is in them; all by types and
/// levels left.
#[derive(Debug, Default)]
pub(super) struct Written {
    values: Names,
    containers: Names,
}

impl Written {
    /// What holds for any document: values that no schema says anything of.
    pub(super) fn into_free(mut self) -> Self {
        self.values.retain(|(goal, ..), _| goal.is_empty());
        self.containers.retain(|(parts, ..), _| parts.is_empty());
        self
    }
}

type Names = HashMap<(Goal, Types, usize), Option<String>>;

impl<'w, 'v> JsonWriter<'w, 'v> {
    pub(super) fn new(
        writer: &'w mut Writer,
        schemas: &'w Schemas<'v>,
        style: FloatStyle,
        written: &'w mut Written,
    ) -> Self {
        Self { writer, schemas, style, written }
    }

    /// The name of what matches the values that `goal` allows, as far as they are of `types`; `None` if there are none.
    ///
    /// A goal of a loose schema that cannot be held to allows anything.
    pub(super) fn value(&mut self, goal: &[Id], types: Types, levels: usize) -> Result<Option<String>, Error> {
        let key = (goal.to_vec(), types, levels);
        if let Some(name) = self.written.values.get(&key) {
            return Ok(name.clone());
        }
        let written = match self.branches(goal, types, levels) {
            Err(_) if self.schemas.is_loose() && !goal.is_empty() => self.value(&[], types, levels)?,
            written => written?,
        };
        self.written.values.insert(key, written.clone());
        Ok(written)
    }

    fn branches(&mut self, goal: &[Id], types: Types, levels: usize) -> Result<Option<String>, Error> {
        self.check_size(goal)?;
        let mut alternatives = Vec::new();
        for branch in self.schemas.branches(goal)? {
            self.branch(&branch, branch.types & types, levels, &mut alternatives)?;
        }
        alternatives.dedup();
        Ok(either(alternatives).map(|body| self.writer.rule(body)))
    }

    fn check_size(&self, goal: &[Id]) -> Result<(), Error> {
        match goal.first() {
            Some(&id) if self.writer.is_too_large() => Err(self.schemas.fault(id, "", TOO_LARGE)),
            _ => Ok(()),
        }
    }

    fn branch(&mut self, branch: &Branch<'v>, types: Types, levels: usize, out: &mut Vec<String>) -> Result<(), Error> {
        if let Some(values) = &branch.values {
            let fitting = fitting(self.schemas, branch, values)?;
            let fitting = fitting.into_iter().filter(|value| types.holds(type_of(value)));
            let literals = fitting.map(|value| literal(&self.spelled(value))).collect();
            out.extend(either(literals).map(|literals| self.writer.terminal(literals)));
            return Ok(());
        }
        let parts = &branch.parts;
        if types.holds(Types::NULL) {
            out.push(literal("null"));
        }
        if types.holds(Types::BOOLEAN) {
            out.extend([literal("true"), literal("false")]);
        }
        if types.holds(Types::NUMBER) {
            out.extend(self.number(parts, types)?);
        }
        if types.holds(Types::STRING) {
            out.extend(Strings::of(self.schemas, parts)?.map(|strings| strings.json(self.writer)));
        }
        for kind in [Types::ARRAY, Types::OBJECT] {
            if levels > 0 && types.holds(kind) {
                out.extend(self.container(parts, kind, levels - 1)?);
            }
        }
        Ok(())
    }

    fn container(&mut self, parts: &[Id], kind: Types, levels: usize) -> Result<Option<String>, Error> {
        let key = (parts.to_vec(), kind, levels);
        if let Some(name) = self.written.containers.get(&key) {
            return Ok(name.clone());
        }
        let name = if kind == Types::ARRAY { self.array(parts, levels)? } else { self.object(parts, levels)? };
        self.written.containers.insert(key, name.clone());
        Ok(name)
    }

    fn spelled(&self, value: &Value<'_>) -> String {
        let mut text = String::new();
        write_python(value, self.style, &mut text);
        text
    }

    fn number(&mut self, parts: &[Id], types: Types) -> Result<Option<String>, Error> {
        let mut range = range(self.schemas, parts)?;
        range.integer = !types.holds(Types::FRACTION);
        let divisor = divisor(self.schemas, parts)?;
        if divisor.is_some() {
            range.integer = true;
        }
        if range.is_empty() {
            return Ok(None);
        }
        let all: Vec<_> = range.expressions().iter().map(|text| expression(&format!("(?:{text})"))).collect();
        let Some((divisor, id)) = divisor else {
            return Ok(Some(self.writer.terminal(all.join(" & "))));
        };
        if range.least.is_some() || range.most.is_some() {
            self.schemas.refuse(id, "multipleOf", "it is not supported beside bounds")?;
            return Ok(Some(self.writer.terminal(all.join(" & "))));
        }
        Ok(Some(self.writer.rule(format!("%json {{\"type\": \"integer\", \"multipleOf\": {divisor}}}"))))
    }

    fn array(&mut self, parts: &[Id], levels: usize) -> Result<Option<String>, Error> {
        let items = Items::of(self.schemas, parts)?;
        let mut firsts = Vec::new();
        let mut most = items.most;
        for goal in &items.firsts {
            match self.value(goal, Types::ALL, levels)? {
                Some(name) => firsts.push(name),
                None => {
                    most = Some(most.map_or(firsts.len(), |most| most.min(firsts.len())));
                    break;
                }
            }
        }
        firsts.truncate(most.unwrap_or(usize::MAX));
        let room = most.map(|most| most - firsts.len());
        let rest = if room == Some(0) { None } else { self.value(&items.rest, Types::ALL, levels)? };
        if rest.is_none() && items.least > firsts.len() || most.is_some_and(|most| items.least > most) {
            return Ok(None);
        }
        let least = items.least.saturating_sub(firsts.len());
        let mut body = rest.map(|name| list(&name, least, room, firsts.is_empty())).unwrap_or_default();
        for (place, name) in firsts.iter().enumerate().rev() {
            let comma = if place > 0 { "\", \" " } else { "" };
            body = format!("{comma}{name} {body}");
            if place >= items.least {
                body = format!("({body})?");
            }
        }
        Ok(Some(self.writer.rule(format!("\"[\" {body} \"]\""))))
    }

    fn object(&mut self, parts: &[Id], levels: usize) -> Result<Option<String>, Error> {
        let members = Members::of(self.schemas, parts)?;
        let mut written = Vec::new();
        for (name, goal) in &members.named {
            self.check_size(parts)?;
            let value = match members.goal(name) {
                None => None,
                Some(_) => self.value(goal, Types::ALL, levels)?,
            };
            let is_required = members.required.contains(name);
            match value {
                Some(value) => {
                    let mut key = String::new();
                    write_string(name, &mut key);
                    written.push((format!("{} {value}", literal(&format!("{key}: "))), is_required));
                }
                None if is_required => return Ok(None),
                None => {}
            }
        }
        let others = match &members.others {
            Some(goal) => self.value(goal, Types::ALL, levels)?,
            None => None,
        };
        let mut rest = String::new();
        let mut first = String::new();
        if let Some(value) = others {
            let key = self.other_key(&members);
            let member = self.writer.rule(format!("{key} \": \" {value}"));
            rest = self.writer.rule(format!("(\", \" {member})*"));
            first = self.writer.rule(format!("({member} {rest})?"));
        }
        for (member, is_required) in written.into_iter().rev() {
            let member = self.writer.rule(member);
            (first, rest) = if is_required {
                (self.writer.rule(format!("{member} {rest}")), self.writer.rule(format!("\", \" {member} {rest}")))
            } else {
                let first = if first.is_empty() { "\"\"".to_owned() } else { first };
                let alone = self.writer.rule(format!("{member} {rest} | {first}"));
                (alone, self.writer.rule(format!("(\", \" {member})? {rest}")))
            };
        }
        Ok(Some(self.writer.rule(format!("\"{{\" {first} \"}}\""))))
    }

    /// The key of a member that is none of the named ones.
    fn other_key(&mut self, members: &Members<'_>) -> String {
        let any = expression(&json_string());
        let taken = members.named.iter().map(|(name, _)| {
            let mut key = String::new();
            write_string(name, &mut key);
            literal(&key)
        });
        match lark::either(taken.collect()) {
            None => self.writer.terminal(any),
            Some(taken) => self.writer.terminal(format!("{any} & ~({taken})")),
        }
    }
}

/// `name` at least `least` times and at most `most` times, with commas between; with one before, unless it comes first.
fn list(name: &str, least: usize, most: Option<usize>, is_first: bool) -> String {
    let times = |least: usize, most: Option<usize>| match most {
        None => format!("(\", \" {name}){{{least},}}"),
        // The dialect has no repetition that never happens.
        Some(0) => String::new(),
        Some(most) => format!("(\", \" {name}){{{least},{most}}}"),
    };
    if !is_first {
        return times(least, most);
    }
    let more = times(least.saturating_sub(1), most.map(|most| most - 1));
    if least > 0 { format!("{name} {more}") } else { format!("({name} {more})?") }
}

/// The listed values that also match what else the branch says.
pub(super) fn fitting<'v>(
    schemas: &Schemas<'v>,
    branch: &Branch<'v>,
    values: &[&'v Value<'v>],
) -> Result<Vec<&'v Value<'v>>, Error> {
    let mut fitting = Vec::new();
    for value in values {
        if fits(schemas, value, &branch.parts)? {
            fitting.push(*value);
        }
    }
    Ok(fitting)
}

/// Whether a listed value matches keywords beside it.
fn fits(schemas: &Schemas<'_>, value: &Value<'_>, parts: &[Id]) -> Result<bool, Error> {
    let Some(&id) = parts.first() else { return Ok(true) };
    match value {
        Value::Null | Value::Bool(_) => Ok(true),
        Value::Number(number) => {
            let within =
                Decimal::read(number.literal()).map(|value| range(schemas, parts).map(|range| range.holds(&value)));
            match (within, divisor(schemas, parts)?) {
                (Some(within), None) => within,
                _ => schemas.refuse(id, "", "listed numbers are supported beside bounds only").map(|()| true),
            }
        }
        Value::String(text) => match Strings::of(schemas, parts)? {
            None => Ok(false),
            Some(strings) => match strings.admit(text) {
                Some(admits) => Ok(admits),
                None => schemas.refuse(id, "", "listed strings are supported beside lengths only").map(|()| true),
            },
        },
        Value::Array(_) | Value::Object(_) => {
            let keys =
                ["items", "prefixItems", "minItems", "maxItems", "properties", "required", "additionalProperties"];
            let is_bare = parts.iter().all(|&id| keys.iter().all(|key| schemas.keyword(id, key).is_none()));
            if is_bare {
                return Ok(true);
            }
            schemas.refuse(id, "", "listed arrays and objects are not supported beside other keywords").map(|()| true)
        }
    }
}

fn range(schemas: &Schemas<'_>, parts: &[Id]) -> Result<Range, Error> {
    let mut range = Range::default();
    for &id in parts {
        for (key, is_lower, excluded) in [
            ("minimum", true, false),
            ("exclusiveMinimum", true, true),
            ("maximum", false, false),
            ("exclusiveMaximum", false, true),
        ] {
            let value = match schemas.keyword(id, key) {
                None => continue,
                Some(Value::Number(number)) => Decimal::read(number.literal()),
                Some(_) => None,
            };
            match value {
                None => {
                    schemas.refuse(id, key, "it must be a number of at most 40 digits on either side of its point")?;
                }
                Some(value) if is_lower => range.at_least(Bound { value, excluded }),
                Some(value) => range.at_most(Bound { value, excluded }),
            }
        }
    }
    Ok(range)
}

/// What numbers must be a multiple of, and the schema that says so.
fn divisor(schemas: &Schemas<'_>, parts: &[Id]) -> Result<Option<(usize, Id)>, Error> {
    let mut found: Option<(usize, Id)> = None;
    for &id in parts {
        let Some(value) = schemas.keyword(id, "multipleOf") else { continue };
        match as_count(value) {
            Some(divisor @ 1..=DIVISOR_LIMIT) if found.is_none_or(|(old, _)| old == divisor) => {
                found = Some((divisor, id));
            }
            Some(1..=DIVISOR_LIMIT) => schemas.refuse(id, "multipleOf", "only one divisor of a number is supported")?,
            _ => schemas.refuse(id, "multipleOf", "only integers from 1 to 1000000 are supported")?,
        }
    }
    Ok(found)
}

/// What the items of an array may be, all schemas of it taken together.
#[derive(Debug, Default)]
struct Items {
    firsts: Vec<Goal>,
    rest: Goal,
    least: usize,
    most: Option<usize>,
}

impl Items {
    fn of(schemas: &Schemas<'_>, parts: &[Id]) -> Result<Self, Error> {
        let mut items = Self::default();
        let mut lists = Vec::new();
        for &id in parts {
            let firsts = schemas.list(id, "prefixItems")?;
            let rest = match schemas.keyword(id, "items") {
                Some(Value::Array(_)) => {
                    schemas.refuse(id, "items", "a list is not supported here; prefixItems is")?;
                    None
                }
                value => value.map(|value| schemas.within(id, value, ".items")),
            };
            items.counts(schemas, id)?;
            lists.push((firsts, rest));
        }
        let length = lists.iter().map(|(firsts, _)| firsts.len()).max().unwrap_or(0);
        let at = |place: usize| -> Goal {
            let mut goal: Goal =
                lists.iter().filter_map(|(firsts, rest)| firsts.get(place).copied().or(*rest)).collect();
            goal.sort_unstable();
            goal.dedup();
            goal
        };
        items.firsts = (0..length).map(at).collect();
        items.rest = at(usize::MAX);
        Ok(items)
    }

    fn counts(&mut self, schemas: &Schemas<'_>, id: Id) -> Result<(), Error> {
        let mut limits = [None, None];
        for (key, limit) in ["minItems", "maxItems"].into_iter().zip(&mut limits) {
            match schemas.keyword(id, key).map(as_count) {
                None => {}
                Some(Some(count)) if count <= ITEMS_LIMIT => *limit = Some(count),
                Some(_) => schemas.refuse(id, key, "only integers from 0 to 10000 are supported")?,
            }
        }
        let [least, most] = limits;
        self.least = self.least.max(least.unwrap_or(0));
        if let Some(most) = most {
            self.most = Some(self.most.map_or(most, |old| old.min(most)));
        }
        let may_repeat = self.most.is_none_or(|most| most > 1);
        if may_repeat && schemas.keyword(id, "uniqueItems") == Some(&Value::Bool(true)) {
            schemas.refuse(id, "uniqueItems", "it is not supported")?;
        }
        Ok(())
    }
}
