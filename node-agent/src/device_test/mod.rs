//! Tests of devices in quarantine, and of devices that a program reported as faulty. Each test runs in a process of its
//! own.

mod child;
mod words;

pub use child::{ARGUMENT, main};

use crate::ask::{self, NoAnswer};
use crate::measure::Measures;
use crate::own_program::again;
use accord_gpu::VISIBLE;
use accord_types::DeviceVerdict;
use accord_types::texts::WORDS_MAX;
use std::time::Duration;

/// The time limit of a test. A test that takes longer has no verdict.
const WITHIN_MAX: Duration = Duration::from_secs(30);
/// Longest verdict, in bytes.
const ANSWER_MAX: u64 = WORDS_MAX as u64 + 64;

impl Measures {
    /// Tests the device with this ordinal in another process.
    pub(crate) fn test(&self, ordinal: u32) -> DeviceVerdict {
        let Some(info) = self.devices.iter().find(|info| info.id.ordinal == ordinal) else {
            return DeviceVerdict::Unknown(format!("the node has no device {ordinal}"));
        };
        if self.late_tests.hangs(ordinal) {
            return DeviceVerdict::Unknown("the process of an earlier test hangs".to_owned());
        }
        let mut command = again(&self.program);
        command.arg(ARGUMENT).arg(if info.uuid.is_empty() { words::CPU } else { &info.uuid });
        if let Some(visible) = &self.visible {
            command.env(VISIBLE, visible);
        }
        let unknown = |why: String| DeviceVerdict::Unknown(why);
        match ask::ask(command, self.spawner.as_ref(), WITHIN_MAX, ANSWER_MAX) {
            Ok(answer) => words::read(&String::from_utf8_lossy(&answer))
                .unwrap_or_else(|| unknown("the test's answer makes no sense".to_owned())),
            Err(NoAnswer::Refused(error)) => unknown(format!("the test can't be started: {error}")),
            Err(NoAnswer::Late(late)) => {
                self.late_tests.note(ordinal, late);
                unknown(format!("the test took more than {} s", WITHIN_MAX.as_secs()))
            }
            Err(NoAnswer::Failed(status)) => unknown(format!("the test failed: {status}")),
            Err(NoAnswer::Unread(error)) => unknown(error.to_string()),
        }
    }
}
