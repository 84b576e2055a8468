//! Images in requests: where they may come from. The codec places them; nothing is fetched or decoded.

use std::borrow::Cow;

use crate::conversation::{Detail, ImageData, ImageSource, Part};
use crate::error::{Error, ErrorCode};
use crate::model::Version;
use crate::wire::{Path, wire_words};

wire_words! {
    /// How finely an image is to be looked at.
    pub(crate) enum DetailWord {
        /// Coarsely.
        Low = "low",
        /// Finely.
        High = "high",
        /// In its own size.
        Original = "original",
        /// As the model sees fit.
        Auto = "auto",
    }
}

impl From<Option<DetailWord>> for Detail {
    fn from(word: Option<DetailWord>) -> Self {
        match word {
            None | Some(DetailWord::High) => Detail::High,
            Some(DetailWord::Low) => Detail::Low,
            Some(DetailWord::Original) => Detail::Original,
            Some(DetailWord::Auto) => Detail::Auto,
        }
    }
}

/// What a version that sees no images reads in place of one.
const UNSUPPORTED: &str = "[Unsupported Image]";

/// Media types of images.
const MEDIA_TYPES: [&str; 5] = ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"];

/// A string of the request and where it stands.
#[derive(Clone, Copy)]
pub(in crate::protocol) struct Location<'p, 'v> {
    pub text: &'v str,
    pub path: &'p Path<'p>,
}

impl Location<'_, '_> {
    fn fault(&self, code: ErrorCode, values: &[(&str, &dyn std::fmt::Display)]) -> Error {
        Error::new(code, self.path.to_string(), values)
    }
}

/// The part that stands for an image, however it was given, on a version that sees none.
pub(in crate::protocol) fn unsupported(version: Version) -> Option<Part<'static>> {
    (!version.sees_images()).then_some(Part::Text(Cow::Borrowed(UNSUPPORTED)))
}

/// An image given as a URL: `http`, `https`, or `data` with base64 in it. `place` is the path its source is listed under.
pub(in crate::protocol) fn from_url<'v>(
    url: Location<'_, 'v>,
    detail: Detail,
    place: String,
    version: Version,
) -> Result<Part<'v>, Error> {
    if let Some(part) = unsupported(version) {
        return Ok(part);
    }
    let data = if has_scheme(url.text, "http://") || has_scheme(url.text, "https://") {
        ImageData::Url(Cow::Borrowed(url.text))
    } else {
        from_data_url(url)?
    };
    Ok(Part::Image(ImageSource { data, detail, path: place }))
}

/// An image given as a URL that must be `http` or `https`.
pub(in crate::protocol) fn from_web_url<'v>(
    url: Location<'_, 'v>,
    place: String,
    version: Version,
) -> Result<Part<'v>, Error> {
    if let Some(part) = unsupported(version) {
        return Ok(part);
    }
    if !has_scheme(url.text, "http://") && !has_scheme(url.text, "https://") {
        return Err(url.fault(ErrorCode::UnsupportedUrl, &[]));
    }
    Ok(Part::Image(ImageSource { data: ImageData::Url(Cow::Borrowed(url.text)), detail: Detail::High, path: place }))
}

/// An image given as bare base64, exactly written, with its media type beside it.
pub(in crate::protocol) fn from_base64<'v>(
    data: Location<'_, 'v>,
    media_type: &'static str,
    place: String,
    version: Version,
) -> Result<Part<'v>, Error> {
    if let Some(part) = unsupported(version) {
        return Ok(part);
    }
    if !is_base64(data.text, Padding::Required) {
        return Err(data.fault(ErrorCode::InvalidBase64, &[]));
    }
    let data = ImageData::Base64 { media_type: Cow::Borrowed(media_type), data: Cow::Borrowed(data.text) };
    Ok(Part::Image(ImageSource { data, detail: Detail::High, path: place }))
}

/// The error for an image given by the id of a file at `path`.
pub(in crate::protocol) fn file_id_fault(path: &Path<'_>) -> Error {
    let found = "a file id (send the image itself in base64 instead)";
    Error::new(ErrorCode::Unsupported, Path::Key(path, "file_id").to_string(), &[("found", &found)])
}

/// An image given as a file, which must be inline.
pub(in crate::protocol) struct File<'p, 'v> {
    pub id: Option<&'v str>,
    pub data: Option<Location<'p, 'v>>,
}

/// An image given as a file at `path`.
pub(in crate::protocol) fn from_file<'v>(
    file: &File<'_, 'v>,
    path: &Path<'_>,
    place: String,
    version: Version,
) -> Result<Part<'v>, Error> {
    if let Some(part) = unsupported(version) {
        return Ok(part);
    }
    match (file.id, file.data) {
        (None, Some(data)) => {
            Ok(Part::Image(ImageSource { data: from_data_url(data)?, detail: Detail::High, path: place }))
        }
        (Some(_), None) => Err(file_id_fault(path)),
        _ => Err(Error::new(ErrorCode::ExactlyOne, path.to_string(), &[("expected", &"file_id, file_data")])),
    }
}

fn has_scheme(url: &str, scheme: &str) -> bool {
    url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// `data:[media type][;parameter…];base64,DATA`
fn from_data_url<'v>(url: Location<'_, 'v>) -> Result<ImageData<'v>, Error> {
    let unsupported = || url.fault(ErrorCode::UnsupportedImageUrl, &[]);
    if !has_scheme(url.text, "data:") {
        return Err(unsupported());
    }
    let (head, data) = url.text["data:".len()..].split_once(',').ok_or_else(unsupported)?;
    let mut words = head.split(';');
    let media_type = words.next().unwrap_or_default();
    if !words.any(|word| word.eq_ignore_ascii_case("base64")) {
        return Err(unsupported());
    }
    if !MEDIA_TYPES.iter().any(|known| known.eq_ignore_ascii_case(media_type)) {
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("expected", &MEDIA_TYPES.join(", ")), ("found", &media_type)];
        return Err(url.fault(ErrorCode::UnsupportedImageType, &values));
    }
    if !is_base64(data, Padding::Optional) {
        return Err(url.fault(ErrorCode::InvalidBase64, &[]));
    }
    Ok(ImageData::Base64 { media_type: Cow::Borrowed(media_type), data: Cow::Borrowed(data) })
}

/// How exactly base64 text must be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    /// Padding may be left out, white space is skipped.
    Optional,
    /// Padded, and nothing but the alphabet.
    Required,
}

/// Whether `text` is base64 in the standard alphabet. Nothing is decoded.
fn is_base64(text: &str, padding: Padding) -> bool {
    let skips = |byte: &u8| padding == Padding::Optional && byte.is_ascii_whitespace();
    let end = text.bytes().rposition(|byte| byte != b'=' && !skips(&byte)).map_or(0, |last| last + 1);
    let (body, padding_text) = text.as_bytes().split_at(end);
    let pads = padding_text.iter().map(|&byte| usize::from(byte == b'=')).sum::<usize>();
    let mut digits = 0;
    let mut last = 0;
    for &byte in body.iter().filter(|byte| !skips(byte)) {
        let Some(value) = digit(byte) else { return false };
        (digits, last) = (digits + 1, value);
    }
    // The bits that the last digit has to spare must be zero: there is one spelling for each text.
    let (wanted, spare) = match digits % 4 {
        0 => (0, 0),
        2 => (2, 0b1111),
        3 => (1, 0b11),
        _ => return false,
    };
    let padded = pads == wanted || (pads == 0 && padding == Padding::Optional);
    padded && last & spare == 0
}

fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}
