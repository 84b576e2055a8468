//! The rules of reading an answer, one table each: output → what a client sees.

mod output_support;

use output_support::{options, read, shortened, spelled, thinking, with_stops, with_tools};
use recipe::event::{BackendFinish, FinishReason};
use recipe::output::{InitialStage, ParsingOptions, QuotedCalls};

/// What a client sees, in one line: `reasoning | content | name{arguments}… | end`. A cut call ends with `…`.
fn seen(options: &ParsingOptions, output: &str, backend: BackendFinish) -> String {
    let folded = read(options, output, backend);
    let calls: Vec<_> = folded
        .calls
        .iter()
        .map(|call| format!("{}{}{}", call.name, call.arguments, if call.complete == Some(true) { "" } else { "…" }))
        .collect();
    let end = match folded.finish {
        Some((FinishReason::Stop, None)) => "stop".to_owned(),
        Some((FinishReason::ToolCalls, None)) => "tool_calls".to_owned(),
        Some((FinishReason::Length, None)) => "length".to_owned(),
        Some((FinishReason::ContentFilter, None)) => "content_filter".to_owned(),
        Some((reason, Some(sequence))) => format!("{reason:?} at {sequence:?}"),
        None => "no end".to_owned(),
    };
    shortened(&format!("{} | {} | {} | {end}", folded.reasoning, folded.content, calls.join(" ")))
}

/// Checks rows of output and what is seen at a backend's stop.
fn check(options: &ParsingOptions, rows: &[(&str, &str)]) {
    check_at(options, BackendFinish::Stop, rows);
}

fn check_at(options: &ParsingOptions, backend: BackendFinish, rows: &[(&str, &str)]) {
    for (output, expected) in rows {
        assert_eq!(seen(options, output, backend), *expected, "{output}");
    }
}

/// A block of `body`, in the short spelling of the tests.
fn block(body: &str) -> String {
    format!("<§tool_calls>\n{body}\n</§tool_calls>")
}

fn invoke(name: &str, body: &str) -> String {
    format!("<§invoke name=\"{name}\">\n{body}\n</§invoke>")
}

fn parameter(name: &str, string: &str, value: &str) -> String {
    format!("<§parameter name=\"{name}\" string=\"{string}\">{value}</§parameter>")
}

#[test]
fn thinking_and_its_newlines() {
    check(
        &thinking(),
        &[
            ("\n\nplan\n\n</think>\n\nanswer\n", "plan | answer\n |  | stop"),
            ("never ended\n\n", "never ended\n\n |  |  | stop"),
            ("a\n\nb \n</think> \nc", "a\n\nb  |  \nc |  | stop"),
            ("a\r\n</think>\r\nb", "a\r | \r\nb |  | stop"),
            ("cut </thi", "cut </thi |  |  | stop"),
            ("a<\n</think>b", "a<\n | b |  | stop"),
            ("a<\n\n</think>b", "a<\n | b |  | stop"),
            ("a</think>b</think>c\n</think>\nd", "a | bc\n\nd |  | stop"),
            ("<think>\na <think>b</think>c <think>d", "a b | c <think>d |  | stop"),
            ("a<｜end▁of▁sentence｜>b\n<｜User｜></think>c<｜▁pad▁｜>", "ab | c |  | stop"),
        ],
    );
    let continued = ParsingOptions { initial_stage: InitialStage::ReasoningContinuation, ..options() };
    check(&continued, &[("\na</think>\nb", "\na | b |  | stop")]);
    let content = ParsingOptions { initial_stage: InitialStage::ContentContinuation, ..options() };
    check(&content, &[("\na\n</think>\nb", " | \na\n\nb |  | stop")]);
    check(&options(), &[("\n\na\n", " | a\n |  | stop"), ("", " |  |  | stop")]);
}

#[test]
fn both_spellings_of_calls() {
    let v4 = format!(
        "Hi\n\n{}",
        block(&invoke("f", &(parameter("a", "true", "x\"\n") + "\n" + &parameter("b", "false", "[1]"))))
    );
    let v41 = v4.replace("tool_calls", " calls").replace("§invoke", "§ invoke").replace("§parameter", "§ parameter");
    let expected = " | Hi | f{\"a\": \"x\\\"\\n\", \"b\": [1]} | tool_calls";
    check(&options(), &[(v4.as_str(), expected), (v41.as_str(), expected)]);
    let both = format!("{}\n{}", block(&invoke("f", "")), block(&invoke("g", "")).replace("tool_calls", " calls"));
    check(&options(), &[(both.as_str(), " |  | f{} g{} | tool_calls")]);
}

