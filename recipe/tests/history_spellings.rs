//! Token-faithful history, whatever a model spells otherwise than the next prompt: values, tags, what stands between them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history_support;

use history_support::{EOS, encoded, keyed, past_answer, request, response, said, sent_back, unusual_ids};
use proptest::prelude::*;
use recipe::codec::Options;
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::protocol::Protocol;
use recipe::tokenizer::Piece;
use serde_json::Value;

/// Cuts that leave the text in its usual tokens, and ones that do not.
const SIZES: [usize; 2] = [usize::MAX, 3];

/// A turn and what was cached before the next.
struct Turn {
    protocol: Protocol,
    version: Version,
    thinking: bool,
    cached: Vec<u32>,
    own: Vec<u32>,
    later: Vec<Value>,
}

impl Turn {
    fn new(protocol: Protocol, version: Version, text: &str, size: usize) -> Self {
        Self::of(protocol, version, text.contains("</think>"), unusual_ids(text, size))
    }

    fn of(protocol: Protocol, version: Version, thinking: bool, own: Vec<u32>) -> Self {
        let first = encoded(&request(protocol, version, thinking, true, &[]), protocol, &keyed());
        let later = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
        let cached = [&first.token_ids[..], &own[..]].concat();
        Self { protocol, version, thinking, cached, own, later }
    }

    fn next(&self, later: &[Value], options: &Options) -> Encoded {
        encoded(&request(self.protocol, self.version, self.thinking, true, later), self.protocol, options)
    }

    fn shared(&self, encoded: &Encoded) -> usize {
        self.cached.iter().zip(&encoded.token_ids).take_while(|(left, right)| left == right).count()
    }

    fn assert_hits_all(&self, what: &str) {
        self.assert_hits(&self.later, what);
    }

    /// The next prompt must begin with all that was cached, and say the same to the parser.
    fn assert_hits(&self, later: &[Value], what: &str) {
        let next = self.next(later, &keyed());
        let shown = |ids: &[u32]| String::from_utf8_lossy(&next.tokenizer.decode(ids).unwrap()).into_owned();
        let missed = shown(&next.token_ids[self.shared(&next)..]);
        assert!(next.token_ids.starts_with(&self.cached), "{:?} {:?} {what}: {missed:?}", self.protocol, self.version);
        assert_eq!(next.prompt(), self.next(later, &Options::default()).prompt());
        let own = said(self.version, &(self.thinking, self.own.clone()), true);
        assert_eq!(said(self.version, &past_answer(&next), true), own);
    }
}

fn cases() -> impl Iterator<Item = (Protocol, Version, usize)> {
    let versions = Protocol::ALL.into_iter().flat_map(|protocol| Version::ALL.map(|version| (protocol, version)));
    versions.flat_map(|(protocol, version)| SIZES.map(|size| (protocol, version, size)))
}

/// An answer of a version: in `text`, `<+` and `</+` begin its tags, and `block` is the word of a block.
fn answer(version: Version, text: &str) -> String {
    let (space, block) = if version == Version::V41 { (" ", "calls") } else { ("", "tool_calls") };
    let text = text.replace("<+block", &format!("<+{block}")).replace("</+block", &format!("</+{block}"));
    text.replace("<+", &format!("<｜DSML｜{space}")).replace("</+", &format!("</｜DSML｜{space}")) + EOS
}

/// An answer that calls `look` once, with what stands in its call.
fn call(version: Version, body: &str) -> String {
    answer(version, &format!("I look.\n\n<+block>\n<+invoke name=\"look\">\n{body}</+invoke>\n</+block>"))
}

fn parameter(name: &str, value: &str) -> String {
    format!("<+parameter name=\"{name}\" string=\"false\">{value}</+parameter>\n")
}

/// JSON that the prompt prints otherwise.
const VALUES: [&str; 22] = [
    "[1,2]",
    "[ 1 , 2 ]",
    r#"{"b":1,"a":{"y":null,"x":[]}}"#,
    "{ }",
    " 7",
    "7\n",
    "1.50",
    "1e3",
    "1E+3",
    "0.000010",
    "-0",
    "-0.00",
    "1234567890123456789012",
    "18446744073709551616",
    "0.1000000000000000055511151231257827",
    r#""plain""#,
    r#""caf\u00e9 \ud83d\ude00 \/ \n""#,
    r#"{"caf\u00e9":"\u4f60\u597d\u4f60\u597d\u4f60\u597d\u4f60\u597d\u4f60\u597d\u4f60\u597d\u4f60\u597d"}"#,
    r#"{"a":1,"b":2,"a":3}"#,
    "not JSON",
    "True",
    r#"["<","</"]"#,
];

#[test]
fn values_come_back_as_the_model_spelled_them() {
    for (protocol, version, size) in cases() {
        for value in VALUES {
            let turn = Turn::new(protocol, version, &call(version, &parameter("at", value)), size);
            assert!(turn.shared(&turn.next(&turn.later, &Options::default())) < turn.cached.len(), "{value} must miss");
            turn.assert_hits(&turn.later, value);
        }
    }
}

