//! The devices of a request on a single machine, without coordinator and scheduler.
//!
//! A single process can honour type, model, count and memory. All else needs a scheduler, and is refused by name.

use super::words::Word;
use super::{Alternative, Locality, Part, Request, Take};
use crate::class::DeviceClass;
use accord_types::{Count, DeviceType};
use std::fmt;

/// The reason why a single machine can't satisfy a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AloneError {
    /// The request has a word that needs a scheduler.
    NeedsScheduler {
        /// The word or field, as written.
        word: String,
    },
    /// The machine has too few such devices.
    TooFew {
        /// Number of devices of all kinds on the machine.
        there: usize,
    },
}

impl fmt::Display for AloneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsScheduler { word } => write!(f, "{word} takes a cluster's scheduler, and there is none"),
            Self::TooFew { there } => {
                write!(f, "this machine has too few such devices; it has {} of all kinds", Count(*there, "device"))
            }
        }
    }
}

impl Request {
    /// Returns the indices of the devices for a program on a single machine, from the first alternative that fits, in
    /// the order of its parts.
    ///
    /// # Errors
    /// Returns [`AloneError::NeedsScheduler`] for a word that needs a scheduler, and [`AloneError::TooFew`] if no
    /// alternative fits.
    pub fn choose_alone(&self, devices: &[DeviceClass]) -> Result<Vec<usize>, AloneError> {
        self.check_alone()?;
        let chosen = self.alternatives.iter().find_map(|alternative| choose(alternative, devices));
        chosen.ok_or(AloneError::TooFew { there: devices.len() })
    }

    /// Checks the words of the request, without the machine's devices.
    ///
    /// # Errors
    /// Returns [`AloneError::NeedsScheduler`] for a word that needs a scheduler.
    pub fn check_alone(&self) -> Result<(), AloneError> {
        let word = self.scheduled_word().or_else(|| {
            let parts = self.alternatives.iter().flat_map(|alternative| &alternative.parts);
            parts.into_iter().find_map(scheduled_field)
        });
        word.map_or(Ok(()), |word| Err(AloneError::NeedsScheduler { word }))
    }

    /// Returns the most CPU devices that the request takes; the machine is divided into as many.
    #[must_use]
    pub fn cpu_devices_alone(&self) -> u32 {
        let takes_cpu = |part: &&Part| matches!(part.class.kind, DeviceType::Cpu | DeviceType::NotHost);
        let of = |alternative: &Alternative| {
            alternative.parts.iter().filter(takes_cpu).map(|part| part.count.least).fold(0, u32::saturating_add)
        };
        self.alternatives.iter().map(of).max().unwrap_or(0)
    }

    fn scheduled_word(&self) -> Option<String> {
        let is_there = |word: &Word| match word {
            Word::PerRank => self.per_rank,
            Word::Local | Word::Near | Word::Pack => false,
            Word::Spread => self.locality == Locality::Spread,
            Word::Nodes => self.nodes.is_some_and(|nodes| nodes != 1),
            Word::Label => !self.labels.is_empty(),
            Word::On => !self.only_nodes.is_empty(),
            Word::Avoid => !self.avoid_nodes.is_empty(),
            Word::Limit => self.limit_ms.is_some(),
            Word::Wait => self.wait_ms.is_some(),
            Word::Priority => self.priority != 0,
            Word::Account => self.account.is_some(),
            Word::Reservation => self.reservation.is_some(),
        };
        Word::ALL.iter().find(|word| is_there(word)).map(|word| word.name().to_owned())
    }
}

fn scheduled_field(part: &Part) -> Option<String> {
    if part.cores > 0 {
        return Some("cores".to_owned());
    }
    if part.host_memory > 0 {
        return Some("ram".to_owned());
    }
    if part.class.compute_at_least != (0, 0) {
        return Some("cc".to_owned());
    }
    match part.take {
        Take::Shared(amount) if amount.milli > 0 => Some("a share in %".to_owned()),
        Take::Shared(_) | Take::Exclusive => None,
    }
}

