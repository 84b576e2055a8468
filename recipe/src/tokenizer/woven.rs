//! Text in pieces: a text, and others that are set into it. It is one text to whoever reads it; nothing is copied before
//! somebody needs it whole.

/// A text that is set into another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Insert<'text> {
    /// Bytes of the other before it, from the insert before it on.
    pub(crate) after: usize,
    /// The text.
    pub(crate) text: &'text str,
}

/// A text with inserts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Woven<'text> {
    own: &'text str,
    inserts: &'text [Insert<'text>],
}

impl<'text> From<&'text str> for Woven<'text> {
    fn from(own: &'text str) -> Self {
        Self { own, inserts: &[] }
    }
}

impl<'text> Woven<'text> {
    /// `own` with `inserts`, which are in order.
    pub(crate) fn new(own: &'text str, inserts: &'text [Insert<'text>]) -> Self {
        Self { own, inserts }
    }

    /// The text, if it is in one piece.
    pub(crate) fn plain(self) -> Option<&'text str> {
        match (self.own, self.inserts) {
            (own, []) => Some(own),
            ("", [only]) => Some(only.text),
            _ => None,
        }
    }

    /// Bytes of all pieces.
    pub(crate) fn len(self) -> usize {
        self.own.len() + self.inserts.iter().map(|insert| insert.text.len()).sum::<usize>()
    }

    /// The pieces in order, some of which may be empty.
    pub(crate) fn pieces(self) -> impl Iterator<Item = &'text str> {
        let mut rest = self.own;
        let around = self.inserts.iter().flat_map(move |insert| {
            let (before, after) = rest.split_at_checked(insert.after).unwrap_or((rest, ""));
            rest = after;
            [before, insert.text]
        });
        let inserted = self.inserts.iter().map(|insert| insert.after).sum();
        around.chain([self.own.get(inserted..).unwrap_or_default()])
    }
}
