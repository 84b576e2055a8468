//! What a stream of single tokens asks of the memory: nothing, once its buffers have grown.

#[path = "../examples/output_cost/measure.rs"]
mod measure;

use recipe::decoder::{Decoder, DecoderConfig};
use recipe::model::Version;
use recipe::output::{InitialStage, ParsingOptions};
use recipe::protocol::{AnswerConfig, Protocol};

#[global_allocator]
static ALLOCATOR: measure::Counting = measure::Counting;

const CALL: &str =
    "</think><｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" string=\"true\">";
const TEXT: &str = "A line of “text” with 中文 and \"quotes\".\n\n    let code = 1 < 2;\n";

/// One test, since all threads share the count.
#[test]
fn single_tokens_ask_for_no_memory() {
    let tokenizer = Version::V41.tokenizer();
    for protocol in Protocol::ALL {
        for start in ["", "</think>", CALL] {
            let mut ids = Vec::new();
            tokenizer.encode_with_special(start, &mut ids);
            let skipped = ids.len() + 512;
            tokenizer.encode_plain(&TEXT.repeat(400), &mut ids);
            let parsing = ParsingOptions {
                initial_stage: InitialStage::ReasoningStart,
                parse_tool_calls: true,
                ..ParsingOptions::default()
            };
            let answer = AnswerConfig::new(protocol, "id", "model");
            let config = DecoderConfig { parsing, answer, spellings: Version::V41.spellings() };
            let mut decoder = Decoder::new(config, Some(tokenizer.clone()));
            let mut frames = String::new();
            let (mut calls, mut sent) = (0, 0);
            for (place, id) in ids.iter().enumerate() {
                if place == skipped {
                    calls = measure::calls();
                }
                frames.clear();
                decoder.push_to([*id].into_iter(), None, 0, &mut frames).expect("ids of this tokenizer");
                sent += frames.len();
            }
            // The answer itself is kept, and grows by doubling.
            let calls = measure::calls() - calls;
            assert!(ids.len() > 8000 && sent > 100 * ids.len(), "{} ids, {sent} bytes", ids.len());
            assert!(calls < 20, "{protocol:?} after {start:?}: memory was asked for {calls} times");
        }
    }
}
