//! Errors, with all parts of a message to a user.

use crate::printable::PrintableLines;
use crate::{DeviceFault, DeviceNum, HostRange, QueueId};
use std::fmt;

/// A result with Accord's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The specification's error conditions (OpenACC 3.3, 5.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorCode {
    /// `acc_error_other`
    Other,
    /// `acc_error_system`
    System,
    /// `acc_error_execution`: a region failed on the device.
    Execution,
    /// `acc_error_device_init`
    DeviceInit,
    /// `acc_error_device_shutdown`
    DeviceShutdown,
    /// `acc_error_device_unavailable`: no such device number, or its node or link is gone.
    DeviceUnavailable,
    /// `acc_error_device_type_unavailable`
    DeviceTypeUnavailable,
    /// `acc_error_wrong_device_type`
    WrongDeviceType,
    /// `acc_error_out_of_memory`
    OutOfMemory,
    /// `acc_error_not_present`
    NotPresent,
    /// `acc_error_partly_present`
    PartlyPresent,
    /// `acc_error_present`
    Present,
    /// `acc_error_invalid_argument`
    InvalidArgument,
    /// `acc_error_invalid_async`
    InvalidAsync,
    /// `acc_error_invalid_null_pointer`
    InvalidNullPointer,
    /// `acc_error_invalid_data_section`
    InvalidDataSection,
    /// `acc_error_implementation_defined`: a bug in Accord.
    ImplementationDefined,
}

impl ErrorCode {
    /// Returns the specification's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "acc_error_other",
            Self::System => "acc_error_system",
            Self::Execution => "acc_error_execution",
            Self::DeviceInit => "acc_error_device_init",
            Self::DeviceShutdown => "acc_error_device_shutdown",
            Self::DeviceUnavailable => "acc_error_device_unavailable",
            Self::DeviceTypeUnavailable => "acc_error_device_type_unavailable",
            Self::WrongDeviceType => "acc_error_wrong_device_type",
            Self::OutOfMemory => "acc_error_out_of_memory",
            Self::NotPresent => "acc_error_not_present",
            Self::PartlyPresent => "acc_error_partly_present",
            Self::Present => "acc_error_present",
            Self::InvalidArgument => "acc_error_invalid_argument",
            Self::InvalidAsync => "acc_error_invalid_async",
            Self::InvalidNullPointer => "acc_error_invalid_null_pointer",
            Self::InvalidDataSection => "acc_error_invalid_data_section",
            Self::ImplementationDefined => "acc_error_implementation_defined",
        }
    }

    /// Returns the code's number on the wire.
    pub fn to_wire(self) -> u16 {
        self as u16
    }

    /// Returns the code with this wire number; unknown numbers become [`ErrorCode::Other`].
    pub fn from_wire(raw: u16) -> Self {
        const ALL: [ErrorCode; 17] = [
            ErrorCode::Other,
            ErrorCode::System,
            ErrorCode::Execution,
            ErrorCode::DeviceInit,
            ErrorCode::DeviceShutdown,
            ErrorCode::DeviceUnavailable,
            ErrorCode::DeviceTypeUnavailable,
            ErrorCode::WrongDeviceType,
            ErrorCode::OutOfMemory,
            ErrorCode::NotPresent,
            ErrorCode::PartlyPresent,
            ErrorCode::Present,
            ErrorCode::InvalidArgument,
            ErrorCode::InvalidAsync,
            ErrorCode::InvalidNullPointer,
            ErrorCode::InvalidDataSection,
            ErrorCode::ImplementationDefined,
        ];
        ALL.get(usize::from(raw)).copied().unwrap_or(Self::Other)
    }
}

/// The place of an error. Each layer fills in what it knows; the first value wins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ErrorPlace {
    /// The routine or construct that the program called: `acc_copyin`, `parallel`.
    pub call: Option<String>,
    /// Place of that call in the program's source: `laplace.c:52, main`.
    pub site: Option<String>,
    /// The machine's name.
    pub node: Option<String>,
    /// The device number as the program sees it.
    pub device: Option<DeviceNum>,
    /// The queue.
    pub queue: Option<QueueId>,
}

/// The program's data that an error concerns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// Addresses of the data.
    pub range: HostRange,
    /// The variable that the data belongs to, where known: `grid (laplace.c:41, main)`.
    pub name: Option<String>,
    /// The predicate of "is": `not present`.
    pub is: String,
}

/// An error: its code, place, cause and remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(Box<ErrorParts>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct ErrorParts {
    code: ErrorCode,
    place: ErrorPlace,
    subject: Option<Subject>,
    cause: String,
    remedy: Option<String>,
    transient: bool,
    lane_ended: bool,
    fault: Option<DeviceFault>,
}

