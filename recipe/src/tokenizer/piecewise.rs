//! A long text that comes piece by piece, for callers who hold it in another form than UTF-8: it need never be whole.
//!
//! Owns: how pieces become jobs. Must not know: how they are made, who does the jobs.
//! Cost: a copy of each piece, and for each job a search for a safe border in a piece.

use super::borders::last_border;
use super::line::{self, Line};
use super::parallel::{ENOUGH, JOB};
use super::{Stretch, Tokenizer, stretches};

impl Tokenizer {
    /// Appends the ids that [`Self::encode_plain`] appends for the text that `give` gives, piece by piece. It is called
    /// again and again on this thread, gives the next pieces each time, and says whether there are more; meanwhile helpers
    /// encode those before. Its first error ends all and leaves some of the ids.
    pub fn encode_pieces<E>(
        &self,
        give: impl FnMut(&mut dyn FnMut(&str)) -> Result<bool, E>,
        out: &mut Vec<u32>,
    ) -> Result<(), E> {
        self.encode_jobs(if self.threads > 1 { JOB } else { ENOUGH }, give, out)
    }

    /// The same in jobs of about `size` bytes.
    fn encode_jobs<E>(
        &self,
        size: usize,
        mut give: impl FnMut(&mut dyn FnMut(&str)) -> Result<bool, E>,
        out: &mut Vec<u32>,
    ) -> Result<(), E> {
        // What was given behind the last border.
        let mut rest = String::new();
        let let_in = |line: &Line<String>| {
            let has_more = give(&mut |piece| {
                let border = if rest.len() + piece.len() < size { None } else { last_border(piece) };
                let (head, tail) = piece.split_at(border.unwrap_or(piece.len()));
                rest.push_str(head);
                if border.is_some() {
                    let mut next = line.done().unwrap_or_default();
                    next.clear();
                    next.reserve(rest.len());
                    next.push_str(tail);
                    line.push(std::mem::replace(&mut rest, next));
                }
            })?;
            if !has_more {
                line.push(std::mem::take(&mut rest));
            }
            Ok(has_more)
        };
        let encode = |job: &String, desk: &mut _, ids: &mut _| {
            stretches::encode(self, desk, [Stretch::Text((&**job).into(), None)].into_iter(), ids);
        };
        self.vocabulary.at_desk(|desk| line::encode(self, desk, let_in, encode, out))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use crate::model::Version;
    use crate::tokenizer::tests::plain;

    proptest! {
        #[test]
        fn pieces_give_the_ids_of_the_whole(
            pieces in proptest::collection::vec("[a-zA-Z]{1,9}|[ \\t]{0,3}|\\r?\\n|[0-9]{1,5}|[!-/:-@]{1,4}|\\p{Han}{1,4}|[ぁ-ヺ]{1,4}|[é한\u{301}\u{3000}]{1,3}|\\PC{1,20}|([a-z]{1,5} ){1,9}", 0..20),
            size in 0_usize..60,
            group in 1_usize..5,
            threads in 1_usize..4,
        ) {
            let tokenizer = Version::V4.tokenizer().with_threads(threads);
            let (mut groups, mut ids) = (pieces.chunks(group), Vec::new());
            let give = |take: &mut dyn FnMut(&str)| {
                groups.next().unwrap_or_default().iter().for_each(|piece| take(piece));
                Ok::<_, Infallible>(groups.len() > 0)
            };
            let Ok(()) = tokenizer.encode_jobs(size, give, &mut ids);
            prop_assert_eq!(ids, plain(&tokenizer, &pieces.concat()));
        }
    }
}
