//! Sets of small numbers, with a summary by which a search skips empty words.

/// A set of numbers. Each bit of the summary tells whether a word has members.
#[derive(Clone, Debug, Default)]
pub(crate) struct BitSet {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl BitSet {
    pub(crate) fn insert(&mut self, number: u32) {
        let (word, bit) = split(number);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.summary.resize(word / 64 + 1, 0);
        }
        if self.words[word] & bit == 0 {
            self.words[word] |= bit;
            self.summary[word / 64] |= 1 << (word % 64);
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        let (word, bit) = split(number);
        if self.words.get(word).is_some_and(|found| found & bit != 0) {
            self.words[word] &= !bit;
            if self.words[word] == 0 {
                self.summary[word / 64] &= !(1 << (word % 64));
            }
        }
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        let (word, bit) = split(number);
        self.words.get(word).is_some_and(|found| found & bit != 0)
    }

    /// Returns the least member not below `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let (word, bit) = split(from);
        let rest = self.words.get(word)? & !(bit - 1);
        if rest != 0 {
            return Some(number_of(word, rest));
        }
        let mut at = (word + 1) / 64;
        let mut summary = self.summary.get(at)? & !((1u64 << ((word + 1) % 64)) - 1);
        while summary == 0 {
            at += 1;
            summary = *self.summary.get(at)?;
        }
        let word = at * 64 + summary.trailing_zeros() as usize;
        Some(number_of(word, self.words[word]))
    }

    /// Returns the members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.next(0), |&number| self.next(number + 1))
    }

    /// Returns the least member not below `from` that is also in another set, whose words `other` returns by position.
    pub(crate) fn next_within(&self, from: u32, other: impl Fn(usize) -> u64) -> Option<u32> {
        let mut from = from;
        loop {
            let word = (self.next(from)? / 64) as usize;
            let mut found = self.words[word] & other(word);
            let (first, bit) = split(from);
            if word == first {
                found &= !(bit - 1);
            }
            if found != 0 {
                return Some(number_of(word, found));
            }
            from = number_of(word + 1, 1);
        }
    }

    /// Returns the members from `64 * at` to `64 * at + 63` as the bits of a word.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }
}

fn split(number: u32) -> (usize, u64) {
    ((number / 64) as usize, 1 << (number % 64))
}

#[expect(clippy::cast_possible_truncation, reason = "numbers are u32")]
fn number_of(word: usize, bits: u64) -> u32 {
    word as u32 * 64 + bits.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_finds_what_a_linear_search_finds() {
        let mut set = BitSet::default();
        let members = [0, 1, 63, 64, 4095, 4096, 9_999, 70_000];
        for member in members {
            set.insert(member);
        }
        let mut other = BitSet::default();
        [1, 2, 64, 4096, 5_000].into_iter().for_each(|member| other.insert(member));
        for from in (0..71_000).step_by(7).chain(members) {
            let first =
                |and: &dyn Fn(u32) -> bool| members.iter().copied().find(|&member| member >= from && and(member));
            assert_eq!(set.next(from), first(&|_| true), "from {from}");
            let within = set.next_within(from, |at| other.word(at));
            assert_eq!(within, first(&|member| other.contains(member)), "from {from}");
            let beside = set.next_within(from, |at| !other.word(at));
            assert_eq!(beside, first(&|member| !other.contains(member)), "from {from}");
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), members);
        for member in members {
            set.remove(member);
            set.remove(member);
            assert!(!set.contains(member));
        }
        assert!(set.next(0).is_none());
    }
}
