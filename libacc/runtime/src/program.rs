//! The shell's information about the program: settings from its environment, and variables of its objects.

use accord_types::{Check, DeviceType, GlobalSpec, Rank};

/// The settings of the program's environment, read once by the shell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// `ACC_DEVICE_TYPE` (OpenACC 3.3, 4.1).
    pub device_type: Option<DeviceType>,
    /// `ACC_DEVICE_NUM` (OpenACC 3.3, 4.2).
    pub device_num: Option<u32>,
    /// `GOMP_OPENACC_DIM`: gangs, workers, vector length if neither clause nor compiler chose; 0 leaves it open.
    pub default_dims: [u32; 3],
    /// The program's rank in its MPI job, if the first number that it names determines the order of device numbers; else
    /// the order is that of the clients.
    pub rank: Option<Rank>,
    /// `GOMP_DEBUG`.
    pub debug: bool,
    /// `ACCORD_PAGE_LOCK=off`: the program's arrays stay pageable, however often they are copied.
    pub pageable: bool,
    /// `ACCORD_UNMAPPED=map`: blocks that a region gets a pointer to are mapped for it.
    pub maps_unmapped: bool,
    /// `ACCORD_EXPLAIN_ERRORS`: errors about absent data show the present table.
    pub explains_errors: bool,
    /// `ACCORD_CHECK`: what is checked about regions.
    pub check: Check,
    /// Whether devices' memory has to lie in `AddressRange::LOW_WINDOW`.
    pub low_addresses: bool,
    /// A number of this process alone: for choices that programs are not to make alike.
    pub seed: u64,
}

/// The kind of a [`Global`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GlobalKind {
    /// A variable with a `declare` clause.
    Variable,
    /// A variable with a `link` clause: present only while something maps it.
    Link,
    /// All constants of an object into which the loader wrote addresses: tables of functions and strings, and tables of classes. A copy would hold
    /// the program's addresses. A process that runs the program's code has the constants itself, with its own addresses.
    Constants,
}

/// Memory of a loaded object that is present on devices without being mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Global {
    /// Its address in the program.
    pub host: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// The kind of what the memory holds.
    pub kind: GlobalKind,
    /// The name by which a device finds it.
    pub spec: GlobalSpec,
}
