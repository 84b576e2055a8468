//! Server-sent events: the one place that knows how frames are delimited.
//!
//! Must not know any protocol. A frame's data is one line, because JSON strings escape every line end.

use super::answer::json_object::{ObjectWriter, write_object};

/// A line that clients ignore and proxies count as traffic.
const COMMENT: &str = ": keep-alive\n\n";

/// Appends a frame without a name.
pub(super) fn write_frame(out: &mut String, data: impl FnOnce(&mut String)) {
    out.push_str("data: ");
    data(out);
    out.push_str("\n\n");
}

/// Appends a frame whose name is also the first member, `type`, of its data.
pub(super) fn write_named_frame(out: &mut String, name: &str, members: impl FnOnce(&mut ObjectWriter<'_>)) {
    out.push_str("event: ");
    out.push_str(name);
    out.push('\n');
    write_frame(out, |out| {
        write_object(out, |data| {
            data.string("type", name);
            members(data);
        });
    });
}

/// Appends a comment, which is no event to any client.
pub(super) fn write_comment(out: &mut String) {
    out.push_str(COMMENT);
}
