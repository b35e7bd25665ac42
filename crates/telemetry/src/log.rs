//! Messages of the services on standard error: one line each. Logging never waits for standard error.

mod line;
mod outbox;

use line::displayed;
use outbox::{flush, outbox};
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The target of messages about administrators' actions and refusals: their lines say `audit` in place of the level.
pub const AUDIT: &str = "accord_audit";

/// Sends Accord's own messages of `level` and above to standard error, each with the time and the name of `program`.
/// Does nothing if a subscriber is set already. Calls `on_drop` for each message that is dropped because standard error
/// is blocked.
#[must_use = "messages may be lost where it is dropped early"]
pub fn to_stderr(program: &'static str, level: LevelFilter, on_drop: fn()) -> Flush {
    line::begin_with(program);
    outbox().count_drops(on_drop);
    let _ = tracing::subscriber::set_global_default(Lines { level });
    Flush
}

/// Logs a line of a process without message levels, such as an executor. Never waits, as [`to_stderr`].
pub fn report_line(what: fmt::Arguments<'_>) {
    outbox().put(displayed(what.to_string()));
}

/// Writes the queued lines when dropped, within a time limit.
#[derive(Debug)]
pub struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        flush();
    }
}

struct Lines {
    level: LevelFilter,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.is_event() && metadata.target().starts_with("accord")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let word = if event.metadata().target() == AUDIT { "audit" } else { &level };
        outbox().put(line::message(word, &message.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
