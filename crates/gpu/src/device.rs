//! The owner's side of a GPU.

use super::cache::Cache;
use super::context::{Context, Entered};
use super::device_stream::DeviceStream;
use super::driver::{Driver, NoDriver};
use super::gate::LaunchGate;
use super::loss;
use super::memory::Memory;
use super::module::Module;
use super::notify::Notifier;
use super::page_registration;
use super::peers::{self, Registered};
use super::probe;
use super::shared::Shared;
use super::stream::{HostThread, Op, Stream};
use super::stream_worker;
use super::table::Table;
use accord_device::DriverContext;
use accord_device::failure::{no_thread, shut_down};
use accord_device::stream::Dependence;
use accord_device::{TurnAgent, TurnKeeper, TurnWords};
use accord_image::Images;
use accord_types::short_lock::ShortLock;
use accord_types::turn_lock::TurnLock;
use accord_types::{
    AddressRange, DeviceInfo, Error, ErrorCode, ImageId, ImageRef, QueueId, Result, Seq, StreamId, scarce,
};
use cudarc::driver::sys::{CUdevice, CUstream};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most streams of one device. Further queues share streams.
const STREAMS_MAX: u32 = 128;

/// The configuration of a GPU.
#[derive(Clone, Default)]
pub struct CudaConfig {
    /// Folder for compiled code; `None`: every start compiles.
    pub cache: Option<PathBuf>,
    /// The program's images.
    pub images: Arc<Images>,
    /// Place of the device's memory; `None`: the driver chooses.
    pub place: Option<AddressRange>,
    /// Whether other processes of the machine may access the memory, see docs/design/transports.md.
    pub ipc: bool,
    /// Whether memory is cleared before use, because it may contain another user's data.
    pub scrub: bool,
    /// Whether memory consists of the driver's own allocations, where it chooses.
    pub allocate: bool,
    /// Whether other code in this process uses the driver, see [`accord_device::StartConfig::company`].
    pub company: Option<fn() -> bool>,
    /// The agent that gives out turns on the device.
    pub turns: Option<Arc<dyn TurnAgent>>,
}

/// Starts the driver for a device.
fn driver_for(info: &DeviceInfo) -> Result<(&'static Driver, CUdevice)> {
    if let Some(lost) = loss::error() {
        return Err(lost);
    }
    let driver = Driver::get().map_err(|why| {
        let why = match why {
            NoDriver::Absent(why) => why,
            NoDriver::Old(name) => format!("it has no {name}"),
        };
        Error::new(ErrorCode::DeviceInit, format!("the NVIDIA driver can't be used: {why}"))
            .remedy_if(scarce::remedy_of_words(&why))
    })?;
    // SAFETY: no preconditions.
    unsafe { driver.cuInit(0) }.map_err(loss::at_start)?;
    Ok((driver, probe::find(driver, info)?))
}

/// The primary context of a device that may not have started.
pub(super) fn context_of(info: &DeviceInfo) -> Result<DriverContext> {
    let (driver, raw) = driver_for(info)?;
    let context = Context::retain(driver, raw).map_err(loss::at_start)?;
    Ok(DriverContext::new(context.raw.expose_provenance(), context))
}

/// An image's module. The first thread that needs it loads it, and others wait meanwhile.
type ModuleSlot = TurnLock<Option<Arc<Module>>>;

/// A GPU of this machine, driven in this process by its primary context.
pub struct CudaDevice {
    pub(super) info: DeviceInfo,
    streams: Table<Arc<Stream>>,
    modules: ShortLock<HashMap<ImageId, Arc<ModuleSlot>>>,
    pub(super) notifier: Notifier,
    cache: Option<Cache>,
    images: Arc<Images>,
    pub(super) peer: Registered,
    pub(super) shared: Arc<Shared>,
    /// The keeper of the device's turns, if it is shared by turns.
    turn: Option<Arc<TurnKeeper>>,
}