fn choose(alternative: &Alternative, devices: &[DeviceClass]) -> Option<Vec<usize>> {
    let mut taken: Vec<usize> = Vec::new();
    for part in &alternative.parts {
        let memory = match part.take {
            Take::Shared(amount) => amount.memory,
            Take::Exclusive => 0,
        };
        let fits = |class: &DeviceClass| part.class.matches(class) && class.memory >= memory;
        let free = |at: &usize| !taken.contains(at) && fits(&devices[*at]);
        // All devices of a part are of one class, as with a scheduler.
        let of_class = |first: usize| -> Vec<usize> {
            (0..devices.len()).filter(free).filter(|&at| alike(&devices[at], &devices[first])).collect()
        };
        let least = usize::try_from(part.count.least).ok()?;
        let mut found = (0..devices.len()).filter(free).map(of_class).find(|same| same.len() >= least)?;
        found.truncate(usize::try_from(part.count.most).unwrap_or(usize::MAX));
        taken.extend(found);
    }
    Some(taken)
}

fn alike(one: &DeviceClass, other: &DeviceClass) -> bool {
    one.kind == other.kind && one.model == other.model
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: DeviceType, model: &str, memory: u64) -> DeviceClass {
        DeviceClass { kind, model: model.to_owned(), memory: memory << 30, context: 0, compute: (0, 0) }
    }

    fn machine() -> Vec<DeviceClass> {
        vec![
            device(DeviceType::Nvidia, "a100", 40),
            device(DeviceType::Nvidia, "h200", 140),
            device(DeviceType::Nvidia, "h200", 140),
            device(DeviceType::Cpu, "", 8),
        ]
    }

    fn chosen(text: &str) -> Result<Vec<usize>, AloneError> {
        text.parse::<Request>().unwrap().choose_alone(&machine())
    }

    #[test]
    fn type_model_count_and_memory_are_kept() {
        for (text, devices) in [
            ("1", &[0][..]),
            ("2", &[1, 2]),
            ("cpu", &[3]),
            ("1:nvidia/h200", &[1]),
            ("1:nvidia:80G", &[1]),
            ("1:nvidia:whole:100G", &[1]),
            ("1-9:nvidia/h200", &[1, 2]),
            ("1:cpu + 2:nvidia local", &[3, 1, 2]),
            ("1:nvidia + 1:nvidia", &[0, 1]),
            ("3:nvidia/h200 else 1:cpu near nodes=1", &[3]),
        ] {
            assert_eq!(chosen(text).as_deref(), Ok(devices), "{text}");
        }
    }

    #[test]
    fn too_few_devices_are_an_error() {
        for text in ["3:nvidia", "2:cpu", "1:nvidia/v100", "1:cpu:9G", "1:cpu + 1:cpu"] {
            let error = chosen(text).unwrap_err();
            assert_eq!(error, AloneError::TooFew { there: 4 }, "{text}");
        }
    }

    #[test]
    fn keys_that_need_a_scheduler_are_refused_by_name() {
        for (text, word) in [
            ("1 limit=2h", "limit"),
            ("1 wait=0s", "wait"),
            ("1 spread", "spread"),
            ("2 nodes=2", "nodes"),
            ("1 label=a=b", "label"),
            ("1 on=a", "on"),
            ("1 avoid=a", "avoid"),
            ("1 priority=1", "priority"),
            ("1 account=a", "account"),
            ("1 per-rank", "per-rank"),
            ("1:50%", "a share in %"),
            ("1 else 1:cc=9.0", "cc"),
            ("1:cores=2", "cores"),
            ("1:ram=1G", "ram"),
        ] {
            assert_eq!(chosen(text), Err(AloneError::NeedsScheduler { word: word.to_owned() }), "{text}");
        }
    }

    #[test]
    fn a_machine_is_divided_into_as_many_cpu_devices_as_may_be_taken() {
        for (text, count) in [("2:nvidia", 0), ("3:cpu else 5:cpu + 1:nvidia", 5), ("2", 2), ("2-4:cpu", 2)] {
            assert_eq!(text.parse::<Request>().unwrap().cpu_devices_alone(), count, "{text}");
        }
    }
}
