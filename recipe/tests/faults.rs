//! Faults of requests: each has its code and the path of the field at fault, in the client's own body.

#![allow(clippy::expect_used, reason = "a request that is read is to stop the test")]

use recipe::codec::{Options, encode, encode_continuing};
use recipe::json::parse;
use recipe::protocol::{Lookup, Protocol};

/// Replaces the parts of a body that every case repeats.
fn body(members: &str) -> String {
    let body = format!("{{\"model\":\"DeepSeek-V4.1-Flash\",{members}}}");
    body.replace('\'', "\"")
        .replace("CALL", r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}"#)
        .replace('Q', r#"{"role":"user","content":"q"}"#)
}

fn check(protocol: Protocol, cases: &[(&str, &str, &str)]) {
    for (members, code, path) in cases {
        let error = encode(body(members).as_bytes(), protocol, &Options::default()).expect_err(members);
        assert_eq!((error.code(), error.path()), (*code, *path), "{members}: {error}");
    }
}

#[test]
fn messages_faults_name_their_fields() {
    check(
        Protocol::Messages,
        &[
            ("'messages':[]", "empty_array", "messages"),
            ("'messages':[{'role':'user','content':[]}]", "empty_array", "messages[0].content"),
            ("'messages':[{'role':'developer','content':'x'}]", "unknown_value", "messages[0].role"),
            ("'messages':[Q,CALL]", "missing_tool_result", "messages[1]"),
            ("'messages':[Q,CALL,Q]", "calls_not_answered", "messages[2]"),
            (
                "'messages':[CALL,{'role':'user','content':[{'type':'tool_result','tool_use_id':'b'}]}]",
                "unexpected_tool_result",
                "messages[1].content[0].tool_use_id",
            ),
            (
                "'messages':[{'role':'user','content':[{'type':'tool_use','id':'a','name':'f','input':{}}]}]",
                "misplaced_block",
                "messages[0].content[0]",
            ),
            (
                "'messages':[CALL,{'role':'user','content':[{'type':'tool_result','tool_use_id':'a','content':[
                {'type':'image','source':{'type':'url','url':'ftp://a'}}]}]}]",
                "unsupported_url",
                "messages[1].content[0].content[0].source.url",
            ),
            (
                "'messages':[{'role':'system','content':[{'type':'tool_addition','tool':{'type':'tool_reference','name':'g'}}]}]",
                "unknown_tool",
                "messages[0].content[0].tool",
            ),
            ("'messages':[Q],'tools':[{'name':'f'}]", "missing_field", "tools[0].input_schema"),
            ("'messages':[Q],'tools':[{'type':'bash_1','name':'f'}]", "unsupported", "tools[0].type"),
            ("'messages':[Q],'stop_sequences':['a','']", "empty_string", "stop_sequences[1]"),
            ("'messages':[Q],'tool_choice':{'type':'tool'}", "missing_field", "tool_choice.name"),
        ],
    );
}

#[test]
fn responses_faults_name_their_fields() {
    check(
        Protocol::Responses,
        &[
            ("'instructions':''", "missing_field", "input"),
            ("'input':[]", "empty_array", "input"),
            ("'input':['x']", "invalid_type", "input[0]"),
            (
                "'input':[{'type':'function_call','call_id':'a','name':'f','arguments':'{}'}]",
                "calls_not_answered",
                "input",
            ),
            (
                "'input':[{'type':'function_call','call_id':'a','name':'f','arguments':'{}'},{'type':'web_search_call'}]",
                "calls_not_answered",
                "input[1]",
            ),
            (
                "'input':[{'type':'function_call_output','call_id':'a','output':''}]",
                "unexpected_tool_result",
                "input[0].call_id",
            ),
            ("'input':[{'role':'user','content':[{'type':'input_image'}]}]", "exactly_one", "input[0].content[0]"),
            ("'input':'x','tools':[{'type':'custom','name':'a b'}]", "invalid_name", "tools[0].name"),
            (
                "'input':'x','tools':[{'type':'custom','name':'c','format':{'type':'x'}}]",
                "unknown_value",
                "tools[0].format.type",
            ),
            (
                "'input':'x','tools':[{'type':'namespace','name':'n','tools':[{'type':'function','name':'a b'}]}]",
                "invalid_name",
                "tools[0].tools[0].name",
            ),
            ("'input':'x','text':{'format':null}", "invalid_type", "text.format"),
            (
                "'input':'x','text':{'format':{'type':'json_schema','name':'n','schema':1}}",
                "invalid_schema",
                "text.format.schema",
            ),
            ("'input':'x','previous_response_id':'r'", "unsupported", "previous_response_id"),
        ],
    );
}

#[test]
fn stored_items_fault_where_they_stand() {
    let stored = |text: &'static str| {
        let value = parse(text.as_bytes()).expect("JSON").into_owned();
        move |id: &str| Ok((id == "r").then(|| value.clone()))
    };
    let fault = |members: &str, lookup: &dyn Lookup| {
        let body = body(members);
        let body = parse(body.as_bytes()).expect("JSON");
        let error = encode_continuing(&body, Protocol::Responses, &Options::default(), Some(lookup));
        let error = error.expect_err(members);
        (error.code().to_owned(), error.path().to_owned(), error.status())
    };
    let bad_item = stored(r#"[{"role":"user","content":"a"},{"role":"user","content":7}]"#);
    let cases: [(&str, &dyn Lookup, &str, &str, u16); 4] = [
        ("'input':'x','previous_response_id':'r'", &bad_item, "invalid_type", "previous_response_id[1].content", 400),
        ("'input':'x','previous_response_id':'s'", &bad_item, "not_stored", "previous_response_id", 404),
        ("'input':[Q,{'type':'item_reference','id':'s'}]", &bad_item, "not_stored", "input[1].id", 404),
        ("'input':'x','previous_response_id':'r'", &stored("7"), "invalid_stored", "previous_response_id", 500),
    ];
    for (members, lookup, code, path, status) in cases {
        assert_eq!(fault(members, lookup), (code.to_owned(), path.to_owned(), status), "{members}");
    }
}

#[test]
fn interrupted_reasoning_leaves_no_turn() {
    let thinks = "{'type':'reasoning','content':[{'type':'reasoning_text','text':'hmm'}]}";
    let with = body(&format!("'input':[Q,{thinks},Q]"));
    let without = body("'input':[Q,Q]");
    let ids =
        |body: &str| encode(body.as_bytes(), Protocol::Responses, &Options::default()).expect("a request").token_ids;
    assert_eq!(ids(&with), ids(&without));
}

#[test]
fn what_is_left_out_is_told() {
    let encoded = |body: String, protocol| encode(body.as_bytes(), protocol, &Options::default()).expect("a request");
    let tools = "'tools':[{'type':'web_search_20250305','name':'web_search'}]";
    let warnings = encoded(body(&format!("'messages':[Q],{tools}")), Protocol::Messages).warnings;
    assert_eq!(warnings, ["tools[0]: the server tool web_search_20250305 was left out"]);
    let body = body("'input':[Q,{'type':'item_reference','id':'x'}],'tools':[{'type':'mcp'}]");
    let warnings = encoded(body, Protocol::Responses).warnings;
    assert_eq!(warnings, ["tools[0]: the tool mcp was left out", "input[1]: the item item_reference was left out"]);
}
