//! Authentication and spelling of records.
//!
//! Owns the key. A record is `th2.` and base64url, without padding, of the body and its tag: the first 16 bytes of
//! HMAC-SHA-256 under a key derived for the model. Whatever is not exactly what was sealed opens as nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::model::Version;
use crate::tokenizer::Tokenizer;

/// How a record begins. The digit is the version of its form; it is part of what the derived key depends on.
const PREFIX: &str = "th2.";
/// Longest record that is read or made, in bytes of its text.
pub(super) const LONGEST: usize = 1 << 20;
const TAG: usize = 16;
const CONTEXT: &[u8] = b"deepseek-recipe token history ";

/// Whether a text claims to be a record, of whatever form.
pub fn is_record(text: &str) -> bool {
    let form = text.strip_prefix("th").and_then(|rest| rest.split_once('.'));
    form.is_some_and(|(digits, _)| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The caller's secret, which all processes that serve the same clients share.
#[derive(Clone, PartialEq, Eq)]
pub struct HistoryKey(Vec<u8>);

impl HistoryKey {
    /// Fewest bytes of a secret.
    pub const SHORTEST: usize = 16;

    /// A key from a secret of at least [`HistoryKey::SHORTEST`] bytes; `None` for a shorter one.
    pub fn new(secret: &[u8]) -> Option<Self> {
        (secret.len() >= Self::SHORTEST).then(|| Self(secret.to_vec()))
    }

    /// What seals and opens the records of a model: those of another version or vocabulary are foreign to it.
    pub fn seal(&self, version: Version, tokenizer: &Tokenizer) -> Seal {
        let size = tokenizer.vocabulary_size() as u64;
        let parts = [CONTEXT, PREFIX.as_bytes(), version.name().as_bytes(), b" ", &size.to_le_bytes()];
        let mut key = [0; 32];
        key.copy_from_slice(&mac(&self.0, &parts).finalize().into_bytes());
        Seal { key, version }
    }
}

impl std::fmt::Debug for HistoryKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HistoryKey(secret)")
    }
}

/// Seals and opens the records of one model.
#[derive(Clone, PartialEq, Eq)]
pub struct Seal {
    key: [u8; 32],
    version: Version,
}

impl Seal {
    /// The version of the model.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The record with this body; `None` if it would be too long to be read again.
    pub(super) fn close(&self, body: &[u8]) -> Option<String> {
        let tag = mac(&self.key, &[body]).finalize().into_bytes();
        let mut text = String::from(PREFIX);
        URL_SAFE_NO_PAD.encode_string([body, &tag[..TAG]].concat(), &mut text);
        (text.len() <= LONGEST).then_some(text)
    }

    /// The body of a record, if it was sealed here.
    pub(super) fn open(&self, record: &str) -> Option<Vec<u8>> {
        if record.len() > LONGEST {
            return None;
        }
        let mut body = URL_SAFE_NO_PAD.decode(record.strip_prefix(PREFIX)?).ok()?;
        let tag = body.split_off(body.len().checked_sub(TAG)?);
        mac(&self.key, &[&body]).verify_truncated_left(&tag).ok()?;
        Some(body)
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Seal(secret)")
    }
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        HistoryKey::new(b"sixteen bytes!!!").unwrap().seal(Version::V41, &Version::V41.tokenizer())
    }

    #[test]
    fn only_what_was_sealed_opens() {
        let record = seal().close(b"body").unwrap();
        assert!(
            is_record(&record) && is_record("th2.") && !is_record("th.") && !is_record("tha1.x") && !is_record("a-1")
        );
        assert_eq!(seal().open(&record).as_deref(), Some(&b"body"[..]));
        for place in 0..record.len() {
            for byte in 0..128 {
                let mut other = record.clone().into_bytes();
                if other[place] == byte {
                    continue;
                }
                other[place] = byte;
                assert_eq!(seal().open(std::str::from_utf8(&other).unwrap()), None, "byte {place} as {byte}");
            }
            assert_eq!(seal().open(&record[..place]), None, "cut at {place}");
        }
        assert_eq!(seal().open(&format!("{record}A")), None);
        assert_eq!(seal().open(&format!("{record}=")), None);
    }

    #[test]
    fn records_of_another_key_or_version_are_foreign() {
        let key = HistoryKey::new(b"sixteen bytes!!!").unwrap();
        let record = seal().close(b"body").unwrap();
        assert_eq!(key.seal(Version::V4, &Version::V4.tokenizer()).open(&record), None);
        let other = HistoryKey::new(b"sixteen bytes!!?").unwrap();
        assert_eq!(other.seal(Version::V41, &Version::V41.tokenizer()).open(&record), None);
    }

    #[test]
    fn secrets_are_long_and_never_shown() {
        assert_eq!(HistoryKey::new(b"fifteen bytes!!"), None);
        let shown = format!("{:?} {:?}", HistoryKey::new(b"sixteen bytes!!!"), seal());
        assert_eq!(shown, "Some(HistoryKey(secret)) Seal(secret)");
    }

    #[test]
    fn long_records_are_neither_made_nor_read() {
        assert_eq!(seal().close(&vec![0; LONGEST]), None);
        let longest = seal().close(&vec![0; LONGEST / 4 * 3 - TAG - 3]).unwrap();
        assert!(seal().open(&longest).is_some());
        assert_eq!(seal().open(&"th2.".repeat(LONGEST / 4 + 1)), None);
    }
}
