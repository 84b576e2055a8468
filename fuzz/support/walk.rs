//! A walk through a grammar: an engine that lets through what the grammar does, and a model that the fuzzer plays.

use std::sync::{Arc, OnceLock};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use recipe::model::Version;
use recipe::tokenizer::Piece;

/// The end of a turn.
pub const EOS: u32 = 1;
/// The mark in tool markup.
pub const DSML: u32 = 128_825;
/// Longest walk, in tokens.
const LONGEST: usize = 3000;
/// Walks through one grammar: to compile it costs as much as several.
const WALKS: usize = 12;

/// Ordinary tokens beside those of a single byte: enough to have marks and words within tokens.
const WORDS: &str = "</ < > \" \", \": {\" \"}  \n\n <\n =\" true false null string name parameter invoke calls>\n 12 0. e+ é 你好 \\n \\\" \\u \
    <div></div> </div```json // a b city [] [{ ]} }} , ";

/// An engine for a few of the model's tokens, so that a step is fast: it knows them by their places in `ids`.
struct Engine {
    factory: ParserFactory,
    ids: Vec<u32>,
    /// Places of tokens that lead out of texts and values.
    closers: Vec<u32>,
}

impl Engine {
    fn shared() -> &'static Engine {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        ENGINE.get_or_init(Engine::new)
    }

    fn new() -> Self {
        let tokenizer = Version::V4.tokenizer();
        let mut ids = vec![EOS, DSML];
        for word in WORDS.split(' ') {
            tokenizer.encode_plain(word, &mut ids);
            tokenizer.encode_plain(&format!(" {word}"), &mut ids);
        }
        let size = u32::try_from(tokenizer.vocabulary_size()).expect("few ids");
        let is_byte = |id: &u32| matches!(tokenizer.piece(*id), Some(Piece::Text(bytes)) if bytes.len() == 1);
        ids.extend((0..size).filter(is_byte));
        ids.sort_unstable();
        ids.dedup();
        let word = |&id: &u32| match tokenizer.piece(id) {
            Some(Piece::Text(bytes)) => bytes.to_vec(),
            Some(Piece::Special(_, spelling)) => [&[0xFF], spelling.as_bytes()].concat(),
            None => Vec::new(),
        };
        let words: Vec<Vec<u8>> = ids.iter().map(word).collect();
        let place = |id| u32::try_from(ids.binary_search(&id).expect("a token of the engine")).expect("few ids");
        let info = TokRxInfo::new(u32::try_from(ids.len()).expect("few ids"), place(EOS));
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words)));
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &[]).expect("a factory");
        factory.quiet();
        let mut closers = Vec::new();
        for word in ["</", "<", "/", "\"", "}", "]", ",", "0", "[", "{", ":", "-"] {
            tokenizer.encode_plain(word, &mut closers);
        }
        let closers = closers.into_iter().map(place).collect();
        Self { factory, ids, closers }
    }

    fn place(&self, id: u32) -> u32 {
        u32::try_from(self.ids.binary_search(&id).expect("a token of the engine")).expect("few ids")
    }
}

/// Answers that `grammar` accepts, as ids less the end of the turn, from several walks: one for each part of `choices`.
pub fn walks(grammar: &str, choices: &[u8]) -> Vec<Vec<u32>> {
    let engine = Engine::shared();
    let placed = grammar.replace(&format!("<[{DSML}]>"), &format!("<[{}]>", engine.place(DSML)));
    let matcher = Matcher::new(engine.factory.create_parser(TopLevelGrammar::from_lark(placed)));
    assert!(!matcher.is_error(), "{:?}\n{grammar}", matcher.get_error());
    let parts = choices.chunks(choices.len().div_ceil(WALKS).max(1)).chain([&[][..]]);
    parts.filter_map(|part| engine.walk(matcher.deep_clone(), grammar, part)).collect()
}

impl Engine {
    /// One walk; `None` if it did not come to an end. `choices` are the model's: where they end, it hurries to the end of the
    /// answer.
    fn walk(&self, mut matcher: Matcher, grammar: &str, choices: &[u8]) -> Option<Vec<u32>> {
        let (end, mark) = (self.place(EOS), self.place(DSML));
        let mut ids = Vec::new();
        let mut choices = choices.iter().copied();
        while ids.len() < LONGEST {
            let mask = matcher.compute_mask_or_eos().unwrap_or_else(|error| panic!("{error}\n{grammar}"));
            let allowed = mask.to_list();
            assert!(!allowed.is_empty(), "nothing may follow {:?}\n{grammar}", text(&ids));
            let place = choose(&allowed, [end, mark], &self.closers, &mut choices);
            if place == end {
                return Some(ids);
            }
            matcher.consume_token(place).unwrap_or_else(|error| panic!("{error}\n{grammar}"));
            ids.push(self.ids[place as usize]);
        }
        None
    }
}

/// Half of the choices go on with the markup if that is possible, as a model does.
fn choose(allowed: &[u32], marks: [u32; 2], closers: &[u32], choices: &mut impl Iterator<Item = u8>) -> u32 {
    let is_allowed = |place: &u32| allowed.binary_search(place).is_ok();
    let choice = choices.next();
    if choice.is_none_or(|choice| choice < 128) {
        if let Some(place) = marks.into_iter().find(is_allowed) {
            return place;
        }
        let from = choice.map_or(0, |choice| usize::from(choice) % closers.len());
        if let Some(place) = closers.iter().cycle().skip(from).take(closers.len()).copied().find(is_allowed) {
            return place;
        }
    }
    let (high, low) = (choice.unwrap_or_default(), choices.next().unwrap_or_default());
    allowed[(usize::from(high) << 8 | usize::from(low)) % allowed.len()]
}

/// The ids as text, for messages.
pub fn text(ids: &[u32]) -> String {
    String::from_utf8_lossy(&Version::V4.tokenizer().decode(ids).expect("ids of the vocabulary")).into_owned()
}
