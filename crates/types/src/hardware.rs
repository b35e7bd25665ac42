//! A machine's hardware, for placement and for display.

/// Cores, memory and the devices near them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hardware {
    /// Physical cores.
    pub cores: u32,
    /// Hardware threads.
    pub processors: u32,
    /// NUMA nodes in the order of their numbers.
    pub numa: Vec<NumaNode>,
    /// GPUs and network interfaces.
    pub devices: Vec<NearDevice>,
}

/// Memory and the processors next to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumaNode {
    /// The operating system's number.
    pub index: u32,
    /// The operating system's numbers of its processors.
    pub cpus: Vec<u32>,
    /// Memory in bytes.
    pub memory: u64,
}

/// A PCI device that matters for placement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearDevice {
    /// The function of the device.
    pub kind: NearKind,
    /// The operating system's name (`eth0`), or empty.
    pub name: String,
    /// Address such as `0000:3b:00.0`.
    pub pci: String,
    /// NUMA node that it is attached to, where known.
    pub numa: Option<u32>,
}

/// The function of a [`NearDevice`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NearKind {
    /// A display or 3D controller.
    Gpu,
    /// A network or InfiniBand interface.
    Network,
}

impl NearKind {
    /// The word used in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Network => "network",
        }
    }

    /// Returns the kind called `name`, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Gpu, Self::Network].into_iter().find(|kind| kind.name() == name)
    }
}
