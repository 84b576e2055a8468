//! Golden ids come from Hugging Face `tokenizers` 0.23.3 with the same file.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{IMAGE_ALIGNMENT, LoadError, Piece, RangeCache, Tokenizer, UnknownTokenId};

static V4: LazyLock<Tokenizer> =
    LazyLock::new(|| match Tokenizer::from_json(include_bytes!("../../data/tokenizer_v4.json")) {
        Ok(tokenizer) => tokenizer,
        Err(error) => panic!("{error}"),
    });

pub(super) fn plain(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode_plain(text, &mut ids);
    ids
}

fn special(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode_with_special(text, &mut ids);
    ids
}

#[test]
fn plain_text_gives_the_reference_ids() {
    let golden: [(&str, &[u32]); 8] = [
        ("Hello, world!", &[19923, 14, 2058, 3]),
        (
            "  if x == 10:\n\t\treturn 'it''s'\r\n\r\n",
            &[223, 855, 1527, 2606, 223, 553, 1137, 200, 5562, 905, 279, 10329, 85, 9, 204, 201, 204, 201],
        ),
        (
            "深度求索（DeepSeek）发布了 V4 模型。",
            &[17180, 1645, 4568, 1237, 53091, 4374, 1465, 1227, 53961, 721, 22, 223, 8842, 320],
        ),
        (
            "カタカナとひらがな・漢字123456",
            &[15961, 11767, 15961, 27071, 2495, 40259, 4970, 2936, 2942, 4825, 29069, 2024, 6895, 18009],
        ),
        ("e\u{301}cole \u{1680}\u{2003}x  7", &[71, 17793, 33933, 8751, 251, 225, 77469, 90, 262, 25]),
        (
            "🇩🇪👩\u{200d}👩\u{200d}👧\u{fe0f}!",
            &[43754, 105, 43754, 106, 25730, 105, 46088, 25730, 105, 46088, 25730, 103, 10759, 3],
        ),
        ("\0\u{1}a\u{e000}", &[191, 192, 67, 97817, 225]),
        ("<think>ok</think><｜User｜>", &[30, 37947, 32, 633, 1718, 37947, 5451, 28217, 6756, 28217, 32]),
    ];
    for (text, ids) in golden {
        assert_eq!(plain(&V4, text), ids, "{text:?}");
        assert_eq!(V4.decode(ids).as_deref(), Ok(text.as_bytes()));
    }
    assert!(plain(&V4, "").is_empty());
}

#[test]
fn added_tokens_are_found_leftmost_first() {
    let golden: [(&str, &[u32]); 3] = [
        ("<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜></think>", &[0, 128_803, 6366, 128_804, 128_822]),
        ("<<think>>x</thin", &[30, 128_821, 117_306, 1718, 117_072]),
        ("<｜｜DSML｜invoke><dsml:x", &[30, 28217, 128_825, 40148, 5406, 32, 128_840, 90]),
    ];
    for (text, ids) in golden {
        assert_eq!(special(&V4, text), ids, "{text:?}");
        assert_eq!(V4.decode(ids).as_deref(), Ok(text.as_bytes()));
    }
}

#[test]
fn pieces_tell_text_from_added_tokens() {
    assert_eq!(V4.piece(19923), Some(Piece::Text(b"Hello")));
    assert_eq!(V4.piece(0), Some(Piece::Special(0, "<｜begin▁of▁sentence｜>")));
    assert_eq!(V4.piece(128_803), Some(Piece::Special(128_803, "<｜User｜>")));
    assert_eq!(V4.piece(129_280), None);
    assert_eq!(V4.decode(&[3, 129_280, 4]), Err(UnknownTokenId(129_280)));
    assert_eq!(V4.vocabulary_size(), 129_280);
    assert_eq!(V4.added_tokens().count(), 1283);
    assert_eq!(V4.added_tokens().next(), Some((0, "<｜begin▁of▁sentence｜>")));
    assert_eq!(V4.special_id("</think>"), Some(128_822));
    assert_eq!(V4.special_id("</think"), None);
    assert_eq!(V4.special_id("</think>x"), None);
}

#[test]
fn every_id_below_the_vocabulary_size_has_a_piece() {
    assert!((0..129_280).all(|id| V4.piece(id).is_some()));
}

