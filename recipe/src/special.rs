//! The control tokens of the DeepSeek formats, by meaning. Spellings and ids are data of a model version.

use std::borrow::Cow;

macro_rules! special_tokens {
    ($($(#[$doc:meta])* $name:ident, $key:literal, $spelling:literal;)*) => {
        /// A control token. Only a prompt format may write one; text never becomes one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Special { $($(#[$doc])* $name,)* }

        impl Special {
            /// All of them.
            pub const ALL: &'static [Special] = &[$(Special::$name,)*];

            /// Name of the token in options (`image`, `thinking_end`, …).
            pub fn key(self) -> &'static str {
                match self { $(Special::$name => $key,)* }
            }

            fn default_spelling(self) -> &'static str {
                match self { $(Special::$name => $spelling,)* }
            }
        }
    };
}

special_tokens! {
    /// Start of the prompt.
    Bos, "bos", "<｜begin▁of▁sentence｜>";
    /// End of a turn of the model.
    Eos, "eos", "<｜end▁of▁sentence｜>";
    /// Opens a user turn.
    User, "user", "<｜User｜>";
    /// Opens a turn of the model.
    Assistant, "assistant", "<｜Assistant｜>";
    /// Opens a system message (V4.1).
    System, "system", "<｜System｜>";
    /// Opens the latest reminder.
    LatestReminder, "latest_reminder", "<｜latest_reminder｜>";
    /// Opens reasoning.
    ThinkingStart, "thinking_start", "<think>";
    /// Closes reasoning.
    ThinkingEnd, "thinking_end", "</think>";
    /// The mark inside tool markup.
    Dsml, "dsml", "｜DSML｜";
    /// Place of an image.
    Image, "image", "<｜image｜>";
    /// Grounding: opens a reference.
    Ref, "ref", "<｜ref｜>";
    /// Grounding: closes a reference.
    RefEnd, "ref_end", "<｜/ref｜>";
    /// Grounding: opens a box.
    Box, "box", "<｜box｜>";
    /// Grounding: closes a box.
    BoxEnd, "box_end", "<｜/box｜>";
    /// Grounding: opens a point.
    Point, "point", "<｜point｜>";
    /// Grounding: closes a point.
    PointEnd, "point_end", "<｜/point｜>";
    /// Grounding: opens a polygon.
    Polygon, "polygon", "<｜polygon｜>";
    /// Grounding: closes a polygon.
    PolygonEnd, "polygon_end", "<｜/polygon｜>";
}

impl Special {
    /// The grounding marks, which assistant text may contain.
    pub const GROUNDING: [Special; 8] = [
        Special::Ref,
        Special::RefEnd,
        Special::Box,
        Special::BoxEnd,
        Special::Point,
        Special::PointEnd,
        Special::Polygon,
        Special::PolygonEnd,
    ];

    /// The token with this option name.
    pub fn from_key(key: &str) -> Option<Special> {
        Special::ALL.iter().copied().find(|special| special.key() == key)
    }
}

/// How each control token is spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spellings([Cow<'static, str>; Special::ALL.len()]);

impl Spellings {
    /// The spelling of one token.
    pub fn of(&self, special: Special) -> &str {
        &self.0[special as usize]
    }

    /// Replaces the spelling of one token.
    #[must_use]
    pub fn with(mut self, special: Special, spelling: impl Into<Cow<'static, str>>) -> Self {
        self.0[special as usize] = spelling.into();
        self
    }
}

impl Default for Spellings {
    fn default() -> Self {
        Self(std::array::from_fn(|place| Cow::Borrowed(Special::ALL[place].default_spelling())))
    }
}
