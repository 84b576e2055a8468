//! Where the time of an agent's request goes: `cargo bench --bench request`.
//!
//! A request is that of `codec/requests.py`: 20 tools and 198 messages, made of this repository's own files. Each step is
//! timed alone, in processor time of the thread, and the requests take turns; printed are medians in milliseconds and the
//! pages that the system had to map. *next turn* is the same history and one more call with its result, when the history
//! lies in the range cache; *fresh* a request whose texts neither it nor the tokenizer ever saw, after other requests. What is left of a
//! whole request without its steps is its ids, the settings of the answer, and letting go of it all; *render* also puts the
//! prompt together, which a whole request does not.

#![allow(clippy::expect_used, reason = "a case that cannot run is to stop the run")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench reads files, measures and prints, the codec does not"
)]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use recipe::codec::{Options, encode};
use recipe::json::parse_into;
use recipe::model::Version;
use recipe::prompt::{Segment, render};
use recipe::protocol::{Protocol, Stored};
use recipe::tokenizer::{RangeCache, Tokenizer};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Characters of text that a request takes.
const LENGTH: usize = 300_000;
const TURNS: usize = 98;
const ROUNDS: usize = 5;
const MODEL: &str = "DeepSeek-V4-Pro";
const TOKENIZER: &[u8] = include_bytes!("../data/tokenizer_v4.json");

/// The texts of a request, taken one after the other.
struct Texts<'t>(std::str::Chars<'t>);

impl Texts<'_> {
    fn take(&mut self, length: usize) -> String {
        self.0.by_ref().take(length).collect()
    }
}

/// What the model said and thought, the argument of its call, and the result.
type Round = [String; 4];

struct Agent {
    /// Name, description, description of the parameter.
    tools: Vec<[String; 3]>,
    system: String,
    question: String,
    rounds: Vec<Round>,
}

impl Agent {
    fn new(text: &str) -> Self {
        let mut texts = Texts(text.chars());
        Self {
            tools: (0..20).map(|number| [format!("tool_{number}"), texts.take(300), texts.take(60)]).collect(),
            system: texts.take(8000),
            question: texts.take(800),
            rounds: (0..=TURNS).map(|_| [150, 400, 200, 2100].map(|length| texts.take(length))).collect(),
        }
    }

    /// Its request after `turns` rounds.
    fn request(&self, protocol: Protocol, turns: usize) -> String {
        let rounds = self.rounds.iter().take(turns).enumerate();
        let body = match protocol {
            Protocol::ChatCompletions => self.chat(rounds),
            Protocol::Messages => self.messages(rounds),
            Protocol::Responses => self.responses(rounds),
        };
        body.to_string()
    }

    fn tools(&self, tool: impl Fn(&str, &str, Value) -> Value) -> Vec<Value> {
        let schema = |text: &str| {
            json!({"type": "object", "required": ["path"], "properties":
                {"path": {"type": "string", "description": text}, "count": {"type": "integer"}}})
        };
        self.tools.iter().map(|[name, about, field]| tool(name, about, schema(field))).collect()
    }

    fn chat<'t>(&'t self, rounds: impl Iterator<Item = (usize, &'t Round)>) -> Value {
        let mut messages =
            vec![json!({"role": "system", "content": self.system}), json!({"role": "user", "content": self.question})];
        for (number, [said, thought, argument, result]) in rounds {
            let arguments = json!({"path": argument, "count": number}).to_string();
            let call = json!({"id": format!("c{number}"), "type": "function",
                "function": {"name": "tool_1", "arguments": arguments}});
            messages.push(json!({"role": "assistant", "content": said, "reasoning_content": thought,
                "tool_calls": [call]}));
            messages.push(json!({"role": "tool", "tool_call_id": format!("c{number}"), "content": result}));
        }
        let tools = self.tools(|name, description, parameters| {
            json!({"type": "function", "function":
                {"name": name, "description": description, "parameters": parameters}})
        });
        json!({"model": MODEL, "messages": messages, "tools": tools})
    }

