//! A device of another node.

use super::connection::Connection;
use super::fixed_dims::FixedDims;
use super::images;
use super::remote_node::RemoteNode;
use crate::cluster::BeforeStart;
use crate::connection::{Completion, CopyOut, MayStall, Need, PositionQueries, Reply};
use crate::host_copy::{self, Changed, Unchanged};
use accord_device::Backend;
use accord_device::cpu::float_control;
use accord_fabric::frame::{self, Command, PAYLOAD_MAX, POSITION_LEN, Position};
use accord_runtime::ports::{Chain, Changes, DeviceClient, Part, ReadWhen, Wire};
use accord_types::short_lock::{ShortLock, ShortRwLock};
use accord_types::{
    AddressRange, ArgBlock, DeviceInfo, DeviceNum, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec,
    HostRange, ImageRef, LaunchDims, QueueId, Result,
};
use std::ops::Range;
use std::sync::Arc;

/// Largest copy inside a command.
const STORE_MAX: usize = 4096;
/// Most queues in one command.
const POSITIONS_MAX: usize = PAYLOAD_MAX / POSITION_LEN;

/// A device of another node.
pub(crate) struct RemoteDeviceClient {
    node: Arc<RemoteNode>,
    info: DeviceInfo,
    backend: &'static Backend,
    device_type: DeviceType,
    /// The address range for its memory.
    place: ShortLock<AddressRange>,
    /// The executor's answer at the last start.
    addresses: ShortLock<Option<(DevicePtr, u64)>>,
    /// Number of bytes that the program may map.
    memory: u64,
    /// `Some` between start and shutdown.
    connection: ShortRwLock<Option<Arc<Connection>>>,
    /// Launch dimensions that the compiler has fixed, by function, for observers.
    fixed: FixedDims,
    /// The device number for messages.
    num: ShortLock<DeviceNum>,
    on_start: Option<BeforeStart>,
}

/// Returns the name of a device for display.
fn name(device_type: DeviceType, num: DeviceNum) -> String {
    format!("{} {}", device_type.name(), num.0)
}

impl RemoteDeviceClient {
    pub(crate) fn new(
        node: Arc<RemoteNode>,
        info: DeviceInfo,
        backend: &'static Backend,
        device_type: DeviceType,
        num: DeviceNum,
        quota: u64,
        on_start: Option<BeforeStart>,
    ) -> Self {
        let memory = if quota == 0 { info.memory } else { info.memory.min(quota) };
        let (addresses, fixed) = (ShortLock::default(), FixedDims::default());
        Self {
            node,
            info,
            backend,
            device_type,
            place: ShortLock::new(AddressRange { start: DevicePtr(0), len: 0 }),
            addresses,
            memory,
            connection: ShortRwLock::default(),
            fixed,
            num: ShortLock::new(num),
            on_start,
        }
    }

    /// Returns the device's ordinal on its node.
    pub(crate) fn device(&self) -> u32 {
        self.info.id.ordinal
    }

    /// Returns the connection of a started device.
    ///
    /// # Errors
    /// Returns an error if it is not started.
    pub(crate) fn connection(&self) -> Result<Arc<Connection>> {
        let connection = self.connection.read().clone();
        connection.ok_or_else(|| {
            Error::new(ErrorCode::DeviceUnavailable, "the device is not started").node(&self.info.node_name)
        })
    }

    fn set_connection(&self, connection: Option<Arc<Connection>>) -> Option<Arc<Connection>> {
        std::mem::replace(&mut *self.connection.write(), connection)
    }

    fn num(&self) -> DeviceNum {
        *self.num.lock()
    }

    fn open(&self, connection: &Arc<Connection>) -> Result<()> {
        let device = self.device();
        connection.name_device(device, self.num());
        if self.backend.capabilities.takes_images {
            images::send_all(connection)?;
        }
        let AddressRange { start: DevicePtr(start), len } = *self.place.lock();
        let reply = connection.ask(|ticket| Command::Open { device, ticket, start, len }, &[])?;
        let addresses = (DevicePtr(reply.value), reply.extra);
        *self.addresses.lock() = Some(addresses);
        connection.machine().open(device, u32::try_from(self.node.spec.streams).unwrap_or(0));
        self.set_connection(Some(connection.clone()));
        Ok(())
    }

