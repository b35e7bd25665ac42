//! The table of a service's metrics.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

/// The kind of a metric's changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows while the process lives.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// The kind of its changes.
    pub kind: Kind,
    /// Its label and all that it may say; none: it has no label.
    pub label: Option<(&'static str, &'static [&'static str])>,
    /// A further label whose values are known only later; none: it has no such label.
    pub open_label: Option<&'static str>,
    /// Its meaning, in a few words.
    pub help: &'static str,
}

impl Metric {
    /// A counter without label.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, label: None, open_label: None, help }
    }

    /// A gauge without label.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, label: None, open_label: None, help }
    }

    /// The same with a label.
    #[must_use]
    pub const fn by(self, label: &'static str, values: &'static [&'static str]) -> Self {
        Self { label: Some((label, values)), ..self }
    }

    /// The same with a further label whose values are known only later: it is shown once there is one.
    #[must_use]
    pub const fn and(self, label: &'static str) -> Self {
        Self { open_label: Some(label), ..self }
    }

    /// Shows it from the start, with 0: what appears late is hard to compute a rate of.
    pub(crate) fn describe(&self) {
        let register = |labels: &[(&'static str, &'static str)]| match self.kind {
            Kind::Counter => counter!(self.name, labels).increment(0),
            Kind::Gauge => gauge!(self.name, labels).increment(0.0),
        };
        match self.kind {
            Kind::Counter => describe_counter!(self.name, Unit::Count, self.help),
            Kind::Gauge => describe_gauge!(self.name, Unit::Count, self.help),
        }
        if self.open_label.is_some() {
            return;
        }
        match self.label {
            Some((label, values)) => values.iter().for_each(|value| register(&[(label, value)])),
            None => register(&[]),
        }
    }
}