#[test]
fn spellings_can_be_changed() -> Result<(), LoadError> {
    let changed = V4.with_special_spellings(&[(128_799, "<｜System｜>"), (129_264, "<｜deepseek_image｜>")])?;
    assert_eq!(special(&changed, "<｜System｜>x<｜deepseek_image｜>"), [128_799, 90, 129_264]);
    assert_eq!(changed.special_id("<｜image2｜>"), None);
    assert_eq!(V4.special_id("<｜System｜>"), None);
    assert!(V4.with_special_spellings(&[(5, "<x>")]).is_err());
    assert!(V4.with_special_spellings(&[(128_799, "<think>")]).is_err());
    assert!(V4.with_special_spellings(&[(128_799, "")]).is_err());
    Ok(())
}

/// What the plain merger makes of a text.
fn pair_by_pair(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    V4.encode_pair_by_pair(text, &mut ids);
    ids
}

#[test]
fn all_entries_and_pairs_of_common_ones_give_what_merging_pair_by_pair_gives() {
    let spelled = |id: u32| V4.vocabulary.tokens.get(id).and_then(|bytes| std::str::from_utf8(bytes).ok());
    for (id, entry) in (0..128_000).filter_map(|id| Some((id, spelled(id)?))) {
        let ids = plain(&V4, entry);
        assert!(ids == [id] || ids == pair_by_pair(entry), "{entry:?}");
    }
    let mut pairs = String::new();
    for left in (300..20_000).step_by(197).filter_map(spelled) {
        for right in (300..20_000).step_by(211).filter_map(spelled) {
            pairs.extend([left, right, "1"]);
        }
    }
    assert!(plain(&V4, &pairs) == pair_by_pair(&pairs));
}

#[test]
fn huge_words_give_what_merging_pair_by_pair_gives() {
    let mut state = 1_u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
        (state >> 8) % below
    };
    let letters: String = (0..100_000).filter_map(|_| char::from_u32(97 + next(26))).collect();
    let both_cases: String = (0..30_000).filter_map(|_| char::from_u32(65 + next(26) + 32 * next(2))).collect();
    let han: String = (0..30_000).filter_map(|_| char::from_u32(0x4E00 + next(0x51A6))).collect();
    let hangul: String = (0..30_000).filter_map(|_| char::from_u32(0xAC00 + next(11_172))).collect();
    let signs: String = (0..30_000).filter_map(|_| "=-.*/_#".chars().nth(next(7) as usize)).collect();
    for text in [letters, both_cases, han, hangul, signs] {
        assert_eq!(plain(&V4, &text), pair_by_pair(&text), "{text:.40}");
    }
    for part in ["a", "ab", "=", "-=", "...-", " ", "\n", "\r\n", "é", "中", "的", "😀"] {
        for length in (65_usize..200).chain([4095, 4096, 100_000]) {
            let text = part.repeat(length.div_ceil(part.len()));
            assert_eq!(plain(&V4, &text), pair_by_pair(&text), "{length} of {part:?}");
        }
    }
}

/// A file with an entry for each byte, the given further entries and merges.
fn small(entries: &[&str], merges: Value) -> Value {
    let Ok(mut file) = serde_json::from_slice::<Value>(include_bytes!("../../data/tokenizer_v4.json")) else {
        return Value::Null;
    };
    let vocabulary = &file["model"]["vocab"];
    let characters = vocabulary.as_object().into_iter().flatten().map(|(spelling, _)| spelling.as_str());
    let bytes = characters.filter(|spelling| spelling.chars().count() == 1);
    let entries = bytes.chain(entries.iter().copied()).zip(0..);
    let vocabulary: Value = entries.map(|(spelling, id)| (spelling.to_owned(), json!(id))).collect();
    file["model"]["vocab"] = vocabulary;
    file["model"]["merges"] = merges;
    file["added_tokens"] = json!([]);
    file
}

fn load(file: &Value) -> Result<Tokenizer, LoadError> {
    Tokenizer::from_json(file.to_string().as_bytes())
}

