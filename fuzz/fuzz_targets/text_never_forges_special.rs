//! Law: the control tokens of a prompt are those that its format places, whatever text the messages hold. The model's own
//! turns may hold grounding marks, and nothing else.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use recipe::codec::{Options, encode};
use recipe::encoded::Encoded;
use recipe::json::write_string;
use recipe::prompt::Segment;
use recipe::protocol::Protocol;
use recipe::special::{Special, Spellings};
use recipe::tokenizer::Piece;

static OPTIONS: LazyLock<Options> = LazyLock::new(Options::default);
static SPELLINGS: LazyLock<Spellings> = LazyLock::new(Spellings::default);

/// A conversation with `text` wherever a user, a tool or a client can put it.
fn request(model: &str, text: &str) -> Encoded {
    let mut said = String::new();
    write_string(&format!("x{text}x"), &mut said);
    let own = Special::GROUNDING.iter().fold(text.to_owned(), |own, mark| own.replace(SPELLINGS.of(*mark), "x"));
    let mut own_said = String::new();
    write_string(&format!("x{own}x"), &mut own_said);
    let mut arguments = String::new();
    write_string(&format!("{{\"query\":{said}}}"), &mut arguments);
    let body = format!(
        r#"{{"model":"{model}","tools":[{{"type":"function","function":{{"name":"search","description":{said},
        "parameters":{{"type":"object","properties":{{"query":{{"type":"string","description":{said}}}}}}}}}}}],"messages":[
        {{"role":"system","content":{said}}},{{"role":"user","content":{said}}},
        {{"role":"assistant","content":{own_said},"reasoning_content":{own_said},"tool_calls":[{{"id":"call_0","type":"function",
        "function":{{"name":"search","arguments":{arguments}}}}}]}},
        {{"role":"tool","tool_call_id":"call_0","content":{said}}},{{"role":"user","content":{said}}}]}}"#
    );
    match encode(body.as_bytes(), Protocol::ChatCompletions, &OPTIONS) {
        Ok(encoded) => encoded,
        Err(error) => panic!("{error}: {body}"),
    }
}

fn placed(encoded: &Encoded) -> Vec<Special> {
    encoded.prompt().specials.iter().map(|span| span.special).collect()
}

fuzz_target!(|text: &str| {
    for model in ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"] {
        let encoded = request(model, text);
        assert_eq!(placed(&encoded), placed(&request(model, "")), "text changed what the format places");
        let tokenizer = OPTIONS.tokenizer(encoded.version);
        let control =
            encoded.token_ids.iter().copied().filter(|id| matches!(tokenizer.piece(*id), Some(Piece::Special(..))));
        let expected = encoded.prompt().segments().filter_map(|segment| match segment {
            Segment::Special(_, spelling) => tokenizer.special_id(spelling),
            Segment::Text(_) => None,
        });
        assert_eq!(
            control.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "ids and prompt disagree on control tokens"
        );
    }
});