impl CudaDevice {
    /// Returns all streams.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.streams.iter()
    }

    /// Starts the GPU with the UUID of `info`, whatever its number in this process.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` with the driver's text.
    pub fn start(info: DeviceInfo, config: CudaConfig) -> Result<Arc<Self>> {
        let failed = loss::at_start;
        let (driver, raw) = driver_for(&info)?;
        let context = Arc::new(Context::retain(driver, raw).map_err(failed)?);
        let _current = context.enter().map_err(failed)?;
        let place = config.place.unwrap_or_else(|| super::memory::anywhere(&info));
        let memory = if config.allocate {
            Memory::of_allocations(Arc::clone(&context), config.ipc)
        } else {
            Memory::reserve(Arc::clone(&context), place, config.ipc, config.scrub).map_err(failed)?
        };
        let words = config.turns.as_ref().map(|_| Arc::<TurnWords>::default());
        let shared = Shared::new(&info, Arc::clone(&context), memory, config.company, words.clone());
        let gate = words.map(|words| LaunchGate { words, shared: Arc::downgrade(&shared) });
        let turn =
            config.turns.zip(gate).map(|(agent, gate)| TurnKeeper::start(info.id.ordinal, Box::new(gate), agent));
        let turn = turn.transpose().map_err(|error| no_thread(&error))?;
        let peer = peers::register(&shared);
        page_registration::add_device(&shared);
        let device = Arc::new(Self {
            info,
            streams: Table::default(),
            modules: ShortLock::default(),
            notifier: Notifier::default(),
            cache: config.cache.map(Cache::new),
            images: config.images,
            peer,
            shared,
            turn,
        });
        // Images known now are compiled now, and not during the program's work. An image that can't be loaded fails the region
        // that needs it.
        for image in device.images.ids() {
            let _ = device.module(Some(ImageRef { image, index: 0 }), "");
        }
        Ok(device)
    }

    /// Returns, for each region used of an image, its name in the PTX, and the reason if its parameter is not its argument
    /// block.
    pub fn kernels(&self, image: ImageId) -> Vec<(String, Option<String>)> {
        use accord_image::BlockPath;
        let Some(slot) = self.modules.lock().get(&image).cloned() else { return Vec::new() };
        let Some(module) = slot.take().clone() else { return Vec::new() };
        module
            .kernels()
            .map(|(name, block)| {
                let why = match block {
                    BlockPath::Parameter(_) => None,
                    BlockPath::Memory(why) => Some(why.to_string()),
                };
                (name.to_owned(), why)
            })
            .collect()
    }

    /// Ends the device, see [`accord_device::Device::shutdown`].
    pub(super) fn end(&self) {
        let lost = self.shared.failure.check().is_err() && !self.shared.stopped.load(Ordering::Acquire);
        self.shared.failure.set(shut_down());
        if let Some(turn) = &self.turn {
            turn.end();
        }
        for stream in self.streams.iter() {
            stream.close();
        }
        self.shared.copy_pool.close();
        self.notifier.close();
        let Ok(_current) = self.shared.context.enter() else { return };
        // Workers that wait for bytes from other processes pass none to the driver from now on.
        self.shared.memory_uses.end();
        if !lost {
            // Memory must not be freed while a region uses it, and a region can't be ended from outside.
            for stream in self.streams.iter() {
                stream.drain();
            }
            self.peer.drain_writers();
        }
        page_registration::release_all(&self.shared);
        self.shared.tracer.drain();
        let modules = std::mem::take(&mut *self.modules.lock());
        drop(modules);
        self.shared.imports.close();
        self.shared.memory.clear();
    }

    pub(super) fn add_stream(&self, queue: QueueId, raw: Option<CUstream>) -> Result<StreamId> {
        self.shared.failure.check()?;
        let _current = self.current()?;
        let full = || {
            Error::new(ErrorCode::System, format!("more than {STREAMS_MAX} streams on a device"))
                .remedy("let queues share streams")
        };
        let index = self
            .streams
            .add(|index| {
                if index >= STREAMS_MAX {
                    return Err(full());
                }
                let stream = Stream::new(index, queue, Arc::clone(&self.shared), stream_worker::perform, raw);
                let stream = Arc::new(stream.map_err(|error| self.shared.driver_failed(error, None))?);
                let mut known = self.shared.streams.lock();
                let stream_of_device: Arc<dyn DeviceStream> = stream.clone();
                known.push(Arc::downgrade(&stream_of_device));
                Ok(stream)
            })
            .ok_or_else(full)??;
        Ok(StreamId(index))
    }

    pub(super) fn stream(&self, id: StreamId) -> Result<&Arc<Stream>> {
        self.streams
            .get(id.0)
            .ok_or_else(|| Error::new(ErrorCode::ImplementationDefined, format!("stream {} does not exist", id.0)))
    }

    pub(super) fn current(&self) -> Result<Entered> {
        self.shared.context.enter().map_err(|error| self.shared.driver_failed(error, None))
    }

    pub(super) fn enter(&self, stream: &Stream) -> Result<Entered> {
        self.shared.context.enter().map_err(|error| self.shared.driver_failed(error, Some(stream.queue)))
    }

    pub(super) fn wait_for(&self, waiting: &Arc<Stream>, other: &Arc<Stream>, seq: Seq) -> Result<Seq> {
        if Arc::ptr_eq(waiting, other) || seq.0 == 0 && !other.is_exposed() {
            waiting.check()?;
            return Ok(waiting.last());
        }
        other.check()?;
        if !other.has_issued(seq.0) {
            return waiting.put_host(Op::Wait { other: Arc::clone(other), seq: seq.0 }, HostThread::Worker);
        }
        let dependence = other.mark(seq.0).map_err(|error| other.shared.driver_failed(error, Some(other.queue)))?;
        let _current = self.enter(waiting)?;
        if matches!(dependence, Dependence::Host | Dependence::DriverThenHost) {
            waiting.make_space()?;
        }
        waiting.put(
            |state| {
                let next = state.core.next();
                waiting.follow(state, next, (other, seq.0), dependence)
            },
            || Ok(Op::Wait { other: Arc::clone(other), seq: seq.0 }),
        )
    }

    /// Returns the image's module, which the first use loads.
    pub(super) fn module(&self, what: Option<ImageRef>, name: &str) -> Result<(Arc<Module>, u32)> {
        self.shared.failure.check()?;
        let no_code = || {
            Error::new(ErrorCode::DeviceInit, format!("{name} was not compiled for NVIDIA GPUs"))
                .remedy("compile and link with -fopenacc -foffload=nvptx-none, or set ACC_DEVICE_TYPE=cpu")
        };
        let what = what.ok_or_else(no_code)?;
        let slot = self.modules.lock().entry(what.image).or_default().clone();
        // Compiling takes seconds, for which regions of other images must not wait.
        let mut loaded = slot.take();
        if let Some(module) = &*loaded {
            return Ok((Arc::clone(module), what.index));
        }
        let image = self.images.get(what.image).ok_or_else(no_code)?;
        let _current = self.current()?;
        let prints = image.prints();
        let module = Arc::new(Module::load(&self.shared.context, image, self.cache.as_ref())?);
        self.shared.prints.fetch_or(prints, Ordering::Relaxed);
        *loaded = Some(Arc::clone(&module));
        Ok((module, what.index))
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        self.end();
    }
}