#[test]
fn arguments_always_parse() {
    for (string, value, shown) in [
        ("false", "1e999", "\"1e999\""),
        ("false", "NaN", "\"NaN\""),
        ("false", "False", "\"False\""),
        ("false", "", "\"\""),
        ("false", "1, 2", "\"1, 2\""),
        ("false", "1],[2", "\"1],[2\""),
        ("false", " {\"k\": [null]} \n", " {\"k\": [null]} \n"),
        ("false", "123456789012345678901234567890", "123456789012345678901234567890"),
        ("TRUE", "x", "\"x\""),
        ("yes", "7", "7"),
        ("true", "7", "\"7\""),
        ("true", "a\u{1}\t\\ é 😀", "\"a\\u0001\\t\\\\ é 😀\""),
    ] {
        let output = block(&invoke("f", &parameter("a", string, value)));
        check(&options(), &[(output.as_str(), &format!(" |  | f{{\"a\": {shown}}} | tool_calls"))]);
    }
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let output = spelled(&block(&invoke("f", &parameter("a", "false", &deep))));
    let folded = output_support::read_pieces(&options(), [output.as_str()], BackendFinish::Stop);
    assert_eq!(folded.calls[0].arguments, format!("{{\"a\": \"{deep}\"}}"));
}

#[test]
fn attributes_and_names() {
    for (tag, arguments) in [
        ("name=\"a\"", "{\"a\": 7}"),
        ("string=\"true\" name=\"a\"", "{\"a\": \"7\"}"),
        ("name='a' string=true", "{\"a\": 7}"),
        ("name=\"a\" k=\">\" string=\"true\" >", "{\"a\": \">7\"}"),
        ("name=\"a\"b\" string=\"true\"", "{\"a\": \"7\"}"),
        ("name=\"a b\n<>\\ é\" string=\"true\"", "{\"a b\\n<>\\\\ é\": \"7\"}"),
        ("name=\"</§parameter>\" string=\"true\"", "{\"</§parameter>\": \"7\"}"),
        ("name=\"\" string=\"true\"", "{\"\": \"7\"}"),
    ] {
        let body = format!("<§parameter {tag}>7</§parameter>");
        let output = block(&invoke("f", &body));
        check(&options(), &[(output.as_str(), &format!(" |  | f{arguments} | tool_calls"))]);
    }
}

#[test]
fn repeated_parameters_are_dropped_and_reported() {
    let body = [parameter("a", "true", "1"), parameter("a", "false", "[2]"), parameter("b", "false", "3")].concat();
    let folded = read(&options(), &block(&invoke("f", &body)), BackendFinish::Stop);
    assert_eq!(folded.calls[0].arguments, "{\"a\": \"1\", \"b\": 3}");
    assert_eq!(folded.calls[0].dropped, [("a".to_owned(), "[2]".to_owned())]);
}

#[test]
fn a_body_that_is_an_object() {
    for (body, expected) in [
        ("{\"a\": {\"b\": \"}\"}}", " |  | f{\"a\": {\"b\": \"}\"}} | tool_calls"),
        ("{}", " |  | f{} | tool_calls"),
        ("{\"a\": 1, \"a\": 2}", " |  | f{\"a\":2} | tool_calls"),
        ("{\"a\": 1} done", " |  done | f{\"a\": 1} | tool_calls"),
        ("{see below}", " | {see below} | f{} | tool_calls"),
        ("{'a': 1", " | {'a': 1 | f{} | tool_calls"),
    ] {
        check(&options(), &[(block(&invoke("f", body)).as_str(), expected)]);
    }
    check_at(&options(), BackendFinish::Length, &[("<§invoke name=\"f\">{\"a\": 1", " |  | f… | length")]);
}

