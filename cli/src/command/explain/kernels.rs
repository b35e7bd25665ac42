//! The reasons in sources why regions of `kernels` constructs run on one thread.

use crate::command::unopened::messages;
use crate::directives::Language;
use accord_kernels::Message;
use std::collections::HashMap;
use std::path::Path;

/// A loop that runs on one thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loop {
    pub(super) line: u32,
    pub(super) reason: String,
    /// The directive to write, or the option to compile with.
    pub(super) remedy: String,
}

/// The messages about sources, by their paths.
#[derive(Default)]
pub(super) struct Sources(HashMap<String, Vec<Message>>);

impl Sources {
    /// Returns the loops of the `kernels` construct of a region on one thread; none if the source is missing.
    pub(super) fn loops(&mut self, source: &str) -> Vec<Loop> {
        let Some((file, line)) = source.rsplit_once(':') else { return Vec::new() };
        let (Some(language), Ok(line)) = (Language::of(Path::new(file)), line.parse::<u32>()) else {
            return Vec::new();
        };
        let known = self.0.entry(file.to_owned()).or_insert_with(|| messages(Path::new(file), language));
        let own = known.iter().filter(|one| one.place.file == file);
        of_region(own.filter(|one| (one.construct.start..=one.construct.end).contains(&line)), line, language)
    }
}

/// Returns the loops of a region; `messages` are those of its construct.
fn of_region<'a>(messages: impl Iterator<Item = &'a Message>, line: u32, language: Language) -> Vec<Loop> {
    let all: Vec<&Message> = messages.collect();
    let mut left: Vec<&Message> = all.iter().copied().filter(|one| one.refused).collect();
    // A part of a construct that the wrappers have split is a region of its own.
    if left.iter().any(|one| one.place.number == line) {
        left.retain(|one| one.place.number == line);
    }
    let loops = left.into_iter().map(|one| Loop {
        line: one.place.number,
        reason: one.text.clone(),
        remedy: format!("write: {}", one.remedy()),
    });
    let mut loops: Vec<Loop> = loops.collect();
    if let Some(first) = all.first().filter(|_| loops.is_empty()) {
        let wrapper = match language {
            Language::C => "cc",
            Language::Cxx => "c++",
            Language::FreeFortran | Language::FixedFortran => "fc",
        };
        loops.push(Loop {
            line: first.place.number,
            reason: "GCC found no independent loop".into(),
            remedy: format!("accord {wrapper} opens it"),
        });
    }
    loops
}
