//! A device's mirror: a CPU device with memory at the same addresses, so that pointers mean the same in both. Only the variables of loaded objects
//! lie elsewhere.

use super::host::ComparisonHost;
use crate::device::Device;
use crate::memory::{Purpose, UsedBlock};
use crate::ports::{DeviceClient, HostMemory};
use crate::present::Attachment;
use crate::program::{Global, GlobalKind};
use crate::queues::After;
use accord_types::{
    AddressRange, ArgBlock, Count, DevicePtr, Error, ErrorCode, FunctionSpec, HostRange, LaunchDims, QueueId, ReadWhen,
    Result,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes that are copied and compared at once.
pub(super) const BUFFER_BYTES: usize = 1 << 20;

/// The reason why a region can't be compared, whose construct goes on.
pub(super) struct Obstacle(pub(super) String);

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// A CPU device with a copy of the data that the present region reaches.
pub(super) struct Mirror {
    client: Arc<dyn DeviceClient>,
    /// First address of both devices' memory.
    start: DevicePtr,
    /// Pages that are mapped for the present region.
    mapped: BTreeSet<u64>,
    /// Variables of loaded objects, and the objects.
    pub(super) variables: Vec<SharedVariable>,
    objects: Vec<u64>,
}

/// A variable with a `declare` clause.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedVariable {
    pub(super) host: HostRange,
    /// Its addresses on the device and on its mirror.
    pub(super) device: DevicePtr,
    pub(super) mirror: DevicePtr,
}

/// Data that a region reaches on its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReachedBlock {
    pub(super) bytes: u64,
    /// Its address in the program; 0 for none.
    pub(super) host: usize,
    pub(super) purpose: Purpose,
}

/// The blocks that a region reaches on its device, by their addresses. Each is held, so that no other thread's construct frees memory that is read.
pub(super) struct Reached {
    pub(super) blocks: BTreeMap<u64, ReachedBlock>,
    /// The device's epoch: a shutdown frees all blocks.
    epoch: u32,
}

impl Reached {
    pub(super) fn new(device: &Device) -> Self {
        Self { blocks: BTreeMap::new(), epoch: device.epoch() }
    }

    /// Holds the block that contains an address. Returns its start and length if it was not held before.
    fn hold(&mut self, device: &Device, address: u64) -> Option<(u64, u64)> {
        let mut state = device.lock();
        let UsedBlock { start, bytes, host, purpose } = state.memory.used_around(address)?;
        if device.epoch() != self.epoch || self.blocks.contains_key(&start.0) {
            return None;
        }
        state.memory.share(start);
        self.blocks.insert(start.0, ReachedBlock { bytes, host, purpose });
        Some((start.0, bytes))
    }

    /// Returns the blocks, which may have been freed meanwhile by other threads: after all work of all queues.
    pub(super) fn release(self, device: &Device) {
        let mut state = device.lock();
        if device.epoch() != self.epoch {
            return;
        }
        let queues = device.queues();
        let after = After { queue: None, moment: queues.now() };
        for start in self.blocks.into_keys() {
            state.memory.give_back(DevicePtr(start), after, &queues);
        }
    }
}

/// Memory of the program through which bytes of devices are read and written.
pub(super) struct Buffer(usize);

impl Buffer {
    /// Allocates a buffer, which stays as long as the program: a failed copy may still use it.
    pub(super) fn new(host: &dyn HostMemory) -> Result<Self, Obstacle> {
        let buffer = host.allocate(BUFFER_BYTES);
        let no_memory = || Obstacle(format!("the program has no {} for the comparison", Count(BUFFER_BYTES, "byte")));
        (buffer != 0).then_some(Self(buffer)).ok_or_else(no_memory)
    }

    /// Reads device memory, at most [`BUFFER_BYTES`].
    pub(super) fn read(
        &self,
        from: (&dyn DeviceClient, DevicePtr),
        host: &dyn HostMemory,
        bytes: &mut [u8],
    ) -> Result<()> {
        let (client, src) = from;
        client.copy_out(QueueId::SYNC, src, HostRange { start: self.0, len: bytes.len() })?;
        client.wait(&[QueueId::SYNC])?;
        host.read(self.0, bytes);
        Ok(())
    }
}

impl Mirror {
    /// Bytes that are mapped at once.
    const PAGE: u64 = AddressRange::PAGE;