#[test]
fn prose_in_blocks() {
    let text_between = "<§tool_calls>\nhmm <§invoke name=\"f\">\na <§parameter name=\"x\" string=\"true\">1</§parameter>\n \
                        b</§invoke>\nmid<§invoke name=\"g\">\n</§invoke>\nend</§tool_calls>";
    check(
        &options(),
        &[
            (text_between, " | hmm \na \n b\nmid\nend | f{\"x\": \"1\"} g{} | tool_calls"),
            ("<§tool_calls>\n<§invoke name=\"f\">\nsorry\n</§invoke>\n</§tool_calls>", " | sorry |  | stop"),
            ("<§tool_calls>\n</§tool_calls>", " |  |  | stop"),
            ("<§tool_calls>\nfoo\n</§tool_calls>tail", " | <§tool_calls>\nfoo\n</§tool_calls>tail |  | stop"),
            (
                "<§tool_calls>\n<§invoke name=\"\">junk</§invoke>\n<§invoke name=\"g\"></§invoke>\n</§tool_calls>",
                " | junk | g{} | tool_calls",
            ),
            (
                "<§tool_calls>\n  <§invoke name=\"f\">\r\n    <§parameter name=\"a\" string=\"true\">1</§parameter>\t\n  \
                 </§invoke>\n  </§tool_calls>",
                " |  | f{\"a\": \"1\"} | tool_calls",
            ),
        ],
    );
}

#[test]
fn closing() {
    let open = "<§tool_calls>\n<§invoke name=\"f\">\n<§parameter name=\"a\" string=\"true\">x";
    for (rest, expected) in [
        (
            "\n<§parameter name=\"b\" string=\"false\">2</§parameter></§invoke></§tool_calls>",
            "f{\"a\": \"x\\n\", \"b\": 2}",
        ),
        (
            " <§parameter name=\"b\" string=\"false\">2</§parameter></§invoke></§tool_calls>",
            "f{\"a\": \"x <§parameter name=\\\"b\\\" string=\\\"false\\\">2\"}",
        ),
        ("\n<§parameter oops</§parameter></§invoke></§tool_calls>", "f{\"a\": \"x\\n<§parameter oops\"}"),
        ("</§invoke>\n</§tool_calls>", "f{\"a\": \"x\"}"),
        ("</§tool_calls>", "f{\"a\": \"x\"}"),
        ("</§param></§function></§calls>", "f{\"a\": \"x\"}"),
        ("</§parameter></§parameter></§tool_calls>", "f{\"a\": \"x\"}"),
        ("</§ not a tag</§parameter></§invoke></§tool_calls>", "f{\"a\": \"x</§ not a tag\"}"),
        (
            "<§invoke name=\"g\"></think></§parameter></§invoke></§tool_calls>",
            "f{\"a\": \"x<§invoke name=\\\"g\\\"></think>\"}",
        ),
        ("</§parameter>\n<§invoke name=\"g\">\n</§tool_calls>", "f{\"a\": \"x\"} g{}"),
    ] {
        check(&options(), &[(&format!("{open}{rest}"), &format!(" |  | {expected} | tool_calls"))]);
    }
    let remainder = "y</§parameter>\n<§parameter name=\"b\" string=\"true\">z</§parameter>\n</§invoke>";
    check(&options(), &[(&format!("{open}</§tool_calls>{remainder}"), " | yz | f{\"a\": \"x\"} | tool_calls")]);
    check(&options(), &[(&format!("{open}</§tool_calls>after"), " | after | f{\"a\": \"x\"} | tool_calls")]);
}

#[test]
fn which_invokes_count() {
    let declared = with_tools(&["f"]);
    let bare = |name: &str| format!("Hi.\n{}\n", invoke(name, &parameter("a", "true", "x")));
    check(
        &declared,
        &[
            (&bare("f"), " | Hi. | f{\"a\": \"x\"} | tool_calls"),
            (&bare("g"), &format!(" | {} |  | stop", bare("g"))),
            (&block(&invoke("g", "")), " |  | g{} | tool_calls"),
            (&block(&invoke("f", "")).replacen("tool_calls", "toolcalls", 1), " |  | f{} | tool_calls"),
            (
                "<§toolcalls>\n<§invoke name=\"g\"></§invoke>",
                " | <§toolcalls>\n<§invoke name=\"g\"></§invoke> |  | stop",
            ),
            ("<§toolcalls>\nno <§invoke name=\"f\"></§invoke>", " | <§toolcalls>\nno  | f{} | tool_calls"),
        ],
    );
    let quoted = invoke("g", &parameter("a", "true", "x"));
    check(
        &declared,
        &[
            (&format!("{}\n{quoted}", block(&invoke("f", ""))), &format!(" | \n{quoted} | f{{}} | tool_calls")),
            (
                &format!("{}{quoted}\n{}", invoke("f", ""), invoke("f", "")),
                &format!(" | {quoted} | f{{}} f{{}} | tool_calls"),
            ),
            (
                &block(&format!("{}{quoted}", invoke("f", ""))).replace("tool_calls", "toolcalls"),
                &format!(" | {quoted} | f{{}} | tool_calls"),
            ),
        ],
    );
    check(&options(), &[(&bare("g"), " | Hi. | g{\"a\": \"x\"} | tool_calls")]);
    let text = block(&invoke("f", ""));
    check(&with_tools(&[]), &[(&text, &format!(" | {text} |  | stop"))]);
    check(&ParsingOptions::default(), &[(&text, &format!(" | {text} |  | stop"))]);
}

