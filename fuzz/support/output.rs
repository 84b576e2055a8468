//! Model output for fuzz targets: codes become ids that reach the parser's grammar, settings become a decoder.

use std::sync::Arc;

use recipe::decoder::{Decoder, DecoderConfig};
use recipe::model::Version;
use recipe::output::{InitialStage, ParsingOptions, QuotedCalls};
use recipe::protocol::{AnswerConfig, Protocol};

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
