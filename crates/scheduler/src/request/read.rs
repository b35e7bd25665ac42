//! Reads the text of a request.

use super::part::{PartError, looks_like_part, read_class, read_part};
use super::words::{
    ALTERNATIVES_MAX, COUNT_MAX, ELSE, LABELS_MAX, NAME_MAX, NODES_MAX, PARTS_MAX, PRIORITY_MAX, TEXT_MAX, TIME_MAX_MS,
    TYPES, WHOLE, Word, is_name,
};
use super::{Alternative, Locality, Part, Request, Take};
use crate::class::ClassFilter;
use crate::text_error::TextError;
use accord_types::nearest::nearest;
use accord_types::settings::parse_time;
use std::ops::Range;
use std::str::FromStr;

/// The error message of a request without devices.
const NO_DEVICES: &str = "no devices are named: write for example 4:nvidia";

impl FromStr for Request {
    type Err = TextError;

    /// Reads a request, as in `accord run --devices`, `ACCORD_DEVICES` and a policy's `default`.
    fn from_str(text: &str) -> Result<Self, TextError> {
        if text.len() > TEXT_MAX {
            let message = format!("a request has at most {TEXT_MAX} bytes, this one {}", text.len());
            return Err(TextError::new("", 0..0, message));
        }
        Reader::default().read(text).map_err(|(range, message)| TextError::new(text, range, message))
    }
}

impl FromStr for ClassFilter {
    type Err = TextError;

    /// Reads a class: `nvidia/h200`, `cpu` or `any`.
    fn from_str(text: &str) -> Result<Self, TextError> {
        read_class(text).map_err(|(range, message)| TextError::new(text, range, message))
    }
}

/// A token. Blanks separate tokens, and `+` is a token of its own.
#[derive(Clone)]
struct Token<'a> {
    text: &'a str,
    range: Range<usize>,
}

/// A word that was read, with its range.
type Seen = (Word, Range<usize>);

/// A request under construction.
#[derive(Default)]
struct Reader {
    alternatives: Vec<Alternative>,
    /// Ranges of the parts of all alternatives.
    parts: Vec<Range<usize>>,
    words: Vec<Seen>,
    locality: Locality,
    nodes: Option<u32>,
    labels: Vec<(String, String)>,
    only_nodes: Vec<String>,
    avoid_nodes: Vec<String>,
    limit_ms: Option<u64>,
    wait_ms: Option<u64>,
    priority: i32,
    account: Option<String>,
    reservation: Option<String>,
    per_rank: bool,
}

/// The tokens that may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// A word, or the first part.
    Start,
    /// A part, after `+` or `else`.
    Part,
    /// `+`, `else` or a word, after a part.
    AfterPart,
    /// Words, after words that follow the parts.
    Words,
}

impl Reader {
    fn read(mut self, text: &str) -> Result<Request, PartError> {
        let mut expected = Expected::Start;
        let mut last = text.len()..text.len();
        for token in tokens(text) {
            last.clone_from(&token.range);
            expected = self.take(&token, expected)?;
        }
        match expected {
            Expected::Start => Err((0..text.len(), NO_DEVICES.to_owned())),
            Expected::Part => Err((last, "devices are missing after it: write a part as in 2:nvidia".to_owned())),
            Expected::AfterPart | Expected::Words => self.finish(text),
        }
    }