    fn messages<'t>(&'t self, rounds: impl Iterator<Item = (usize, &'t Round)>) -> Value {
        let mut messages = vec![json!({"role": "user", "content": self.question})];
        for (number, [said, thought, argument, result]) in rounds {
            let id = format!("c{number}");
            messages.push(json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": thought, "signature": "s"},
                {"type": "text", "text": said},
                {"type": "tool_use", "id": id, "name": "tool_1", "input": {"path": argument, "count": number}}]}));
            messages.push(json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": result}]}));
        }
        let tools = self.tools(
            |name, description, schema| json!({"name": name, "description": description, "input_schema": schema}),
        );
        json!({"model": MODEL, "max_tokens": 2048, "system": self.system, "messages": messages, "tools": tools,
            "thinking": {"type": "enabled", "budget_tokens": 1024}})
    }

    fn responses<'t>(&'t self, rounds: impl Iterator<Item = (usize, &'t Round)>) -> Value {
        let text = |kind: &str, text: &str| json!([{"type": kind, "text": text}]);
        let mut items = vec![json!({"type": "message", "role": "user", "content": text("input_text", &self.question)})];
        for (number, [said, thought, argument, result]) in rounds {
            let id = format!("c{number}");
            let arguments = json!({"path": argument, "count": number}).to_string();
            items.push(json!({"type": "reasoning", "summary": text("summary_text", thought)}));
            items.push(json!({"type": "message", "role": "assistant", "content": text("output_text", said)}));
            items.push(json!({"type": "function_call", "call_id": id, "name": "tool_1", "arguments": arguments}));
            items.push(json!({"type": "function_call_output", "call_id": id, "output": result}));
        }
        let tools = self.tools(|name, description, parameters| {
            json!({"type": "function", "name": name, "description": description, "parameters": parameters})
        });
        json!({"model": MODEL, "instructions": self.system, "input": items, "tools": tools})
    }
}

/// The texts of this repository, cut into those of requests.
fn corpus() -> Vec<String> {
    let mut text = String::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut text);
    let characters: Vec<char> = text.chars().collect();
    characters.chunks_exact(LENGTH).map(|part| part.iter().collect()).collect()
}

