//! Chat Completions: how an error looks.

use crate::error::Error;
use crate::protocol::answer::open_ai_error::write_envelope;

/// Appends the body of an error response; in a stream the same object is the data of a frame.
pub(in crate::protocol) fn write_error(error: &Error, out: &mut String) {
    write_envelope(error, out);
}
