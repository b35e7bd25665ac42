//! Reads one part of a request: `4:nvidia/h200:20G`.

use super::words::{COMPUTE_MAX, CORES_MAX, COUNT_MAX, FIELDS, OTHER_NAMES, SIZE_MAX, TYPES, WHOLE, Word, is_model};
use super::{Count, Part, Take};
use crate::amount::{self, Amount};
use crate::class::ClassFilter;
use crate::units::{parse_milli, size_text};
use accord_types::DeviceType;
use accord_types::nearest::nearest;
use accord_types::settings::parse_bytes;
use std::ops::Range;

/// The range of the error in bytes of the text, with cause and remedy.
pub(super) type PartError = (Range<usize>, String);

/// The fields of a part that have been read.
#[derive(Default)]
struct Fields<'a> {
    count: Option<Count>,
    class: Option<(DeviceType, Option<&'a str>)>,
    whole: bool,
    memory: Option<u64>,
    share: Option<u32>,
    compute: Option<(u16, u16)>,
    cores: Option<u64>,
    ram: Option<u64>,
}

/// Reads a part. `text` must not be empty, and has neither blanks nor `+`.
pub(super) fn read_part(text: &str) -> Result<Part, PartError> {
    let mut fields = Fields::default();
    let mut start = 0;
    for field in text.split(':') {
        let range = start..start + field.len();
        start = range.end + 1;
        fields.read(field, range.start == 0).map_err(|(within, message)| {
            let within = within.start + range.start..within.end + range.start;
            (within, message)
        })?;
        if fields.whole && fields.share.is_some() {
            return Err((range, "a whole device has no share: leave out whole, or the share".to_owned()));
        }
    }
    Ok(fields.part())
}

/// Reads a class: `nvidia/h200`, `cpu` or `any`.
pub(super) fn read_class(text: &str) -> Result<ClassFilter, PartError> {
    let (kind, model) = read_type(text)?;
    Ok(ClassFilter { kind, model: model.map(str::to_owned), ..ClassFilter::ALL })
}

/// Whether a text is meant to be a part rather than a word, judged by its beginning.
pub(super) fn looks_like_part(text: &str) -> bool {
    let first = text.split([':', '/', '=']).next().unwrap_or_default();
    text.starts_with(|letter: char| letter.is_ascii_digit())
        || text.contains([':', '/', '%']) && !text.contains('=')
        || first == WHOLE
        || FIELDS.contains(&first)
        || TYPES.iter().any(|(name, _)| *name == first)
        || OTHER_NAMES.iter().any(|(name, _)| *name == first)
}

impl<'a> Fields<'a> {
    fn read(&mut self, field: &'a str, is_first: bool) -> Result<(), PartError> {
        let all = 0..field.len();
        let twice = |what: &str| Err((all.clone(), format!("{what} is there twice: leave one out")));
        if field.is_empty() {
            return Err((all, "a field is empty: write a part as in 4:nvidia/h200:20G".to_owned()));
        }
        if let Some((name, value)) = field.split_once('=') {
            return self.read_named(name, value, &all);
        }
        if field == WHOLE {
            return if std::mem::replace(&mut self.whole, true) { twice("whole") } else { Ok(()) };
        }
        if is_first && field.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.')) {
            self.count = Some(read_count(field)?);
            return Ok(());
        }
        if !field.starts_with(|letter: char| letter.is_ascii_digit()) {
            return match self.class.replace(read_type(field)?) {
                Some(_) => twice("the device type"),
                None => Ok(()),
            };
        }
        if let Some(number) = field.strip_suffix('%') {
            let wrong = || (all.clone(), "a share is from 0.1% to 100%, with one decimal at most".to_owned());
            return match self.share.replace(parse_share(number).ok_or_else(wrong)?) {
                Some(_) => twice("the share"),
                None => Ok(()),
            };
        }
        if field.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            let message = format!("{field} is no size: write a unit, as in {field}G; a count comes first");
            return Err((all, message));
        }
        match self.memory.replace(read_size(field, all.start)?) {
            Some(_) => twice("the memory"),
            None => Ok(()),
        }
    }

    fn read_named(&mut self, name: &str, value: &str, all: &Range<usize>) -> Result<(), PartError> {
        let at = name.len() + 1;
        let wrong = |message: &str| (at..all.end, message.to_owned());
        let twice = match name {
            "cc" => {
                let compute = value.split_once('.').and_then(|(major, minor)| {
                    let number = |text: &str| text.parse().ok().filter(|number| *number <= COMPUTE_MAX);
                    Some((number(major)?, number(minor)?)).filter(|compute| *compute != (0, 0))
                });
                let compute = compute.ok_or_else(|| wrong("a compute capability is written as in cc=9.0"))?;
                self.compute.replace(compute).is_some()
            }
            "cores" => {
                let cores = parse_milli(value).filter(|cores| (1..=CORES_MAX).contains(cores));
                let cores =
                    cores.ok_or_else(|| wrong("a number of CPU cores is written as in cores=8 or cores=0.5"))?;
                self.cores.replace(cores).is_some()
            }
            "ram" => self.ram.replace(read_size(value, at)?).is_some(),
            _ => {
                let near = nearest(name, FIELDS).map_or_else(
                    || format!("the fields with a value are {}", FIELDS.join(", ")),
                    |near| format!("did you mean {near}?"),
                );
                return Err((0..name.len(), format!("a part has no field {name}: {near}")));
            }
        };
        if twice { Err((all.clone(), format!("{name} is there twice: leave one out"))) } else { Ok(()) }
    }

    fn part(self) -> Part {
        let (kind, model) = self.class.unwrap_or((DeviceType::NotHost, None));
        let mut class = ClassFilter {
            kind,
            model: model.map(str::to_owned),
            memory_at_least: 0,
            compute_at_least: self.compute.unwrap_or_default(),
        };
        let memory = self.memory.unwrap_or(0);
        let take = if self.whole || self.memory.is_none() && self.share.is_none() {
            class.memory_at_least = memory;
            Take::Exclusive
        } else {
            Take::Shared(Amount { milli: self.share.unwrap_or(0), memory })
        };
        Part {
            count: self.count.unwrap_or(Count::exactly(1)),
            class,
            take,
            cores: self.cores.unwrap_or(0),
            host_memory: self.ram.unwrap_or(0),
        }
    }
}

