//! Frames of which many follow each other and differ in one text, and perhaps in a number.
//!
//! Owns the frame as it was rendered last, without what differs. A frame then costs three or four copies; rendering each member by member took four times as long (`cargo bench --bench decode`).

use super::json_object::{ObjectWriter, write_number};

/// A frame with holes. `Key` tells frames apart whose other members differ.
#[derive(Debug)]
pub(in crate::protocol) struct Template<Key> {
    key: Option<Key>,
    frame: String,
    holes: Holes,
}

/// Where a frame's text, and the number after it, are to stand.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::protocol) struct Holes {
    text: usize,
    number: Option<usize>,
}

impl Holes {
    /// A member whose value is the text.
    pub(in crate::protocol) fn text(&mut self, key: &str, members: &mut ObjectWriter<'_>) {
        members.value(key, |out| {
            out.push('"');
            self.text = out.len();
            out.push('"');
        });
    }

    /// A member after the text, whose value is the number.
    pub(in crate::protocol) fn number(&mut self, key: &str, members: &mut ObjectWriter<'_>) {
        members.value(key, |out| self.number = Some(out.len()));
    }
}

impl<Key: PartialEq> Template<Key> {
    /// Nothing rendered yet.
    pub(in crate::protocol) fn new() -> Self {
        Self { key: None, frame: String::new(), holes: Holes::default() }
    }

    /// Appends the frame of `key` with its number and the text that `text` writes, escaped. `render` writes the frame with
    /// its holes, if it was not the last one.
    pub(in crate::protocol) fn write(
        &mut self,
        key: Key,
        number: u64,
        text: impl FnOnce(&mut String),
        render: impl FnOnce(&mut Holes, &mut String),
        out: &mut String,
    ) {
        if self.key.as_ref() != Some(&key) {
            self.key = Some(key);
            self.frame.clear();
            self.holes = Holes::default();
            render(&mut self.holes, &mut self.frame);
        }
        let (before, after) = self.frame.split_at(self.holes.text);
        out.push_str(before);
        text(out);
        let Some(place) = self.holes.number else { return out.push_str(after) };
        let (before, after) = after.split_at(place - self.holes.text);
        out.push_str(before);
        write_number(number, out);
        out.push_str(after);
    }
}
