//! Log probability entries, as both OpenAI protocols print them.
//!
//! Must not choose entries: that is the parser's work. Costs one vocabulary look-up per printed token.

use std::fmt::Write as _;
use std::sync::Arc;

use super::json_object::{ObjectWriter, write_array, write_object};
use crate::event::TokenLogprob;
use crate::tokenizer::{Piece, Tokenizer};

/// Printed where a probability is too small to be known, as the models' own service does.
const UNKNOWN: f64 = -9999.0;

/// Prints entries with the texts of their tokens.
#[derive(Debug, Clone)]
pub(in crate::protocol) struct LogprobPrinter(Option<Arc<Tokenizer>>);

impl LogprobPrinter {
    /// A printer that knows the tokens of `tokenizer`.
    pub(in crate::protocol) fn new(tokenizer: Option<Arc<Tokenizer>>) -> Self {
        Self(tokenizer)
    }

    /// Appends an array of entries.
    pub(in crate::protocol) fn write<'a>(&self, entries: impl IntoIterator<Item = &'a TokenLogprob>, out: &mut String) {
        write_array(out, entries, |entry, out| {
            write_object(out, |object| {
                self.write_token(entry.id, entry.logprob, object);
                object.array("top_logprobs", &entry.top, |&(id, logprob), out| {
                    write_object(out, |object| self.write_token(id, logprob, object));
                });
            });
        });
    }

    /// Bytes of a token; none where they cannot be known.
    fn bytes(&self, id: u32) -> &[u8] {
        match self.0.as_deref().and_then(|tokenizer| tokenizer.piece(id)) {
            Some(Piece::Text(bytes)) => bytes,
            Some(Piece::Special(_, spelling)) => spelling.as_bytes(),
            None => &[],
        }
    }

    fn write_token(&self, id: u32, logprob: f64, object: &mut ObjectWriter<'_>) {
        let bytes = self.bytes(id);
        match std::str::from_utf8(bytes) {
            Ok(text) => object.string("token", text),
            Err(_) => object.string("token", &escaped_bytes(bytes)),
        }
        object.value("logprob", |out| {
            let logprob = if logprob >= UNKNOWN { logprob } else { UNKNOWN };
            let _ = write!(out, "{logprob:?}");
        });
        object.array("bytes", bytes, |byte, out| {
            let _ = write!(out, "{byte}");
        });
    }
}

/// Bytes that are no text on their own: `\x` and two digits for each.
fn escaped_bytes(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 4), |mut text, byte| {
        let _ = write!(text, "\\x{byte:02x}");
        text
    })
}