/// What models write around values, well-formed and a little less so.
#[test]
fn markup_comes_back_as_the_model_wrote_it() {
    let text = "<+parameter name=\"at\" string=\"true\">\n the\tgarden \n\n</+parameter>\n";
    let bodies = [
        text.to_owned(),
        String::new(),
        "\n".to_owned(),
        "  \t\n".to_owned(),
        format!("  {text}  "),
        format!("\r\n{text}\r\n"),
        text.replace(" string=\"true\"", ""),
        text.replace(" string=\"true\"", "  string=\"true\" "),
        text.replace("name=\"at\" string=\"true\"", "string=\"true\" name=\"at\""),
        text.replace("\"at\"", "'at'"),
        text.replace("/+parameter", "/+param"),
        format!("{}{text}", parameter("z", "[true,{\"k\":\"v\"}]")),
        format!("{text}{}{}", parameter("b", "1.0"), parameter("a", "1")),
        "{\"at\":\"the garden\"}".to_owned(),
    ];
    for (protocol, version, size) in cases() {
        for body in &bodies[..bodies.len() - 1] {
            Turn::new(protocol, version, &call(version, body), size).assert_hits_all(body);
        }
    }
}

#[test]
fn what_stands_around_calls_comes_back() {
    let call = "<+invoke name=\"look\">\n<+parameter name=\"at\" string=\"false\">[1,2]</+parameter>\n</+invoke>";
    let texts = [
        format!("</think><+block>{call}</+block>"),
        format!("\n</think>\n<+block>\n{call}\n{call}\n</+block>\n"),
        format!("\nA thought.\n</think>\n\n\n<+block>\n{call}\n\n\n{call}\n\n</+block>\n\n"),
        format!("A thought.</think>I look. \n\n <+block> {call}\t{call} </+block>"),
        format!("A thought.</think>```\nlet a = 1;\n\n<+block>\n{call}\n</+block>"),
    ];
    for (protocol, version, size) in cases() {
        for text in &texts {
            Turn::new(protocol, version, &answer(version, text), size).assert_hits_all(text);
        }
    }
}

/// Only Chat Completions takes such a turn back: the other protocols want results right after calls.
#[test]
fn text_between_and_after_calls_comes_back_where_the_protocol_takes_it() {
    let call = "<+invoke name=\"look\">\n<+parameter name=\"at\" string=\"false\">[1,2]</+parameter>\n</+invoke>";
    let texts = [
        format!("I look.\n\n<+block>\n{call}\n</+block>\nDone."),
        format!("I look.\n\n<+block>\n{call}\nAnd there: {call}</+block>"),
        format!("<+block>\n{call}\n</+block>Done.\n\n"),
    ];
    for version in Version::ALL {
        for text in &texts {
            let turn = Turn::new(Protocol::ChatCompletions, version, &answer(version, text), 3);
            turn.assert_hits_all(text);
            for edited in ["I look.", "I look. Done", "Done.", ""] {
                let mut later = turn.later.clone();
                later[0]["content"] = edited.into();
                let [with, without] = [keyed(), Options::default()].map(|options| turn.next(&later, &options));
                let [with, without] = [with, without].map(|next| said(version, &past_answer(&next), true));
                assert_eq!(with, without, "{text:?}");
            }
        }
    }
}

/// The client gets U+FFFD for them, and sends that back.
#[test]
fn bytes_that_are_no_text_come_back() {
    let tokenizer = Version::V41.tokenizer();
    let broken =
        (0..1000_u32).find(|id| matches!(tokenizer.piece(*id), Some(Piece::Text(bytes)) if bytes == [0xE4])).unwrap();
    for (protocol, version, size) in cases() {
        let [mut own, rest] =
            ["I s".to_owned(), call(version, &parameter("at", "[1,2]"))].map(|text| unusual_ids(&text, size));
        own.push(broken);
        let turn = Turn::of(protocol, version, false, [own, rest].concat());
        turn.assert_hits_all("a broken character");
    }
}

