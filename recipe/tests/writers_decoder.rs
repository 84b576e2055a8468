//! The decoder: what it takes, what it refuses, and that nothing is taken by halves.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod writers_support;

use std::sync::Arc;

use recipe::decoder::{Decoder, DecoderConfig};
use recipe::error::{Error, ErrorCode};
use recipe::event::{BackendFinish, Event};
use recipe::model::Version;
use recipe::output::{InitialStage, ParsingOptions};
use recipe::protocol::{AnswerConfig, Protocol};
use recipe::special::{Special, Spellings};
use recipe::tokenizer::Tokenizer;
use serde_json::Value;
use writers_support::*;

fn decoder_config(protocol: Protocol, parsing: ParsingOptions) -> DecoderConfig {
    DecoderConfig { parsing, answer: config(protocol, true), spellings: Spellings::default() }
}

fn thinking() -> ParsingOptions {
    ParsingOptions { initial_stage: InitialStage::ReasoningStart, parse_tool_calls: true, ..ParsingOptions::default() }
}

fn tokenizer() -> Arc<Tokenizer> {
    Version::V4.tokenizer()
}

fn ids(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer().encode_with_special(text, &mut ids);
    ids
}

fn body(decoder: &Decoder) -> Value {
    serde_json::from_slice(&decoder.response()).unwrap()
}

const OUTPUT: &str = concat!(
    "hm</think>\n\na 😀\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"k\" string=\"true\">",
    "v</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls><｜end▁of▁sentence｜>"
);

/// Stream and response, with `size` ids in each push.
fn decoded(protocol: Protocol, size: usize) -> (String, Value) {
    let mut decoder = Decoder::new(decoder_config(protocol, thinking()), Some(tokenizer()));
    let mut out = decoder.start(10, 3, Some("fp"));
    for part in ids(OUTPUT).chunks(size) {
        out.extend(decoder.push(part, None, 0).unwrap());
    }
    out.extend(decoder.finish(BackendFinish::Stop, 0).unwrap());
    (String::from_utf8(out).unwrap(), body(&decoder))
}

#[test]
fn tokens_become_an_answer_however_they_are_cut() {
    for protocol in Protocol::ALL {
        let (stream, whole) = decoded(protocol, usize::MAX);
        assert!(frames(&stream).len() > 5);
        for size in [1, 2, 3, 7] {
            assert_eq!(decoded(protocol, size).1, whole, "{size}");
        }
    }
    let (_, whole) = decoded(Protocol::ChatCompletions, 1);
    let message = &whole["choices"][0]["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&Value::from("hm"), &Value::from("a 😀")));
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"k\": \"v\"}");
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(whole["usage"]["completion_tokens"], ids(OUTPUT).len());
    assert_eq!(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
    assert_eq!(whole["system_fingerprint"], "fp");
}

#[test]
fn a_push_that_fails_takes_nothing() {
    let mut decoder = Decoder::new(decoder_config(Protocol::ChatCompletions, thinking()), Some(tokenizer()));
    let before = body(&decoder);
    for (result, code) in [
        (decoder.push(&[67, u32::MAX], None, 0), ErrorCode::UnknownToken),
        (decoder.push(&[67, 68], Some(vec![entry(67, -0.5, &[])]), 0), ErrorCode::LogprobsMismatch),
        (decoder.push(&[67], None, 1), ErrorCode::UnknownChoice),
        (decoder.push_text("a", 1, 1), ErrorCode::UnknownChoice),
        (decoder.finish(BackendFinish::Stop, 1), ErrorCode::UnknownChoice),
    ] {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.status()), (Some(code), 500));
    }
    assert_eq!(body(&decoder), before);
    let mut decoder = Decoder::new(decoder_config(Protocol::ChatCompletions, thinking()), None);
    assert_eq!(decoder.push(&[67], None, 0).unwrap_err().kind(), Some(ErrorCode::TokenizerMissing));
    assert!(decoder.push_text("a", 1, 0).is_ok());
}

#[test]
fn output_after_a_stop_sequence_is_dropped() {
    let parsing = ParsingOptions { stop_sequences: vec!["STOP".to_owned()], ..ParsingOptions::default() };
    let mut decoder = Decoder::new(decoder_config(Protocol::Messages, parsing), Some(tokenizer()));
    assert_eq!(decoder.stop_sequence(0), None);
    decoder.push_text("a STOP b", 3, 0).unwrap();
    assert!(decoder.is_finished(0));
    assert_eq!(decoder.stop_sequence(0), Some("STOP"));
    let answer = body(&decoder);
    assert_eq!(answer["stop_reason"], "stop_sequence");
    assert!(decoder.push(&[67], None, 0).unwrap().is_empty());
    assert!(decoder.push_text("c", 1, 0).unwrap().is_empty());
    assert!(decoder.finish(BackendFinish::Length, 0).unwrap().is_empty());
    assert!(decoder.fail(&Error::new(ErrorCode::BackendFailed, "", &[("detail", &"late")])).is_empty());
    assert_eq!(body(&decoder), answer);
}

