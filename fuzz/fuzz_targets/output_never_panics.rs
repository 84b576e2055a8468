//! Law: nothing that a backend sends, in any order, makes the decoder panic; arguments of complete calls are JSON; and an
//! answer to text alone shows no spelling of a control token.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use recipe::error::Error;
use recipe::event::{BackendFinish, TokenLogprob};
use recipe::json;
use recipe::protocol::Block;

#[path = "../support/output.rs"]
mod output;

#[derive(Arbitrary, Debug)]
enum Action {
    Start(u32, u32),
    Markup(Vec<u16>),
    Ids(Vec<u32>),
    Logprobs(Vec<u16>, f64),
    Text(String, u8),
    Spellings(Vec<u16>),
    KeepAlive,
    Fail,
    Finish(u8),
}

fuzz_target!(|input: (u8, Vec<Action>)| {
    let (settings, actions) = input;
    let mut decoder = output::decoder(settings);
    let has_ids = |action: &Action| matches!(action, Action::Markup(_) | Action::Ids(_) | Action::Logprobs(..));
    let is_text = !actions.iter().any(has_ids);
    for action in actions {
        // A refused call is an answer too: the backend's fault is that request's error.
        let _ = match action {
            Action::Start(prompt, cached) => Ok(decoder.start(prompt.into(), cached.into(), None)),
            Action::Markup(codes) => decoder.push(&output::ids(&codes), None, 0),
            Action::Ids(ids) => decoder.push(&ids, None, 0),
            Action::Logprobs(codes, logprob) => {
                let ids = output::ids(&codes);
                let entry = |&id| TokenLogprob { id, logprob, top: vec![(id, logprob), (u32::MAX, f64::NAN)] };
                decoder.push(&ids, Some(ids.iter().map(entry).collect()), 0)
            }
            Action::Text(text, count) => decoder.push_text(&text, count.into(), 0),
            Action::Spellings(codes) => decoder.push_text(&output::text(&codes), 0, 0),
            Action::KeepAlive => Ok(decoder.keep_alive()),
            Action::Fail => Ok(decoder.fail(&Error::foreign("backend_failed", 500, "", "gone"))),
            Action::Finish(reason) => {
                let reasons =
                    [BackendFinish::Stop, BackendFinish::Length, BackendFinish::ContentFilter, BackendFinish::Unknown];
                decoder.finish(reasons[usize::from(reason) % 4], 0)
            }
        };
    }
    json::parse(&decoder.response()).expect("the response is JSON");
    if is_text {
        output::check_spellings(&decoder);
    }
    for block in decoder.fold(0).map(recipe::protocol::Fold::blocks).unwrap_or_default() {
        if let Block::Call(call) = block
            && call.complete
        {
            json::parse(call.arguments.as_bytes()).expect("arguments of a complete call are JSON");
        }
    }
});
