//! Decides whether a node's executor can be replaced, by the devices that the program uses.
//!
//! A lost executor takes the memory and queues of all its devices along. A device that fails for good (a GPU with a
//! lost context) can start again only in another process. The program gets a new executor as soon as it has shut down
//! all devices of the old one.

use accord_types::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The devices of one node, by their ordinals.
#[derive(Default)]
pub(super) struct ReusePolicy {
    /// Devices that are started or starting, with their names.
    started: BTreeMap<u32, String>,
    /// Devices that this executor has started at least once.
    opened: BTreeSet<u32>,
}

/// The condition of the connection to the executor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// There is none yet.
    Absent,
    Well,
    Lost(Error),
}

/// The connection with which a device starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reuse {
    /// The present one.
    Same,
    /// A new one, to a new executor.
    New,
}

impl ReusePolicy {
    /// Decides for a device that is about to start.
    ///
    /// # Errors
    /// Returns the loss of the executor while other devices still use it.
    pub(super) fn begin(&mut self, device: u32, name: &str, condition: &Condition) -> Result<Reuse> {
        let with = match condition {
            Condition::Well => Reuse::Same,
            Condition::Absent => self.renew(),
            Condition::Lost(error) => match self.others(device) {
                None => self.renew(),
                Some(others) => return Err(blocked(error, &others)),
            },
        };
        self.started.insert(device, name.to_owned());
        Ok(with)
    }

    /// Records that a device has started.
    pub(super) fn opened(&mut self, device: u32) {
        self.opened.insert(device);
    }

    /// Decides after a failed start. If a new executor may help, and no other device uses the old one, the start is
    /// repeated with a new one; the device still counts as starting.
    ///
    /// # Errors
    /// Returns `error`, with the devices that must be shut down before.
    pub(super) fn failed(&mut self, device: u32, condition: &Condition, error: Error) -> Result<Reuse> {
        // A device that this executor has never started fails for another reason.
        let may_help = matches!(condition, Condition::Lost(_)) || self.opened.contains(&device);
        match self.others(device) {
            None if may_help => Ok(self.renew()),
            Some(others) if may_help => {
                self.end(device);
                Err(blocked(&error, &others))
            }
            _ => {
                self.end(device);
                Err(error)
            }
        }
    }

    /// Records that a device was shut down, or failed to start.
    pub(super) fn end(&mut self, device: u32) {
        self.started.remove(&device);
    }

    fn renew(&mut self) -> Reuse {
        self.opened.clear();
        Reuse::New
    }

    /// Returns the names of the other started devices.
    fn others(&self, device: u32) -> Option<String> {
        let others = self.started.iter().filter(|(other, _)| **other != device);
        let names: Vec<&str> = others.map(|(_, name)| name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

fn blocked(error: &Error, others: &str) -> Error {
    let reported = Error::new(error.code(), error.cause()).remedy(format!(
        "the node gets a new executor when its other devices are shut down too (acc_shutdown): {others}"
    ));
    match error.place().node.clone() {
        Some(node) => reported.node(node),
        None => reported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::ErrorCode;

    fn lost() -> Condition {
        Condition::Lost(Error::new(ErrorCode::DeviceUnavailable, "killed").node("h2"))
    }

    fn no_context() -> Error {
        Error::new(ErrorCode::DeviceInit, "the context is lost")
    }

    #[test]
    fn a_lost_executor_is_replaced_when_all_devices_are_shut_down() {
        let mut reuse = ReusePolicy::default();
        assert_eq!(reuse.begin(0, "cpu 0", &Condition::Absent), Ok(Reuse::New));
        assert_eq!(reuse.begin(1, "cpu 1", &Condition::Well), Ok(Reuse::Same));
        reuse.end(0);
        let error = reuse.begin(0, "cpu 0", &lost()).unwrap_err();
        assert_eq!((error.cause(), error.place().node.as_deref()), ("killed", Some("h2")));
        assert!(error.remedy_text().is_some_and(|text| text.ends_with(": cpu 1")), "{error}");
        reuse.end(1);
        assert_eq!(reuse.begin(0, "cpu 0", &lost()), Ok(Reuse::New));
        assert_eq!(reuse.begin(1, "cpu 1", &Condition::Well), Ok(Reuse::Same));
    }

    #[test]
    fn a_device_that_fails_for_good_asks_for_a_new_executor() {
        let mut reuse = ReusePolicy::default();
        for device in 0..3 {
            let condition = if device == 0 { Condition::Absent } else { Condition::Well };
            reuse.begin(device, &format!("gpu {device}"), &condition).unwrap();
            reuse.opened(device);
        }
        reuse.end(1);
        assert_eq!(reuse.begin(1, "gpu 1", &Condition::Well), Ok(Reuse::Same));
        let error = reuse.failed(1, &Condition::Well, no_context()).unwrap_err();
        assert_eq!(error.cause(), "the context is lost");
        assert!(error.remedy_text().is_some_and(|text| text.ends_with(": gpu 0, gpu 2")), "{error}");
        // The failed start is over: the other devices no longer block it.
        reuse.end(0);
        reuse.end(2);
        assert_eq!(reuse.begin(1, "gpu 1", &Condition::Well), Ok(Reuse::Same));
        assert_eq!(reuse.failed(1, &Condition::Well, no_context()), Ok(Reuse::New));
        // The new executor can't start it either, so the error stands.
        assert_eq!(reuse.failed(1, &Condition::Well, no_context()), Err(no_context()));
        assert_eq!(reuse.begin(0, "gpu 0", &Condition::Well), Ok(Reuse::Same));
    }

    #[test]
    fn a_device_that_never_started_is_no_reason() {
        let mut reuse = ReusePolicy::default();
        reuse.begin(0, "gpu 0", &Condition::Absent).unwrap();
        assert_eq!(reuse.failed(0, &Condition::Well, no_context()), Err(no_context()));
        assert_eq!(reuse.begin(1, "gpu 1", &Condition::Well), Ok(Reuse::Same));
        // A death of the executor meanwhile does help.
        assert_eq!(reuse.failed(1, &lost(), no_context()), Ok(Reuse::New));
    }
}