#[test]
fn around_blocks() {
    let call = block(&invoke("f", ""));
    check(
        &options(),
        &[
            (&format!("before\n\n{call}\n\nbetween\n{call}\n\n"), " | before\n\nbetween | f{} f{} | tool_calls"),
            (&format!("{call}\nDone."), " | \nDone. | f{} | tool_calls"),
            (&format!("{call}<｜end▁of▁sentence｜>\n"), " |  | f{} | tool_calls"),
            (
                &format!("Write <§ or <§tool_calls> for it.\n{call}"),
                " | Write <§ or <§tool_calls> for it. | f{} | tool_calls",
            ),
            ("a <§is special> b", " | a <§is special> b |  | stop"),
            ("a\n<§foo>\nbar", " | a\n<§foo>\nbar |  | stop"),
            ("a </§tool_calls> b", " | a </§tool_calls> b |  | stop"),
            (
                "<§parameter name=\"a\" string=\"true\">x</§parameter>",
                " | <§parameter name=\"a\" string=\"true\">x</§parameter> |  | stop",
            ),
            (
                "use <§invoke name=\"f\"> so\n<§invoke name=\"f\">\n</§invoke>",
                " | use <§invoke name=\"f\"> so | f{} | tool_calls",
            ),
            ("a<\n<§ b\n\n", " | a<\n<§ b\n\n |  | stop"),
            ("<§tool_calls> a</think>b", " | <§tool_calls> ab |  | stop"),
            ("<§tool_calls>\n<§invoke name=\"f\">\n</§invoke>\n</§functions>\nb <", " | \nb < | f{} | tool_calls"),
            ("<§tool_calls>\n<§invoke name=\"f\">\n</§invoke>\nb <", " | \nb < | f{} | tool_calls"),
            ("<|DSML|tool_calls>", " | <|DSML|tool_calls> |  | stop"),
        ],
    );
}

#[test]
fn fences() {
    let call = block(&invoke("f", &parameter("a", "true", "\n```\n")));
    let quoted = format!("See:\n```xml\n{call}\n```\nok");
    check(
        &options(),
        &[
            (&quoted, &format!(" | {quoted} |  | stop")),
            (&format!("~~~\n{call}\n~~~"), &format!(" | ~~~\n{call}\n~~~ |  | stop")),
            (
                &format!("```\n{call}\nmore\n````  \n{call}"),
                &format!(" | ```\n{call}\nmore\n````   | f{{\"a\": \"\\n```\\n\"}} | tool_calls"),
            ),
            (&format!("```\n{call}\n"), " | ``` | f{\"a\": \"\\n```\\n\"} | tool_calls"),
            (&format!("```\n{call}\n``"), " | ```\n`` | f{\"a\": \"\\n```\\n\"} | tool_calls"),
            (&format!("```\nx\n```\n{call}"), " | ```\nx\n``` | f{\"a\": \"\\n```\\n\"} | tool_calls"),
            (&format!("`` ``` ``\n{call}"), " | `` ``` `` | f{\"a\": \"\\n```\\n\"} | tool_calls"),
            ("```\n<§tool_calls>\n```\n", " | ```\n<§tool_calls>\n```\n |  | stop"),
        ],
    );
    let plain = ParsingOptions { quoted_calls: QuotedCalls::AreCalls, ..options() };
    check(&plain, &[(&quoted, " | See:\n```xml\n```\nok | f{\"a\": \"\\n```\\n\"} | tool_calls")]);
}