    fn take(&mut self, token: &Token<'_>, expected: Expected) -> Result<Expected, PartError> {
        let wrong = |message: String| Err((token.range.clone(), message));
        if token.text == "+" || token.text == ELSE {
            return match expected {
                Expected::AfterPart if token.text == "+" => Ok(Expected::Part),
                Expected::AfterPart => self.begin_alternative(token),
                Expected::Start | Expected::Part => {
                    wrong(format!("{} stands between devices, as in 2:nvidia {0} 8:cpu", token.text))
                }
                Expected::Words => {
                    let (word, place) = self.words.last().cloned().unwrap_or((Word::Near, token.range.clone()));
                    Err((place, format!("{} holds for the whole request: write it after all devices", word.name())))
                }
            };
        }
        let name = token.text.split('=').next().unwrap_or_default();
        if let Some(word) = Word::named(name) {
            if expected == Expected::Part {
                return wrong(format!("{name} is no device: write devices before it, as in 2:nvidia"));
            }
            self.word(word, token)?;
            return Ok(if expected == Expected::Start { Expected::Start } else { Expected::Words });
        }
        if token.text.starts_with(':') {
            return wrong("blanks separate devices: write none around a colon, as in 2:nvidia".to_owned());
        }
        if !looks_like_part(token.text) {
            return Err((token.range.start..token.range.start + name.len(), unknown(name)));
        }
        match expected {
            Expected::Start => self.alternatives.push(Alternative { parts: Vec::new() }),
            Expected::Part => {}
            Expected::AfterPart | Expected::Words => {
                if let Some((kind, _)) =
                    TYPES.iter().find(|(kind, _)| token.text.split(['/', ':']).next() == Some(kind))
                {
                    let together = "+ combines parts, and else separates alternatives";
                    return wrong(format!("{kind} has no count before it: write them as in 4:{kind}; {together}"));
                }
                let two =
                    "devices follow devices: write + between those that are given together, else between alternatives";
                return wrong(two.to_owned());
            }
        }
        self.part(token)?;
        Ok(Expected::AfterPart)
    }

    fn begin_alternative(&mut self, token: &Token<'_>) -> Result<Expected, PartError> {
        if self.alternatives.len() == ALTERNATIVES_MAX {
            return Err((token.range.clone(), format!("a request has at most {ALTERNATIVES_MAX} alternatives")));
        }
        self.alternatives.push(Alternative { parts: Vec::new() });
        Ok(Expected::Part)
    }

    fn part(&mut self, token: &Token<'_>) -> Result<(), PartError> {
        let part = read_part(token.text).map_err(|wrong| shifted(wrong, token.range.start))?;
        let parts = self.alternatives.last_mut().map(|alternative| &mut alternative.parts);
        if let Some(parts) = parts {
            if parts.len() == PARTS_MAX {
                return Err((token.range.clone(), format!("an alternative has at most {PARTS_MAX} parts")));
            }
            parts.push(part);
        }
        self.parts.push(token.range.clone());
        Ok(())
    }

    fn word(&mut self, word: Word, token: &Token<'_>) -> Result<(), PartError> {
        let name = word.name();
        let value = token.text.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        let value = match (word.example(), value) {
            (None, None) => "",
            (None, Some(_)) => return Err((token.range.clone(), format!("{name} takes no value"))),
            (Some(_), Some(value)) if !value.is_empty() => value,
            (Some(example), _) => {
                return Err((token.range.clone(), format!("{name} needs a value: write for example {example}")));
            }
        };
        if !word.repeats() && self.place_of(word).is_some() {
            return Err((token.range.clone(), format!("{name} is there twice: leave one out")));
        }
        let start = token.range.end - value.len();
        self.value(word, value).map_err(|wrong| shifted(wrong, start))?;
        self.words.push((word, token.range.clone()));
        Ok(())
    }