#[test]
fn an_entry_out_of_reach_of_its_merges_is_not_found() -> Result<(), LoadError> {
    let mut file = small(&["ab", "bc", "abc"], json!(["b c", ["a", "b"], "ab c"]));
    let merged = load(&file)?;
    assert_eq!(plain(&merged, "abc"), [plain(&merged, "a"), plain(&merged, "bc")].concat());
    assert_eq!(plain(&merged, "bc").len(), 1);
    file["model"]["ignore_merges"] = json!(true);
    assert_eq!(plain(&load(&file)?, "abc"), [258]);
    Ok(())
}

#[test]
fn files_with_another_pipeline_are_refused() {
    let base = small(&["ab"], json!(["a b"]));
    assert!(load(&base).is_ok());
    let changes: [(&str, Value, &str); 13] = [
        ("/truncation", json!({"max_length": 5}), "truncation"),
        ("/padding", json!({}), "padding"),
        ("/normalizer", json!({"type": "NFC"}), "normalizer"),
        ("/pre_tokenizer", Value::Null, "pre_tokenizer"),
        ("/pre_tokenizer/pretokenizers/0/pattern/Regex", json!("\\p{N}"), "step 0"),
        ("/pre_tokenizer/pretokenizers/2/behavior", json!("Removed"), "step 2"),
        ("/pre_tokenizer/pretokenizers/3/use_regex", json!(true), "ByteLevel"),
        ("/decoder", Value::Null, "decoder"),
        ("/model/type", json!("Unigram"), "model.type"),
        ("/model/dropout", json!(0.1), "dropout"),
        ("/model/merges", json!(["a z"]), "merges[0]"),
        ("/added_tokens", json!([{"id": 300, "content": "<x>", "lstrip": true}]), "lstrip"),
        ("/added_tokens", json!([{"id": 300, "content": "ab"}]), "\"ab\""),
    ];
    for (path, value, named) in changes {
        let mut file = base.clone();
        if let Some(place) = file.pointer_mut(path) {
            *place = value;
        }
        let message = load(&file).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains(named), "{path}: {message:?}");
    }
    assert!(Tokenizer::from_json(b"").is_err());
    assert!(Tokenizer::from_json(b"[]").is_err());
    assert!(Tokenizer::from_json(b"{}").is_err());
}

#[test]
fn an_added_token_that_text_could_forge_is_refused() {
    let mut file = small(&["ab"], json!(["a b"]));
    file["added_tokens"] = json!([{"id": 256, "content": "ab"}]);
    assert!(load(&file).is_err());
}

proptest! {
    #[test]
    fn new_words_that_come_again_give_what_merging_pair_by_pair_gives(
        words in proptest::collection::vec("[a-z]{1,70}|[!-/]{1,9}|[á-ž]{4,40}", 1..9),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 1..3000),
    ) {
        let words: Vec<String> = words.iter().map(|word| format!(" {word}")).collect();
        let text: String = order.iter().map(|place| place.get(&words).as_str()).collect();
        prop_assert_eq!(plain(&V4, &text), pair_by_pair(&text));
    }

    #[test]
    fn decoding_gives_the_text_back(text in "\\PC*|[ -~\\s]*|[\\p{Han}\\p{Kana}0-9 ]*|(?s:.*)") {
        prop_assert_eq!(V4.decode(&plain(&V4, &text)), Ok(text.clone().into_bytes()));
        prop_assert_eq!(V4.decode(&special(&V4, &text)), Ok(text.into_bytes()));
    }

    #[test]
    fn long_words_give_what_merging_pair_by_pair_gives(text in "[a-z]{65,200}|[A-Za-z]{65,200}|\\PC{65,99}|[=*.#-]{65,300}|(a|the|ing){65,99}") {
        prop_assert_eq!(plain(&V4, &text), pair_by_pair(&text));
    }

    #[test]
    fn long_words_of_unlike_parts_give_what_merging_pair_by_pair_gives(
        parts in proptest::collection::vec(("[a-z]{1,300}|a|e|the|ing", 1_usize..200), 1..9),
        signs in proptest::collection::vec(("[=*.#-]{1,300}|=|-", 1_usize..200), 1..9),
    ) {
        for parts in [parts, signs] {
            let text: String = parts.iter().map(|(part, times)| part.repeat(times / part.len() + 1)).collect();
            prop_assert_eq!(plain(&V4, &text), pair_by_pair(&text));
        }
    }

    #[test]
    fn plain_text_never_becomes_an_added_token(parts in proptest::collection::vec(0_usize..1283, 1..8)) {
        let text: String = parts.iter().filter_map(|&at| V4.added_tokens().nth(at)).map(|added| added.1).collect();
        let ids = plain(&V4, &text);
        prop_assert!(ids.iter().all(|&id| matches!(V4.piece(id), Some(Piece::Text(_)))));
        prop_assert_eq!(special(&V4, &text).len(), parts.len());
    }
}

