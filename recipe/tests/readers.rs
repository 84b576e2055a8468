//! Readers of requests: whatever arrives, they answer with a request or an error, and in time linear in its size.

#![allow(clippy::expect_used, reason = "a request that is not read is to stop the test")]
#![allow(clippy::disallowed_methods, reason = "the test measures time, the codec does not")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use recipe::codec::{Options, encode, encode_conversation};
use recipe::model::Version;
use recipe::protocol::{Protocol, ServerTools};

const PROTOCOLS: [Protocol; 3] = [Protocol::ChatCompletions, Protocol::Responses, Protocol::Messages];

/// Names and words of the protocols: bodies made of them get past the first checks.
const NAMES: &str = "model messages input instructions role content type text name id arguments tools tool_choice function \
    parameters strict description thinking reasoning reasoning_effort effort output_config tool_calls tool_call_id call_id \
    tool_use_id tool_use tool_result tool_reference tool_addition tool tool_name source url media_type data base64 image \
    image_url input_image input_text output_text input_file file file_id file_data document output function_call \
    function_call_output custom_tool_call custom_tool_call_output tool_search tool_search_call tool_search_output execution \
    client namespace custom apply_patch web_search message summary reasoning_text reasoning_content encrypted_content system \
    user assistant developer latest_reminder prefix input_schema defer_loading format json_object json_schema schema regex \
    response_format stop stop_sequences stream stream_options max_tokens max_output_tokens temperature top_p logprobs \
    top_logprobs seed n metadata user_id verbosity auto any none required properties object string anyOf items additionalProperties \
    enabled disabled adaptive low high max server_tool_use web_search_tool_result redacted_thinking signature thinking_mode \
    response_schema response_regex images detail $ref $schema enum pattern max_completion_tokens logit_bias top_k allowed_tools mode \
    refusal is_error strict grammar syntax definition lark item_reference previous_response_id parallel_tool_calls";

fn word() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = NAMES.split_whitespace().collect();
    proptest::sample::select(names).prop_map(str::to_owned)
}

fn quoted() -> impl Strategy<Value = String> {
    let texts = [
        "",
        "a",
        "x",
        "json",
        "DeepSeek-V4-Pro",
        "DeepSeek-V4.1-Flash",
        "<｜image｜>",
        "data:image/png;base64,aGk=",
        "{}",
    ];
    prop_oneof![word(), proptest::sample::select(texts.to_vec()).prop_map(str::to_owned)]
        .prop_map(|text| format!("\"{text}\""))
}

fn value() -> impl Strategy<Value = String> {
    let scalars = ["null", "true", "false", "0", "1", "-1", "1e400", "0.5", "99999999999999999999", "4294967296"];
    let leaf = prop_oneof![3 => quoted(), 1 => proptest::sample::select(scalars.to_vec()).prop_map(str::to_owned)];
    leaf.prop_recursive(6, 96, 6, |inner| {
        let array = prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(",")));
        let member = (word(), inner).prop_map(|(key, value)| format!("\"{key}\":{value}"));
        let object = prop::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(",")));
        prop_oneof![array, object]
    })
}

/// Messages, items and tools that are nearly right: the kinds of a protocol with members that fit as a rule.
fn item() -> impl Strategy<Value = String> {
    let kinds = "message reasoning function_call custom_tool_call function_call_output tool_search_call tool_search_output \
        text image document thinking server_tool_use tool_use tool_result tool_addition function custom namespace tool_search";
    let kinds: Vec<&'static str> = kinds.split_whitespace().collect();
    let roles = ["user", "assistant", "system", "developer", "tool", "latest_reminder"].to_vec();
    let ids = ["a", "b", "c"].to_vec();
    let content = prop_oneof![quoted(), value()];
    let parts = (
        proptest::sample::select(kinds),
        proptest::sample::select(roles),
        proptest::sample::select(ids),
        content,
        prop_oneof![Just("{}".to_owned()), value()],
        prop_oneof![Just("[]".to_owned()), value()],
    );
    parts.prop_map(|(kind, role, id, content, object, list)| {
        let mut text = format!("{{\"type\":\"{kind}\",\"role\":\"{role}\",\"name\":\"{id}\",\"content\":{content}");
        for key in ["id", "call_id", "tool_use_id", "tool_call_id"] {
            let _ = write!(text, ",\"{key}\":\"{id}\"");
        }
        let _ = write!(text, ",\"text\":{content},\"thinking\":{content},\"output\":{content},\"input\":{content}");
        let _ = write!(text, ",\"arguments\":{object},\"function\":{object},\"source\":{object},\"tools\":{list}}}");
        text
    })
}