/// A client that changes a value gets the ids of its text, from that call on.
#[test]
fn a_changed_value_has_its_own_ids() {
    let body = format!("{}{}", parameter("a", "[1,{\"b\":\"c\"}]"), parameter("d", "2.50"));
    let changes = [
        ("1", "2"),
        ("1", "1.0"),
        ("1", "\"1\""),
        ("1", "true"),
        ("\"b\"", "\"B\""),
        ("\"c\"", "\"c \""),
        ("\"c\"", "\"c\",\"e\":null"),
        ("[1,{\"b\":\"c\"}]", "[{\"b\":\"c\"},1]"),
        ("[1,{\"b\":\"c\"}]", "[1]"),
        ("\"d\"", "\"D\""),
        ("2.50", "2.51"),
        ("2.50", "\"2.50\""),
        ("2.50", "null"),
    ];
    let protocol = Protocol::ChatCompletions;
    for version in Version::ALL {
        let text = call(version, &body).replace("I look.", "I  look.");
        let turn = Turn::new(protocol, version, &text, 3);
        turn.assert_hits_all(&body);
        let unchanged = turn.next(&turn.later, &keyed());
        for (from, to) in changes {
            let mut later = turn.later.clone();
            let arguments = &mut later[0]["tool_calls"][0]["function"]["arguments"];
            assert!(arguments.as_str().unwrap().contains(from));
            *arguments = arguments.as_str().unwrap().replacen(from, to, 1).into();
            let [with, without] = [keyed(), Options::default()].map(|options| turn.next(&later, &options));
            let [with_said, without_said] = [&with, &without].map(|encoded| {
                let message = said(version, &past_answer(encoded), true);
                message["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned()
            });
            if ["\"d\"", "2.50"].contains(&from) {
                let value = |arguments: &str| serde_json::from_str::<Value>(arguments).unwrap();
                assert_eq!(value(&with_said), value(&without_said), "{from} as {to}");
            } else {
                assert_eq!(with_said, without_said, "{from} as {to}: the whole call");
            }
            assert!(turn.shared(&with) < turn.shared(&unchanged));
            assert!(turn.shared(&with) > turn.shared(&without), "what stands before the change is the model's");
        }
    }
}

/// JSON as a model may spell it: its parts, and the blanks between them.
fn json() -> impl Strategy<Value = String> {
    let blank = || prop::sample::select(vec!["", "", "", " ", "  ", "\n", "\t", "\r\n"]);
    let number =
        prop::sample::select(vec!["0", "1", "-1", "1.50", "-0.0", "1e3", "1E-7", "0.1", "100000000000000000000"]);
    let piece = prop::sample::select(vec![
        "a",
        "the garden",
        "\\u00e9",
        "é",
        "\\n",
        "\\/",
        "/",
        "\\ud83d\\ude00",
        "你好",
        "\\\"",
        "\\u0041",
        "<",
        "</",
        "<｜",
        "\\u2028",
    ]);
    let text = prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()));
    let leaf = prop_oneof![
        number.prop_map(str::to_owned),
        text.clone(),
        prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        let items = prop::collection::vec((blank(), inner.clone(), blank()), 0..4);
        let members = prop::collection::vec((blank(), text.clone(), blank(), inner, blank()), 0..4);
        let array = (blank(), items).prop_map(|(open, items)| {
            let items: Vec<String> =
                items.into_iter().map(|(before, item, after)| format!("{before}{item}{after}")).collect();
            format!("[{open}{}]", items.join(","))
        });
        let object = (blank(), members).prop_map(|(open, members)| {
            let member = |(a, key, b, value, c)| format!("{a}{key}{b}:{a}{value}{c}");
            let members: Vec<String> = members.into_iter().map(member).collect();
            format!("{{{open}{}}}", members.join(","))
        });
        prop_oneof![array, object]
    })
}

/// A well-formed answer: its reasoning, its text, and calls with their parameters.
fn answers() -> impl Strategy<Value = String> {
    let newlines = || prop::sample::select(vec!["", "\n", "\n\n", "\n\n\n"]);
    let blank = || prop::sample::select(vec!["\n", "", "\n\n", " ", "\n  ", "\t"]);
    let text = || "([a-z0-9é你😀.,\"\\\\]{1,9}[ \n]?){0,6}[a-z]";
    let parameter =
        (any::<bool>(), text(), json(), blank(), blank()).prop_map(|(is_text, text, json, before, after)| {
            let value = if is_text { &text } else { &json };
            (format!("string=\"{is_text}\">{before}{value}{after}</+parameter>"), after)
        });
    let call = prop::collection::vec(parameter, 0..3).prop_flat_map(move |parameters| {
        (Just(parameters), blank(), blank()).prop_map(|(parameters, first, last)| {
            let named = parameters
                .iter()
                .enumerate()
                .map(|(place, (rest, after))| format!("<+parameter name=\"p{}\" {rest}{after}", 9 - place));
            format!("<+invoke name=\"look\">{first}{}</+invoke>{last}", named.collect::<String>())
        })
    });
    let parts = (prop::option::of(text()), prop::option::of(text()), prop::collection::vec(call, 0..4));
    (parts, newlines(), newlines(), newlines(), blank()).prop_map(|((reasoning, content, calls), a, b, c, d)| {
        let reasoning = reasoning.map(|reasoning| format!("{a}{reasoning}{b}</think>")).unwrap_or_default();
        let content = content.unwrap_or_default();
        let calls = calls.concat();
        if calls.is_empty() {
            format!("{reasoning}{b}{content}.")
        } else {
            format!("{reasoning}{b}{content}{c}<+block>{d}{calls}</+block>{a}")
        }
    })
}

proptest! {
    #[test]
    fn a_well_formed_answer_comes_back_with_its_own_ids(
        protocol in prop::sample::select(Protocol::ALL.to_vec()), version in prop::sample::select(Version::ALL.to_vec()),
        text in answers(), size in 1_usize..9,
    ) {
        let turn = Turn::new(protocol, version, &answer(version, &text), size);
        turn.assert_hits_all(&text);
    }
}
