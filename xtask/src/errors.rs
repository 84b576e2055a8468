//! The catalogue of errors, for programs and for people.

use std::fmt::Write as _;

use recipe::error::ErrorCode;
use recipe::json::{Value, write_pretty};

use crate::Generated;

/// `schemas/errors.json` and `docs/errors.md`.
pub fn all() -> Vec<Generated> {
    vec![
        Generated { path: "schemas/errors.json", text: catalogue() },
        Generated { path: "docs/errors.md", text: page() },
    ]
}

fn catalogue() -> String {
    let entries = ErrorCode::ALL.iter().map(|code| {
        let members = [
            ("code", Value::from(code.as_str())),
            ("status", u64::from(code.status()).into()),
            ("message", code.template().into()),
        ];
        Value::Object(members.into_iter().collect())
    });
    let mut text = String::new();
    write_pretty(&Value::Array(entries.collect()), &mut text);
    text.push('\n');
    text
}

fn page() -> String {
    let mut text = String::from(
        "# Errors\n\nEvery request that cannot be served is refused with one of these codes. `{field}` is the JSON path of \
         the field at fault,\nin the client's own body; the other places are filled with the limit and the value given. Each \
         protocol wraps them in\nits own envelope: `{\"error\": {\"message\", \"type\", \"param\", \"code\"}}` for Chat \
         Completions and Responses,\n`{\"type\": \"error\", \"error\": {\"type\", \"message\"}}` for Messages.\n\nThis page \
         is generated from `recipe/src/error.rs` by `cargo xtask generate`.\n\n| code | status | message |\n| --- | --- | \
         --- |\n",
    );
    for code in ErrorCode::ALL {
        let _ = writeln!(text, "| `{}` | {} | {} |", code.as_str(), code.status(), code.template().replace('|', "\\|"));
    }
    text
}
