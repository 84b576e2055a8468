//! Merging of several words side by side.
//!
//! Every step of a word waits for the memory that tells of the byte or the tokens before. So many words take the same kind
//! of step, one after the other, while the memory for the others is on its way; and the processor knows what comes next.
//!
//! Owns: words on their way from bytes to tokens, by the rules of `greedy`. Must not know: where words come from.
//! Cost: a step for each byte, and a few for each token; a fixed size, some fifty kilobytes.

use std::hint::select_unpredictable;
use std::ops::Range;

use super::greedy::{Border, Greedy};
use super::pairs::PairTable;
use super::trie::Node;

/// Words under way at the same time.
const LANES: usize = 128;
/// Longest word that a lane takes, in bytes.
const LONGEST: usize = 63;

/// One word.
#[derive(Clone, Copy)]
struct Lane {
    /// Of the word, among those that are merged together.
    number: usize,
    word: [u8; LONGEST + 1],
    length: usize,
    /// Where the token that is looked for begins.
    position: usize,
    /// How far it was looked for, and where that is in the trie.
    at: usize,
    node: Node,
    /// The token so far, and where it ends.
    found: u32,
    found_end: usize,
    /// Its border with the token before, as far as that was followed.
    border: Border,
    /// Places where no token fits, a bit each.
    dead: u64,
    ids: [u32; LONGEST],
    count: usize,
}

/// The numbers of some lanes.
#[derive(Clone, Copy)]
struct List {
    numbers: [u8; LANES],
    count: usize,
}

impl List {
    const EMPTY: Self = Self { numbers: [0; LANES], count: 0 };

    /// Appends a lane, or leaves it as it is, without a branch.
    #[inline]
    fn push_if(&mut self, number: u8, condition: bool) {
        if let Some(place) = self.numbers.get_mut(self.count) {
            *place = number;
        }
        self.count += usize::from(condition);
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.numbers.iter().copied().take(self.count)
    }
}

/// Words under way.
pub(super) struct Lanes {
    lanes: [Lane; LANES],
}

impl Lanes {
    #[expect(clippy::large_stack_arrays, reason = "some 20 kB, once for a text, in memory that is warm")]
    pub(super) fn new() -> Self {
        Self { lanes: [Lane::EMPTY; LANES] }
    }

    /// Merges words, none of them empty and each with its number, and hands over the number and the tokens of each, in any
    /// order.
    pub(super) fn merge(
        &mut self,
        greedy: &Greedy,
        pairs: &PairTable,
        text: &[u8],
        words: &[(usize, Range<usize>)],
        mut done: impl FnMut(usize, &[u32]),
    ) {
        let mut words = words.iter();
        let mut free = List::EMPTY;
        (0..).take(LANES).for_each(|number| free.push_if(number, true));
        let mut long = Vec::new();
        // Lanes that look for a token, and lanes whose token must be compared with the one before.
        let mut looking = List::EMPTY;
        let mut comparing = List::EMPTY;
        loop {
            for number in std::mem::replace(&mut free, List::EMPTY).iter() {
                let lane = self.lane(number);
                let word = loop {
                    match words.next() {
                        Some((number, word)) if word.len() > LONGEST => {
                            greedy.encode(pairs, text.get(word.clone()).unwrap_or_default(), &mut long);
                            done(*number, &long);
                            long.clear();
                        }
                        word => break word,
                    }
                };
                if let Some((number, word)) = word {
                    lane.start(*number, text.get(word.start..).unwrap_or_default(), word.len());
                }
                looking.push_if(number, word.is_some());
            }
            if looking.count + comparing.count == 0 {
                return;
            }
            self.look(greedy, &looking);
            let mut fitting = List::EMPTY;
            let mut following = List::EMPTY;
            for number in looking.iter().chain(comparing.iter()) {
                let joins = self.lane(number).may_join(greedy, pairs);
                fitting.push_if(number, !joins);
                following.push_if(number, joins);
            }
            let misfits = self.follow(greedy, pairs, following, &mut fitting);
            (looking, comparing) = (List::EMPTY, List::EMPTY);
            for number in fitting.iter() {
                let lane = self.lane(number);
                lane.take();
                let complete = lane.position == lane.length;
                if complete {
                    done(lane.number, lane.ids.get(..lane.count).unwrap_or_default());
                }
                free.push_if(number, complete);
                looking.push_if(number, !complete);
            }
            for number in misfits.iter() {
                self.lane(number).take_back(greedy);
                comparing.push_if(number, true);
            }
        }
    }