    fn send_image_of(&self, connection: &Arc<Connection>, what: Option<ImageRef>) -> Result<()> {
        if self.backend.capabilities.takes_images { images::send_of(connection, what) } else { Ok(()) }
    }

    fn operate(&self, queue: QueueId, stall: MayStall, command: &Command, payload: &[&[u8]]) -> Result<()> {
        self.connection()?.operate(self.device(), queue, stall, command, payload)
    }

    /// Waits for the replies about queues. Returns the last reply; `None` if the program knew the answer already.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or a queue has failed. A queue's failure then holds for all later
    /// operations.
    fn replies(&self, connection: &Arc<Connection>, asked: &PositionQueries) -> Result<Option<Reply>> {
        let replies = connection.wait_for_replies(&asked.replies).map_err(|error| connection.place(error));
        replies.inspect_err(|error| connection.wait_failed(self.device(), error))
    }

    fn wait_on(&self, connection: &Arc<Connection>, queues: &[QueueId]) -> Result<()> {
        let mut machine = connection.machine();
        let asked = machine.await_positions(self.device(), queues, std::thread::current(), connection.now())?;
        if asked.ahead && asked.replies.is_empty() {
            connection.send_later(machine)?;
        } else {
            drop(machine);
        }
        self.replies(connection, &asked)?;
        Self::reach(connection, &asked.positions)
    }

    /// Handles that the executor has reached `positions`: waits for the copies out among them.
    fn reach(connection: &Arc<Connection>, positions: &[Position]) -> Result<()> {
        let copies = connection.machine().reach(positions)?;
        if copies.is_empty() {
            return Ok(());
        }
        connection.wait_until_landed(&copies).map_err(|error| connection.place(error))?;
        connection.machine().landed_until(positions)
    }

    /// Requests `len` bytes for places in `dst`.
    fn bring(
        &self,
        queue: QueueId,
        src: DevicePtr,
        (len, dst): (usize, HostRange),
        completion: Completion,
    ) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let connection = self.connection()?;
        let transfer = connection.spec.transfer();
        let large = Connection::is_large(len);
        if large {
            connection.serve_bulk_lanes();
        }
        let copy = CopyOut { device: self.device(), queue, src, len: len as u64, dst, transfer, completion };
        let mut machine = connection.machine_with_room(Need::Operation(self.device(), queue))?;
        machine.copy_out(copy, connection.now())?;
        if large {
            // Before the command can be sent.
            connection.expect_large(transfer, len);
        }
        connection.send(machine, queue)
    }
}

impl DeviceClient for RemoteDeviceClient {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn device_type(&self) -> DeviceType {
        self.device_type
    }

