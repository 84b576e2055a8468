//! Laws of the output parser, on outputs made of fragments of markup.

#![allow(clippy::unwrap_used, reason = "tests")]

mod output_support;

use std::collections::HashSet;

use output_support::{Folded, Token, fold, read_pieces, read_tokens, tokens};
use proptest::prelude::*;
use proptest::sample::select;
use recipe::event::{BackendFinish, FinishReason};
use recipe::json::{self, Value};
use recipe::output::{InitialStage, OutputParser, OutputPiece, OutputSpecial, ParsingOptions, QuotedCalls};

const FRAGMENTS: &[&str] = &[
    "<｜DSML｜",
    "</｜DSML｜",
    "<｜DSML｜tool_calls>",
    "<｜DSML｜ calls>",
    "<｜DSML｜toolcalls>",
    "</｜DSML｜tool_calls>",
    "</｜DSML｜ calls>",
    "<｜DSML｜invoke name=\"f\">",
    "<｜DSML｜ invoke name=\"g\">",
    "<｜DSML｜invoke name=\"\">",
    "</｜DSML｜invoke>",
    "</｜DSML｜ invoke>",
    "<｜DSML｜parameter name=\"a\" string=\"true\">",
    "<｜DSML｜parameter name=\"b\" string=\"false\">",
    "<｜DSML｜ parameter name=\"c\">",
    "</｜DSML｜parameter>",
    "</｜DSML｜x>",
    "<｜DSML｜invoke name=\"f\"/>",
    "</think>",
    "<think>",
    "<｜end▁of▁sentence｜>",
    "<｜end▁of",
    "▁sentence｜>",
    "<｜Us",
    "er｜>",
    "<｜User｜>",
    "</thi",
    "<thi",
    "nk>",
    "\n",
    "\n\n",
    "```",
    "```\n",
    "\n```xml\n",
    "~~~\n",
    "STOP",
    "ST",
    "OP",
    "a",
    "x y",
    " ",
    "<",
    "</",
    "{",
    "}",
    "{\"a\": 1}",
    "[1, 2]",
    "\"",
    "\\",
    "7",
    "é",
    "😀",
    "<｜ref｜>",
    "\r\n",
    "｜DSML｜",
    "tool_calls>",
    "name=\"q\"",
    ">",
];

/// Spellings of control tokens, with others inside them to any depth.
fn nested() -> impl Strategy<Value = String> {
    let spelling = select(vec!["<｜end▁of▁sentence｜>", "<｜User｜>", "</think>", "<think>"]);
    let level = (spelling, any::<prop::sample::Index>(), select(vec!["", "", "\n", "a"]));
    prop::collection::vec(level, 1..6).prop_map(|levels| {
        levels.into_iter().fold(String::new(), |inner, (spelling, place, between)| {
            let places: Vec<usize> = spelling.char_indices().map(|(place, _)| place).collect();
            let (before, after) = spelling.split_at(*place.get(&places));
            format!("{before}{inner}{between}{after}")
        })
    })
}

fn output() -> impl Strategy<Value = String> {
    let call = select(vec![
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x",
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    ]);
    let piece = prop_oneof![
        8 => select(FRAGMENTS).prop_map(str::to_owned),
        2 => call.prop_map(str::to_owned),
        2 => nested(),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn options() -> impl Strategy<Value = ParsingOptions> {
    let stage = select(vec![
        InitialStage::Content,
        InitialStage::ContentContinuation,
        InitialStage::ReasoningStart,
        InitialStage::ReasoningContinuation,
    ]);
    let stops = select(vec![vec![], vec!["STOP"], vec!["\n\n", "x y"], vec!["<", "TOP"], vec!["\n<", "`", "aa"]]);
    let tools = select(vec![None, Some(vec!["f".to_owned()]), Some(vec![])]);
    let flags = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (stage, stops, tools, flags).prop_map(|(initial_stage, stops, declared_tools, (quoted, json, starts))| {
        ParsingOptions {
            initial_stage,
            parse_tool_calls: true,
            starts_in_tool_calls: starts,
            parse_json_output: json,
            stop_sequences: stops.into_iter().map(str::to_owned).collect(),
            declared_tools,
            top_logprobs: Some(2),
            quoted_calls: if quoted { QuotedCalls::AreText } else { QuotedCalls::AreCalls },
        }
    })
}

fn backend() -> impl Strategy<Value = BackendFinish> {
    select(vec![BackendFinish::Stop, BackendFinish::Length, BackendFinish::ContentFilter, BackendFinish::Unknown])
}

/// Cuts `text` at `cuts`, moved to the next character.
fn pieces<'t>(text: &'t str, cuts: &[prop::sample::Index]) -> Vec<&'t str> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    places.sort_unstable();
    let (mut list, mut start) = (Vec::new(), 0);
    for place in places {
        let place = (place..=text.len()).find(|&place| text.is_char_boundary(place)).unwrap();
        list.push(&text[start..place]);
        start = place;
    }
    list.push(&text[start..]);
    list
}