fn body() -> impl Strategy<Value = String> {
    let models = ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"].to_vec();
    let list = || prop::collection::vec(prop_oneof![3 => item(), 1 => value()], 0..6);
    let members = prop::collection::vec((word(), value()), 0..4);
    (proptest::sample::select(models), list(), list(), members).prop_map(|(model, messages, tools, members)| {
        let messages = messages.join(",");
        let mut text = format!("{{\"model\":\"{model}\",\"messages\":[{messages}],\"input\":[{messages}]");
        let _ = write!(text, ",\"tools\":[{}]", tools.join(","));
        for (key, value) in members {
            let _ = write!(text, ",\"{key}\":{value}");
        }
        text + "}"
    })
}

fn read_by_all(body: &str) {
    let mut options = Options::default();
    for web_search in [ServerTools::Drop, ServerTools::Reject] {
        options.read.messages_web_search = web_search;
        options.read.responses_web_search = web_search;
        for protocol in PROTOCOLS {
            if let Err(error) = encode(body.as_bytes(), protocol, &options) {
                assert!((400..500).contains(&error.status()), "{error}");
            }
        }
    }
    for version in Version::ALL {
        if let Err(error) = encode_conversation(body.as_bytes(), version, &options) {
            assert!((400..500).contains(&error.status()), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_json_gets_an_answer(body in value()) {
        read_by_all(&body);
    }

    #[test]
    fn nearly_right_requests_get_an_answer(body in body()) {
        read_by_all(&body);
    }
}

/// Generous for a machine that runs other things too; a reader that is quadratic takes minutes.
const PATIENCE: Duration = Duration::from_mins(1);

fn reads_in_time(what: &str, body: &str, protocol: Protocol) {
    let start = Instant::now();
    encode(body.as_bytes(), protocol, &Options::default()).expect(what);
    assert!(start.elapsed() < PATIENCE, "{what} took {:?}", start.elapsed());
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

#[test]
fn long_messages_requests_are_read_in_linear_time() {
    let model = "DeepSeek-V4.1-Flash";
    let calls = list(10_000, |id| format!(r#"{{"type":"tool_use","id":"c{id}","name":"f","input":{{}}}}"#));
    let results = list(10_000, |id| format!(r#"{{"type":"tool_result","tool_use_id":"c{id}","content":"r"}}"#));
    let texts = list(10_000, |_| r#"{"type":"text","text":"t"}"#.to_owned());
    let empty = list(10_000, |_| r#"{"type":"text","text":""}"#.to_owned());
    let turns = list(10_000, |turn| format!(r#"{{"role":"{}","content":"t"}}"#, ["user", "assistant"][turn % 2]));
    let tools = list(2_000, |tool| format!(r#"{{"name":"t{tool}","input_schema":{{"type":"object"}}}}"#));
    let body = format!(
        r#"{{"model":"{model}","tools":[{tools}],"messages":[{{"role":"assistant","content":[{empty},{texts},{calls}]}},
        {{"role":"user","content":[{results},{texts}]}},{turns},{{"role":"user","content":"t"}}]}}"#
    );
    reads_in_time("Messages", &body, Protocol::Messages);
    reads_in_time("Messages on V4", &body.replacen("V4.1-Flash", "V4-Pro", 1), Protocol::Messages);
}

#[test]
fn long_responses_requests_are_read_in_linear_time() {
    let model = "DeepSeek-V4.1-Flash";
    let call =
        |id| format!(r#"{{"type":"function_call","call_id":"c{id}","name":"f","namespace":"n","arguments":"{{}}"}}"#);
    let result = |id| format!(r#"{{"type":"function_call_output","call_id":"c{id}","output":"r"}}"#);
    let (calls, results) = (list(10_000, call), list(10_000, result));
    let says = list(10_000, |_| r#"{"role":"assistant","content":"t"}"#.to_owned());
    let empty = list(10_000, |_| r#"{"role":"assistant","content":""}"#.to_owned());
    let thinks = r#"{"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]}"#;
    let thoughts = list(10_000, |_| thinks.to_owned());
    let unknown = list(1_000, |_| r#"{"type":"item_reference"}"#.to_owned());
    let namespace = r#"{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}"#;
    let tools = list(2_000, |_| namespace.to_owned());
    let body = format!(
        r#"{{"model":"{model}","tools":[{tools}],
        "input":[{empty},{thoughts},{empty},{says},{calls},{results},{unknown},{{"role":"user","content":"t"}}]}}"#
    );
    reads_in_time("Responses", &body, Protocol::Responses);
    reads_in_time("Responses on V4", &body.replacen("V4.1-Flash", "V4-Pro", 1), Protocol::Responses);
}
