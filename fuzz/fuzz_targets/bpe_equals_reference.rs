//! Law: the ids of a text are those of merging it pair by pair, with threads and without, known words or new.

#![no_main]

use libfuzzer_sys::fuzz_target;
use recipe::model::Version;

fuzz_target!(|input: (&str, u16, &str)| {
    let (text, repeats, other) = input;
    let tokenizer = Version::V4.tokenizer();
    // Repeated, short inputs become long words.
    let text = format!("{}{other}", text.repeat(usize::from(repeats) % 64 + 1));
    let (mut expected, mut ids, mut again) = (Vec::new(), Vec::new(), Vec::new());
    tokenizer.encode_pair_by_pair(&text, &mut expected);
    tokenizer.encode_plain(&text, &mut ids);
    assert_eq!(ids, expected, "{text:?}");
    tokenizer.with_threads(2).encode_plain(&text, &mut again);
    assert_eq!(again, expected, "{text:?}");
    assert_eq!(tokenizer.decode(&ids).as_deref(), Ok(text.as_bytes()));
});