    fn value(&mut self, word: Word, value: &str) -> Result<(), PartError> {
        let wrong = |message: String| (0..value.len(), message);
        match word {
            Word::PerRank => self.per_rank = true,
            Word::Local => self.locality = Locality::Local,
            Word::Near => self.locality = Locality::Near,
            Word::Pack => self.locality = Locality::Pack,
            Word::Spread => self.locality = Locality::Spread,
            Word::Nodes => {
                let nodes = value.parse().ok().filter(|nodes| (1..=COUNT_MAX).contains(nodes));
                self.nodes = Some(nodes.ok_or_else(|| wrong(format!("a number of nodes is from 1 to {COUNT_MAX}")))?);
            }
            Word::Label => self.label(value)?,
            Word::On => read_names(value, &mut self.only_nodes, "on")?,
            Word::Avoid => read_names(value, &mut self.avoid_nodes, "avoid")?,
            Word::Limit => {
                let limit = read_time(value).filter(|limit| *limit > 0);
                self.limit_ms =
                    Some(limit.ok_or_else(|| wrong(format!("a limit is longer than 0; {}", time_form("limit=2h"))))?);
            }
            Word::Wait => self.wait_ms = Some(read_time(value).ok_or_else(|| wrong(time_form("wait=30m")))?),
            Word::Priority => {
                let allowed = -PRIORITY_MAX..=PRIORITY_MAX;
                let priority = value.parse().ok().filter(|priority| allowed.contains(priority));
                self.priority = priority.ok_or_else(|| {
                    wrong(format!("a priority is a whole number from {} to {PRIORITY_MAX}", -PRIORITY_MAX))
                })?;
            }
            Word::Account => {
                self.account = Some(checked_name(value, 0)?);
            }
            Word::Reservation => self.reservation = Some(checked_name(value, 0)?),
        }
        Ok(())
    }

    fn label(&mut self, value: &str) -> Result<(), PartError> {
        let Some((name, of)) = value.split_once('=') else {
            return Err((0..value.len(), "a label has a name and a value, as in label=rack=r1".to_owned()));
        };
        let label = (checked_name(name, 0)?, checked_name(of, name.len() + 1)?);
        if self.labels.iter().any(|(known, _)| *known == label.0) {
            return Err((0..name.len(), format!("the label {name} is there twice: leave one out")));
        }
        if self.labels.len() == LABELS_MAX {
            return Err((0..value.len(), format!("a request has at most {LABELS_MAX} labels")));
        }
        self.labels.push(label);
        Ok(())
    }

    fn place_of(&self, word: Word) -> Option<Range<usize>> {
        self.words.iter().find(|(seen, _)| *seen == word).map(|(_, place)| place.clone())
    }

    /// Checks that words and parts are consistent.
    fn finish(self, text: &str) -> Result<Request, PartError> {
        let localities = [Word::Local, Word::Near, Word::Pack, Word::Spread];
        let seen: Vec<&Seen> = self.words.iter().filter(|(word, _)| localities.contains(word)).collect();
        if let [(first, _), (second, place), ..] = seen[..] {
            let (first, second) = (first.name(), second.name());
            return Err((place.clone(), format!("{second} contradicts {first}: leave one out")));
        }
        let per_rank = self.place_of(Word::PerRank).map(|_| Word::PerRank);
        let others = [Word::Local, Word::Pack, Word::Spread, Word::PerRank];
        let mut other = seen.iter().map(|(word, _)| *word).chain(per_rank).filter(|word| others.contains(word));
        if let (Some(place), Some(other)) = (self.place_of(Word::Nodes), other.next()) {
            return Err((place, format!("nodes contradicts {}: leave one out", other.name())));
        }
        if let (Some(place), Some(_)) = (self.place_of(Word::Local), per_rank) {
            return Err((place, "local contradicts per-rank: each rank's own node is first anyway".to_owned()));
        }
        let both = self.avoid_nodes.iter().find(|node| self.only_nodes.contains(node));
        if let (Some(node), Some(place)) = (both, self.place_of(Word::Avoid)) {
            return Err((place, format!("{node} is to be used and to be avoided: leave one out")));
        }
        let spread = self.words.iter().find(|(word, _)| *word == Word::Spread);
        if let (Some((_, place)), Some(_)) = (spread, &self.reservation) {
            return Err((place.clone(), "spread contradicts reservation: leave one out".to_owned()));
        }
        let parts = self.alternatives.iter().flat_map(|alternative| &alternative.parts);
        for (part, place) in parts.zip(&self.parts) {
            self.check(part, place, text)?;
        }
        Ok(Request {
            alternatives: self.alternatives,
            locality: self.locality,
            nodes: self.nodes,
            labels: self.labels,
            only_nodes: self.only_nodes,
            avoid_nodes: self.avoid_nodes,
            limit_ms: self.limit_ms,
            wait_ms: self.wait_ms,
            priority: self.priority,
            account: self.account,
            reservation: self.reservation,
            ranks: 1,
            per_rank: self.per_rank,
        })
    }

