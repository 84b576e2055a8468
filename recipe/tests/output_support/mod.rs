//! Shared by the tests of the output parser: a compact notation of outputs and a fold of their events.
//!
//! `§` in an output stands for the DSML mark `｜DSML｜`.

#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, reason = "tests; each file uses its part")]

use recipe::event::{BackendFinish, Event, FinishReason, TokenCounts, TokenLogprob};
use recipe::output::{InitialStage, OutputParser, OutputPiece, OutputSpecial, ParsingOptions};

/// Everything a client can see of an answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Folded {
    pub reasoning: String,
    pub content: String,
    pub calls: Vec<FoldedCall>,
    /// Order of the parts: `r`easoning, `t`ext, `c`all.
    pub order: String,
    pub finish: Option<(FinishReason, Option<String>)>,
    pub logprobs: Vec<u32>,
    pub counts: TokenCounts,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FoldedCall {
    pub name: String,
    pub arguments: String,
    pub complete: Option<bool>,
    pub dropped: Vec<(String, String)>,
}

/// Joins events, and checks their order.
pub fn fold(events: &[Event], counts: TokenCounts) -> Folded {
    let mut folded = Folded { counts, ..Folded::default() };
    for event in events {
        assert!(folded.finish.is_none(), "an event after the end: {event:?}");
        let open = folded.calls.iter().position(|call| call.complete.is_none());
        let part = match event {
            Event::Reasoning(delta) => {
                folded.reasoning.push_str(&delta.text);
                folded.logprobs.extend(delta.logprobs.iter().map(|entry| entry.id));
                'r'
            }
            Event::Text(delta) => {
                assert_eq!(open, None, "text in an open call");
                assert!(!delta.text.is_empty() || !delta.logprobs.is_empty());
                folded.content.push_str(&delta.text);
                folded.logprobs.extend(delta.logprobs.iter().map(|entry| entry.id));
                't'
            }
            Event::CallStart { index, name } => {
                assert_eq!(open, None, "calls overlap");
                assert_eq!(*index, folded.calls.len());
                let name = name.clone();
                folded.calls.push(FoldedCall { name, arguments: String::new(), complete: None, dropped: Vec::new() });
                'c'
            }
            Event::CallArguments { index, fragment } => {
                assert_eq!(open, Some(*index));
                folded.calls[*index].arguments.push_str(fragment);
                continue;
            }
            Event::CallParameterDropped { index, name, value } => {
                folded.calls[*index].dropped.push((name.clone(), value.clone()));
                continue;
            }
            Event::CallEnd { index, complete } => {
                assert_eq!(open, Some(*index));
                folded.calls[*index].complete = Some(*complete);
                continue;
            }
            Event::Finish(finish) => {
                assert_eq!(open, None, "a call without an end");
                folded.finish = Some((finish.reason, finish.stop_sequence.clone()));
                continue;
            }
        };
        if part == 'c' || !folded.order.ends_with(part) {
            folded.order.push(part);
        }
    }
    folded
}

/// Options with tools on.
pub fn options() -> ParsingOptions {
    ParsingOptions { parse_tool_calls: true, ..ParsingOptions::default() }
}

/// Options for an answer that begins with reasoning.
pub fn thinking() -> ParsingOptions {
    ParsingOptions { initial_stage: InitialStage::ReasoningStart, ..options() }
}

/// Options with these tools declared.
pub fn with_tools(names: &[&str]) -> ParsingOptions {
    ParsingOptions { declared_tools: Some(names.iter().map(ToString::to_string).collect()), ..options() }
}

/// Options with these stop sequences.
pub fn with_stops(stops: &[&str]) -> ParsingOptions {
    ParsingOptions { stop_sequences: stops.iter().map(ToString::to_string).collect(), ..options() }
}

/// Writes out the notation.
pub fn spelled(output: &str) -> String {
    output.replace('§', "｜DSML｜")
}

/// Reads the notation back.
pub fn shortened(text: &str) -> String {
    text.replace("｜DSML｜", "§")
}

/// Reads text that came in these pieces.
pub fn read_pieces<'p>(
    options: &ParsingOptions,
    pieces: impl IntoIterator<Item = &'p str>,
    finish: BackendFinish,
) -> Folded {
    let (mut parser, mut events) = (OutputParser::new(options.clone()), Vec::new());
    for piece in pieces {
        parser.push_text(piece, 0, &mut events);
    }
    parser.finish(finish, &mut events);
    assert!(parser.is_finished());
    fold(&events, parser.counts())
}

/// Reads text; the result must be the same in one piece, in every two pieces, and character by character.
pub fn read(options: &ParsingOptions, output: &str, finish: BackendFinish) -> Folded {
    let output = spelled(output);
    let whole = read_pieces(options, [output.as_str()], finish);
    for (place, _) in output.char_indices() {
        let halves = read_pieces(options, [&output[..place], &output[place..]], finish);
        assert_eq!(whole, halves, "split at {place}: {:?}", &output[..place]);
    }
    let characters: Vec<String> = output.chars().map(String::from).collect();
    assert_eq!(whole, read_pieces(options, characters.iter().map(String::as_str), finish), "character by character");
    whole
}

/// A token of a test.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Bytes(Vec<u8>),
    Special(OutputSpecial, &'static str),
}

/// Cuts text in tokens: control spellings become control tokens, the rest tokens of at most `width` bytes.
pub fn tokens(output: &str, width: usize) -> Vec<Token> {
    const CONTROLS: [(OutputSpecial, &str); 5] = [
        (OutputSpecial::Dsml, "｜DSML｜"),
        (OutputSpecial::ThinkingEnd, "</think>"),
        (OutputSpecial::ThinkingStart, "<think>"),
        (OutputSpecial::Hidden, "<｜end▁of▁sentence｜>"),
        (OutputSpecial::Visible, "<｜ref｜>"),
    ];
    let (mut list, mut plain, mut rest) = (Vec::new(), Vec::new(), output);
    let flush = |plain: &mut Vec<u8>, list: &mut Vec<Token>| {
        list.extend(plain.chunks(width).map(|bytes| Token::Bytes(bytes.to_vec())));
        plain.clear();
    };
    while let Some(first) = rest.chars().next() {
        if let Some((special, spelling)) = CONTROLS.iter().find(|(_, spelling)| rest.starts_with(spelling)) {
            flush(&mut plain, &mut list);
            list.push(Token::Special(*special, spelling));
            rest = &rest[spelling.len()..];
        } else {
            plain.extend_from_slice(&rest.as_bytes()[..first.len_utf8()]);
            rest = &rest[first.len_utf8()..];
        }
    }
    flush(&mut plain, &mut list);
    list
}

/// Reads tokens; token `n` has id `n`.
pub fn read_tokens(options: &ParsingOptions, tokens: &[Token], finish: BackendFinish) -> Folded {
    let (mut parser, mut events) = (OutputParser::new(options.clone()), Vec::new());
    for (id, token) in tokens.iter().enumerate() {
        let id = u32::try_from(id).unwrap();
        let piece = match token {
            Token::Bytes(bytes) => OutputPiece::Bytes(bytes),
            Token::Special(special, spelling) => OutputPiece::Special(*special, spelling),
        };
        let entry = TokenLogprob { id, logprob: -0.5, top: vec![(id, -0.5), (7, -2.0)] };
        parser.push_token(id, piece, Some(entry), &mut events);
    }
    parser.finish(finish, &mut events);
    fold(&events, parser.counts())
}
