//! What encoding costs as requests grow: `cargo bench --bench encode`.
//!
//! Each case is run at three sizes, in turn rather than one after the other, so that a busy machine slows all of them.
//! Printed are the medians, the time of the largest for each byte, and how much longer twice the size takes: 2 is linear.
//! Peak memory is that of a process that runs only this case, at its largest size.

#![allow(clippy::expect_used, reason = "a case that cannot run is to stop the run")]

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use recipe::codec::{Options, encode};
use recipe::protocol::Protocol;

const ROUNDS: usize = 5;

struct Case {
    name: &'static str,
    protocol: Protocol,
    /// Largest size; it is also run at a half and a quarter of it.
    size: usize,
    build: fn(usize) -> String,
}

const CASES: &[Case] = &[
    Case { name: "nested arrays, refused", protocol: Protocol::ChatCompletions, size: 50_000_000, build: nested },
    Case { name: "one text, bytes", protocol: Protocol::ChatCompletions, size: 50_000_000, build: one_text },
    Case { name: "one unbroken word, bytes", protocol: Protocol::ChatCompletions, size: 4_000_000, build: one_word },
    Case { name: "messages", protocol: Protocol::ChatCompletions, size: 10_000, build: many_messages },
    Case { name: "tools, Chat Completions", protocol: Protocol::ChatCompletions, size: 2_000, build: chat_tools },
    Case { name: "tools, Responses", protocol: Protocol::Responses, size: 2_000, build: responses_tools },
    Case { name: "tools, Messages", protocol: Protocol::Messages, size: 2_000, build: messages_tools },
    Case { name: "clashing namespace tools", protocol: Protocol::Responses, size: 2_000, build: clashing_tools },
    Case { name: "calls of one round, Chat", protocol: Protocol::ChatCompletions, size: 10_000, build: chat_calls },
    Case { name: "calls of one round, Responses", protocol: Protocol::Responses, size: 10_000, build: responses_calls },
    Case { name: "calls of one round, Messages", protocol: Protocol::Messages, size: 10_000, build: messages_calls },
    Case { name: "rounds of one call", protocol: Protocol::Responses, size: 5_000, build: rounds },
];

const CHAT: &str = r#"{"model":"DeepSeek-V4-Pro","messages":["#;
const USER: &str = r#"{"role":"user","content":"What is the weather?"}"#;
const PARAMETERS: &str = r#"{"type":"object","properties":{"city":{"type":"string","description":"Where."},"days":{"type":"integer","minimum":1}},"required":["city"]}"#;

fn list(size: usize, item: impl Fn(usize) -> String) -> String {
    (0..size).map(item).collect::<Vec<_>>().join(",")
}

fn nested(size: usize) -> String {
    "[".repeat(size)
}