impl Error {
    /// Creates an error with its cause: one clause, no full stop, naming addresses, sizes and native error numbers.
    pub fn new(code: ErrorCode, cause: impl Into<String>) -> Self {
        let (place, cause) = (ErrorPlace::default(), cause.into());
        let (subject, remedy, transient, lane_ended) = (None, None, false, false);
        let fault = None;
        Self(Box::new(ErrorParts { code, place, subject, cause, remedy, transient, lane_ended, fault }))
    }

    /// Creates an error about the program's data: what the data "is" (`not present`), and further details, which may be
    /// empty. Callers that know the variable's name add it by [`Error::variable`].
    pub fn about(code: ErrorCode, range: HostRange, is: impl Into<String>, more: impl Into<String>) -> Self {
        let mut error = Self::new(code, more);
        error.0.subject = Some(Subject { range, name: None, is: is.into() });
        error
    }

    /// Names the variable that the error is about. Has no effect on an error without a subject.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>) -> Self {
        if let Some(subject) = &mut self.0.subject {
            subject.name.get_or_insert_with(|| name.into());
        }
        self
    }

    /// Adds the call's place in the program's source, unless known already.
    #[must_use]
    pub fn site(mut self, site: impl Into<String>) -> Self {
        self.0.place.site.get_or_insert_with(|| site.into());
        self
    }

    /// Appends to the cause.
    #[must_use]
    pub fn more(mut self, more: impl fmt::Display) -> Self {
        self.0.cause = format!("{}; {more}", self.0.cause);
        self
    }

    /// Prefixes the cause with the object that it concerns.
    #[must_use]
    pub fn in_front(mut self, of: impl fmt::Display) -> Self {
        self.0.cause = format!("{of}: {}", self.0.cause);
        self
    }

    /// Replaces the remedy, for callers that know more of the cause.
    #[must_use]
    pub fn instead(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// Adds the remedy: what the user can do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy.get_or_insert_with(|| remedy.into());
        self
    }

    /// Adds the remedy, if there is one.
    #[must_use]
    pub fn remedy_if(self, remedy: Option<impl Into<String>>) -> Self {
        match remedy {
            Some(remedy) => self.remedy(remedy),
            None => self,
        }
    }

    /// Marks an error whose operation may succeed a moment later without any intervention.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.0.transient = true;
        self
    }

    /// Marks an error of a lane that has ended without a reason: another process may know the reason.
    #[must_use]
    pub fn lane_ended(mut self) -> Self {
        self.0.lane_ended = true;
        self
    }

    /// Adds the fault that the device reported, in the process that drives the device.
    #[must_use]
    pub fn device_fault(mut self, fault: Option<DeviceFault>) -> Self {
        self.0.fault = self.0.fault.or(fault);
        self
    }

    /// Adds the call, unless known already.
    #[must_use]
    pub fn call(mut self, call: impl Into<String>) -> Self {
        self.0.place.call.get_or_insert_with(|| call.into());
        self
    }

    /// Adds the node, unless known already.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.0.place.node.get_or_insert_with(|| node.into());
        self
    }

    /// Adds the device, unless known already.
    #[must_use]
    pub fn device(mut self, device: DeviceNum) -> Self {
        self.0.place.device.get_or_insert(device);
        self
    }

    /// Adds the queue, unless known already.
    #[must_use]
    pub fn queue(mut self, queue: QueueId) -> Self {
        self.0.place.queue.get_or_insert(queue);
        self
    }

    /// Returns the specification's error condition.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// Returns the place of the error.
    pub fn place(&self) -> &ErrorPlace {
        &self.0.place
    }

    /// Returns the data that the error is about.
    pub fn subject(&self) -> Option<&Subject> {
        self.0.subject.as_ref()
    }

    /// Returns the cause; for an error about data only the further details.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// Returns the remedy, if there is one.
    pub fn remedy_text(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }

    /// Whether the same operation may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        self.0.transient
    }

    /// Returns the fault that the device reported, if that is the cause and this process drives the device.
    pub fn fault(&self) -> Option<DeviceFault> {
        self.0.fault
    }

    /// Whether the only known cause is that a lane has ended.
    pub fn is_lane_end(&self) -> bool {
        self.0.lane_ended
    }
}

impl fmt::Display for Error {
    /// Escapes control characters, because the texts may hold words of other processes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.in_words(&mut PrintableLines(f))
    }
}

