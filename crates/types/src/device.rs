//! Device types, kinds and descriptions.

use crate::DeviceId;

/// A device type as the program names it (OpenACC 3.3, 3.1 and appendix A),
/// with GCC's numbers: they differ from other vendors' headers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum DeviceType {
    /// The type currently in use.
    Current = -1,
    /// No device type.
    None = 0,
    /// The implementation's choice.
    Default = 1,
    /// The program's own thread and memory.
    Host = 2,
    /// Any device other than the host.
    NotHost = 4,
    /// An NVIDIA GPU, or a CPU device under `ACCORD_EMULATE=nvidia`.
    Nvidia = 5,
    /// An AMD GPU: named by GCC, never present here.
    Radeon = 8,
    /// Accord's CPU devices: worker processes with memory of their own. Not a GCC name;
    /// counted by [`DeviceType::NotHost`] and the default where there is no GPU.
    Cpu = 64,
}

impl DeviceType {
    /// Returns the type with GCC's number `raw`, if there is one.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            -1 => Self::Current,
            0 => Self::None,
            1 => Self::Default,
            2 => Self::Host,
            4 => Self::NotHost,
            5 => Self::Nvidia,
            8 => Self::Radeon,
            64 => Self::Cpu,
            _ => return None,
        })
    }

    /// Returns the name used in messages, after the specification's `acc_device_*` names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "acc_device_current",
            Self::None => "acc_device_none",
            Self::Default => "acc_device_default",
            Self::Host => "acc_device_host",
            Self::NotHost => "acc_device_not_host",
            Self::Nvidia => "acc_device_nvidia",
            Self::Radeon => "acc_device_radeon",
            Self::Cpu => "acc_device_cpu",
        }
    }
}

/// The backend that drives a device, by its number, which is the same in all processes. The table in `accord-backends`
/// lists the backends; processes that drive no devices only pass the numbers on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceKind(u8);

impl DeviceKind {
    /// A worker process on CPU cores.
    pub const CPU: Self = Self(0);
    /// An NVIDIA GPU by the CUDA driver.
    pub const CUDA: Self = Self(1);

    /// Returns the kind with this number.
    pub const fn from_number(number: u8) -> Self {
        Self(number)
    }

    /// Returns the kind's number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl DeviceKind {
    /// Returns the device type by which programs and requests name devices of this kind.
    pub const fn device_type(self) -> DeviceType {
        match self {
            Self::CPU => DeviceType::Cpu,
            Self::CUDA => DeviceType::Nvidia,
            Self(_) => DeviceType::None,
        }
    }
}

impl std::fmt::Display for DeviceKind {
    /// Writes the name used in messages: `CPU device`, `GPU`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::CPU => f.write_str("CPU device"),
            Self::CUDA => f.write_str("GPU"),
            Self(number) => write!(f, "device of kind {number}"),
        }
    }
}

/// Description of a device before it is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Node and ordinal of the device.
    pub id: DeviceId,
    /// The machine's name, for messages.
    pub node_name: String,
    /// The backend that drives the device.
    pub kind: DeviceKind,
    /// The product name (`acc_property_name`).
    pub name: String,
    /// The maker (`acc_property_vendor`).
    pub vendor: String,
    /// The driver's version (`acc_property_driver`).
    pub driver: String,
    /// `GPU-` and the driver's UUID: identifies a GPU in every process, whatever its number is there. A MIG instance
    /// has a UUID of its own. Empty for CPU devices.
    pub uuid: String,
    /// Memory in bytes (`acc_property_memory`).
    pub memory: u64,
    /// CPU cores or multiprocessors.
    pub units: u32,
    /// Compute capability, major and minor; (0, 0) for devices without one. Leases omit it, as programs ask the driver.
    pub compute: (u16, u16),
    /// Bytes of a GPU's memory that the driver takes for each process that uses it; 0 if unknown or none. Leases omit
    /// it.
    pub context: u64,
    /// Attributes of a GPU, each with the CUDA driver's number for it, by which programs name it too; empty for CPU devices.
    pub attributes: Vec<(u16, i32)>,
    /// NUMA node on its machine, where known.
    pub numa: Option<u32>,
    /// Processors that the device's worker may run on; empty when not bound.
    pub cpus: Vec<u32>,
}

/// Most attributes of a GPU in a message.
pub const ATTRIBUTES_MAX: usize = 64;

impl DeviceInfo {
    /// Returns an attribute of a GPU by the CUDA driver's number; `None` if it is unknown, and for CPU devices.
    pub fn attribute(&self, number: u16) -> Option<i32> {
        self.attributes.iter().find(|(one, _)| *one == number).map(|(_, value)| *value)
    }

    /// Returns the compute capability in its usual form, `9.0`; `None` for devices without one.
    pub fn compute_capability(&self) -> Option<String> {
        let (major, minor) = self.compute;
        (self.compute != (0, 0)).then(|| format!("{major}.{minor}"))
    }
}
