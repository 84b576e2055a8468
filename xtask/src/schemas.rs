//! JSON Schemas of what the codec reads.

use recipe::json::{Value, write_pretty};
use recipe::protocol::Protocol;
use recipe::schema;

use crate::Generated;

/// The schemas of the three request bodies and of a conversation.
pub fn all() -> Vec<Generated> {
    let file = |path, schema: &Value<'_>| {
        let mut text = String::new();
        write_pretty(schema, &mut text);
        text.push('\n');
        Generated { path, text }
    };
    vec![
        file("schemas/chat_completions.request.json", &schema::request(Protocol::ChatCompletions)),
        file("schemas/responses.request.json", &schema::request(Protocol::Responses)),
        file("schemas/messages.request.json", &schema::request(Protocol::Messages)),
        file("schemas/conversation.json", &schema::conversation()),
    ]
}