    fn check(&self, part: &Part, place: &Range<usize>, text: &str) -> Result<(), PartError> {
        let count = part.count;
        let count_place = place.start..place.start + text[place.clone()].find(':').unwrap_or(place.len());
        if self.per_rank && count.least != count.most {
            return Err((count_place, "a gang takes no range: name one count for each rank".to_owned()));
        }
        if self.reservation.is_some() && part.take != Take::Exclusive {
            let whole = "jobs get whole devices of a reservation: name a model, or write whole:20G for memory at least";
            return Err((place.clone(), whole.to_owned()));
        }
        let unequal = |devices: &&u32| self.nodes.is_some_and(|nodes| !devices.is_multiple_of(nodes));
        match [count.least, count.most].iter().find(unequal) {
            Some(devices) => {
                let nodes = self.nodes.unwrap_or(1);
                Err((count_place, format!("{devices} devices can't be divided equally among {nodes} nodes")))
            }
            None => Ok(()),
        }
    }
}

fn shifted((range, message): PartError, by: usize) -> PartError {
    (range.start + by..range.end + by, message)
}

/// Returns the tokens of a text. A `+` within a word's value is part of the word.
fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let start = at + rest.find(|letter: char| !letter.is_whitespace())?;
        let rest = &text[start..];
        let end = start
            + match rest.strip_prefix('+') {
                Some(_) => 1,
                None => rest.find(|letter: char| letter.is_whitespace() || letter == '+').unwrap_or(rest.len()),
            };
        at = end;
        Some(Token { text: &text[start..end], range: start..end })
    })
}

fn read_names(value: &str, into: &mut Vec<String>, word: &str) -> Result<(), PartError> {
    let mut start = 0;
    for name in value.split(',') {
        let node = checked_name(name, start)?;
        let range = start..start + name.len();
        start = range.end + 1;
        if into.contains(&node) {
            return Err((range, format!("{node} is there twice: leave one out")));
        }
        if into.len() == NODES_MAX {
            return Err((range, format!("{word} names at most {NODES_MAX} nodes: choose them by a label")));
        }
        into.push(node);
    }
    Ok(())
}

fn checked_name(text: &str, start: usize) -> Result<String, PartError> {
    if is_name(text) {
        return Ok(text.to_owned());
    }
    let form = format!("a name has 1 to {NAME_MAX} letters, digits, '.', '_' and '-'");
    Err((start..start + text.len(), form))
}

/// Reads a time. Returns milliseconds.
fn read_time(text: &str) -> Option<u64> {
    // `parse_time` allows blanks, but a token has none.
    let time = parse_time(text).filter(|_| !text.contains(char::is_whitespace))?;
    u64::try_from(time.as_millis()).ok().filter(|ms| *ms <= TIME_MAX_MS)
}

fn time_form(example: &str) -> String {
    format!("a time has a unit: s, m, h or d, as in {example}; ten years at most")
}

fn unknown(name: &str) -> String {
    let types = TYPES.map(|(name, _)| name);
    let known = Word::ALL.map(Word::name).into_iter().chain(types).chain([ELSE, WHOLE]);
    match nearest(name, known) {
        Some(near) => format!("a request has no word {name}: did you mean {near}?"),
        None => format!("a request has no word {name}: devices are written as in 4:nvidia/h200:20G"),
    }
}
