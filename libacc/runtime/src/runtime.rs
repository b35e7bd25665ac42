//! The object behind every call of the program.

use crate::ports::{Cluster, HostMemory};
use accord_types::{DeviceType, GlobalSpec};
use std::ops::Range;

/// What the program's surroundings set, read once by the shell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// `ACC_DEVICE_TYPE` (OpenACC 3.3, 4.1).
    pub device_type: Option<DeviceType>,
    /// `ACC_DEVICE_NUM` (OpenACC 3.3, 4.2).
    pub device_num: Option<u32>,
    /// `GOMP_OPENACC_DIM`: gangs, workers, vector length where neither clause nor compiler chose; 0 leaves it open.
    pub default_dims: [u32; 3],
    /// `GOMP_DEBUG`.
    pub debug: bool,
}

/// A variable of a loaded object with a `declare` clause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Global {
    /// Its address in the program.
    pub host: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// It has a `link` clause: present only while something maps it.
    pub link: bool,
    /// How a device finds it.
    pub spec: GlobalSpec,
}

/// One process's use of OpenACC. Shared by all of its threads.
pub struct Runtime {
    #[expect(dead_code)]
    cluster: Box<dyn Cluster>,
    #[expect(dead_code)]
    host: Box<dyn HostMemory>,
    #[expect(dead_code)]
    settings: Settings,
}

impl Runtime {
    /// A runtime over the devices of `cluster`. Starts nothing: a device starts at its first use.
    pub fn new(cluster: Box<dyn Cluster>, host: Box<dyn HostMemory>, settings: Settings) -> Self {
        Self { cluster, host, settings }
    }

    /// An object was loaded: its `declare` variables are present on every device from now on.
    /// `id` names the object until [`Runtime::unregister_globals`] (the address of its host table).
    pub fn register_globals(&self, id: u64, globals: Vec<Global>) {
        let _ = (id, globals);
        todo!()
    }

    /// The object `id` was unloaded; `functions` is the address range of its regions.
    pub fn unregister_globals(&self, id: u64, functions: Range<u64>) {
        let _ = (id, functions);
        todo!()
    }
}
