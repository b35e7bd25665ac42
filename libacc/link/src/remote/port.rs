//! A device of another node.

use super::core::Noise;
use super::link::Link;
use super::live::Live;
use super::receiver::{Reply, Want};
use crate::host_copy::{self, Changed};
use crate::local::ONE_THREAD;
use accord_device::cpu;
use accord_fabric::frame::PAYLOAD_MAX;
use accord_fabric::wire::{self, Command, Position};
use accord_runtime::ports::{Chain, Part, Port, ReadWhen};
use accord_types::{
    ArgBlock, DeviceInfo, DeviceKind, DeviceNum, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec,
    HostRange, ImageRef, LaunchDims, QueueId, Result, Seq, TransferId,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Largest copy inside a command.
const STORE_MAX: usize = 4096;
/// Most queues that one command names.
const POSITIONS_MAX: usize = PAYLOAD_MAX / 16;

/// A device of another node.
pub(crate) struct RemotePort {
    link: Arc<Link>,
    info: DeviceInfo,
    device_type: DeviceType,
    /// As the executor said at the last start.
    addresses: Mutex<Option<(DevicePtr, u64)>>,
    /// Bytes that the program may map.
    memory: u64,
    /// Between start and shutdown.
    live: RwLock<Option<Arc<Live>>>,
    /// Launch dimensions that the compiler has fixed, by function, for observers.
    fixed: Mutex<HashMap<u64, [u32; 3]>>,
    /// For messages.
    name: Mutex<String>,
    /// Told when the device is started.
    started: Option<Box<dyn Fn() + Send + Sync>>,
}

/// What people call a device.
fn name(device_type: DeviceType, num: DeviceNum) -> String {
    format!("{} {}", device_type.name(), num.0)
}

impl RemotePort {
    pub(crate) fn new(
        link: Arc<Link>,
        info: DeviceInfo,
        device_type: DeviceType,
        num: DeviceNum,
        quota: u64,
        started: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Self {
        let memory = if quota == 0 { info.memory } else { info.memory.min(quota) };
        let name = Mutex::new(name(device_type, num));
        let (addresses, fixed) = (Mutex::default(), Mutex::default());
        Self { link, info, device_type, addresses, memory, live: RwLock::default(), fixed, name, started }
    }

    /// The device's ordinal on its node.
    pub(crate) fn device(&self) -> u32 {
        self.info.id.ordinal
    }

    /// The connection of a started device.
    ///
    /// # Errors
    /// When it is not started.
    pub(crate) fn live(&self) -> Result<Arc<Live>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner).clone();
        live.ok_or_else(|| {
            Error::new(ErrorCode::DeviceUnavailable, "the device is not started").node(&self.info.node_name)
        })
    }

    fn set_live(&self, live: Option<Arc<Live>>) -> Option<Arc<Live>> {
        std::mem::replace(&mut *self.live.write().unwrap_or_else(PoisonError::into_inner), live)
    }

    fn open(&self, live: &Arc<Live>) -> Result<()> {
        let device = self.device();
        if self.info.kind == DeviceKind::Cuda {
            live.send_images()?;
        }
        let reply = live.ask(|ticket| Command::Open { device, ticket }, &[])?;
        let addresses = (DevicePtr(reply.value), reply.extra);
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = Some(addresses);
        live.core().open(device);
        self.set_live(Some(live.clone()));
        Ok(())
    }

    fn send_image_of(&self, live: &Live, what: Option<ImageRef>) -> Result<()> {
        if self.info.kind == DeviceKind::Cuda { live.send_image_of(what) } else { Ok(()) }
    }

    fn operate(&self, queue: QueueId, noise: Noise, command: &Command, payload: &[&[u8]]) -> Result<()> {
        self.live()?.operate(self.device(), queue, noise, command, payload)
    }

    /// Asks about the positions that the program does not know to be reached; none if it knows of all.
    fn ask_positions(
        &self,
        queues: &[QueueId],
        command: impl FnOnce(u64) -> Command,
    ) -> Result<Option<(Reply, Vec<Position>)>> {
        let live = self.live()?;
        let device = self.device();
        let mut core = live.core();
        let state = core.device(device)?;
        let mut open = Vec::new();
        for &queue in queues {
            let known = state.queue(queue)?;
            if !known.drained() {
                open.push(Position { device, queue, seq: Seq(known.last) });
            }
        }
        if open.is_empty() {
            return Ok(None);
        }
        let mut payload = Vec::new();
        open.iter().for_each(|&position| wire::put_position(&mut payload, position));
        core.habits.wait();
        let ticket = live.ticket();
        let id = live.receiver.register(Want::Reply(ticket));
        if let Err(error) = core.put(&command(ticket), &[&payload]) {
            live.receiver.unregister(id);
            return Err(error);
        }
        drop(core);
        let reply = live.wait_for_reply(id).map_err(|error| live.place(error))?;
        Ok(Some((reply, open)))
    }

    /// All of `positions` are reached, as the executor said: waits for the bytes of copies out among them.
    fn reach(&self, positions: &[Position]) -> Result<()> {
        let live = self.live()?;
        let mut landings = Vec::new();
        let mut core = live.core();
        let state = core.device(self.device())?;
        for position in positions {
            state.queue(position.queue)?.reach(position.seq.0, &mut landings);
        }
        drop(core);
        if landings.is_empty() {
            return Ok(());
        }
        live.landings.wait(&landings).map_err(|error| live.place(error))?;
        let mut core = live.core();
        let state = core.device(self.device())?;
        for position in positions {
            state.queue(position.queue)?.outs.landed(position.seq.0);
        }
        Ok(())
    }

    /// Asks for `len` bytes, which go to places in `dst`. `expect` says how they come, is told which copies to the same memory come first, and
    /// returns those that write nothing any more.
    fn bring(
        &self,
        queue: QueueId,
        src: DevicePtr,
        (len, dst): (usize, HostRange),
        expect: impl FnOnce(&Live, TransferId, &[TransferId]) -> Vec<TransferId>,
    ) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let live = self.live()?;
        let (transfer, len) = (live.spec.transfer(), len as u64);
        let mut core = live.core_with_credit()?;
        let state = core.device(self.device())?.queue(queue)?;
        let before: Vec<_> = state.outs.writing(dst).collect();
        let over = expect(&live, transfer, &before);
        state.outs.settle(&over);
        let at = state.count(Noise::Noisy);
        state.outs.push(at, transfer, dst, |transfer| live.landings.is_open(transfer));
        let command = Command::CopyOut { device: self.device(), queue: queue.0, src: src.0, len, transfer: transfer.0 };
        core.put(&command, &[])?;
        live.send(core, queue)
    }
}