#[test]
fn nothing_is_read_after_a_failure() {
    let mut decoder = Decoder::new(decoder_config(Protocol::ChatCompletions, thinking()), None);
    decoder.push_text("hm", 1, 0).unwrap();
    let end = decoder.fail(&Error::new(ErrorCode::BackendFailed, "", &[("detail", &"gone")]));
    assert!(String::from_utf8(end).unwrap().contains("the backend failed: gone"));
    assert!(decoder.push_text("late", 1, 0).unwrap().is_empty());
    assert_eq!((decoder.events(), decoder.usage().output), (&[][..], 1));
}

#[test]
fn the_typed_events_are_those_of_the_latest_call() {
    let mut decoder = Decoder::new(decoder_config(Protocol::Responses, thinking()), None);
    decoder.push_text("hm</think>a", 3, 0).unwrap();
    assert_eq!(decoder.events(), [reasoning("hm"), text("a")]);
    decoder.finish(BackendFinish::Unknown, 0).unwrap();
    assert!(matches!(decoder.events(), [Event::Finish(_)]));
}

#[test]
fn only_grounding_marks_are_shown() {
    let mut decoder =
        Decoder::new(decoder_config(Protocol::ChatCompletions, ParsingOptions::default()), Some(tokenizer()));
    decoder.push(&ids("a<｜end▁of▁sentence｜><｜User｜><｜▁pad▁｜><｜ref｜>b<｜/ref｜>"), None, 0).unwrap();
    decoder.finish(BackendFinish::Stop, 0).unwrap();
    assert_eq!(body(&decoder)["choices"][0]["message"]["content"], "a<｜ref｜>b<｜/ref｜>");
}

#[test]
fn control_tokens_may_be_spelled_otherwise() {
    let spellings = Spellings::default().with(Special::ThinkingEnd, "[/T]");
    let mut decoder =
        Decoder::new(DecoderConfig { spellings, ..decoder_config(Protocol::ChatCompletions, thinking()) }, None);
    decoder.push_text("hm[/T]a", 3, 0).unwrap();
    decoder.finish(BackendFinish::Stop, 0).unwrap();
    assert_eq!(body(&decoder)["choices"][0]["message"]["content"], "a");
}

#[test]
fn reasoning_is_counted_only_where_it_could_be() {
    for (parsing, counted) in [(thinking(), true), (ParsingOptions::default(), false)] {
        let mut decoder = Decoder::new(decoder_config(Protocol::ChatCompletions, parsing), Some(tokenizer()));
        decoder.push(&ids("a"), None, 0).unwrap();
        decoder.finish(BackendFinish::Stop, 0).unwrap();
        assert_eq!(body(&decoder)["usage"].get("completion_tokens_details").is_some(), counted);
    }
}

#[test]
fn every_choice_is_read_on_its_own() {
    let answer = AnswerConfig { choices: 2, ..config(Protocol::ChatCompletions, true) };
    let mut decoder = Decoder::new(
        DecoderConfig { answer, ..decoder_config(Protocol::ChatCompletions, thinking()) },
        Some(tokenizer()),
    );
    decoder.push(&ids("hm"), None, 0).unwrap();
    decoder.push(&ids("</think>b"), None, 1).unwrap();
    decoder.push(&ids("</think>a"), None, 0).unwrap();
    decoder.finish(BackendFinish::Stop, 0).unwrap();
    assert!(!decoder.is_finished(1));
    let end = String::from_utf8(decoder.finish(BackendFinish::Length, 1).unwrap()).unwrap();
    assert!(end.ends_with("data: [DONE]\n\n"));
    let answer = body(&decoder);
    let of =
        |choice: usize| (&answer["choices"][choice]["message"]["content"], &answer["choices"][choice]["finish_reason"]);
    assert_eq!(of(0), (&Value::from("a"), &Value::from("stop")));
    assert_eq!(of(1), (&Value::from("b"), &Value::from("length")));
    assert_eq!(answer["usage"]["completion_tokens"], 5);
    assert_eq!(decoder.usage().reasoning, Some(3));
}