    fn renumber(&self, num: DeviceNum) {
        *self.num.lock() = num;
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn route(&self) -> Option<String> {
        self.node.route().ok().map(|route| route.to_string())
    }

    fn guards_blocks(&self) -> bool {
        self.backend.capabilities.guards_blocks
    }

    fn sees_named_memory_only(&self) -> bool {
        self.backend.capabilities.sees_named_memory_only
    }

    fn wire(&self) -> Option<Wire> {
        let counted = self.node.counters();
        Some(Wire {
            sent: counted.bulk_sent,
            sent_ns: counted.bulk_sent_ns,
            received: counted.bulk_received,
            received_ns: counted.bulk_received_ns,
        })
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        self.addresses.lock().unwrap_or((DevicePtr(0), 0))
    }

    fn addresses_wanted(&self) -> u64 {
        (self.backend.addresses_wanted)(&self.info)
    }

    fn lie_at(&self, place: AddressRange) {
        *self.place.lock() = place;
    }

    fn start(&self) -> Result<()> {
        if let Ok(connection) = self.connection() {
            // The device may have failed: that is reported, and only a shutdown clears it.
            return connection.machine().device(self.device()).map(drop);
        }
        if let Some(before) = &self.on_start {
            before().map_err(|error| error.node(&self.info.node_name))?;
        }
        let name = name(self.device_type, self.num());
        self.node.start(self.device(), &name, |connection| self.open(connection))
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        let connection = self.connection()?;
        let mut machine = connection.machine();
        let state = machine.device(self.device())?;
        if state.mapped.saturating_add(len) > self.memory {
            return Err(connection.place(
                Error::new(
                    ErrorCode::OutOfMemory,
                    format!("{len} bytes are wanted, {} of {} are left", self.memory - state.mapped, self.memory),
                )
                .remedy("free data that is no longer needed, or spread it over more devices"),
            ));
        }
        let (device, start) = (self.device(), start.0);
        drop(machine);
        // If other sessions have the memory, that is an error of this allocation, not of the device.
        connection.ask(|ticket| Command::Map { device, ticket, start, len }, &[])?;
        connection.machine().device(device)?.mapped += len;
        Ok(())
    }

    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<()> {
        let command = Command::Unmap { device: self.device(), queue: queue.0, start: start.0, len };
        self.operate(queue, MayStall::No, &command, &[])?;
        let connection = self.connection()?;
        let mut machine = connection.machine();
        let state = machine.device(self.device())?;
        state.mapped = state.mapped.saturating_sub(len);
        Ok(())
    }

    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let command = Command::Store { device: self.device(), queue: queue.0, dst: dst.0 };
        self.operate(queue, MayStall::No, &command, &[bytes])
    }

