//! The table of a service's metrics.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// Grows and shrinks.
    Gauge,
}

/// One metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The metric's name.
    pub name: &'static str,
    /// The metric's kind.
    pub kind: Kind,
    /// The label with all its values; `None` without one.
    pub label: Option<(&'static str, &'static [&'static str])>,
    /// A further label whose values are known only at run time; `None` without one.
    pub open_label: Option<&'static str>,
    /// The help text.
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

    /// Adds a label.
    #[must_use]
    pub const fn by(self, label: &'static str, values: &'static [&'static str]) -> Self {
        Self { label: Some((label, values)), ..self }
    }

    /// Adds a further label whose values are known only at run time. The metric appears once a value is set.
    #[must_use]
    pub const fn and(self, label: &'static str) -> Self {
        Self { open_label: Some(label), ..self }
    }

    /// Registers the metric with 0, because a rate needs a value from the start.
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
