//! One row of the golden vectors: its options, its request, and the comparison of what comes out.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use recipe::codec::{Options, encode, encode_conversation};
use recipe::conversation::{Detail, ImageData, ImageSource};
use recipe::encoded::{Constraint, Encoded};
use recipe::error::Error;
use recipe::json::{NumberValue, Value, write_compact};
use recipe::model::Version;
use recipe::output::InitialStage;
use recipe::protocol::{MissingReasoning, Protocol, RequiredWhileThinking, ServerTools};
use recipe::special::Special;
use recipe::tokenizer::Tokenizer;

/// What a row is called in a list of failures.
pub(crate) fn describe_row(row: &Value<'_>) -> String {
    let word = |key| row.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{} {} {}", word("id"), word("label"), word("model_version"))
}

/// What a row gives that differs from the file on purpose.
#[derive(Clone, Copy)]
pub(crate) enum Instead {
    /// A prompt that ends like this.
    PromptEnds(&'static str),
    /// A prompt in which this stands.
    PromptHas(&'static str),
    /// Some prompt, where the file has a refusal or other settings; `deviations.toml` has the whole result.
    Accepted,
    /// An error at this path.
    Refused(&'static str),
}

/// Checks that a row gives what is listed, and not what the file says.
pub(crate) fn check_deviation(row: &Value<'_>, instead: Instead) -> Result<(), String> {
    if check(row).is_ok() {
        return Err("listed as different, but equal to the file".to_owned());
    }
    match (encode_row(row), instead) {
        (Ok(encoded), Instead::PromptEnds(end)) if encoded.prompt().text.ends_with(end) => Ok(()),
        (Ok(encoded), Instead::PromptHas(text)) if encoded.prompt().text.contains(text) => Ok(()),
        (Ok(_), Instead::Accepted) => Ok(()),
        (Err(error), Instead::Refused(path)) if error.path() == path && error.status() == 400 => Ok(()),
        (Ok(encoded), _) => Err(format!("not what is listed: {}", encoded.prompt().text)),
        (Err(error), _) => Err(format!("not what is listed: {error}")),
    }
}

/// The prompt of a Messages row that ends with what the model said: that message is continued, with its reasoning, where
/// the file closes it and opens another.
pub(crate) fn continued_prompt(row: &Value<'_>) -> Option<String> {
    let request = row.get("request").filter(|_| row.get("protocol").and_then(Value::as_str) == Some("messages"))?;
    let last = request.get("messages")?.as_array()?.last()?;
    let ok = row.get("ok").filter(|_| last.get("role").and_then(Value::as_str) == Some("assistant"))?;
    let turn = ok.get("conversation")?.get("messages")?.as_array()?.last()?;
    let text = |key| turn.get(key).and_then(Value::as_str).unwrap_or_default();
    let (content, reasoning) = (text("content"), text("reasoning_content"));
    let thinks = ok.get("conversation")?.get("thinking_mode") == Some(&Value::Bool(true));
    let generation = format!("<｜end▁of▁sentence｜><｜Assistant｜>{}", if thinks { "<think>" } else { "</think>" });
    let (closed, suffix) = ok.get("prompt")?.as_str()?.rsplit_once(&generation)?;
    let opened = closed.strip_suffix(content)?.strip_suffix("</think>")?;
    let head = opened.strip_suffix(&format!("<think>{reasoning}")).unwrap_or(opened);
    let ends_in_thinking = last
        .get("content")?
        .as_array()
        .is_some_and(|blocks| blocks.last().and_then(|block| block.get("type")?.as_str()) == Some("thinking"));
    let start = if thinks { format!("<think>{reasoning}") } else { String::new() };
    let end = if thinks && ends_in_thinking && content.is_empty() { "" } else { "</think>" };
    Some(format!("{head}{start}{end}{content}{suffix}"))
}

/// Checks the prompt of a row that differs from the file by a rule.
pub(crate) fn check_prompt(row: &Value<'_>, expected: &str) -> Result<(), String> {
    match encode_row(row) {
        Ok(encoded) => compare_prompt(&encoded.prompt().text, expected),
        Err(error) => Err(format!("refused: {error}")),
    }
}

/// Runs a row and tells the first difference.
pub(crate) fn check(row: &Value<'_>) -> Result<(), String> {
    let result = encode_row(row);
    match (result, row.get("ok")) {
        (Ok(encoded), Some(expected)) => compare(&encoded, expected),
        (Err(error), None) if (400..500).contains(&error.status()) => Ok(()),
        (Err(error), None) => Err(format!("refused with status {}: {error}", error.status())),
        (Ok(_), None) => Err("accepted, but the reference refuses it".to_owned()),
        (Err(error), Some(_)) => Err(format!("refused: {error}")),
    }
}

fn text_of(value: &Value<'_>) -> String {
    let mut text = String::new();
    write_compact(value, &mut text);
    text
}

fn encode_row(row: &Value<'_>) -> Result<Encoded, Error> {
    let options = options(row);
    let protocol = match row.get("protocol").and_then(Value::as_str) {
        Some("chat") => Protocol::ChatCompletions,
        Some("responses") => Protocol::Responses,
        Some("messages") => Protocol::Messages,
        _ => {
            let version = version(row.get("model_version"));
            let conversation = row.get("conversation").expect("a conversation row has one");
            return encode_conversation(text_of(conversation).as_bytes(), version, &options);
        }
    };
    let body = match row.get("request_text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => text_of(row.get("request").expect("a row has a request")),
    };
    encode(body.as_bytes(), protocol, &options)
}

fn version(name: Option<&Value<'_>>) -> Version {
    match name.and_then(Value::as_str) {
        Some("v4") => Version::V4,
        _ => Version::V41,
    }
}

/// The vectors' V4.1 vocabulary: V4's with one more control token.
fn tokenizer_v41() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let make = || Version::V4.tokenizer().with_special_spellings(&[(128_799, "<｜System｜>")]).expect("a known id");
    Arc::clone(TOKENIZER.get_or_init(|| Arc::new(make())))
}

/// The options of a row over the reference's defaults.
fn options(row: &Value<'_>) -> Options {
    let given = row.get("options");
    let get = |key| given.and_then(|options| options.get(key)).filter(|value| **value != Value::Null);
    let server_tools = |key, default| match get(key).and_then(Value::as_str) {
        Some("Drop") => ServerTools::Drop,
        Some("Reject") => ServerTools::Reject,
        _ => default,
    };
    let mut options = Options::default();
    // The recordings are of a service that refuses these.
    options.read.required_choice_while_thinking = RequiredWhileThinking::Reject;
    options.read.responses_web_search = server_tools("responses_web_search", ServerTools::Drop);
    options.read.messages_web_search = server_tools("messages_web_search", ServerTools::Reject);
    if get("reasoning_content_behavior").and_then(Value::as_str) == Some("Reject") {
        options.read.missing_reasoning = MissingReasoning::Reject;
    }
    if let Some(Value::Bool(thinking)) = get("default_thinking_mode") {
        options.read.default_thinking = *thinking;
    }
    if let Some(bound) = get("thinking_max_tokens_upper_bound").and_then(number) {
        options.read.max_tokens_bounds.0 = bound as u32;
    }
    if let Some(Value::Object(aliases)) = get("model_aliases") {
        options.read.models.extend(aliases.iter().map(|(name, value)| (name.to_owned(), version(Some(value)))));
    }
    options.spellings = vec![(Special::Image, "<｜image｜>".to_owned())];
    if let Some(Value::Object(spellings)) = get("special_tokens") {
        let known = |(key, value): (&str, &Value<'_>)| Some((Special::from_key(key)?, value.as_str()?.to_owned()));
        options.spellings.extend(spellings.iter().filter_map(known));
    }
    options.tokenizers.insert(Version::V41.name(), tokenizer_v41());
    options
}

fn number(value: &Value<'_>) -> Option<f64> {
    let Value::Number(number) = value else { return None };
    Some(match number.value() {
        NumberValue::Unsigned(value) => value as f64,
        NumberValue::Negative(value) => value as f64,
        NumberValue::Float(value) => value,
    })
}

fn same<T: PartialEq + Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{what}: {ours:?} instead of {theirs:?}")) }
}

fn compare(encoded: &Encoded, expected: &Value<'_>) -> Result<(), String> {
    compare_prompt(&encoded.prompt().text, expected.get("prompt").and_then(Value::as_str).unwrap_or_default())?;
    let numbers =
        |value: &Value<'_>| -> Vec<f64> { value.as_array().unwrap_or_default().iter().filter_map(number).collect() };
    let ids: Vec<f64> = encoded.token_ids.iter().map(|id| f64::from(*id)).collect();
    let expected_ids = expected.get("token_ids").map(numbers).unwrap_or_default();
    if let Some(place) =
        (0..ids.len().max(expected_ids.len())).find(|place| ids.get(*place) != expected_ids.get(*place))
    {
        return Err(format!("id {place}: {:?} instead of {:?}", ids.get(place), expected_ids.get(place)));
    }
    let ranges: Vec<Vec<f64>> =
        encoded.prompt().special_ranges().iter().map(|(start, end)| vec![*start as f64, *end as f64]).collect();
    let expected_ranges = expected.get("special_ranges").and_then(Value::as_array).unwrap_or_default();
    same("special_ranges", &ranges, &expected_ranges.iter().map(numbers).collect())?;
    let images: Vec<String> = encoded.prompt().images.iter().map(describe_image).collect();
    let expected_images = expected.get("image_sources").and_then(Value::as_array).unwrap_or_default();
    same("image_sources", &images, &expected_images.iter().map(text_of).collect())?;
    if let Some(options) = expected.get("inference_options") {
        compare_sampling(encoded, options)?;
    }
    if let Some(options) = expected.get("parsing_options") {
        compare_parsing(encoded, options)?;
    }
    if let Some(stream) = expected.get("stream") {
        same("stream", &Value::Bool(encoded.stream), stream)?;
    }
    compare_limits(encoded, expected.get("resolve_max_tokens"))?;
    compare_answer_settings(encoded, expected)
}

fn compare_prompt(ours: &str, theirs: &str) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    let place = ours.chars().zip(theirs.chars()).take_while(|(left, right)| left == right).count();
    let around = |text: &str| text.chars().skip(place.saturating_sub(20)).take(120).collect::<String>();
    Err(format!("prompt differs at character {place}:\n  ours   {:?}\n  theirs {:?}", around(ours), around(theirs)))
}

fn describe_image(source: &ImageSource<'_>) -> String {
    let kind = match source.data {
        ImageData::Url(_) => "url",
        ImageData::Base64 { .. } => "data_url",
    };
    let detail = match source.detail {
        Detail::Low => "low",
        Detail::High => "high",
        Detail::Original => "original",
        Detail::Auto => "auto",
    };
    format!("[\"{kind}\",\"{detail}\",\"{}\"]", source.path)
}

fn compare_sampling(encoded: &Encoded, expected: &Value<'_>) -> Result<(), String> {
    let sampling = &encoded.sampling;
    let expected_number = |key| expected.get(key).and_then(number);
    same("max_tokens", &sampling.max_tokens.map(f64::from), &expected_number("max_tokens"))?;
    same("temperature", &Some(f64::from(sampling.temperature)), &expected_number("temperature"))?;
    same("top_p", &Some(f64::from(sampling.top_p)), &expected_number("top_p"))?;
    same("top_logprobs", &sampling.top_logprobs.map(f64::from), &expected_number("top_logprobs"))?;
    same("seed", &sampling.seed.map(|seed| seed as f64), &expected_number("seed"))?;
    same("logprobs", &Some(&Value::Bool(sampling.logprobs)), &expected.get("logprobs"))?;
    let kind = encoded.constraint.as_ref().map(|constraint| match constraint {
        Constraint::ToolCall { rules, .. } if rules.required => "tool_call_required",
        Constraint::ToolCall { .. } => "tool_call",
        Constraint::Json { .. } => "json",
        Constraint::Regex { .. } => "regex",
        Constraint::Lark { .. } => "grammar",
        Constraint::Choice { .. } => "choice",
    });
    let constraint = expected.get("output_constraint").and_then(|constraint| constraint.get("kind"));
    same("constraint", &kind, &constraint.and_then(Value::as_str))
}

fn compare_parsing(encoded: &Encoded, expected: &Value<'_>) -> Result<(), String> {
    let parsing = &encoded.parsing;
    for (key, ours) in [
        ("parse_tool_calls", parsing.parse_tool_calls),
        ("starts_in_tool_calls", parsing.starts_in_tool_calls),
        ("parse_json_output", parsing.parse_json_output),
    ] {
        same(key, &Some(&Value::Bool(ours)), &expected.get(key))?;
    }
    let stage = match parsing.initial_stage {
        InitialStage::Content => None,
        InitialStage::ReasoningStart => Some("ReasoningStart"),
        InitialStage::ReasoningContinuation => Some("ReasoningContinuation"),
        InitialStage::ContentContinuation => Some("ContentContinuation"),
    };
    same("thinking_initial_stage", &stage, &expected.get("thinking_initial_stage").and_then(Value::as_str))?;
    let stops = expected.get("stop_sequences").and_then(Value::as_array).unwrap_or_default();
    let stops: Vec<String> = stops.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    same("stop_sequences", &parsing.stop_sequences, &stops)
}

fn compare_limits(encoded: &Encoded, expected: Option<&Value<'_>>) -> Result<(), String> {
    for limit in expected.and_then(Value::as_array).unwrap_or_default() {
        let Some([prompt, context, answer]) = limit.as_array() else { continue };
        let argument = |value| number(value).unwrap_or_default() as u32;
        let resolved = encoded.sampling.resolve_max_tokens(argument(prompt), argument(context));
        same("resolve_max_tokens", &resolved.ok().map(f64::from), &number(answer))?;
    }
    Ok(())
}

/// What the answer repeats of the request. Numbers are echoed with the client's digits and rounded in the vectors.
fn compare_answer_settings(encoded: &Encoded, expected: &Value<'_>) -> Result<(), String> {
    let single = |value: &Value<'_>| number(value).map(|number| number as f32);
    if let Some(Value::Object(echo)) = expected.get("echo") {
        for (key, theirs) in echo.iter() {
            let ours = encoded.echo.as_ref().and_then(|echo| echo.get(key)).unwrap_or(&Value::Null);
            match single(theirs) {
                Some(_) => same(key, &single(ours), &single(theirs))?,
                None => same(key, ours, theirs)?,
            }
        }
    }
    if let Some(Value::Object(map)) = expected.get("namespace_tool_map") {
        let mut ours: Vec<String> = encoded
            .namespace_tools
            .iter()
            .map(|(flattened, namespace, name)| format!("{flattened}: [\"{namespace}\",\"{name}\"]"))
            .collect();
        let mut theirs: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {}", text_of(value))).collect();
        ours.sort();
        theirs.sort();
        same("namespace_tool_map", &ours, &theirs)?;
    }
    Ok(())
}
