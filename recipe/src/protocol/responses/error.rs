//! Responses: how an error looks.

use crate::error::Error;
use crate::protocol::answer::json_object::ObjectWriter;
use crate::protocol::answer::open_ai_error::write_envelope;

/// Appends the body of an error response.
pub(in crate::protocol) fn write_error(error: &Error, out: &mut String) {
    write_envelope(error, out);
}

/// The member `error` of a response that failed. Its codes are the protocol's own, so that clients know when to retry.
pub(super) fn write_failure(error: &Error, response: &mut ObjectWriter<'_>) {
    response.object("error", |members| {
        let code = match error.status() {
            429 => "rate_limit_exceeded",
            500.. => "server_error",
            _ => "invalid_prompt",
        };
        members.string("code", code);
        members.string("message", error.message());
    });
}
