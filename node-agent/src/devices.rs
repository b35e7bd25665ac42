//! Creates this node's devices inside an executor.

use accord_device::{Device, MemoryAccount, StartConfig, TurnAgent, WorkerStart};
use accord_executor::{DeviceFactory, OutputSink, Work};
use accord_fabric::ProgramSpec;
use accord_gpu::Printed;
use accord_types::{AddressRange, DeviceInfo, Error, ErrorCode, Result, os_text};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The leased devices of this node.
pub(crate) struct NodeDevices {
    /// The devices by ordinal.
    pub(crate) devices: Vec<DeviceInfo>,
    /// The library that workers preload; `None` if the program is linked with libacc.
    pub(crate) libacc: Option<PathBuf>,
    /// The folder of compiled GPU code; `None` if it is not kept.
    pub(crate) cache: Option<PathBuf>,
    /// Whether other processes of the machine may access GPU memory.
    pub(crate) ipc: bool,
    /// Counts the memory of CPU devices across all sessions.
    pub(crate) memory: Option<Arc<dyn MemoryAccount>>,
    /// Gives out turns on devices that sessions share.
    pub(crate) turns: Option<Arc<dyn TurnAgent>>,
    /// The captured output of regions on GPUs.
    pub(crate) printed: Arc<OnceLock<Option<Printed>>>,
}

impl DeviceFactory for NodeDevices {
    fn printed(&self, take: &mut dyn FnMut(&[u8])) {
        if let Some(Some(printed)) = self.printed.get() {
            printed.take(take);
        }
    }

    fn ipc(&self) -> bool {
        let shares =
            |info: &DeviceInfo| accord_backends::capabilities(info.kind).is_some_and(|able| able.shares_memory);
        self.ipc && self.devices.iter().any(shares)
    }

    fn create(
        &self,
        work: &Work,
        ordinal: u32,
        place: Option<AddressRange>,
        output: OutputSink,
        start: &Arc<WorkerStart>,
    ) -> Result<Arc<dyn Device>> {
        let info =
            self.devices.iter().find(|info| info.id.ordinal == ordinal).ok_or_else(|| {
                Error::new(ErrorCode::DeviceUnavailable, format!("the node offers no device {ordinal}"))
            })?;
        self.start(info, work, place, output, start).map_err(|error| error.node(&info.node_name))
    }
}

impl NodeDevices {
    fn start(
        &self,
        info: &DeviceInfo,
        work: &Work,
        place: Option<AddressRange>,
        output: OutputSink,
        start: &Arc<WorkerStart>,
    ) -> Result<Arc<dyn Device>> {
        let backend = accord_backends::backend(info.kind)?;
        let able = backend.capabilities;
        if able.prints_here {
            // Without it, the output of regions goes to the agent's standard output.
            let _ = self.printed.get_or_init(|| Printed::keep().ok());
        }
        let config = StartConfig {
            place,
            program: able.runs_program.then(|| self.worker(&work.program, output, start)),
            account: self.memory.clone(),
            turns: self.turns.clone(),
            images: work.images.clone(),
            cache: self.cache.clone(),
            ipc: self.ipc,
            scrub: true,
            // The other process's runtime chooses the addresses.
            allocate: false,
            company: None,
        };
        (backend.start)(info.clone(), &config)
    }

    fn worker(
        &self,
        program: &ProgramSpec,
        output: OutputSink,
        start: &Arc<WorkerStart>,
    ) -> accord_device::ProgramSpec {
        let env = program.env.iter().filter_map(|variable| {
            let (name, value) = variable.split_once('=')?;
            Some((os_text::decode(name), os_text::decode(value)))
        });
        accord_device::ProgramSpec {
            exe: os_text::decode(&program.exe).into(),
            arg0: os_text::decode(&program.argv0),
            env: Some(env.collect()),
            cwd: Some(os_text::decode(&program.cwd).into()),
            libacc: self.libacc.clone(),
            output: Some(output),
            silence_limit: None,
            start: start.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let devices = NodeDevices {
            devices: Vec::new(),
            libacc: None,
            cache: None,
            ipc: true,
            memory: None,
            turns: None,
            printed: Arc::default(),
        };
        let work = Work { program: ProgramSpec::default(), images: Arc::default() };
        let output: OutputSink = Arc::new(|_, _| {});
        let error = devices.create(&work, 3, None, output, &Arc::default()).err().expect("there is none");
        assert!(error.cause().contains("no device 3"), "{error}");
        assert!(!devices.ipc(), "there is no GPU");
    }
}