impl Error {
    /// `acc_copyin on dev3 (node h2, queue 1): CAUSE [acc_error_partly_present]; REMEDY`, with the line of the call where
    /// known. About a variable whose name is known:
    /// `parallel (laplace.c:52, main): grid (laplace.c:41, main) is not present on dev3 (node h2): 800 bytes at 0x1000 [...]`
    fn in_words(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let ErrorParts { code, place, subject, cause, remedy, transient: _, lane_ended: _, fault: _ } = &*self.0;
        let site = place.site.as_ref().map(|site| format!(" ({site})")).unwrap_or_default();
        let call = place.call.as_ref().map(|call| format!("{call}{site}")).unwrap_or_default();
        let at = match (&place.node, place.queue) {
            (Some(node), Some(queue)) => format!("(node {node}, queue {queue})"),
            (Some(node), None) => format!("(node {node})"),
            (None, Some(queue)) => format!("(queue {queue})"),
            (None, None) => String::new(),
        };
        let device = match (place.device, at.is_empty()) {
            (Some(device), true) => device.to_string(),
            (Some(device), false) => format!("{device} {at}"),
            (None, _) => at,
        };
        let on = if place.device.is_some() { "on " } else { "" };
        let more = if cause.is_empty() { String::new() } else { format!(", {cause}") };
        if let Some(Subject { range, name: Some(name), is }) = subject {
            let call = if call.is_empty() { call } else { format!("{call}: ") };
            let device = if device.is_empty() { device } else { format!(" {on}{device}") };
            write!(f, "{call}{name} is {is}{device}: {} bytes at {:#x}{more}", range.len, range.start)?;
        } else {
            match (call.is_empty(), device.is_empty()) {
                (false, false) => write!(f, "{call} {on}{device}: ")?,
                (true, true) => {}
                _ => write!(f, "{call}{device}: ")?,
            }
            match subject {
                Some(Subject { range, is, .. }) => {
                    write!(f, "{} bytes at {:#x} are {is}{more}", range.len, range.start)?;
                }
                None => write!(f, "{cause}")?,
            }
        }
        write!(f, " [{}]", code.name())?;
        if let Some(remedy) = remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_number_comes_back() {
        for raw in 0..17 {
            assert_eq!(ErrorCode::from_wire(raw).to_wire(), raw);
        }
        assert_eq!(ErrorCode::from_wire(999), ErrorCode::Other);
    }

    #[test]
    fn the_message_names_call_device_node_queue_cause_and_remedy() {
        let error = Error::new(ErrorCode::PartlyPresent, "bytes 8 to 16 are absent")
            .queue(QueueId(1))
            .device(DeviceNum(3))
            .node("h2")
            .call("acc_copyin")
            .call("not the first to know")
            .remedy("copy the whole array");
        assert_eq!(
            error.to_string(),
            "acc_copyin on dev3 (node h2, queue 1): bytes 8 to 16 are absent \
             [acc_error_partly_present]; copy the whole array"
        );
        let error = Error::new(ErrorCode::System, "no");
        assert_eq!(error.to_string(), "no [acc_error_system]");
        assert_eq!(error.clone().node("h2").to_string(), "(node h2): no [acc_error_system]");
        assert_eq!(error.device(DeviceNum(3)).to_string(), "dev3: no [acc_error_system]");
    }

    #[test]
    fn an_error_about_data_names_the_variable_and_the_line_where_they_are_known() {
        let range = HostRange { start: 0x1000, len: 800 };
        let error = Error::about(ErrorCode::NotPresent, range, "not present", "").call("parallel").remedy("map it");
        let placed = error.clone().device(DeviceNum(3)).node("h2");
        assert_eq!(
            placed.to_string(),
            "parallel on dev3 (node h2): 800 bytes at 0x1000 are not present [acc_error_not_present]; map it"
        );
        assert_eq!(
            placed.variable("grid (laplace.c:41, main)").site("laplace.c:52, main").to_string(),
            "parallel (laplace.c:52, main): grid (laplace.c:41, main) is not present on dev3 (node h2): \
             800 bytes at 0x1000 [acc_error_not_present]; map it"
        );
        let part =
            Error::about(ErrorCode::PartlyPresent, range, "present only in part", "as 8 bytes at 0x1000 were mapped");
        assert_eq!(
            part.to_string(),
            "800 bytes at 0x1000 are present only in part, as 8 bytes at 0x1000 were mapped [acc_error_partly_present]"
        );
        assert_eq!(
            part.variable("grid").queue(QueueId(1)).to_string(),
            "grid is present only in part (queue 1): 800 bytes at 0x1000, as 8 bytes at 0x1000 were mapped \
             [acc_error_partly_present]"
        );
        assert_eq!(error.subject().map(|subject| subject.range), Some(range));
        let site = Error::new(ErrorCode::System, "no").call("acc_wait").site("a.c:1, f");
        assert_eq!(site.to_string(), "acc_wait (a.c:1, f): no [acc_error_system]");
    }
}