    #[inline]
    fn lane(&mut self, number: u8) -> &mut Lane {
        // The mask changes nothing: there are as many lanes as it lets through.
        &mut self.lanes[usize::from(number) % LANES]
    }

    /// Finds the longest token where each of the lanes is.
    fn look(&mut self, greedy: &Greedy, lanes: &List) {
        for number in lanes.iter() {
            self.lane(number).begin(greedy);
        }
        let mut walking = *lanes;
        while walking.count > 0 {
            let mut on = List::EMPTY;
            for number in walking.iter() {
                let more = self.lane(number).walk(greedy);
                on.push_if(number, more);
            }
            walking = on;
        }
        for number in lanes.iter() {
            let found = self.lane(number).found;
            greedy.prefetch(found);
        }
    }

    /// Follows the borders of lanes until it is known which fit, and gives those that do not.
    fn follow(&mut self, greedy: &Greedy, pairs: &PairTable, mut lanes: List, fitting: &mut List) -> List {
        let mut misfits = List::EMPTY;
        while lanes.count > 0 {
            let mut on = List::EMPTY;
            for number in lanes.iter() {
                let known = greedy.go_back(pairs, &mut self.lane(number).border);
                on.push_if(number, known.is_none());
                fitting.push_if(number, known == Some(true));
                misfits.push_if(number, known == Some(false));
            }
            lanes = on;
        }
        misfits
    }
}

impl Lane {
    const EMPTY: Self = Self {
        number: 0,
        word: [0; LONGEST + 1],
        length: 0,
        position: 0,
        at: 0,
        node: Node::ROOT,
        found: 0,
        found_end: 0,
        border: Border::NONE,
        dead: 0,
        ids: [0; LONGEST],
        count: 0,
    };

    /// Takes the word of `length` bytes that `text` begins with.
    #[inline]
    fn start(&mut self, number: usize, text: &[u8], length: usize) {
        match text.first_chunk() {
            Some(bytes) => self.word = *bytes,
            None => self.word.iter_mut().zip(text).for_each(|(target, &source)| *target = source),
        }
        (self.number, self.length, self.position, self.dead, self.count) = (number, length, 0, 0, 0);
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.word[at % (LONGEST + 1)]
    }

    /// Begins to look for a token. The first bytes lead through slots that are always near.
    #[inline]
    fn begin(&mut self, greedy: &Greedy) {
        (self.at, self.node) = (self.position, Node::ROOT);
        self.walk(greedy);
        self.walk(greedy);
    }

    /// Goes on by one byte. Whether there may be more.
    #[inline]
    fn walk(&mut self, greedy: &Greedy) -> bool {
        let step = greedy.trie.step(self.node, self.byte(self.at));
        let inside = self.at < self.length;
        self.at += usize::from(step.hit && inside);
        self.found = select_unpredictable(step.ends && inside, step.token, self.found);
        self.found_end = select_unpredictable(step.ends && inside, self.at, self.found_end);
        self.node = step.node;
        greedy.trie.prefetch(step.node, self.byte(self.at));
        step.hit && self.at < self.length
    }

    /// Whether merges may go across the border of the token found and the one before.
    #[inline]
    fn may_join(&mut self, greedy: &Greedy, pairs: &PairTable) -> bool {
        let Some(&before) = self.count.checked_sub(1).and_then(|last| self.ids.get(last)) else { return false };
        let joins =
            greedy.may_join((before, self.byte(self.position.wrapping_sub(1))), (self.found, self.byte(self.position)));
        self.border = Border::new(before, self.found);
        if joins {
            self.border.prefetch(greedy, pairs);
        }
        joins
    }

    /// Takes the token that was found.
    #[inline]
    fn take(&mut self) {
        if let Some(place) = self.ids.get_mut(self.count) {
            *place = self.found;
        }
        self.count += 1;
        self.position = self.found_end;
    }

    /// Goes to the next shorter token, here or where the one before begins.
    fn take_back(&mut self, greedy: &Greedy) {
        loop {
            if let Some(shorter) = greedy.shorter(self.found) {
                self.found = shorter;
                self.found_end = self.position + greedy.length(shorter);
                if self.dead >> self.found_end & 1 == 0 {
                    break;
                }
            } else {
                self.dead |= 1 << self.position;
                self.count = self.count.saturating_sub(1);
                let Some(&before) = self.ids.get(self.count) else { return };
                self.position = self.position.saturating_sub(greedy.length(before));
                self.found = before;
            }
        }
        greedy.prefetch(self.found);
    }
}
