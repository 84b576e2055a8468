//! A prompt before it is put together: what its format says, and between it the texts of the request where they lie.
//!
//! Owns the order of its pieces. Texts of a request are most of a prompt: ids are found without copying them, and nobody
//! else needs them whole as a rule.

use super::{Prompt, SpecialSpan};
use crate::conversation::ImageSource;
use crate::special::{Special, Spellings};
use crate::tokenizer::{Insert, Woven};

/// Shorter texts are copied about as fast as they are noted.
const SHORTEST: usize = 64;

/// A prompt in pieces.
#[derive(Debug, Default)]
pub(crate) struct Draft<'a> {
    /// All that is not borrowed, control tokens left out.
    own: String,
    inserts: Vec<Insert<'a>>,
    marks: Vec<Mark>,
    /// Bytes of the prompt so far, and of `own` up to the last insert or mark.
    length: usize,
    noted: usize,
    pub(super) images: Vec<ImageSource<'a>>,
}

/// A control token, and how much of the draft is before it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    own: usize,
    inserts: usize,
    special: Special,
}

impl<'a> Draft<'a> {
    /// Bytes of the prompt so far.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Number of control tokens so far.
    pub(super) fn marks(&self) -> usize {
        self.marks.len()
    }

    /// The control tokens.
    pub(crate) fn specials(&self) -> impl ExactSizeIterator<Item = Special> {
        self.marks.iter().map(|mark| mark.special)
    }

    pub(super) fn reserve(&mut self, bytes: usize) {
        self.own.reserve(bytes);
    }

    /// Appends text that is copied.
    pub(super) fn push(&mut self, text: &str) {
        self.own.push_str(text);
        self.length += text.len();
    }

    /// Appends what `write` appends; it may ask how many bytes of the prompt are before the string that it is given.
    pub(super) fn push_with(&mut self, write: impl FnOnce(usize, &mut String)) {
        let before = self.own.len();
        write(self.length - before, &mut self.own);
        self.length += self.own.len() - before;
    }

    /// Appends text that stays where it is.
    pub(super) fn borrow(&mut self, text: &'a str) {
        if text.len() < SHORTEST {
            return self.push(text);
        }
        let after = self.own.len() - std::mem::replace(&mut self.noted, self.own.len());
        self.inserts.push(Insert { after, text });
        self.length += text.len();
    }

    /// Appends a control token.
    pub(super) fn mark(&mut self, special: Special, spellings: &Spellings) {
        self.noted = self.own.len();
        self.marks.push(Mark { own: self.noted, inserts: self.inserts.len(), special });
        self.length += spellings.of(special).len();
    }

    /// The texts between the control tokens, each with the one behind it, if there is one.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (Woven<'_>, Option<Special>)> + Clone {
        let end = (self.own.len(), self.inserts.len(), None);
        let marks = self.marks.iter().map(|mark| (mark.own, mark.inserts, Some(mark.special)));
        let (mut own, mut inserts) = (0, 0);
        marks.chain([end]).map(move |(own_end, inserts_end, special)| {
            let text = Woven::new(&self.own[own..own_end], &self.inserts[inserts..inserts_end]);
            (own, inserts) = (own_end, inserts_end);
            (text, special)
        })
    }

    /// The sources of the images.
    pub(crate) fn into_images(self) -> Vec<ImageSource<'static>> {
        self.images.into_iter().map(ImageSource::into_owned).collect()
    }

    /// The prompt, put together.
    pub(crate) fn into_prompt(self, spellings: &Spellings) -> Prompt<'a> {
        let mut text = String::with_capacity(self.length);
        let mut specials = Vec::with_capacity(self.marks.len());
        for (before, special) in self.stretches() {
            before.pieces().for_each(|piece| text.push_str(piece));
            if let Some(special) = special {
                let start = text.len();
                text.push_str(spellings.of(special));
                specials.push(SpecialSpan { start, end: text.len(), special });
            }
        }
        Prompt { text, specials, images: self.images }
    }
}
