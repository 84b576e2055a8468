use proptest::prelude::*;

use super::super::edits::write_number;
use super::super::seal::HistoryKey;
use super::*;
use crate::codec::prompt_ids;
use crate::conversation::{AssistantMessage, Conversation, Message, ToolCall};
use crate::model::Version;
use crate::prompt::draft;
use crate::tokenizer::Piece;

/// What is most likely to be taken for something else: blanks, newlines, marks and what begins them, JSON, control tokens.
const POOL: [&str; 22] = [
    "\n",
    "\n\n",
    " ",
    "<",
    "</",
    ">",
    "\"",
    ",",
    "[",
    "]",
    "1",
    "0",
    ".",
    "a",
    "b",
    " string=\"true\"",
    "｜DSML｜",
    "</think>",
    "<｜User｜>",
    "<｜end▁of▁sentence｜>",
    "<｜ref｜>",
    "é",
];

fn turn<'a>(arguments: &'a str, content: &'a str) -> AssistantMessage<'a> {
    let call = |name: &'static str| ToolCall { id: None, name: name.into(), arguments: arguments.into() };
    AssistantMessage { content: content.into(), calls: vec![call("f"), call("g")], ..AssistantMessage::default() }
}

/// Control tokens of ids, and their texts between them.
fn split(ids: &[u32], format: Format<'_>) -> (Vec<Vec<u8>>, Vec<String>) {
    let (mut stretches, mut marks) = (vec![Vec::new()], Vec::new());
    for id in ids {
        match format.tokenizer.piece(*id).unwrap() {
            Piece::Text(bytes) => stretches.last_mut().unwrap().extend_from_slice(bytes),
            Piece::Special(_, spelling) => {
                marks.push(spelling.to_owned());
                stretches.push(Vec::new());
            }
        }
    }
    (stretches, marks)
}

proptest! {
    /// Even who has the key can only make records that say what the prompt says.
    #[test]
    fn whatever_is_sealed_says_the_same(
        version in prop::sample::select(Version::ALL.to_vec()),
        arguments in prop::sample::select(vec!["{}", r#"{"a": [1, 0]}"#, r#"{"a": "b\n", "b": 1.0}"#, "no JSON"]),
        content in prop::sample::select(vec!["", "a", "a\n", "a <", "\n\nb"]),
        edits in prop::collection::vec((0_usize..20, 0_usize..3, 0_usize..3, prop::sample::select(POOL.to_vec())), 1..4),
    ) {
        let (tokenizer, spellings) = (version.tokenizer(), version.spellings());
        let seal = HistoryKey::new(b"sixteen bytes!!!").unwrap().seal(version, &tokenizer);
        let format = Format { version, spellings: &spellings, tokenizer: &tokenizer };
        let conversation = |records| {
            let turn = AssistantMessage { records, ..turn(arguments, content) };
            Conversation { messages: vec![Message::Assistant(turn)], thinking: false, ..Conversation::default() }
        };
        let prompt = draft(&conversation(vec!["no record"]), version, &spellings).0.into_prompt(&spellings);
        let first = prompt.specials.iter().position(|span| span.special == Special::ThinkingEnd).unwrap();
        let last = prompt.specials.iter().position(|span| span.special == Special::Eos).unwrap();
        let printed = Printed::of(&prompt, prompt.specials[first].end, first + 1, last);
        let checks = printed.checks();
        let mut body = Vec::new();
        for (index, kept, replaced, text) in edits {
            let index = index % checks.len();
            let mut ids = Vec::new();
            tokenizer.encode_with_special(text, &mut ids);
            write_number(u32::try_from(index << 1 | 1).unwrap(), &mut body);
            body.extend_from_slice(&checks[index]);
            // One edit: how many ids stay, how many are replaced, and by which.
            let lengths = [1, kept, replaced, ids.len()].map(|length| u32::try_from(length).unwrap());
            lengths.into_iter().chain(ids).for_each(|number| write_number(number, &mut body));
        }
        let record = seal.close(&body).unwrap();
        let (draft, turns) = draft(&conversation(vec![&record]), version, &spellings);
        let prompt = draft.into_prompt(&spellings);
        let replay = Replay::new(&prompt, &turns, &seal, &spellings, &tokenizer);
        let ids = prompt_ids(&prompt, &replay, &spellings, &tokenizer).unwrap();
        let plain = prompt_ids(&prompt, &Replay::default(), &spellings, &tokenizer).unwrap();
        prop_assert_eq!(split(&ids, format).1, split(&plain, format).1, "control tokens");
        let [start, end] = ["</think>", "<｜end▁of▁sentence｜>"].map(|spelling| {
            ids.iter().position(|id| Some(*id) == tokenizer.special_id(spelling)).unwrap()
        });
        let (stretches, marks) = split(&ids[start + 1..end], format);
        let marks: Vec<&str> = marks.iter().map(String::as_str).collect();
        let said = format.print(Kind::Answer, &stretches, &marks, true);
        let restored = ids != plain;
        prop_assert!(!restored || Printed::whole(&said).difference(&printed).is_none(), "{said:?}");
    }
}
