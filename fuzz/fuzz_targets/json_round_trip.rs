//! Law: reading never panics, and what was read, printed and read again is the same value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use recipe::json::{FloatStyle, parse, write_compact, write_python};

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = parse(bytes) else { return };
    let mut text = String::new();
    write_compact(&value, &mut text);
    let again = parse(text.as_bytes()).expect("what write_compact printed is JSON");
    assert_eq!(value, again);
    write_python(&value, FloatStyle::V41, &mut String::new());
});
