//! Faults that devices report, classed by their cause: the device or the program.

use std::fmt;

/// Errors of the CUDA driver that only a faulty device causes.
const OF_DEVICE: [(u16, &str); 2] = [(214, "an uncorrectable ECC error"), (220, "an uncorrectable NVLink error")];

/// Errors of the CUDA driver that a region can cause, and that a faulty device reports as well.
const OF_PROGRAM: [(u16, &str); 12] = [
    (226, "a contained error"),
    (700, "an illegal address"),
    (702, "a launch that took too long"),
    (710, "a failed assertion"),
    (714, "a hardware stack error"),
    (715, "an illegal instruction"),
    (716, "a misaligned address"),
    (717, "an invalid address space"),
    (718, "an invalid program counter"),
    (719, "a failed launch"),
    (721, "a leak of tensor memory"),
    (999, "an unknown error"),
];

/// Signals that a region can end its CPU device's worker process with.
const SIGNALS: [(u16, &str); 4] =
    [(4, "an illegal instruction"), (7, "a bus error"), (8, "an arithmetic exception"), (11, "an illegal address")];

/// A fault that a device reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceFault(Kind);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Kind {
    /// An error of the CUDA driver.
    Cuda(u16),
    /// An error of the CUDA driver while it cleared memory.
    Clearing(u16),
    /// The CUDA driver no longer lists the GPU.
    Missing,
    /// A signal ended the worker process of a CPU device.
    Signal(u16),
}

impl DeviceFault {
    /// The driver no longer lists the GPU: it is off the bus.
    pub const MISSING: Self = Self(Kind::Missing);

    /// Returns the fault for an error of the CUDA driver; `None` if neither the device nor a region causes that error.
    pub fn cuda(code: i32) -> Option<Self> {
        let code = u16::try_from(code).ok()?;
        (named(&OF_DEVICE, code).or(named(&OF_PROGRAM, code))).map(|_| Self(Kind::Cuda(code)))
    }

    /// Returns the fault of a device whose memory the CUDA driver could not clear, with the driver's error.
    pub fn clearing(code: i32) -> Self {
        Self(Kind::Clearing(u16::try_from(code).unwrap_or(u16::MAX)))
    }

    /// Returns the fault of a CPU device whose worker process a signal ended; `None` if no region can cause the signal.
    pub fn signal(number: i32) -> Option<Self> {
        let number = u16::try_from(number).ok()?;
        named(&SIGNALS, number).map(|_| Self(Kind::Signal(number)))
    }

    /// Whether only the device can have caused the fault; if not, a region may have.
    pub fn is_of_device(self) -> bool {
        match self.0 {
            Kind::Cuda(code) => named(&OF_DEVICE, code).is_some(),
            Kind::Clearing(_) | Kind::Missing => true,
            Kind::Signal(_) => false,
        }
    }

    /// Returns the fault's number on the wire, which is never 0.
    pub fn to_wire(self) -> u32 {
        let (kind, code) = match self.0 {
            Kind::Cuda(code) => (1, code),
            Kind::Clearing(code) => (2, code),
            Kind::Missing => (3, 0),
            Kind::Signal(number) => (4, number),
        };
        kind << 16 | u32::from(code)
    }

    /// Returns the fault with this number; `None` for 0 and for numbers without a fault.
    pub fn from_wire(raw: u32) -> Option<Self> {
        let code = u16::try_from(raw & 0xffff).ok()?;
        match (raw >> 16, code) {
            (1, code) => Self::cuda(code.into()),
            (2, code) => Some(Self::clearing(code.into())),
            (3, 0) => Some(Self::MISSING),
            (4, number) => Self::signal(number.into()),
            _ => None,
        }
    }
}

/// The outcome of a test of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceVerdict {
    /// The device works.
    Works,
    /// The device reported this fault.
    Faulty(String),
    /// The test could not be run for this reason, or exceeded its time.
    Unknown(String),
}

fn named(table: &[(u16, &'static str)], code: u16) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Cuda(code) => {
                let name = named(&OF_DEVICE, code).or(named(&OF_PROGRAM, code)).unwrap_or("an error");
                write!(f, "{name} (CUDA error {code})")
            }
            Kind::Clearing(code) => write!(f, "its memory could not be cleared (CUDA error {code})"),
            Kind::Missing => f.write_str("the driver does not have it any more"),
            Kind::Signal(number) => {
                write!(f, "{} (signal {number})", named(&SIGNALS, number).unwrap_or("a signal"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers up to `last` that `fault` classifies as faults: those that only a device causes, and the others.
    fn classified(last: i32, fault: impl Fn(i32) -> Option<DeviceFault>) -> (Vec<i32>, Vec<i32>) {
        let known = (-1..=last).filter_map(|code| Some((code, fault(code)?)));
        let (own, programs): (Vec<_>, Vec<_>) = known.partition(|(_, fault)| fault.is_of_device());
        let numbers = |faults: Vec<(i32, DeviceFault)>| faults.into_iter().map(|(code, _)| code).collect();
        (numbers(own), numbers(programs))
    }

    #[test]
    fn each_error_of_the_driver_is_the_device_s_or_a_program_s_or_of_neither() {
        let (own, programs) = classified(70_000, DeviceFault::cuda);
        assert_eq!(own, [214, 220]);
        assert_eq!(programs, [226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 999]);
        // Out of memory, busy in exclusive mode, a destroyed context, and a system that is not set up.
        for code in [0, 1, 2, 3, 4, 46, 100, 101, 201, 400, 600, 709, 800, 801, 802, 803, 804] {
            assert_eq!(DeviceFault::cuda(code), None, "{code}");
        }
        assert!(DeviceFault::clearing(1).is_of_device() && DeviceFault::MISSING.is_of_device());
    }

    #[test]
    fn signals_that_end_a_worker_are_a_program_s() {
        assert_eq!(classified(70_000, DeviceFault::signal), (vec![], vec![4, 7, 8, 11]));
    }

    #[test]
    fn each_number_on_the_wire_comes_back_and_others_are_no_faults() {
        let mut known = Vec::new();
        for raw in (0..8).flat_map(|kind| (0..1_100).map(move |code| kind << 16 | code)) {
            if let Some(fault) = DeviceFault::from_wire(raw) {
                assert_eq!((fault.to_wire(), raw > 0), (raw, true));
                known.push(fault);
            }
        }
        assert_eq!(known.len(), 2 + 12 + 1_100 + 1 + 4);
        assert_eq!(DeviceFault::from_wire(u32::MAX), None);
    }

    #[test]
    fn a_fault_is_named_with_its_number() {
        let cuda = |code| DeviceFault::cuda(code).map(|fault| fault.to_string()).unwrap_or_default();
        assert_eq!(cuda(214), "an uncorrectable ECC error (CUDA error 214)");
        assert_eq!(
            DeviceFault::signal(11).map(|fault| fault.to_string()),
            Some("an illegal address (signal 11)".into())
        );
        assert_eq!(DeviceFault::clearing(1).to_string(), "its memory could not be cleared (CUDA error 1)");
    }
}
