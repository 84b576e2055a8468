//! Answers that come as tokens: control tokens, broken characters, counts, log probabilities.

#![allow(clippy::unwrap_used, reason = "tests")]

mod output_support;

use output_support::{Token, options as bare_options, read_pieces, read_tokens, spelled, thinking, tokens, with_stops};
use recipe::event::{BackendFinish, Event, FinishReason, TokenCounts};
use recipe::output::{InitialStage, OutputParser, OutputPiece, OutputSpecial, ParsingOptions};

const CALL: &str = "ok\n\n<§tool_calls>\n<§invoke name=\"f\">\n<§parameter name=\"city\" string=\"true\">New \
                    York</§parameter>\n</§invoke>\n</§tool_calls>";

/// Options that ask for log probabilities.
fn options() -> ParsingOptions {
    ParsingOptions { top_logprobs: Some(1), ..bare_options() }
}

fn bytes(text: &str) -> Token {
    Token::Bytes(text.as_bytes().to_vec())
}

fn special(special: OutputSpecial, spelling: &'static str) -> Token {
    Token::Special(special, spelling)
}

fn finish(list: &[Token], options: &ParsingOptions) -> output_support::Folded {
    read_tokens(options, list, BackendFinish::Stop)
}

#[test]
fn marks_need_their_control_token() {
    for width in [1, 2, 5, 100] {
        let folded = finish(&tokens(&spelled(CALL), width), &options());
        assert_eq!(folded.content, "ok", "width {width}");
        assert_eq!(folded.calls[0].arguments, "{\"city\": \"New York\"}");
        let plain: Vec<Token> =
            spelled(CALL).as_bytes().chunks(width).map(|chunk| Token::Bytes(chunk.to_vec())).collect();
        let folded = finish(&plain, &options());
        assert_eq!((folded.content, folded.calls.len()), (spelled(CALL), 0), "width {width}");
    }
    let folded = finish(&[bytes("abc</think>def")], &thinking());
    assert_eq!((folded.reasoning.as_str(), folded.content.as_str()), ("abc</think>def", ""));
}

#[test]
fn text_and_tokens_combine() {
    let (mut parser, mut events) = (OutputParser::new(options()), Vec::new());
    parser.push_text("a<", 1, &mut events);
    parser.push_token(5, OutputPiece::Special(OutputSpecial::Dsml, "｜DSML｜"), None, &mut events);
    parser.push_text("invoke name=\"f\"></", 1, &mut events);
    parser.push_token(5, OutputPiece::Special(OutputSpecial::Dsml, "｜DSML｜"), None, &mut events);
    parser.push_text("invoke>", 1, &mut events);
    parser.finish(BackendFinish::Stop, &mut events);
    let folded = output_support::fold(&events, parser.counts());
    assert_eq!((folded.content.as_str(), folded.calls.len()), ("a", 1));
    assert_eq!(folded.counts, TokenCounts { output: 5, reasoning: None });
}

#[test]
fn control_tokens_are_never_shown_and_visible_ones_are() {
    let list = [
        bytes("a"),
        special(OutputSpecial::Hidden, "<｜end▁of▁sentence｜>"),
        special(OutputSpecial::ThinkingStart, "<think>"),
        special(OutputSpecial::ThinkingEnd, "</think>"),
        special(OutputSpecial::Visible, "<｜ref｜>"),
        special(OutputSpecial::Dsml, "｜DSML｜"),
        bytes("b"),
    ];
    let folded = finish(&list, &options());
    assert_eq!(folded.content, "a<｜ref｜>｜DSML｜b");
    assert_eq!(folded.logprobs, [0, 4, 5, 6]);
    assert_eq!(finish(&[list[4].clone(), bytes("\nx")], &options()).content, "<｜ref｜>\nx");
    let stop = ParsingOptions { stop_sequences: vec!["ref".to_owned(), "</think>".to_owned()], ..options() };
    assert_eq!(finish(&list, &stop).content, "a<｜ref｜>｜DSML｜b", "added tokens take no part in stop sequences");
}

