//! Requests that constrain their answers: tools and schemas, made of what a fuzzer says.

use arbitrary::{Arbitrary, Result, Unstructured};
use serde_json::{Map, Value, json};

const NAMES: [&str; 8] = ["city", "a", "b b", "é", "x<y", "｜DSML｜", "</", "long_name-2"];
const PATTERNS: [&str; 8] =
    ["^[a-z]{1,4}$", "b", "^<", "</$", r"\d+|^$", "^(?:\"|\\\\)*$", "^.{0,3}\\s", r"[^\x00-\x7F]"];
const FORMATS: [&str; 9] = ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
const TEXTS: [&str; 8] = ["red", "", "\n", "</", "<｜DSML｜", "a\"b", "é\u{1}", "true"];
const NUMBERS: [&str; 10] = ["0", "-1", "1.5", "10", "99", "-0.25", "1e3", "-120", "7.125", "1000000"];

/// A tool.
#[derive(Debug)]
pub struct Tool {
    pub name: String,
    pub schema: Value,
}

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    pub is_v41: bool,
    pub tools: Vec<Tool>,
    pub is_strict: bool,
    pub choice: Choice,
    pub is_single: bool,
    pub format: Option<Value>,
}

/// How the tools are to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
pub enum Choice {
    Auto,
    /// Required, and the prompt does not show it.
    Any,
    /// Required, and the prompt opens the block.
    Required,
    Named,
}

impl<'a> Arbitrary<'a> for Request {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let count = input.int_in_range(0..=3)?;
        let tool = |index: usize, input: &mut Unstructured<'a>| {
            Ok(Tool { name: format!("tool_{index}"), schema: parameters(input)? })
        };
        let tools = (0..count).map(|index| tool(index, input)).collect::<Result<Vec<_>>>()?;
        let format = if tools.is_empty() || input.ratio(1, 4)? { Some(schema(input, 3)?) } else { None };
        Ok(Self {
            is_v41: input.arbitrary()?,
            tools,
            is_strict: input.arbitrary()?,
            choice: input.arbitrary()?,
            is_single: input.arbitrary()?,
            format,
        })
    }
}

impl Request {
    /// The body, as Chat Completions if the prompt is to open the block, else as Messages; and whether it is the former.
    pub fn body(&self) -> (Value, bool) {
        let is_chat = self.choice == Choice::Required && self.format.is_none() && !self.is_strict;
        let mut body = json!({
            "model": if self.is_v41 { "DeepSeek-V4.1-Flash" } else { "DeepSeek-V4-Pro" },
            "messages": [{"role": "user", "content": "q"}],
            "thinking": {"type": "disabled"},
        });
        let members = body.as_object_mut().expect("an object");
        let tools = self.tools.iter().map(|tool| {
            if is_chat {
                json!({"type": "function", "function": {"name": tool.name, "parameters": tool.schema}})
            } else {
                json!({"name": tool.name, "input_schema": tool.schema, "strict": self.is_strict})
            }
        });
        members.insert("tools".to_owned(), tools.collect());
        let choice = match self.choice {
            Choice::Required if is_chat => json!("required"),
            Choice::Auto => json!({"type": "auto", "disable_parallel_tool_use": self.is_single}),
            Choice::Named if !self.tools.is_empty() => {
                json!({"type": "tool", "name": "tool_0", "disable_parallel_tool_use": self.is_single})
            }
            _ => json!({"type": "any", "disable_parallel_tool_use": self.is_single}),
        };
        members.insert("tool_choice".to_owned(), choice);
        if is_chat {
            members.insert("parallel_tool_calls".to_owned(), Value::Bool(!self.is_single));
        }
        if let Some(schema) = &self.format {
            members.insert("output_config".to_owned(), json!({"format": {"type": "json_schema", "schema": schema}}));
        }
        (body, is_chat)
    }
}

fn parameters(input: &mut Unstructured<'_>) -> Result<Value> {
    let mut schema = object(input, 3)?;
    if input.ratio(1, 4)? {
        schema.insert("$defs".to_owned(), json!({"node": object(input, 2)?}));
    }
    Ok(Value::Object(schema))
}

fn object(input: &mut Unstructured<'_>, depth: usize) -> Result<Map<String, Value>> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for _ in 0..input.int_in_range(0..=4)? {
        let name = *input.choose(&NAMES)?;
        properties.insert(name.to_owned(), schema(input, depth - 1)?);
        if input.arbitrary()? && !required.contains(&json!(name)) {
            required.push(json!(name));
        }
    }
    let mut object = Map::new();
    object.insert("type".to_owned(), json!("object"));
    object.insert("properties".to_owned(), Value::Object(properties));
    object.insert("required".to_owned(), Value::Array(required));
    match input.int_in_range(0..=3)? {
        0 => {}
        1 => {
            object.insert("additionalProperties".to_owned(), schema(input, depth - 1)?);
        }
        _ => {
            object.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    }
    Ok(object)
}

fn number(input: &mut Unstructured<'_>) -> Result<Value> {
    Ok(serde_json::from_str(input.choose(&NUMBERS)?).expect("a number"))
}

fn schema(input: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    let kinds = if depth == 0 { 7 } else { 13 };
    let mut schema = Map::new();
    let mut put = |key: &str, value: Value| schema.insert(key.to_owned(), value);
    match input.int_in_range(0..=kinds)? {
        0 => return Ok(Value::Bool(true)),
        1 => {
            put("type", json!("boolean"));
        }
        2 => {
            put("type", json!(["string", "null", "integer"]));
        }
        3 | 4 => {
            put("type", json!("string"));
            if input.ratio(1, 3)? {
                put("pattern", json!(input.choose(&PATTERNS)?));
            }
            if input.ratio(1, 3)? {
                put("minLength", json!(input.int_in_range(0..=4)?));
            }
            if input.ratio(1, 3)? {
                put("maxLength", json!(input.int_in_range(4..=40)?));
            }
            if input.ratio(1, 8)? {
                put("format", json!(input.choose(&FORMATS)?));
            }
        }
        5 | 6 => {
            put("type", json!(if input.arbitrary()? { "integer" } else { "number" }));
            for key in ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"] {
                if input.ratio(1, 4)? {
                    put(key, number(input)?);
                }
            }
            if input.ratio(1, 8)? {
                put("multipleOf", json!(input.int_in_range(1..=12)?));
            }
        }
        7 => {
            let values = [
                json!(*input.choose(&TEXTS)?),
                json!(*input.choose(&TEXTS)?),
                number(input)?,
                json!(null),
                json!({"a": [1.5, "x"]}),
            ];
            put("enum", json!(values[..input.int_in_range(1..=5)?]));
        }
        8 | 9 => return Ok(Value::Object(object(input, depth)?)),
        10 => {
            put("type", json!("array"));
            put("items", self::schema(input, depth - 1)?);
            if input.arbitrary()? {
                put("minItems", json!(input.int_in_range(0..=3)?));
                put("maxItems", json!(input.int_in_range(2..=4)?));
            }
            if input.ratio(1, 4)? {
                put("prefixItems", json!([self::schema(input, depth - 1)?, self::schema(input, depth - 1)?]));
            }
        }
        11 => {
            put("anyOf", json!([self::schema(input, depth - 1)?, self::schema(input, depth - 1)?]));
        }
        12 => {
            put("allOf", json!([self::schema(input, depth - 1)?, self::schema(input, depth - 1)?]));
        }
        _ => {
            put("$ref", json!(if input.arbitrary()? { "#/$defs/node" } else { "#" }));
        }
    }
    Ok(Value::Object(schema))
}
