//! Makes the tables of the embedded tokenizer, so that no process has to.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a build that cannot embed its tokenizer is to stop"
)]
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the modules are those of the crate, of which this needs a part"
)]

#[path = "src/error.rs"]
mod error;
#[path = "src/fork.rs"]
mod fork;
#[path = "src/json/mod.rs"]
mod json;
#[path = "src/tokenizer/mod.rs"]
mod tokenizer;

const SOURCE: &str = "data/tokenizer_v4.json";

fn main() {
    for source in [SOURCE, "src/error.rs", "src/fork.rs", "src/json", "src/tokenizer", "build.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    let file = std::fs::read(SOURCE).expect("the tokenizer's file");
    let tokenizer = tokenizer::Tokenizer::from_json(&file).expect("a tokenizer that can be read");
    let folder = std::env::var_os("OUT_DIR").expect("the build's own folder");
    std::fs::write(std::path::Path::new(&folder).join("tokenizer_v4.tables"), tokenizer.to_image()).expect("an image");
}