#[test]
fn broken_characters() {
    for (list, content) in [
        (vec![&b"Ok "[..], b"\xf0\x9f", b"\x98\x80", b"!"], "Ok 😀!"),
        (vec![b"a\xf0\x9f\x98"], "a\u{fffd}"),
        (vec![b"a\x80\xc3", b"b"], "a\u{fffd}\u{fffd}b"),
        (vec![b"\xe6\x97", b"\xa5\xe6", b"\x9c", b"\xac"], "日本"),
        (vec!["\u{fffd}".as_bytes()], "\u{fffd}"),
        (vec![b"\xf0\x9f", b"\xf0\x9f\x98\x80"], "\u{fffd}😀"),
    ] {
        let list: Vec<Token> = list.into_iter().map(|bytes| Token::Bytes(bytes.to_vec())).collect();
        let folded = finish(&list, &options());
        assert_eq!(folded.content, content);
        assert_eq!(folded.logprobs, (0..u32::try_from(list.len()).unwrap()).collect::<Vec<_>>());
    }
    let (mut parser, mut events) = (OutputParser::new(options()), Vec::new());
    parser.push_token(1, OutputPiece::Bytes(b"\xf0\x9f"), None, &mut events);
    parser.push_text("x", 1, &mut events);
    parser.push_token(1, OutputPiece::Bytes(b"\x98\x80"), None, &mut events);
    parser.finish(BackendFinish::Stop, &mut events);
    assert_eq!(output_support::fold(&events, parser.counts()).content, "\u{fffd}x\u{fffd}\u{fffd}");
}

#[test]
fn counts_of_reasoning() {
    let end = || special(OutputSpecial::ThinkingEnd, "</think>");
    for (list, output, reasoning) in [
        (vec![bytes("\n\n"), bytes("think"), bytes(" more"), bytes("\n\n"), end(), bytes("\n\n"), bytes("x")], 7, 5),
        (vec![bytes("never"), bytes(" ended")], 2, 2),
        (vec![end(), bytes("x")], 2, 1),
    ] {
        assert_eq!(finish(&list, &thinking()).counts, TokenCounts { output, reasoning: Some(reasoning) });
    }
    let mut list = vec![bytes("Look"), bytes(".\n")];
    list.extend(tokens(&spelled(&CALL[4..]), 3));
    let folded = finish(&list, &thinking());
    assert_eq!((folded.reasoning.as_str(), folded.calls.len()), ("Look.", 1));
    assert_eq!(folded.counts.reasoning, Some(2), "markup is no reasoning");
    assert_eq!(finish(&[bytes("x")], &options()).counts, TokenCounts { output: 1, reasoning: Some(0) });
    assert_eq!(read_pieces(&thinking(), ["x"], BackendFinish::Stop).counts, TokenCounts { output: 0, reasoning: None });
}

#[test]
fn a_stop_sequence_ends_the_count() {
    let stop = ParsingOptions { stop_sequences: vec!["lo th".to_owned()], ..options() };
    let folded = finish(&[bytes("hello"), bytes(" there"), bytes(" you")], &stop);
    assert_eq!(folded.content, "hel");
    assert_eq!(folded.finish, Some((FinishReason::Stop, Some("lo th".to_owned()))));
    assert_eq!(folded.counts.output, 2);
    assert_eq!(folded.logprobs, [0]);
}

