//! JSON Schemas of what the codec reads, from the same declarations that read it.

use crate::conversation_json::ConversationForm;
use crate::json::{Object, Value};
use crate::protocol::Protocol;
use crate::wire::Wire;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a protocol's request body.
pub fn request(protocol: Protocol) -> Value<'static> {
    titled(&format!("{} request", protocol.name()), protocol.request_schema())
}

/// The schema of a conversation given directly.
pub fn conversation() -> Value<'static> {
    titled("conversation", ConversationForm::schema())
}

fn titled(title: &str, schema: Value<'static>) -> Value<'static> {
    let head = [("$schema".into(), DIALECT.into()), ("title".into(), Value::from(title.to_owned()))];
    let members = match schema {
        Value::Object(object) => object,
        _ => Object::default(),
    };
    Value::Object(head.into_iter().chain(members).collect())
}