impl Port for RemotePort {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn device_type(&self) -> DeviceType {
        self.device_type
    }

    fn renumber(&self, num: DeviceNum) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name(self.device_type, num);
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        // Those of a CPU device are known ahead, those of a GPU are the driver's choice.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(|| match self.info.kind {
            DeviceKind::Cpu => cpu::addresses(&self.info),
            DeviceKind::Cuda => (DevicePtr(0), 0),
        })
    }

    fn start(&self) -> Result<()> {
        if let Ok(live) = self.live() {
            // It may have failed: that is reported, and only a shutdown forgets it.
            return live.core().device(self.device()).map(drop);
        }
        let name = self.name.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.link.start(self.device(), &name, |live| self.open(live))?;
        if let Some(started) = &self.started {
            started();
        }
        Ok(())
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        let live = self.live()?;
        let mut core = live.core_with_credit()?;
        let state = core.device(self.device())?;
        if state.mapped.saturating_add(len) > self.memory {
            return Err(live.place(
                Error::new(
                    ErrorCode::OutOfMemory,
                    format!("{len} bytes are wanted, {} of {} are left", self.memory - state.mapped, self.memory),
                )
                .remedy("free data that is no longer needed, or spread it over more devices"),
            ));
        }
        let (device, start) = (self.device(), start.0);
        if self.info.kind == DeviceKind::Cpu {
            // Its memory is there when it is used: nothing to wait for.
            state.mapped += len;
            return core.put(&Command::Map { device, ticket: 0, start, len }, &[]);
        }
        drop(core);
        // A GPU's may be somebody else's, which is an error of this allocation and not of the device.
        live.ask(|ticket| Command::Map { device, ticket, start, len }, &[])?;
        live.core().device(device)?.mapped += len;
        Ok(())
    }

    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<()> {
        let command = Command::Unmap { device: self.device(), queue: queue.0, start: start.0, len };
        self.operate(queue, Noise::Quiet, &command, &[])?;
        let live = self.live()?;
        let mut core = live.core();
        let state = core.device(self.device())?;
        state.mapped = state.mapped.saturating_sub(len);
        Ok(())
    }

    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let command = Command::Store { device: self.device(), queue: queue.0, dst: dst.0 };
        self.operate(queue, Noise::Quiet, &command, &[bytes])
    }

    fn copy_in(&self, queue: QueueId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<()> {
        let live = self.live()?;
        if src.len <= STORE_MAX && (when == ReadWhen::BeforeReturn || !live.is_landing(self.device(), queue, src)?) {
            return self.store(queue, dst, host_copy::bytes(src));
        }
        live.copy_in(self.device(), queue, dst, src, when)
    }

    fn copy_out(&self, queue: QueueId, src: DevicePtr, dst: HostRange) -> Result<()> {
        self.bring(queue, src, (dst.len, dst), |live, transfer, before| {
            if dst.len <= PAYLOAD_MAX {
                live.landings.small(transfer, dst, before)
            } else {
                live.landings.large(transfer, dst, &live.inbox, before)
            }
        })
    }

    fn copy_out_changed(
        &self,
        queue: QueueId,
        src: DevicePtr,
        sent: &[u8],
        parts: &[Part],
        chain: Option<&Arc<Chain>>,
    ) -> Result<()> {
        let changed = Changed::new(sent, parts, chain);
        let range = changed.range();
        self.bring(queue, src, (sent.len(), range), |live, transfer, _| {
            live.landings.changed(transfer, range, changed);
            Vec::new()
        })
    }

    fn compare(&self, queue: QueueId, src: DevicePtr, with: HostRange) -> Result<()> {
        self.bring(queue, src, (with.len, with), |live, transfer, _| {
            live.landings.compare(transfer, with, &live.inbox);
            Vec::new()
        })
    }

    fn changes(&self) -> u64 {
        host_copy::changes()
    }

    fn copy(&self, queue: QueueId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let command = Command::Copy { device: self.device(), queue: queue.0, dst: dst.0, src: src.0, len };
        self.operate(queue, Noise::Noisy, &command, &[])
    }

    fn launch(
        &self,
        queue: QueueId,
        key: u64,
        spec: &dyn Fn() -> Result<FunctionSpec>,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<()> {
        let live = self.live()?;
        let device = self.device();
        let mut core = live.core_with_credit()?;
        let function = match core.device(device)?.function(key) {
            Some(function) => function,
            None => {
                drop(core);
                let spec = spec()?;
                self.send_image_of(&live, spec.kernel)?;
                let mut payload = Vec::new();
                wire::encode_function(&mut payload, &spec);
                core = live.core_with_credit()?;
                let state = core.device(device)?;
                match state.function(key) {
                    // Another thread was quicker.
                    Some(function) => function,
                    None => {
                        let function = state.name_function(key);
                        let (offset, executable) = (spec.offset, spec.object.executable);
                        core.put(&Command::Function { device, function, offset, executable }, &[&payload])?;
                        function
                    }
                }
            }
        };
        let mut bits = [0; ArgBlock::RELATIVE_WORDS_MAX * 8];
        let Some(bits) = bits.get_mut(..block.relative.len() * 8) else {
            return Err(Error::new(ErrorCode::ImplementationDefined, "an argument block of impossible size"));
        };
        for (bytes, word) in bits.chunks_exact_mut(8).zip(block.relative) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        core.device(device)?.queue(queue)?.count(Noise::Noisy);
        let command = Command::Launch {
            device,
            queue: queue.0,
            function,
            gangs: dims.gangs,
            workers: dims.workers,
            vector: dims.vector,
            slots: block.slots,
        };
        core.put(&command, &[bits, block.bytes])?;
        live.send(core, queue)
    }

    fn grid(&self, key: u64, spec: &dyn Fn() -> Result<FunctionSpec>, dims: LaunchDims) -> LaunchDims {
        if self.info.kind == DeviceKind::Cpu {
            return ONE_THREAD;
        }
        // What the compiler has fixed is in the program's own image; the rest is chosen where the device is.
        let find = || {
            let kernel = spec().ok()?.kernel?;
            let image = self.live().ok()?.spec.images.get(kernel.image)?;
            Some(image.functions.get(kernel.index as usize)?.dims.map(u32::from))
        };
        let mut known = self.fixed.lock().unwrap_or_else(PoisonError::into_inner);
        let [gangs, workers, vector] = *known.entry(key).or_insert_with(|| find().unwrap_or_default());
        let pick = |fixed: u32, asked: u32| if fixed == 0 { asked } else { fixed };
        LaunchDims {
            gangs: pick(gangs, dims.gangs),
            workers: pick(workers, dims.workers),
            vector: pick(vector, dims.vector),
        }
    }

    fn forget_functions(&self, keys: Range<u64>) {
        if let Ok(live) = self.live()
            && let Ok(state) = live.core().device(self.device())
        {
            state.forget_functions(&keys);
        }
        self.fixed.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| !keys.contains(key));
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        let (device, offset, len, executable) = (self.device(), spec.offset, spec.len, spec.object.executable);
        let live = self.live()?;
        self.send_image_of(&live, spec.variable)?;
        let mut payload = Vec::new();
        wire::encode_global(&mut payload, spec);
        let command = |ticket| Command::Global { device, ticket, offset, len, executable };
        Ok(DevicePtr(live.ask(command, &[&payload])?.value))
    }

    fn wait_queue(&self, queue: QueueId, other: QueueId) -> Result<()> {
        let live = self.live()?;
        let device = self.device();
        let mut core = live.core_with_credit()?;
        let state = core.device(device)?;
        let before = state.queue(other)?;
        if before.drained() {
            return Ok(());
        }
        let (seq, outs) = (before.last, std::mem::take(&mut before.outs));
        let waiting = state.queue(queue)?;
        let at = waiting.count(Noise::Noisy);
        waiting.outs.follow(at, &outs, |transfer| live.landings.is_open(transfer));
        state.queue(other)?.outs = outs;
        core.put(&Command::WaitQueue { device, queue: queue.0, other: other.0, seq }, &[])?;
        live.send(core, queue)
    }

    fn wait(&self, queues: &[QueueId]) -> Result<()> {
        queues.chunks(POSITIONS_MAX).try_for_each(|queues| {
            match self.ask_positions(queues, |ticket| Command::Wait { ticket })? {
                Some((_, positions)) => self.reach(&positions),
                None => Ok(()),
            }
        })
    }

    fn test(&self, queues: &[QueueId]) -> Result<bool> {
        for queues in queues.chunks(POSITIONS_MAX) {
            match self.ask_positions(queues, |ticket| Command::Test { ticket })? {
                None => {}
                Some((Reply { value: 0, .. }, _)) => return Ok(false),
                // Bytes of copies out are on the way at least, and nothing holds them up.
                Some((_, positions)) => self.reach(&positions)?,
            }
        }
        Ok(true)
    }

    fn memory_free(&self) -> Result<u64> {
        let device = self.device();
        let free = self.live()?.ask(|ticket| Command::Memory { device, ticket }, &[])?.value;
        Ok(free.min(self.memory))
    }

    fn shutdown(&self) -> Result<()> {
        let Some(live) = self.set_live(None) else { return Ok(()) };
        let device = self.device();
        let landings = live.core().close(device);
        live.landings.cancel(&landings, &live.inbox);
        let over = Error::new(ErrorCode::DeviceShutdown, "the device was shut down");
        live.cancel_transfers(device, None, &over);
        let closed = live.ask(|ticket| Command::Close { device, ticket }, &[]);
        self.link.end(device);
        match closed {
            Ok(_) => Ok(()),
            // A lost device is gone as well.
            Err(error) if error.code() == ErrorCode::DeviceUnavailable => Ok(()),
            Err(error) => Err(error),
        }
    }
}