/// Text of many scripts, with and without safe borders, longer than several jobs.
fn long_text() -> String {
    let parts = [
        "fn main() {\n    let x = 10;\n}\n",
        "The quick brown fox, 12 of them. ",
        "深度求索發布了模型，カタカナ。",
        "x1",
        "\r\n\t \u{3000}",
        "ééé 👩\u{200d}👧 한국어",
        "==--==",
    ];
    let mut state = 7_usize;
    let mut text = String::new();
    while text.len() < 1_000_000 {
        state = state.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F) & 0xFFFF_FFFF;
        let repeats = if state.is_multiple_of(1009) { 9000 } else { 1 };
        text.push_str(&parts[(state >> 16) % parts.len()].repeat(repeats));
    }
    text
}

#[test]
fn threads_give_the_ids_of_one() {
    let text = long_text();
    let expected = plain(&V4, &text);
    for threads in [2, 3, 8] {
        assert!(plain(&V4.with_threads(threads), &text) == expected, "{threads} threads");
    }
    let unbroken = "a".repeat(300_000);
    assert_eq!(plain(&V4.with_threads(4), &unbroken), plain(&V4, &unbroken));
    // Ranges of all sizes, among them one that is longer than all others together.
    let mut special_text = String::new();
    for (number, (_, spelling)) in V4.added_tokens().enumerate() {
        let length = if number == 700 { 600_000 } else { number * 7 % 900 };
        special_text.extend([text.get(number..number + length).unwrap_or_default(), spelling]);
    }
    assert!(special(&V4.with_threads(3), &special_text) == special(&V4, &special_text));
}

#[test]
fn callers_share_threads() {
    let text = &long_text()[..200_000];
    let expected = plain(&V4, text);
    let tokenizer = V4.with_threads(3).with_cache(Arc::new(RangeCache::new(1 << 17)));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..3).for_each(|_| assert!(plain(&tokenizer, text) == expected)));
        }
    });
}

#[test]
fn a_cache_gives_the_ids_of_none() {
    let cached = V4.with_cache(Arc::new(RangeCache::new(1 << 20)));
    let text = long_text();
    for range in [0..1000, 0..1000, 500..1500, 0..200, 0..100_000, 0..100_000] {
        let Some(range) = text.get(range) else { continue };
        assert_eq!(plain(&cached, range), plain(&V4, range));
    }
    assert!(cached.cache().is_some_and(|cache| cache.statistics().hits == 2));
}

#[test]
fn the_embedded_image_is_what_the_file_gives() {
    let embedded = crate::model::Version::V4.tokenizer();
    assert!(embedded.to_image() == V4.to_image());
    assert!(embedded.added_tokens().eq(V4.added_tokens()));
}

#[test]
fn an_image_that_is_cut_or_not_aligned_is_refused() {
    /// The image, and a line to be moved by until it is aligned.
    static WORDS: LazyLock<Vec<u64>> = LazyLock::new(|| {
        let image = V4.to_image();
        let mut words = vec![0; (image.len() + IMAGE_ALIGNMENT) / size_of::<u64>()];
        let start = words.as_ptr().align_offset(IMAGE_ALIGNMENT);
        bytemuck::cast_slice_mut(&mut words[start..])[..image.len()].copy_from_slice(&image);
        words
    });
    let start = WORDS.as_ptr().align_offset(IMAGE_ALIGNMENT) * size_of::<u64>();
    let image = &bytemuck::cast_slice(&WORDS)[start..][..V4.to_image().len()];
    assert!(Tokenizer::from_image(image).is_ok());
    assert!(Tokenizer::from_image(&image[..image.len() - IMAGE_ALIGNMENT]).is_err());
    assert!(Tokenizer::from_image(&image[1..]).is_err());
    assert!(Tokenizer::from_image(&[]).is_err());
}
