//! Law: no request body makes the codec panic, in any protocol; what it accepts, it turns into ids of the vocabulary.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use recipe::codec::{Options, encode};
use recipe::protocol::Protocol;

static OPTIONS: LazyLock<Options> = LazyLock::new(Options::default);

fuzz_target!(|body: &[u8]| {
    for protocol in Protocol::ALL {
        match encode(body, protocol, &OPTIONS) {
            Ok(encoded) => {
                let tokenizer = OPTIONS.tokenizer(encoded.version);
                assert!(tokenizer.decode(&encoded.token_ids).is_ok(), "an id that the vocabulary does not have");
            }
            Err(error) => assert!((400..500).contains(&error.status()), "{}: {error}", error.status()),
        }
    }
});