#[test]
fn calls_in_reasoning() {
    let call = block(&invoke("f", &parameter("a", "true", "x")));
    check(
        &thinking(),
        &[
            (&format!("Look.\n\n{call}"), "Look. |  | f{\"a\": \"x\"} | tool_calls"),
            (&format!("Look.\n{call}\n</think>\nanswer"), "Look. | \n\nanswer | f{\"a\": \"x\"} | tool_calls"),
            (&format!("Look.\n{call}\n</think>\n\n"), "Look. |  | f{\"a\": \"x\"} | tool_calls"),
            (&format!("{call}\n</think>\n{call}"), " |  | f{\"a\": \"x\"} f{\"a\": \"x\"} | tool_calls"),
            ("Token <§ is special.</think>Yes.", "Token <§ is special. | Yes. |  | stop"),
            ("a <§tool_calls>\n<§invoke name=\"f\">\n</think>b", "a <§tool_calls>\n<§invoke name=\"f\"> | b |  | stop"),
            (
                "a <§invoke name=\"f\">\n<§parameter name=\"a\" string=\"true\">x</think>b",
                "a <§invoke name=\"f\">\n<§parameter name=\"a\" string=\"true\">x | b |  | stop",
            ),
            (&format!("a\n```\n{call}\n```\n</think>b"), &format!("a\n```\n{call}\n``` | b |  | stop")),
            (
                &format!("the <§invoke name=\"f\"> tag\n{call}"),
                "the <§invoke name=\"f\"> tag |  | f{\"a\": \"x\"} | tool_calls",
            ),
            (
                "a\n<§invoke name=\"f\">\n<§parameter name=\"a\" string=\"true\">x</§parameter>",
                "a |  | f{\"a\": \"x\"} | tool_calls",
            ),
        ],
    );
    let declared = ParsingOptions { declared_tools: Some(vec!["g".to_owned()]), ..thinking() };
    let bare = invoke("f", &parameter("a", "true", "x"));
    check(&declared, &[(&format!("a {bare}</think>b"), &format!("a {bare} | b |  | stop"))]);
}

#[test]
fn stop_sequences() {
    for (stops, output, expected) in [
        (&["STOP"][..], "abcSTOPdef", " | abc |  | Stop at \"STOP\""),
        (&["STOP"], "abcSTOXdef ST", " | abcSTOXdef ST |  | stop"),
        (&["TAB", "STAB"], "abSTABc", " | abS |  | Stop at \"TAB\""),
        (&["STAB", "TAB"], "abSTABc", " | ab |  | Stop at \"STAB\""),
        (&["STABLE", "STA"], "abSTABLE", " | ab |  | Stop at \"STA\""),
        (&["abac"], "aababac", " | aab |  | Stop at \"abac\""),
        (&["\n\n"], "\n\nabc", " | abc |  | stop"),
        (&["\n"], "\n\nabc", " |  |  | Stop at \"\\n\""),
        (&["\n\nabc"], "a\n\n\nabc", " | a\n |  | Stop at \"\\n\\nabc\""),
        (&["本"], "a日本b", " | a日 |  | Stop at \"本\""),
        (&["</think>"], "a</think>b", " | a |  | Stop at \"</think>\""),
        (&["</think>b"], "a</think>b", " | ab |  | stop"),
        (&["\n"], "a\n<§tool_calls>", " | a |  | Stop at \"\\n\""),
        (&["<｜"], "a<§tool_calls>", " | a |  | Stop at \"<｜\""),
        (&["foo"], "a <§foo>\nfoo", " | a <§ |  | Stop at \"foo\""),
        (&["\n<"], "<§x\n<§invoke name=\"f\"></§invoke>", " | <§x |  | Stop at \"\\n<\""),
        (&["> <"], "a <§b> <§tool_calls>", " | a <§b |  | Stop at \"> <\""),
        (&["", "x"], "ax", " | a |  | Stop at \"x\""),
        (&["STOP"], "<§invoke name=\"f\">ST<§parameter name=\"a\" string=\"true\">", " | ST | f{\"a\": \"… | length"),
        (&["end"], "<§invoke name=\"f\">\nen</§invoke>d", " | end |  | stop"),
    ] {
        check(&with_stops(stops), &[(output, expected)]);
    }
    let call = block(&invoke("f", &parameter("a", "true", "STOP")));
    check(&with_stops(&["STOP"]), &[(&format!("{call}aSTOPb"), " | a | f{\"a\": \"STOP\"} | ToolCalls at \"STOP\"")]);
    let folded = read(&with_stops(&["STOP"]), &format!("ST{call}OP"), BackendFinish::Stop);
    assert_eq!((folded.content.as_str(), folded.order.as_str()), ("STOP", "tct"));
    let reasoning = ParsingOptions { initial_stage: InitialStage::ReasoningStart, ..with_stops(&["STOP"]) };
    check(&reasoning, &[("aSTOPb</think>cSTOPd", "aSTOPb | c |  | Stop at \"STOP\"")]);
    let sixteen: Vec<String> = (0..16).map(|index| format!("{}{index:x}!", "ab".repeat(index))).collect();
    let stops = ParsingOptions { stop_sequences: sixteen, ..options() };
    check(&stops, &[("ababababab5!x", " |  |  | Stop at \"ababababab5!\""), ("abab3!", " | abab3! |  | stop")]);
}

