//! The model versions and everything that differs between them but the prompt's grammar: names, spellings, tokenizer data.

use std::sync::{Arc, OnceLock};

use crate::json::FloatStyle;
use crate::special::Spellings;
use crate::tokenizer::{IMAGE_ALIGNMENT, Tokenizer};

/// A version of the prompt format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// DeepSeek V4 (`DeepSeek-V4-Pro`).
    V4,
    /// DeepSeek V4.1 (`DeepSeek-V4.1-Flash`).
    V41,
}

/// Tables that must begin at a multiple of [`IMAGE_ALIGNMENT`].
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);
const _: () = assert!(align_of::<Aligned<[u8; 1]>>() == IMAGE_ALIGNMENT);

/// What `build.rs` made of `data/tokenizer_v4.json`.
static TOKENIZER_V4: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tokenizer_v4.tables")));

/// The added tokens in which the V4.1 vocabulary differs from V4's.
const ADDED_IN_V41: [(u32, &str); 2] = [(128_799, "<｜System｜>"), (129_264, "<｜deepseek_image｜>")];

/// Models known without any configuration.
pub const DEFAULT_MODELS: [(&str, Version); 2] =
    [("DeepSeek-V4-Pro", Version::V4), ("DeepSeek-V4.1-Flash", Version::V41)];

impl Version {
    /// All versions.
    pub const ALL: [Version; 2] = [Version::V4, Version::V41];

    /// The version's name in options and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Version::V4 => "v4",
            Version::V41 => "v4.1",
        }
    }

    /// The version called `name`.
    pub fn from_name(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }

    /// How the prompt spells floating point numbers.
    pub fn float_style(self) -> FloatStyle {
        match self {
            Version::V4 => FloatStyle::V4,
            Version::V41 => FloatStyle::V41,
        }
    }

    /// What stands between a namespace and the name of a tool in it.
    pub fn namespace_separator(self) -> &'static str {
        match self {
            Version::V4 => "__",
            Version::V41 => "::",
        }
    }

    /// Whether images keep their place in the prompt; V4 says that they are not supported.
    pub fn sees_images(self) -> bool {
        self == Version::V41
    }

    /// Whether tools may be deferred and shown later, and system messages stay where they were said.
    pub fn has_system_turns(self) -> bool {
        self == Version::V41
    }

    /// What the model was told of the `apply_patch` tool.
    pub fn apply_patch_description(self) -> &'static str {
        match self {
            Version::V4 => include_str!("../data/apply_patch_v4.txt"),
            Version::V41 => include_str!("../data/apply_patch_v41.txt"),
        }
    }

    /// Spellings of the control tokens.
    pub fn spellings(self) -> Spellings {
        let spellings = Spellings::default();
        match self {
            Version::V4 => spellings,
            Version::V41 => spellings.with(crate::special::Special::Image, ADDED_IN_V41[1].1),
        }
    }

    /// The version's tokenizer. All calls share the embedded tables.
    pub fn tokenizer(self) -> Arc<Tokenizer> {
        static V4: OnceLock<Arc<Tokenizer>> = OnceLock::new();
        static V41: OnceLock<Arc<Tokenizer>> = OnceLock::new();
        #[expect(clippy::expect_used, reason = "the embedded data is the same for every process, and tested")]
        let v4 = V4.get_or_init(|| Arc::new(Tokenizer::from_image(&TOKENIZER_V4.0).expect("embedded tokenizer")));
        #[expect(clippy::expect_used, reason = "the embedded data is the same for every process, and tested")]
        let tokenizer = match self {
            Version::V4 => v4,
            Version::V41 => {
                V41.get_or_init(|| Arc::new(v4.with_special_spellings(&ADDED_IN_V41).expect("embedded tokenizer")))
            }
        };
        Arc::clone(tokenizer)
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tokenizer({} ids)", self.vocabulary_size())
    }
}