fn collect(folder: &Path, text: &mut String) {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder of the repository").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules", "data"].contains(&name) {
            collect(&path, text);
        } else if let Some("rs" | "py" | "md") = path.extension().and_then(|extension| extension.to_str()) {
            text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// Processor time of this thread, in milliseconds.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Pages that were mapped for this process.
fn faults() -> u64 {
    let status = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    status.split_whitespace().nth(9).and_then(|faults| faults.parse().ok()).unwrap_or(0)
}

/// All measurements, by step.
#[derive(Default)]
struct Times(HashMap<&'static str, (Vec<f64>, Vec<u64>)>);

impl Times {
    fn measure<T>(&mut self, step: &'static str, run: impl FnOnce() -> T) -> T {
        let (pages, start) = (faults(), now());
        let result = black_box(run());
        let time = now() - start;
        let (times, all_pages) = self.0.entry(step).or_default();
        times.push(time);
        all_pages.push(faults() - pages);
        result
    }

    /// Median of a step, and of its pages.
    fn of(&mut self, step: &str) -> (f64, u64) {
        let Some((times, pages)) = self.0.get_mut(step) else { return (f64::NAN, 0) };
        times.sort_by(f64::total_cmp);
        pages.sort_unstable();
        (times[times.len() / 2], pages[pages.len() / 2])
    }
}

const WHOLE: [&str; 2] = ["whole, next turn", "whole, fresh"];
const STEPS: [&str; 6] =
    ["parse", "read", "render", "let go of the conversation", "let go of the JSON", "parse, read and render"];
const TEXTS: &str = "texts alone, fresh";
const GRAMMARS: [&str; 2] = ["grammar of new tools", "grammar of tools that came before"];

fn main() {
    let corpus = corpus();
    println!("| step | Chat Completions, ms | pages | Messages, ms | pages | Responses, ms | pages |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let protocols = [Protocol::ChatCompletions, Protocol::Messages, Protocol::Responses];
    let mut all = protocols.map(|_| Times::default());
    for (times, protocol) in all.iter_mut().zip(protocols) {
        // Words that one protocol's requests brought are new again to the next.
        let tokenizer = Tokenizer::from_json(TOKENIZER).expect("the tokenizer");
        measure(&corpus, protocol, &tokenizer, times);
    }
    for step in [&STEPS[..], &WHOLE, &[TEXTS], &GRAMMARS].concat() {
        let cells: Vec<String> =
            all.iter_mut().map(|times| times.of(step)).map(|(time, pages)| format!("{time:.3} | {pages}")).collect();
        println!("| {step} | {} |", cells.join(" | "));
    }
    for whole in WHOLE {
        let rest = |times: &mut Times| times.of(whole).0 - times.of(STEPS[5]).0;
        let cells: Vec<String> = all.iter_mut().map(|times| format!("{:.3} | ", rest(times))).collect();
        println!("| {whole}: ids and the rest | {} |", cells.join(" | "));
    }
}

fn measure(corpus: &[String], protocol: Protocol, tokenizer: &Tokenizer, times: &mut Times) {
    let with = |tokenizer: &Tokenizer| {
        let tokenizers = HashMap::from([(Version::V4.name(), Arc::new(tokenizer.clone()))]);
        Options { tokenizers, ..Options::default() }
    };
    let plain = with(tokenizer);
    let cached = with(&tokenizer.with_cache(Arc::new(RangeCache::new(64 << 20))));
    for (place, text) in corpus.iter().enumerate() {
        let agent = Agent::new(text);
        let [now, next] = [TURNS, TURNS + 1].map(|turns| agent.request(protocol, turns));
        let whole = |times: &mut Times, step, body: &str, options: &Options| {
            times.measure(step, || encode(body.as_bytes(), protocol, options).map(drop)).expect("a request");
        };
        match place {
            // The first brings the words that all texts have.
            0 => whole(times, "", &now, &plain),
            place if place % 2 == 0 => whole(times, WHOLE[1], &now, &cached),
            _ => texts(&now, protocol, &plain, times),
        }
        whole(times, "", &now, &cached);
        whole(times, WHOLE[0], &next, &cached);
        for (step, body) in GRAMMARS.into_iter().zip([&now, &next]) {
            let encoded = encode(body.as_bytes(), protocol, &cached).expect("a request");
            times.measure(step, || encoded.grammar().expect("a grammar"));
        }
        for _ in 0..ROUNDS {
            steps(&now, protocol, &plain, times);
        }
    }
}

/// One step after the other.
fn steps(body: &str, protocol: Protocol, options: &Options, times: &mut Times) {
    let stored = Stored::default();
    let version = Version::V4;
    let spellings = options.spellings(version);
    let mut room = Vec::new();
    let value = times.measure(STEPS[0], || parse_into(body.as_bytes(), &mut room).expect("JSON"));
    let prepared = times.measure(STEPS[1], || protocol.read(&value, &stored, &options.read).expect("a request"));
    let prompt = times.measure(STEPS[2], || render(&prepared.conversation, version, &spellings));
    times.measure(STEPS[3], || drop((prompt, prepared)));
    times.measure(STEPS[4], || drop(value));
    times.measure(STEPS[5], || {
        let mut room = Vec::new();
        let value = parse_into(body.as_bytes(), &mut room).expect("JSON");
        let prepared = protocol.read(&value, &stored, &options.read).expect("a request");
        render(&prepared.conversation, version, &spellings).text.len()
    });
}

/// The prompt's texts to ids, nothing else.
fn texts(body: &str, protocol: Protocol, options: &Options, times: &mut Times) {
    let (stored, mut room) = (Stored::default(), Vec::new());
    let value = parse_into(body.as_bytes(), &mut room).expect("JSON");
    let prepared = protocol.read(&value, &stored, &options.read).expect("a request");
    let prompt = render(&prepared.conversation, Version::V4, &options.spellings(Version::V4));
    let tokenizer = options.tokenizer(Version::V4);
    times.measure(TEXTS, || {
        let mut ids = Vec::with_capacity(prompt.text.len() / 3);
        for segment in prompt.segments() {
            if let Segment::Text(text) = segment {
                tokenizer.encode_plain(text, &mut ids);
            }
        }
        ids
    });
}