#[test]
fn cut_output() {
    use BackendFinish::{ContentFilter, Length, Stop, Unknown};
    let head = "Hi\n\n<§tool_calls>\n<§invoke name=\"get\">\n<§parameter name=\"a\" string=\"true\">Pa";
    for (backend, output, expected) in [
        (Length, "Hi\n\n<§to", " | Hi |  | length"),
        (ContentFilter, "Hi\n\n<§tool_calls>", " | Hi |  | content_filter"),
        (Unknown, "Hi\n\n<§tool_calls>\n<§i", " | Hi\n\n<§tool_calls>\n<§i |  | stop"),
        (Stop, "Hi\n\n<§tool_calls>\n", " | Hi\n\n<§tool_calls>\n |  | stop"),
        (Stop, "Hi\n\n<§tool_calls>\n<§invoke nam", " | Hi\n\n<§tool_calls>\n<§invoke nam |  | stop"),
        (Stop, "Hi\n\n<§invoke name=", " | Hi\n\n<§invoke name= |  | stop"),
        (Unknown, "Hi\n\n<§invoke name=ge", " | Hi\n\n<§invoke name=ge |  | stop"),
        (Length, "Hi\n\n<§invoke name=ge", " | Hi |  | length"),
        (Length, "Hi <§is spec", " | Hi <§is spec |  | length"),
        (Length, "Hi\n\n<", " | Hi\n\n< |  | length"),
        (Length, "Hi\n\n<§tool_calls>\n<§invoke name=\"get\"", " | Hi | get… | length"),
        (ContentFilter, "Hi\n\n<§tool_calls>\n<§invoke name=\"get\">\n<§", " | Hi | get… | content_filter"),
        (Unknown, "Hi\n\n<§tool_calls>\n<§invoke name=\"get\">\n<§parameter", " | Hi | get… | length"),
        (Stop, "Hi\n\n<§tool_calls>\n<§invoke name=\"get\">\n", " | Hi | get{} | tool_calls"),
        (Length, "Hi\n\n<§tool_calls>\n<§invoke name=\"get\">\n", " | Hi | get… | length"),
        (Stop, head, " | Hi | get{\"a\": \"Pa… | length"),
        (ContentFilter, head, " | Hi | get{\"a\": \"Pa… | content_filter"),
        (Stop, &format!("{head}</§para"), " | Hi | get{\"a\": \"Pa\"} | tool_calls"),
        (Length, &format!("{head}</§parameter>\n<｜"), " | Hi | get{\"a\": \"Pa\"… | length"),
        (Stop, &format!("{head}</§parameter>\n</｜"), " | Hi | get{\"a\": \"Pa\"} | tool_calls"),
        (Stop, &format!("{head}</§parameter>\n<§param"), " | Hi | get{\"a\": \"Pa\"… | length"),
        (Unknown, &format!("{head}</§parameter>\n"), " | Hi | get{\"a\": \"Pa\"… | length"),
        (Length, &format!("{head}</§parameter></§invoke>\n</§tool_c"), " | Hi | get{\"a\": \"Pa\"} | length"),
        (Unknown, &format!("{head}</§parameter></§invoke>"), " | Hi | get{\"a\": \"Pa\"} | tool_calls"),
        (Stop, "<§invoke name=\"f\">\n<§parameter name=\"n\" string=\"false\">12", " |  | f{\"n\": … | length"),
    ] {
        check_at(&options(), backend, &[(output, expected)]);
    }
}

