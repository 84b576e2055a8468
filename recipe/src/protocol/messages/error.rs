//! Messages: how an error looks.

use crate::error::Error;
use crate::protocol::answer::json_object::{ObjectWriter, write_object};

/// Appends the body of an error response.
pub(in crate::protocol) fn write_error(error: &Error, out: &mut String) {
    write_object(out, |body| {
        body.string("type", "error");
        write_error_member(error, body);
    });
}

/// The member `error`, which an error response and an error event share.
pub(super) fn write_error_member(error: &Error, body: &mut ObjectWriter<'_>) {
    body.object("error", |members| {
        members.string("type", kind(error.status()));
        members.string("message", error.message());
    });
}

/// Anthropic's word for errors of a status.
fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