#[test]
fn log_probabilities_go_with_visible_tokens_once() {
    let asked = ParsingOptions { top_logprobs: Some(1), ..thinking() };
    let end = special(OutputSpecial::ThinkingEnd, "</think>");
    let list = [bytes("\n"), bytes("think"), bytes("\n"), end, bytes("\n\n"), bytes("answer"), bytes("\n")];
    let (mut parser, mut events) = (OutputParser::new(asked.clone()), Vec::new());
    assert_eq!(finish(&list, &asked).logprobs, [1, 5, 6]);
    let mut call = tokens(&spelled(CALL), 2);
    call.push(bytes("\nend"));
    let folded = finish(&call, &options());
    assert_eq!(folded.content, "ok\nend");
    assert_eq!(folded.logprobs, [0, u32::try_from(call.len()).unwrap() - 1]);
    // Markup that turns out to be text shows all its tokens.
    let quoted = format!("```\n{}\n```", spelled(CALL));
    let list = tokens(&quoted, 2);
    let folded = finish(&list, &options());
    assert_eq!(folded.logprobs, (0..u32::try_from(list.len()).unwrap()).collect::<Vec<_>>());
    // So does the body of a call that began like an object, and a tag in a call.
    let parameter = "<§parameter name=\"a\" string=\"true\"></§parameter>";
    for (head, text) in [("", "{\"a\": no object"), (parameter, "text <§other tag")] {
        let head = tokens(&spelled(&format!("<§tool_calls>\n<§invoke name=\"f\">\n{head}")), 2);
        let (text, end) = (tokens(&spelled(text), 2), tokens(&spelled("</§invoke>"), 2));
        let shown: Vec<usize> = (head.len()..head.len() + text.len()).collect();
        let folded = finish(&[head, text, end].concat(), &options());
        assert_eq!(folded.logprobs.iter().map(|&id| id as usize).collect::<Vec<_>>(), shown, "{}", folded.content);
    }
    let entry = recipe::event::TokenLogprob { id: 3, logprob: -1.0, top: vec![(3, -1.0), (4, -2.0)] };
    parser.push_token(3, OutputPiece::Bytes(b"a"), Some(entry.clone()), &mut events);
    assert!(matches!(&events[..], [Event::Reasoning(delta)] if delta.logprobs[0].top == [(3, -1.0)]));
    let (mut parser, mut events) = (OutputParser::new(bare_options()), Vec::new());
    parser.push_token(3, OutputPiece::Bytes(b"a"), Some(entry), &mut events);
    assert!(matches!(&events[..], [Event::Text(delta)] if delta.logprobs.is_empty()), "not asked for");
}

#[test]
fn nothing_follows_the_end() {
    let (mut parser, mut events) = (OutputParser::new(options()), Vec::new());
    parser.finish(BackendFinish::Length, &mut events);
    let counts = parser.counts();
    parser.push_text("x", 1, &mut events);
    parser.push_token(1, OutputPiece::Bytes(b"x"), None, &mut events);
    parser.finish(BackendFinish::Stop, &mut events);
    assert_eq!(events.len(), 1);
    assert_eq!((parser.counts(), parser.is_finished()), (counts, true));
    // Also what the token shows whose coming ended the answer: it refutes a tag in which a stop sequence stands.
    for mark in [special(OutputSpecial::Dsml, "｜DSML｜"), special(OutputSpecial::Visible, "<｜ref｜>")] {
        let list = [bytes("<"), special(OutputSpecial::Dsml, "｜DSML｜"), bytes("x y"), Token::Bytes(vec![0xC2]), mark];
        let folded = finish(&list, &ParsingOptions { top_logprobs: Some(1), ..with_stops(&["x y"]) });
        assert_eq!((folded.content.as_str(), folded.logprobs.len()), ("<｜DSML｜", 2), "{list:?}");
    }
}

#[test]
fn visible_tokens_keep_their_place_in_a_json_value() {
    let options =
        ParsingOptions { initial_stage: InitialStage::ContentContinuation, parse_json_output: true, ..options() };
    let list = [bytes("\n"), special(OutputSpecial::Visible, "<｜ref｜>"), bytes("1}")];
    let folded = finish(&list, &options);
    assert_eq!(folded.content, "\n<｜ref｜>1}");
}

#[test]
fn ordinary_tokens_do_not_begin_the_end_of_thinking() {
    // As text, `<` might have begun the mark, and the newline that shows it did not is kept.
    let end = special(OutputSpecial::ThinkingEnd, "</think>");
    assert_eq!(finish(&[bytes("a<\n"), end], &thinking()).reasoning, "a<");
    assert_eq!(read_pieces(&thinking(), ["a<\n</think>"], BackendFinish::Stop).reasoning, "a<\n");
}