    /// Starts the mirror of a started device.
    ///
    /// # Errors
    /// Returns an error if this machine has no memory, addresses or processes for it.
    pub(super) fn start(device: &Device, host: &dyn ComparisonHost) -> Result<Self> {
        let (start, len) = device.observed_client().addresses();
        if device.observed_client().allocates() {
            let cause = "its driver chooses the addresses of its memory";
            return Err(Error::new(ErrorCode::DeviceInit, cause).remedy("set ACCORD_GPU_MEMORY=map"));
        }
        let client = host.mirror(device.info(), len)?;
        client.lie_at(AddressRange { start, len: len.min(client.addresses_wanted()) });
        client.start()?;
        if client.addresses().0 != start {
            let cause = format!("the CPU device's memory came to lie at {}, not at {start}", client.addresses().0);
            return Err(Error::new(ErrorCode::DeviceInit, cause));
        }
        let (variables, objects) = (Vec::new(), Vec::new());
        Ok(Self { client, start, mapped: BTreeSet::new(), variables, objects })
    }

    /// Whether its addresses are still those of the device.
    pub(super) fn fits(&self, device: &Device) -> bool {
        self.start == device.observed_client().addresses().0
    }

    pub(super) fn client(&self) -> &dyn DeviceClient {
        &*self.client
    }

    /// Looks up the variables of the loaded objects on both devices, unless they are known.
    pub(super) fn know_variables(&mut self, device: &Device, globals: &[(u64, Vec<Global>)]) -> Result<(), Obstacle> {
        let objects: Vec<u64> = globals.iter().map(|(id, _)| *id).collect();
        let has_links = globals.iter().flat_map(|(_, all)| all).any(|global| global.kind == GlobalKind::Link);
        // A link variable has another place each time that it is mapped.
        if objects == self.objects && !has_links {
            return Ok(());
        }
        self.variables.clear();
        for global in globals.iter().flat_map(|(_, all)| all) {
            self.variables.extend(self.variable(device, global)?);
        }
        self.objects = objects;
        Ok(())
    }

    fn variable(&self, device: &Device, global: &Global) -> Result<Option<SharedVariable>, Obstacle> {
        if global.kind == GlobalKind::Constants {
            return Ok(None);
        }
        // No region uses a variable that the device's code lacks, as that of an object built with -foffload=disable does.
        if global.kind == GlobalKind::Variable && device.resolve(global.host).is_err() {
            return Ok(None);
        }
        let place = {
            let state = device.lock();
            let entry = state.table.find_byte(global.host).map(|id| &state.table[id]);
            entry.and_then(|entry| Some((entry.device()?, entry.range())))
        };
        let Some((on_device, host)) = place else { return Ok(None) };
        let mirror = self.client.global(&global.spec)?;
        // A part of a link variable may be present alone.
        let mirror = mirror.offset(host.start.wrapping_sub(global.host) as u64);
        Ok(Some(SharedVariable { host, device: on_device, mirror }))
    }

    /// Returns the mirror's address for an address of the device.
    pub(super) fn translated(&self, address: u64) -> u64 {
        let holds = |variable: &&SharedVariable| address.wrapping_sub(variable.device.0) < variable.host.len as u64;
        let variable = self.variables.iter().find(holds);
        variable.map_or(address, |variable| address.wrapping_sub(variable.device.0).wrapping_add(variable.mirror.0))
    }

    /// Maps memory for a block.
    fn map(&mut self, start: u64, bytes: u64) -> Result<(), Obstacle> {
        let first = start / Self::PAGE * Self::PAGE;
        for page in (first..start + bytes).step_by(Self::PAGE as usize) {
            if self.mapped.insert(page) {
                self.client.map(DevicePtr(page), Self::PAGE)?;
            }
        }
        Ok(())
    }

    /// Returns the memory of the present region.
    pub(super) fn clear(&mut self) -> Result<()> {
        for page in std::mem::take(&mut self.mapped) {
            self.client.unmap(QueueId::SYNC, DevicePtr(page), Self::PAGE)?;
        }
        self.client.wait(&[QueueId::SYNC])
    }

    /// Runs a region on the copied data.
    pub(super) fn run(
        &self,
        key: u64,
        spec: &dyn Fn() -> Result<FunctionSpec>,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<(), Obstacle> {
        let mut bytes = block.bytes.to_vec();
        let relative: BTreeSet<usize> = block.relative_offsets().collect();
        for (at, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            if !relative.contains(&(at * 8)) {
                *word = self.translated(u64::from_ne_bytes(*word)).to_ne_bytes();
            }
        }
        let launched = self.client.launch(QueueId::SYNC, key, spec, dims, ArgBlock { bytes: &bytes, ..block });
        let ran = launched.and_then(|()| self.client.wait(&[QueueId::SYNC]));
        ran.map_err(|error| Obstacle(format!("it fails on the CPU device: {error}")))
    }
}

/// Copies what a region reaches from its device to the mirror.
pub(super) struct Copying<'a> {
    pub(super) device: &'a Device,
    pub(super) host: &'a dyn HostMemory,
    pub(super) mirror: &'a mut Mirror,
    pub(super) buffer: &'a Buffer,
    /// Blocks that were reached so far, by their addresses.
    pub(super) reached: &'a mut Reached,
    /// Blocks that are not copied yet.
    pub(super) pending: Vec<(u64, u64)>,
}