fn read_count(text: &str) -> Result<Count, PartError> {
    let number = |text: &str| text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
    let read = match text.split_once('-') {
        None => number(text).map(Count::exactly),
        Some((least, most)) => number(least).zip(number(most)).map(|(least, most)| Count { least, most }),
    };
    let fitting = read.filter(|count| count.least <= count.most);
    fitting.ok_or_else(|| {
        let form = format!("a count is a whole number from 1 to {COUNT_MAX}, a range as in 2-4");
        (0..text.len(), form)
    })
}

/// Reads a percentage. Returns thousandths of a device.
fn parse_share(text: &str) -> Option<u32> {
    let milli = parse_milli(text).filter(|thousandths| thousandths % 100 == 0)? / 100;
    u32::try_from(milli).ok().filter(|milli| (1..=amount::WHOLE).contains(milli))
}

/// Reads a number of bytes; `start` is the position of the text.
fn read_size(text: &str, start: usize) -> Result<u64, PartError> {
    // A number without a unit would be in bytes, which is not allowed here.
    let has_unit = !text.ends_with(|letter: char| letter.is_ascii_digit());
    let size = parse_bytes(text).filter(|size| has_unit && (1..=SIZE_MAX).contains(size));
    size.ok_or_else(|| {
        let form = format!("{text} is no size: write one as in 512M or 20G, at most {}", size_text(SIZE_MAX));
        (start..start + text.len(), form)
    })
}

fn read_type(text: &str) -> Result<(DeviceType, Option<&str>), PartError> {
    let (name, model) = text.split_once('/').map_or((text, None), |(name, model)| (name, Some(model)));
    if name.is_empty() {
        return Err((
            0..text.len(),
            "a device type is missing before the model: write it as in nvidia/h200".to_owned(),
        ));
    }
    let Some((_, kind)) = TYPES.into_iter().find(|(known, _)| *known == name) else {
        return Err((0..name.len(), unknown_type(name)));
    };
    let Some(model) = model else { return Ok((kind, None)) };
    let place = name.len() + 1..text.len();
    if kind == DeviceType::NotHost {
        return Err((place, "a model needs a type: write nvidia or cpu for any".to_owned()));
    }
    if !is_model(model) {
        let message = "a model has small letters, digits, '.', '_' and '-', as in nvidia/h200";
        return Err((place, message.to_owned()));
    }
    Ok((kind, Some(model)))
}

fn unknown_type(name: &str) -> String {
    let types = TYPES.map(|(name, _)| name);
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, meant)| *meant);
    if let Some(near) = other.or_else(|| nearest(name, types)) {
        return format!("no device type is called {name}: did you mean {near}?");
    }
    if let Some(near) = nearest(name, Word::ALL.map(Word::name).into_iter().chain(FIELDS).chain([WHOLE])) {
        return format!("no device type is called {name}: did you mean {near}?");
    }
    let all = types.join(", ");
    if name.contains(',') {
        return format!(
            "no device type is called {name}: the types are {all}; + combines parts, as in 2:nvidia + 8:cpu"
        );
    }
    format!("no device type is called {name}: the types are {all}; a model follows its type, as in nvidia/{name}")
}