fn one_text(size: usize) -> String {
    let text = "The quick brown fox jumps over 13 lazy dogs. 今天下午三点在二楼开会。 ".repeat(size / 100);
    format!(r#"{CHAT}{{"role":"user","content":"{text}"}}]}}"#)
}

fn one_word(size: usize) -> String {
    format!(r#"{CHAT}{{"role":"user","content":"{}"}}]}}"#, "abcdefghij".repeat(size / 10))
}

fn many_messages(size: usize) -> String {
    let message = |index| match index % 2 {
        0 => USER.to_owned(),
        _ => r#"{"role":"assistant","content":"Sunny.","reasoning_content":"Look it up."}"#.to_owned(),
    };
    format!("{CHAT}{},{USER}]}}", list(size, message))
}

fn chat_tools(size: usize) -> String {
    let tool =
        |index| format!(r#"{{"type":"function","function":{{"name":"tool_{index}","parameters":{PARAMETERS}}}}}"#);
    format!(r#"{CHAT}{USER}],"tools":[{}]}}"#, list(size, tool))
}

fn responses_tools(size: usize) -> String {
    let tool = |index| format!(r#"{{"type":"function","name":"tool_{index}","parameters":{PARAMETERS}}}"#);
    format!(r#"{{"model":"DeepSeek-V4.1-Flash","input":"q","tools":[{}]}}"#, list(size, tool))
}

fn messages_tools(size: usize) -> String {
    let tool = |index| format!(r#"{{"name":"tool_{index}","input_schema":{PARAMETERS}}}"#);
    format!(r#"{CHAT}{USER}],"max_tokens":9,"tools":[{}]}}"#, list(size, tool))
}

fn clashing_tools(size: usize) -> String {
    let tool = |_| r#"{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}"#.to_owned();
    format!(r#"{{"model":"DeepSeek-V4.1-Flash","input":"q","tools":[{}]}}"#, list(size, tool))
}

fn chat_calls(size: usize) -> String {
    let call = |index| format!(r#"{{"id":"{index}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#);
    let result = |index| format!(r#"{{"role":"tool","tool_call_id":"{index}","content":"r"}}"#);
    let (calls, results) = (list(size, call), list(size, result));
    format!(r#"{CHAT}{USER},{{"role":"assistant","tool_calls":[{calls}]}},{results}]}}"#)
}

fn responses_calls(size: usize) -> String {
    let call = |index| format!(r#"{{"type":"function_call","call_id":"{index}","name":"f","arguments":"{{}}"}}"#);
    let result = |index| format!(r#"{{"type":"function_call_output","call_id":"{index}","output":"r"}}"#);
    let (calls, results) = (list(size, call), list(size, result));
    format!(r#"{{"model":"DeepSeek-V4.1-Flash","input":[{calls},{results}]}}"#)
}

fn messages_calls(size: usize) -> String {
    let call = |index| format!(r#"{{"type":"tool_use","id":"{index}","name":"f","input":{{}}}}"#);
    let result = |index| format!(r#"{{"type":"tool_result","tool_use_id":"{index}","content":"r"}}"#);
    let (calls, results) = (list(size, call), list(size, result));
    format!(
        r#"{CHAT}{USER},{{"role":"assistant","content":[{calls}]}},{{"role":"user","content":[{results}]}}],"max_tokens":9}}"#
    )
}

fn rounds(size: usize) -> String {
    let round = |index| {
        let mut items = format!(r#"{{"type":"function_call","call_id":"{index}","name":"f","arguments":"{{}}"}},"#);
        let _ = write!(items, r#"{{"type":"function_call_output","call_id":"{index}","output":"r"}}"#);
        items
    };
    format!(r#"{{"model":"DeepSeek-V4.1-Flash","input":[{}]}}"#, list(size, round))
}

fn timed(body: &str, case: &Case, options: &Options) -> Duration {
    let start = Instant::now();
    let result = encode(body.as_bytes(), case.protocol, options);
    let time = start.elapsed();
    assert_eq!(result.is_err(), case.name.ends_with("refused"), "{}: {:?}", case.name, result.err());
    time
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn report(place: usize, case: &Case, options: &Options) {
    let bodies = [4, 2, 1].map(|part| (case.build)(case.size / part));
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (body, times) in bodies.iter().zip(&mut times) {
            times.push(timed(body, case, options));
        }
    }
    let [quarter, half, full] = times.map(|mut times| median(&mut times).as_secs_f64());
    let per_byte = full * 1e9 / bodies[2].len() as f64;
    println!(
        "| {} | {} | {} | {:.1} | {:.1} | {:.2} | {:.2} | {} |",
        case.name,
        case.size,
        bodies[2].len(),
        full * 1e3,
        per_byte,
        half / quarter,
        full / half,
        peak_of_child(place).unwrap_or_else(|| "-".to_owned())
    );
}

/// Peak memory of a process that runs this case once, in MiB, body included.
fn peak_of_child(place: usize) -> Option<String> {
    let output = Command::new(std::env::current_exe().ok()?).args(["--once", &place.to_string()]).output().ok()?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn run_once(place: usize) {
    let case = &CASES[place];
    let body = (case.build)(case.size);
    timed(&body, case, &Options::default());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    if let Some(peak) = peak {
        println!("{}", peak / 1024);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, place] = &arguments[..]
        && flag == "--once"
    {
        return run_once(place.parse().expect("the place of a case"));
    }
    let options = Options::default();
    encode(many_messages(1).as_bytes(), Protocol::ChatCompletions, &options).expect("a request that is read");
    println!("| case | size | bytes | ms | ns a byte | ×2 from a quarter | ×2 from a half | peak MiB |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (place, case) in CASES.iter().enumerate() {
        report(place, case, &options);
    }
}
