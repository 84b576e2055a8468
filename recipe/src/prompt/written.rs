//! A prompt that was written: what is kept of it, and how it is put together for whoever asks.
//!
//! Ids spell what the prompt says, so that it need not be kept beside them. Cost: as the decoding of its ids.

use std::sync::OnceLock;

use super::{Draft, Prompt, SpecialSpan};
use crate::conversation::ImageSource;
use crate::special::Special;
use crate::tokenizer::{Piece, Tokenizer};

/// A prompt, or what it takes besides its ids to put it together.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    images: Vec<ImageSource<'static>>,
    specials: Vec<Special>,
    prompt: OnceLock<Prompt<'static>>,
}

impl Written {
    /// Of a prompt whose ids spell just what it says.
    pub(crate) fn by_ids(draft: Draft<'_>) -> Self {
        let specials = draft.specials().collect();
        Self { images: draft.into_images(), specials, prompt: OnceLock::new() }
    }

    /// Of a prompt whose ids may spell something else.
    pub(crate) fn whole(prompt: Prompt<'_>) -> Self {
        let prompt = prompt.into_owned();
        Self { images: prompt.images.clone(), specials: Vec::new(), prompt: OnceLock::from(prompt) }
    }

    /// The sources of its images.
    pub(crate) fn images(&self) -> &[ImageSource<'static>] {
        &self.images
    }

    /// The prompt with these ids.
    pub(crate) fn prompt(&self, ids: &[u32], tokenizer: &Tokenizer) -> &Prompt<'static> {
        self.prompt.get_or_init(|| self.put_together(ids, tokenizer))
    }

    fn put_together(&self, ids: &[u32], tokenizer: &Tokenizer) -> Prompt<'static> {
        let (mut text, mut spans) = (Vec::with_capacity(4 * ids.len()), Vec::with_capacity(self.specials.len()));
        let mut specials = self.specials.iter();
        for piece in ids.iter().filter_map(|id| tokenizer.piece(*id)) {
            match piece {
                Piece::Text(bytes) => text.extend_from_slice(bytes),
                Piece::Special(_, spelling) => {
                    let start = text.len();
                    text.extend_from_slice(spelling.as_bytes());
                    let span = |special: &Special| SpecialSpan { start, end: text.len(), special: *special };
                    spans.extend(specials.next().map(span));
                }
            }
        }
        // The ids are those of whole texts.
        let text = String::from_utf8(text).unwrap_or_default();
        Prompt { text, specials: spans, images: self.images.clone() }
    }
}

#[cfg(test)]
mod tests {
    use crate::codec::{Options, encode};
    use crate::json::parse;
    use crate::prompt::render;
    use crate::protocol::{Protocol, Stored};

    #[test]
    fn ids_give_the_prompt_that_was_written() {
        let long = "Ein längerer Text, 世界, <｜User｜> </think> ".repeat(5);
        for model in ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"] {
            let body = format!(
                r#"{{"model":"{model}","tools":[{{"type":"function","function":{{"name":"f","description":"{long}"}}}}],"messages":[
                {{"role":"system","content":"{long}"}},{{"role":"user","content":[{{"type":"text","text":"{long}"}},
                {{"type":"image_url","image_url":{{"url":"https://example.org/a.png"}}}},{{"type":"text","text":""}}]}},
                {{"role":"assistant","content":"<｜ref｜>{long}<｜/ref｜>","reasoning_content":"\u00e9\n{long}","tool_calls":
                [{{"id":"1","type":"function","function":{{"name":"f","arguments":"{{\"a\":\"{long}\",\"b\":1.50}}"}}}}]}},
                {{"role":"tool","tool_call_id":"1","content":"{long}"}},{{"role":"user","content":"{long}"}}]}}"#
            );
            let options = Options::default();
            let encoded = encode(body.as_bytes(), Protocol::ChatCompletions, &options).unwrap();
            let (value, stored) = (parse(body.as_bytes()).unwrap(), Stored::default());
            let prepared = Protocol::ChatCompletions.read(&value, &stored, &options.read).unwrap();
            let spellings = options.spellings(prepared.version);
            let prompt = render(&prepared.conversation, prepared.version, &spellings);
            assert_eq!(*encoded.prompt(), prompt, "{model}");
            assert_eq!(encoded.images(), prompt.images, "{model}");
        }
    }
}