impl Copying<'_> {
    /// Copies all data that the argument block, an address in `named`, or a pointer in data that is reached leads to.
    ///
    /// # Errors
    /// Returns the first error of either device.
    pub(super) fn all(&mut self, block: ArgBlock<'_>, named: &[u64]) -> Result<(), Obstacle> {
        named.iter().for_each(|address| self.reach(*address));
        block.bytes.as_chunks::<8>().0.iter().for_each(|word| self.reach(u64::from_ne_bytes(*word)));
        for variable in self.mirror.variables.clone() {
            self.copy(variable.device.0, variable.mirror, variable.host.len as u64)?;
        }
        while let Some((start, bytes)) = self.pending.pop() {
            self.mirror.map(start, bytes)?;
            self.copy(start, DevicePtr(start), bytes)?;
        }
        Ok(())
    }

    /// Handles a word that may be a pointer.
    fn reach(&mut self, word: u64) {
        let (start, len) = self.device.observed_client().addresses();
        if word.wrapping_sub(start.0) >= len {
            return;
        }
        if let Some((start, bytes)) = self.reached.hold(self.device, word) {
            self.pending.push((start, bytes));
            self.reach_attached(start, bytes);
        }
    }

    /// Reaches what pointers in a block are attached to: such a pointer may lead before the begin of its section.
    fn reach_attached(&mut self, start: u64, bytes: u64) {
        let inside = |at: DevicePtr| at.0.wrapping_sub(start) < bytes;
        let pointers: Vec<(u64, usize)> = {
            let state = self.device.lock();
            let entries = state.table.iter().filter(|(_, entry)| entry.device().is_some_and(inside));
            let attached = entries.flat_map(|(_, entry)| {
                entry.attachments.iter().map(|attached| (attached.value, entry.start + attached.offset))
            });
            attached.collect()
        };
        // The distance between the program's addresses and the device's is the same for the pointer and its section.
        let distance = |(attached, pointer): (u64, usize)| {
            let mut value = [0; Attachment::BYTES];
            // The program may have freed its structure.
            self.host.check_source(HostRange { start: pointer, len: value.len() }).ok()?;
            self.host.read(pointer, &mut value);
            Some(attached.wrapping_sub(u64::from_ne_bytes(value)))
        };
        let distances: BTreeSet<u64> = pointers.into_iter().filter_map(distance).collect();
        if distances.is_empty() {
            return;
        }
        let targets: Vec<u64> = {
            let state = self.device.lock();
            let sections = state.table.iter().filter_map(|(_, entry)| {
                let device = entry.device()?.0;
                distances.contains(&device.wrapping_sub(entry.start as u64)).then_some(device)
            });
            sections.collect()
        };
        targets.into_iter().for_each(|target| self.reach(target));
    }

    fn copy(&mut self, from: u64, to: DevicePtr, bytes: u64) -> Result<(), Obstacle> {
        let mut piece = vec![0; BUFFER_BYTES.min(bytes as usize)];
        let mut done = 0;
        while done < bytes {
            let len = (bytes - done).min(piece.len() as u64) as usize;
            let (src, dst, piece) = (DevicePtr(from + done), to.offset(done), &mut piece[..len]);
            self.buffer.read((&*self.device.client(), src), self.host, piece)?;
            let source = HostRange { start: self.buffer.0, len };
            let client = self.mirror.client.clone();
            client.copy_in(QueueId::SYNC, dst, source, ReadWhen::BeforeReturn)?;
            let ahead = (src.0.wrapping_neg() % 8) as usize;
            for (at, word) in piece.get(ahead..).unwrap_or_default().as_chunks::<8>().0.iter().enumerate() {
                let word = u64::from_ne_bytes(*word);
                let translated = self.mirror.translated(word);
                if translated != word {
                    let place = dst.offset((ahead + at * 8) as u64);
                    client.store(QueueId::SYNC, place, &translated.to_ne_bytes())?;
                } else {
                    self.reach(word);
                }
            }
            // The buffer is used for the next piece.
            client.wait(&[QueueId::SYNC])?;
            done += len as u64;
        }
        Ok(())
    }
}