    fn copy_in(&self, queue: QueueId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<()> {
        let connection = self.connection()?;
        if src.len <= STORE_MAX
            && (when == ReadWhen::BeforeReturn || !connection.machine().is_being_written(self.device(), queue, src)?)
        {
            return self.store(queue, dst, host_copy::bytes(src));
        }
        connection.copy_in(self.device(), queue, dst, src, when)
    }

    fn copy_out(&self, queue: QueueId, src: DevicePtr, dst: HostRange) -> Result<()> {
        self.bring(queue, src, (dst.len, dst), Completion::Write)
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
        self.bring(queue, src, (sent.len(), range), Completion::Changed(changed))
    }

    fn compare(&self, queue: QueueId, src: DevicePtr, with: HostRange, whole: HostRange) -> Result<()> {
        self.bring(queue, src, (with.len, with), Completion::Compare(Unchanged::new(with, whole)))
    }

    fn changes(&self) -> Changes {
        host_copy::changes()
    }

    fn copy(&self, queue: QueueId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let command = Command::Copy { device: self.device(), queue: queue.0, dst: dst.0, src: src.0, len };
        self.operate(queue, MayStall::Yes, &command, &[])
    }

    fn launch(
        &self,
        queue: QueueId,
        key: u64,
        spec: &dyn Fn() -> Result<FunctionSpec>,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<()> {
        let connection = self.connection()?;
        let device = self.device();
        let mut machine = connection.machine_with_room(Need::Operation(self.device(), queue))?;
        let function = match machine.device(device)?.function(key) {
            Some(function) => function,
            None => {
                drop(machine);
                let spec = spec()?;
                self.send_image_of(&connection, spec.kernel)?;
                let mut payload = Vec::new();
                frame::encode_function(&mut payload, &spec);
                machine = connection.machine_with_room(Need::Operation(self.device(), queue))?;
                let state = machine.device(device)?;
                match state.function(key) {
                    // Another thread was faster.
                    Some(function) => function,
                    None => {
                        let function = state.name_function(key);
                        let (offset, executable) = (spec.offset, spec.object.executable);
                        let command = Command::Function { device, function, offset, executable };
                        machine.put(&command, &[&payload], connection.now())?;
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
        let command = Command::Launch {
            device,
            queue: queue.0,
            function,
            gangs: dims.gangs,
            workers: dims.workers,
            vector: dims.vector,
            slots: block.slots,
            float_control: float_control().to_wire(),
        };
        machine.operate((device, queue), MayStall::Yes, &command, &[bits, block.bytes], connection.now())?;
        connection.send(machine, queue)
    }

    fn grid(&self, key: u64, spec: &dyn Fn() -> Result<FunctionSpec>, dims: LaunchDims) -> LaunchDims {
        if let Some(dims) = self.backend.capabilities.fixed_dims {
            return dims;
        }
        // The program's own image has the compiler's dimensions; the device chooses the others.
        let find = || {
            let kernel = spec().ok()?.kernel?;
            Some((kernel, self.connection().ok()?.spec.session.images.get(kernel.image)?))
        };
        let [gangs, workers, vector] = self.fixed.of(key, find);
        let pick = |fixed: u32, asked: u32| if fixed == 0 { asked } else { fixed };
        LaunchDims {
            gangs: pick(gangs, dims.gangs),
            workers: pick(workers, dims.workers),
            vector: pick(vector, dims.vector),
        }
    }

    fn forget_functions(&self, keys: Range<u64>) {
        if let Ok(connection) = self.connection()
            && let Ok(state) = connection.machine().device(self.device())
        {
            state.forget_functions(&keys);
        }
        self.fixed.forget(&keys);
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        let (device, offset, len, executable) = (self.device(), spec.offset, spec.len, spec.object.executable);
        let connection = self.connection()?;
        self.send_image_of(&connection, spec.variable)?;
        let mut payload = Vec::new();
        frame::encode_global(&mut payload, spec);
        let command = |ticket| Command::Global { device, ticket, offset, len, executable };
        Ok(DevicePtr(connection.ask(command, &[&payload])?.value))
    }

    fn wait_queue(&self, queue: QueueId, other: QueueId) -> Result<()> {
        let connection = self.connection()?;
        let mut machine = connection.machine_with_room(Need::Operation(self.device(), queue))?;
        if !machine.wait_queue(self.device(), queue, other, connection.now())? {
            return Ok(());
        }
        connection.send(machine, queue)
    }

    fn wait(&self, queues: &[QueueId]) -> Result<()> {
        let connection = self.connection()?;
        let waited = queues.chunks(POSITIONS_MAX).try_for_each(|queues| self.wait_on(&connection, queues));
        // A program may go on after an error, too, and free its memory.
        waited.inspect_err(|_| connection.wait_for_memory_of_failed(self.device(), queues))
    }

    fn ask_ahead(&self) {
        let Ok(connection) = self.connection() else { return };
        let mut machine = connection.machine();
        // The next wait for the queues returns a failure.
        if machine.ask_about_all(self.device(), connection.now()) == Ok(true) {
            connection.send_elsewhere(machine);
        }
    }

    fn test(&self, queues: &[QueueId]) -> Result<bool> {
        for queues in queues.chunks(POSITIONS_MAX) {
            let connection = self.connection()?;
            let (waker, now) = (std::thread::current(), connection.now());
            let asked = connection.machine().test_positions(self.device(), queues, waker, now)?;
            if let Some(Reply { value: 0, .. }) = self.replies(&connection, &asked)? {
                return Ok(false);
            }
            // Bytes of copies out are in flight at least, and nothing holds them up.
            Self::reach(&connection, &asked.positions)?;
        }
        Ok(true)
    }

    fn quota(&self) -> Option<u64> {
        (self.memory < self.info.memory).then_some(self.memory)
    }

    fn memory_free(&self) -> Result<u64> {
        let device = self.device();
        let free = self.connection()?.ask(|ticket| Command::Memory { device, ticket }, &[])?.value;
        Ok(free.min(self.memory))
    }

    fn shutdown(&self) -> Result<()> {
        let Some(connection) = self.set_connection(None) else { return Ok(()) };
        let device = self.device();
        let mut machine = connection.machine();
        machine.close(device, &Error::new(ErrorCode::DeviceShutdown, "the device was shut down"));
        connection.act(machine);
        let closed = connection.ask(|ticket| Command::Close { device, ticket }, &[]);
        // The program may free its memory when this returns.
        connection.wait_for_memory(device);
        self.node.end(device);
        match closed {
            Ok(_) => Ok(()),
            // A lost device has ended, too.
            Err(error) if error.code() == ErrorCode::DeviceUnavailable => Ok(()),
            Err(error) => Err(error),
        }
    }
}
