//! The error envelope of OpenAI's APIs: `{"error": {message, type, param, code}}`.

use super::json_object::write_object;
use crate::error::Error;

/// Appends the envelope.
pub(in crate::protocol) fn write_envelope(error: &Error, out: &mut String) {
    let param = Some(error.path()).filter(|path| !path.is_empty());
    write_object(out, |body| {
        body.object("error", |members| {
            members.string("message", error.message());
            members.string("type", kind(error.status()));
            members.optional_string("param", param);
            members.string("code", error.code());
        });
    });
}

/// The word that OpenAI uses for errors of a status.
fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}