#[test]
fn json_mode() {
    let json = ParsingOptions { parse_json_output: true, ..options() };
    for (output, expected) in [
        ("{\"a\": 1}", "{\"a\": 1}"),
        ("\n\n[1, 2] bye", "[1, 2]"),
        ("Here: {\"a\": \"}<§tool_calls>\\\"\"} bye {x}", "{\"a\": \"}<§tool_calls>\\\"\"}"),
        ("Sure:\n```json\n{\"a\": \"```\"}\n```\nmore {x}", "{\"a\": \"```\"}"),
        ("```json\n{\"a\": \n```\nso", "{\"a\": "),
        ("```json\n42\n```\nbye", "42"),
        ("Sure:\n```json\n\"x\"\n```\nbye", "\"x\""),
        ("Sure:\n```\nx\n```", "Sure:\n```\nx\n```"),
        ("```json\n", ""),
        ("plain text", "plain text"),
        ("\"a {b} \\\"c\"", "\"a {b} \\\"c\""),
        ("x</think>{}</think>y", "{}"),
        ("{\"a\":\"\n```\"}x", "{\"a\":\"\n```\"}"),
    ] {
        check(&json, &[(output, &format!(" | {expected} |  | stop"))]);
    }
    let call = block(&invoke("f", ""));
    check(&json, &[(&format!("hello\n{call}"), " | hello | f{} | tool_calls")]);
    check(&json, &[(&format!("```json\n{{}}\n```\n{call}"), " | {} | f{} | tool_calls")]);
    let stops = ParsingOptions { stop_sequences: vec!["STOP".to_owned()], ..json.clone() };
    check(&stops, &[("STOP {\"a\":\"STOP\"}", " | {\"a\":\" |  | Stop at \"STOP\"")]);
    let continued = ParsingOptions { initial_stage: InitialStage::ContentContinuation, ..json };
    check(&continued, &[("\n\"b\":1}\n```\nq", " | \n\"b\":1} |  | stop")]);
}

/// What is left of a spelling around another one never becomes whole: its last character goes.
#[test]
fn spellings_inside_spellings() {
    let eos = |inner: &str| format!("<｜end▁of{inner}▁sentence｜>");
    let open = "<｜end▁of▁sentence｜";
    check(
        &options(),
        &[
            (&format!("a{}b", eos("<｜User｜>")), &format!(" | a{open}b |  | stop")),
            (&eos(&eos(&eos(""))), &format!(" | {} |  | stop", "<｜end▁of<｜end▁of▁sentence｜▁sentence｜>")),
            (&format!("{}>>", eos("<｜User｜>")), &format!(" | {open} |  | stop")),
            ("x</thi</think>nk>y", " | x</thinky |  | stop"),
            (&format!("<｜end▁of{}▁sentence｜>", block(&invoke("f", ""))), &format!(" | {open} | f{{}} | tool_calls")),
            (&format!("<｜end▁of{}▁sentence｜>.", block(&invoke("", ""))), &format!(" | {open}. |  | stop")),
        ],
    );
    let value = block(&invoke(&eos("<｜User｜>"), &parameter(&eos("<｜User｜>"), "true", &eos("<｜User｜>"))));
    check(&options(), &[(&value, &format!(" |  | {open}{{\"{open}\": \"{open}\"}} | tool_calls"))]);
    let object = block(&invoke("f", &format!("{{\"a\": \"{}\"}}", eos("<｜User｜>"))));
    check(&options(), &[(&object, &format!(" |  | f{{\"a\": \"{open}\"}} | tool_calls"))]);
    check(&thinking(), &[("<th<think>ink>a</think>b", "<thinka | b |  | stop")]);
    // Also where it was held as an object and turned out to be none.
    let no_object = "<§invoke name=\"f\">\n{</think>";
    check(&options(), &[(&format!("{no_object}</§invoke>"), " | {</think | f{} | tool_calls")]);
}

#[test]
fn a_block_that_the_prompt_opened() {
    let options = ParsingOptions { starts_in_tool_calls: true, ..ParsingOptions::default() };
    check(
        &options,
        &[
            ("\n<§invoke name=\"f\">\n</§invoke>\n</§tool_calls>", " |  | f{} | tool_calls"),
            ("\nplain refusal", " | plain refusal |  | stop"),
        ],
    );
}

#[test]
fn a_call_starts_when_its_body_shows_something() {
    let (mut parser, mut events) = (recipe::output::OutputParser::new(options()), Vec::new());
    parser.push_text(&spelled("<§tool_calls>\n<§invoke name=\"f\">\n"), 1, &mut events);
    assert_eq!(events, []);
    parser.push_text(&spelled("<§parameter name=\"a\" string=\"true\">x"), 1, &mut events);
    assert_eq!(events.len(), 2, "{events:?}");
    parser.push_text("y<", 1, &mut events);
    assert_eq!(events.len(), 3, "the value streams");
}

#[test]
fn text_is_not_delayed_by_what_follows_it() {
    for (piece, shown) in [("abc\n", "abc"), ("abc<", "abc"), ("abcST", "abc"), ("abc\n\n</thi", "abc")] {
        let (mut parser, mut events) = (recipe::output::OutputParser::new(with_stops(&["STOP"])), Vec::new());
        parser.push_text(piece, 1, &mut events);
        assert!(matches!(&events[..], [recipe::event::Event::Text(delta)] if delta.text == shown), "{events:?}");
    }
}

