//! Model output for fuzz targets: codes become ids that reach the parser's grammar, settings become a decoder.

use std::sync::Arc;

use recipe::decoder::{Decoder, DecoderConfig};
use recipe::model::Version;
use recipe::output::{InitialStage, ParsingOptions, QuotedCalls};
use recipe::protocol::{AnswerConfig, Block, Fold, Protocol};

/// Control tokens as the model writes them: `<think>`, `</think>`, the DSML mark, end of sentence, a role, grounding.
const CONTROL: [u32; 8] = [128_821, 128_822, 128_825, 128_825, 128_825, 1, 128_803, 129_278];

/// Text between them, in the words of the grammar and in those that go wrong.
const WORDS: [&str; 40] = [
    "<",
    "</",
    "tool_calls>",
    " calls>",
    " calls>\n",
    "invoke name=\"",
    " invoke name=\"",
    "f\">",
    "g\">\n",
    "parameter name=\"",
    " parameter name=\"",
    "a",
    "b",
    "\" string=\"true\">",
    "\" string=\"false\">",
    "\">",
    "parameter>",
    " parameter>\n",
    "invoke>",
    " invoke>\n",
    "\n",
    "\n\n",
    "```\n",
    "```json\n",
    "{",
    "}",
    "[1, 2",
    "]",
    "\"x\"",
    "\"",
    ":",
    "1e999",
    "NaN",
    "true",
    " ",
    "ab",
    "é",
    "你好",
    "\r\n",
    "/>",
];

/// Ids for codes: a quarter control tokens, a quarter single bytes (broken UTF-8 among them), the rest words.
pub fn ids(codes: &[u16]) -> Vec<u32> {
    let tokenizer = Version::V41.tokenizer();
    let mut ids = Vec::with_capacity(codes.len() * 2);
    for code in codes {
        let place = usize::from(code / 4);
        match code % 4 {
            0 => ids.push(CONTROL[place % CONTROL.len()]),
            1 => ids.push(3 + u32::from(code / 4) % 256),
            _ => tokenizer.encode_plain(WORDS[place % WORDS.len()], &mut ids),
        }
    }
    ids
}

/// Parts of the spellings of control tokens, which may come to stand inside one another.
const SPELLINGS: [&str; 16] = [
    "<｜end▁of▁sentence｜>",
    "<｜end▁of",
    "▁sentence｜>",
    "<｜User｜>",
    "<｜Us",
    "er｜>",
    "<｜▁pad▁",
    "｜>",
    "<think>",
    "</think>",
    "<thi",
    "</thi",
    "nk>",
    "｜DSML｜",
    "<｜DS",
    "ML｜",
];

/// Text for codes: half spellings of control tokens, half words.
pub fn text(codes: &[u16]) -> String {
    let word = |&code: &u16| {
        let place = usize::from(code / 2);
        if code % 2 == 0 { SPELLINGS[place % SPELLINGS.len()] } else { WORDS[place % WORDS.len()] }
    };
    codes.iter().map(word).collect()
}

/// Fails if an answer to pushed text shows the spelling of a control token. Thinking marks may be text where an answer is
/// JSON, in the values of calls, and, for the start, outside of reasoning.
pub fn check_spellings(decoder: &Decoder) {
    let response = String::from_utf8(decoder.response()).expect("a response is UTF-8");
    for spelling in ["<｜end▁of▁sentence｜>", "<｜User｜>", "<｜▁pad▁｜>"] {
        assert!(!response.contains(spelling), "{response}");
    }
    for block in decoder.fold(0).map(Fold::blocks).unwrap_or_default() {
        if let Block::Reasoning(passage) = block {
            let text = passage.text();
            assert!(!text.contains("</think>") && !text.contains("<think>"), "{response}");
        }
    }
}

/// A decoder of one answer.
pub fn decoder(settings: u8) -> Decoder {
    let stages = [
        InitialStage::Content,
        InitialStage::ReasoningStart,
        InitialStage::ReasoningContinuation,
        InitialStage::ContentContinuation,
    ];
    let parsing = ParsingOptions {
        initial_stage: stages[usize::from(settings & 3)],
        parse_tool_calls: settings & 4 != 0,
        starts_in_tool_calls: settings & 12 == 12,
        parse_json_output: settings & 16 != 0,
        stop_sequences: if settings & 32 != 0 { vec!["ab".into(), "\n\n".into()] } else { Vec::new() },
        declared_tools: (settings & 64 != 0).then(|| vec!["f".into()]),
        top_logprobs: Some(1),
        quoted_calls: if settings & 128 != 0 { QuotedCalls::AreCalls } else { QuotedCalls::AreText },
    };
    let protocol = Protocol::ALL[usize::from(settings) % 3];
    let answer = AnswerConfig { thinking: settings & 3 != 0, ..AnswerConfig::new(protocol, "id", "model") };
    let config = DecoderConfig { parsing, answer, spellings: Version::V41.spellings() };
    Decoder::new(config, Some(Arc::clone(&Version::V41.tokenizer())))
}
