//! Agents that do not read their messages, and agents that are gone.

use super::{AgentSender, Driver, DriverSettings};
use accord_cluster::{Input, LinkId, Registration};
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Number of messages after which the test's agents no longer read.
const UNREAD: usize = 8;

/// The messages that a thread logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Log {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        writeln!(self.0.lock().unwrap(), "{value:?}").unwrap();
    }
}

fn register(driver: &Driver, outbox: AgentSender) -> LinkId {
    let link = driver.add_agent(outbox);
    driver.input(Input::Register { link, registration: Registration::new("h1", "h1:1", 10, Vec::new()) });
    link
}

/// Sends messages to the agent: its node is drained and released in turn.
fn send(driver: &Driver, messages: usize) {
    for number in 0..messages {
        driver.input(Input::Drain { node_name: "h1".into(), drain: number % 2 == 0 });
    }
}

#[test]
fn an_agent_that_reads_no_messages_is_reported_and_has_to_register_again() {
    let (driver, log) = (Driver::new(DriverSettings::default()), Log::default());
    tracing::subscriber::with_default(log.clone(), || {
        let (outbox, _unread) = mpsc::channel(UNREAD);
        let link = register(&driver, outbox);
        send(&driver, UNREAD);
        assert!(!driver.has_agent(link));
    });
    let printed = log.0.lock().unwrap().clone();
    assert_eq!(printed.matches("does not keep up").count(), 1, "{printed}");
    // The next connection of the same agent counts.
    let (outbox, _messages) = mpsc::channel(UNREAD);
    let link = register(&driver, outbox);
    assert!(driver.has_agent(link));
}

#[test]
fn an_agent_that_is_gone_or_keeps_up_is_not_said_to_be_slow() {
    let (driver, log) = (Driver::new(DriverSettings::default()), Log::default());
    tracing::subscriber::with_default(log.clone(), || {
        let (outbox, mut messages) = mpsc::channel(UNREAD);
        register(&driver, outbox);
        for _ in 0..3 * UNREAD {
            send(&driver, 2);
            while messages.try_recv().is_ok() {}
        }
        drop(messages);
        send(&driver, 3 * UNREAD);
    });
    let printed = log.0.lock().unwrap().clone();
    assert!(!printed.contains("keep up"), "{printed}");
}