/// Reads a long output whole and in two pieces, cut at a few places.
fn read_long(options: &ParsingOptions, output: &str) -> output_support::Folded {
    let output = spelled(output);
    let whole = output_support::read_pieces(options, [output.as_str()], BackendFinish::Stop);
    for place in [100, 1 << 16, 1 << 17, (1 << 17) + 1, 1 << 20, (1 << 20) + 40, output.len() - 60] {
        let Some(place) = (place..output.len()).find(|&place| output.is_char_boundary(place)) else { continue };
        let halves = output_support::read_pieces(options, [&output[..place], &output[place..]], BackendFinish::Stop);
        assert!(whole == halves, "split at {place}");
    }
    let mut pieces = Vec::new();
    let mut rest = output.as_str();
    while let Some((place, _)) = rest.char_indices().nth(4001) {
        let (piece, later) = rest.split_at(place);
        pieces.push(piece);
        rest = later;
    }
    pieces.push(rest);
    assert!(whole == output_support::read_pieces(options, pieces, BackendFinish::Stop), "in many pieces");
    whole
}

#[test]
fn what_is_held_is_bounded() {
    let long = "1234567 ".repeat((1 << 17) + 9);
    let call = |string: &str| block(&invoke("f", &parameter("a", string, &long)));
    let arguments = format!("{{\"a\": \"{long}\"}}");
    assert_eq!(read_long(&options(), &call("false")).calls[0].arguments, arguments, "a value that is not JSON");
    let number = format!("[{}0]", "1,".repeat(1 << 19));
    let folded = read_long(&options(), &block(&invoke("f", &parameter("a", "false", &number))));
    assert_eq!(folded.calls[0].arguments, format!("{{\"a\": \"{number}\"}}"), "JSON past the limit");
    let mention = format!("<§tool_calls> {long}");
    assert_eq!(shortened(&read_long(&options(), &mention).content), mention);
    let (mut parser, mut events) = (recipe::output::OutputParser::new(options()), Vec::new());
    parser.push_text(&spelled(&mention), 1, &mut events);
    assert!(!events.is_empty(), "text past the limit is not held");
    let folded = read_long(&options(), &format!("```\n{}\n```\n", call("true")));
    assert_eq!(folded.calls[0].arguments, arguments, "a fenced block past the limit");
    let folded = read_long(&thinking(), &format!("a\n{}", call("true")));
    assert_eq!((folded.reasoning.as_str(), folded.calls[0].arguments == arguments), ("a", true));
    let json = ParsingOptions { parse_json_output: true, ..options() };
    assert_eq!(read_long(&json, &format!("{long}{{}}")).content, format!("{long}{{}}"), "prose past the limit");
    let tag = format!("<§invoke name=\"{long}\">");
    assert_eq!(shortened(&read_long(&options(), &tag).content), tag);
}

#[test]
fn what_is_held_is_never_dropped() {
    let long = "1234567 ".repeat(3 << 17);
    let folded = read_long(&options(), &block(&invoke("f", &format!("{}{long}", parameter("a", "true", "x")))));
    assert_eq!(folded.calls[0].arguments, "{\"a\": \"x\"}");
    assert!(folded.content == long, "prose in a call");
    let long = "1234567 ".repeat((1 << 17) + 9);
    let parameters = format!("{}{long}{}{long}", parameter("a", "true", "x"), parameter("b", "true", "y"));
    let folded = read_long(&thinking(), &format!("a\n{}", block(&invoke("f", &parameters))));
    assert!(folded.content == long.repeat(2), "prose between parameters");
    let object = format!("{{\"a\": \"{long}\"}}");
    let folded = read_long(&options(), &block(&invoke("f", &object)));
    assert!(folded.calls[0].arguments == object && folded.content.is_empty(), "a long object");
    let broken = format!("{{\"a\": {long}");
    let folded = read_long(&options(), &block(&invoke("f", &broken)));
    assert!(folded.calls[0].arguments == "{}" && folded.content == broken, "a long object that is none");
    let repeated = format!("{}{}", parameter("a", "true", "x"), parameter("a", "true", &long));
    let folded = read_long(&options(), &block(&invoke("f", &repeated)));
    assert!(folded.calls[0].dropped == [("a".to_owned(), long)], "a repeated parameter");
}
