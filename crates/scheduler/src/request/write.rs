//! Writes the canonical text of a request, which reads back as the same request for one rank.

use super::words::{ELSE, WHOLE, Word, type_name};
use super::{Locality, Part, Request, Take};
use crate::class::ClassFilter;
use crate::units::{milli_text, size_text, time_text};
use std::fmt;

impl fmt::Display for ClassFilter {
    /// Writes type and model: `nvidia/h200`, `any`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(type_name(self.kind).unwrap_or_else(|| self.kind.name()))?;
        self.model.as_ref().map_or(Ok(()), |model| write!(f, "/{model}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count.least, self.count.most) {
            (least, most) if least == most => write!(f, "{least}")?,
            (least, most) => write!(f, "{least}-{most}")?,
        }
        if self.class.kind != ClassFilter::ALL.kind {
            write!(f, ":{}", self.class)?;
        }
        let at_least = self.class.memory_at_least;
        match self.take {
            Take::Exclusive if at_least > 0 => write!(f, ":{WHOLE}:{}", size_text(at_least))?,
            Take::Exclusive => {}
            Take::Shared(amount) => {
                if amount.memory > 0 {
                    write!(f, ":{}", size_text(amount.memory))?;
                }
                if amount.milli > 0 {
                    write!(f, ":{}%", milli_text(u64::from(amount.milli) * 100))?;
                }
            }
        }
        let (major, minor) = self.class.compute_at_least;
        if (major, minor) != (0, 0) {
            write!(f, ":cc={major}.{minor}")?;
        }
        if self.cores > 0 {
            write!(f, ":cores={}", milli_text(self.cores))?;
        }
        if self.host_memory > 0 {
            write!(f, ":ram={}", size_text(self.host_memory))?;
        }
        Ok(())
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, alternative) in self.alternatives.iter().enumerate() {
            if at > 0 {
                write!(f, " {ELSE} ")?;
            }
            for (at, part) in alternative.parts.iter().enumerate() {
                write!(f, "{}{part}", if at > 0 { " + " } else { "" })?;
            }
        }
        Word::ALL.into_iter().try_for_each(|word| self.write_word(word, f))
    }
}

impl Request {
    fn write_word(&self, word: Word, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = word.name();
        let plain = match word {
            Word::PerRank => self.per_rank,
            Word::Local => self.locality == Locality::Local,
            Word::Near => self.locality == Locality::Near,
            Word::Pack => self.locality == Locality::Pack,
            Word::Spread => self.locality == Locality::Spread,
            _ => false,
        };
        if plain {
            write!(f, " {name}")?;
        }
        let names = |names: &[String]| (!names.is_empty()).then(|| names.join(","));
        let value = match word {
            Word::PerRank | Word::Local | Word::Near | Word::Pack | Word::Spread => None,
            Word::Nodes => self.nodes.map(|nodes| nodes.to_string()),
            Word::Label => {
                return self.labels.iter().try_for_each(|(label, value)| write!(f, " {name}={label}={value}"));
            }
            Word::On => names(&self.only_nodes),
            Word::Avoid => names(&self.avoid_nodes),
            Word::Limit => self.limit_ms.map(time_text),
            Word::Wait => self.wait_ms.map(time_text),
            Word::Priority => (self.priority != 0).then(|| self.priority.to_string()),
            Word::Account => self.account.clone(),
            Word::Reservation => self.reservation.clone(),
        };
        value.map_or(Ok(()), |value| write!(f, " {name}={value}"))
    }
}