/// Whether some ending makes the text JSON.
fn is_prefix_of_json(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    ["", "}", "\"}", "null}", "\": 0}"].iter().any(|end| json::parse(format!("{text}{end}").as_bytes()).is_ok())
}

fn check_calls(folded: &Folded) {
    for call in &folded.calls {
        assert!(!call.name.is_empty());
        if call.complete == Some(true) {
            let parsed = json::parse(call.arguments.as_bytes());
            let Ok(Value::Object(members)) = parsed else { panic!("arguments {:?}: {parsed:?}", call.arguments) };
            let reference: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
            assert_eq!(reference.as_object().unwrap().len(), members.len());
        } else {
            assert!(is_prefix_of_json(&call.arguments), "{:?}", call.arguments);
            assert_ne!(folded.finish.as_ref().map(|(reason, _)| *reason), Some(FinishReason::ToolCalls));
        }
    }
}

/// What a client sees holds no spelling of a control token that is removed.
fn check_hidden(folded: &Folded, options: &ParsingOptions) {
    let calls = folded.calls.iter().flat_map(|call| [&call.name, &call.arguments]);
    let dropped = folded.calls.iter().flat_map(|call| &call.dropped).flat_map(|(name, value)| [name, value]);
    for text in calls.chain(dropped).chain([&folded.content, &folded.reasoning]) {
        assert!(!text.contains("<｜end▁of▁sentence｜>") && !text.contains("<｜User｜>"), "{text:?}");
    }
    assert!(!folded.reasoning.contains("</think>") && !folded.reasoning.contains("<think>"), "{:?}", folded.reasoning);
    assert!(options.parse_json_output || !folded.content.contains("</think>"), "{:?}", folded.content);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_may_be_cut_anywhere(
        output in output(), options in options(), backend in backend(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = read_pieces(&options, [output.as_str()], backend);
        check_calls(&whole);
        check_hidden(&whole, &options);
        prop_assert_eq!(&whole, &read_pieces(&options, pieces(&output, &cuts), backend));
        let characters: Vec<String> = output.chars().map(String::from).collect();
        prop_assert_eq!(&whole, &read_pieces(&options, characters.iter().map(String::as_str), backend));
    }

    #[test]
    fn tokens_may_be_of_any_width(output in output(), options in options(), backend in backend(), width in 1_usize..9) {
        let mut narrow = read_tokens(&options, &tokens(&output, 1), backend);
        let mut wide = read_tokens(&options, &tokens(&output, width), backend);
        check_calls(&narrow);
        for folded in [&mut narrow, &mut wide] {
            prop_assert!(folded.logprobs.is_sorted_by(|a, b| a < b) || !folded.calls.is_empty());
            prop_assert_eq!(folded.logprobs.iter().collect::<HashSet<_>>().len(), folded.logprobs.len());
            folded.logprobs.clear();
            folded.counts = recipe::event::TokenCounts::default();
        }
        prop_assert_eq!(narrow, wide);
    }

    #[test]
    fn any_bytes_are_read(
        list in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..6).prop_map(Token::Bytes),
                select(FRAGMENTS).prop_map(|text| Token::Bytes(text.as_bytes().to_vec())),
                Just(Token::Special(OutputSpecial::Dsml, "｜DSML｜")),
                Just(Token::Special(OutputSpecial::ThinkingEnd, "</think>")),
            ],
            0..40,
        ),
        options in options(),
        backend in backend(),
    ) {
        check_calls(&read_tokens(&options, &list, backend));
    }

    #[test]
    fn text_without_markup_is_not_changed(
        list in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..30), options in options(), backend in backend(),
    ) {
        let options = ParsingOptions {
            initial_stage: InitialStage::ContentContinuation,
            starts_in_tool_calls: false,
            parse_json_output: false,
            stop_sequences: Vec::new(),
            ..options
        };
        let bytes = list.concat();
        let folded = read_tokens(&options, &list.into_iter().map(Token::Bytes).collect::<Vec<_>>(), backend);
        prop_assert_eq!(folded.content, String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn text_and_tokens_may_take_turns(output in output(), options in options(), turns in prop::collection::vec(any::<bool>(), 1..8)) {
        let (mut parser, mut events) = (OutputParser::new(options), Vec::new());
        for (place, token) in tokens(&output, 3).iter().enumerate() {
            match token {
                Token::Bytes(bytes) if turns[place % turns.len()] => {
                    parser.push_text(&String::from_utf8_lossy(bytes), 1, &mut events);
                }
                Token::Bytes(bytes) => parser.push_token(1, OutputPiece::Bytes(bytes), None, &mut events),
                Token::Special(special, spelling) => {
                    parser.push_token(2, OutputPiece::Special(*special, spelling), None, &mut events);
                }
            }
        }
        parser.finish(BackendFinish::Stop, &mut events);
        check_calls(&fold(&events, parser.counts()));
    }
}
