//! Copies between devices: the bytes take the shortest way, in the program's order.

mod common;

use accord_client::{LocalDeviceClient, connect_direct};
use accord_device::fake::FakeDevice;
use accord_device::{CopySource, Device, Source};
use accord_executor::hosted::Hosted;
use accord_fabric::Key;
use accord_runtime::ports::{Chain, Cluster, DeviceClient, Part, ReadWhen};
use accord_types::{
    ArgBlock, DeviceId, DeviceInfo, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec, HostRange,
    LaunchDims, LeasedDevice, NodeId, QueueId, Result, Seq, StreamId,
};
use common::*;
use std::ops::Range;
use std::sync::Arc;

/// Checks a copy of `len` bytes between devices, after compute on the source and synchronous stores on the target.
/// `here` has the devices of this machine from index 1 on.
fn check(session: &dyn Cluster, here: &[Arc<Here>], source: usize, target: usize, len: usize) {
    let local = |index: usize| index.checked_sub(1).and_then(|index| here.get(index));
    let clients: Vec<_> = [source, target].map(|index| session.clients()[index].clone()).into();
    for client in &clients {
        client.start().unwrap();
        client.map(client.addresses().0, 8 * MIB).unwrap();
    }
    let (from, to) = (clients[0].addresses().0, clients[1].addresses().0);
    let bytes = pattern(len, source * 8 + target);
    match local(source) {
        Some(local) => local.write(Q1, from, &bytes),
        None => copy_in(&*clients[0], Q1, from, &bytes, ReadWhen::InOrder),
    }
    launch(&*clients[0], Q1, ADD, &[from.0, 1, len as u64]).unwrap();
    // Synchronous operations on the target precede the copy.
    clients[1].store(QueueId::SYNC, to, &[255; 4096]).unwrap();
    launch(&*clients[1], QueueId::SYNC, ADD, &[to.0, 1, 4096]).unwrap();
    session.copy_between(Q1, source, from, target, to, len as u64).unwrap();
    clients[0].wait(&[Q1]).unwrap();
    let arrived = match local(target) {
        Some(local) => local.read(to, len),
        None => read_back(&*clients[1], to, len),
    };
    assert!(arrived.iter().zip(&bytes).all(|(a, b)| *a == b.wrapping_add(1)), "{source} to {target}, {len} bytes");
    for client in &clients {
        client.unmap(QueueId::SYNC, client.addresses().0, 8 * MIB).unwrap();
        client.wait(&[QueueId::SYNC]).unwrap();
    }
}

#[test]
fn from_every_device_to_every_other() {
    let world = world(2, 2, regions(&Gate::default()));
    for source in 0..4 {
        for target in 0..4 {
            if source != target {
                for len in [1, 5000, 3_000_001] {
                    check(&*world.session, &[], source, target, len);
                }
            }
        }
    }
}

#[test]
fn within_a_device_and_with_no_bytes() {
    let world = world(2, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    client.store(Q1, start, b"abc").unwrap();
    world.session.copy_between(Q1, 0, start, 0, start.offset(100), 3).unwrap();
    world.session.copy_between(Q1, 0, start, 1, start, 0).unwrap();
    client.wait(&[Q1]).unwrap();
    assert_eq!(read_back(&*client, start.offset(100), 3), b"abc");
}

#[test]
fn bytes_between_two_nodes_do_not_visit_the_program() {
    const LEN: u64 = 8 * MIB;
    let world = world(2, 1, regions(&Gate::default()));
    let ((source, from), (_, to)) = (world.mapped(0, LEN), world.mapped(1, LEN));
    launch(&*source, Q1, ADD, &[from.0, 7, LEN]).unwrap();
    world.session.copy_between(Q1, 0, from, 1, to, LEN).unwrap();
    source.wait(&[Q1]).unwrap();
    let reports = world.session.report().unwrap();
    for report in &reports {
        let (program, executor) = (report.program, report.executor);
        let near = [program.command_sent, program.command_received, program.bulk_sent, program.bulk_received];
        let far = [executor.command_sent, executor.command_received, executor.bulk_sent, executor.bulk_received];
        assert!(near.iter().chain(&far).sum::<u64>() < 10_000, "{}: {program}; {executor}", report.node_name);
    }
    assert!(reports[0].peers.bulk_sent >= LEN && reports[1].peers.bulk_received >= LEN);
    assert!(reports[0].peers.bulk_received < 10_000 && reports[1].peers.bulk_sent < 10_000);
}

#[test]
fn a_copy_waits_for_the_targets_earlier_work_and_not_for_its_other_queues() {
    let gate = Gate::default();
    let world = world(2, 1, regions(&gate));
    let ((source, from), (target, to)) = (world.mapped(0, MIB), world.mapped(1, MIB));
    source.store(Q1, from, &[1; 8]).unwrap();
    // The copy does not depend on other queues of the target, which are busy.
    launch(&*target, Q2, GATE, &[]).unwrap();
    world.session.copy_between(Q1, 0, from, 1, to, 8).unwrap();
    source.wait(&[Q1]).unwrap();
    assert!(!target.test(&[Q2]).unwrap());
    // The copy does depend on the target's synchronous queue.
    launch(&*target, QueueId::SYNC, GATE, &[]).unwrap();
    world.session.copy_between(Q1, 0, from, 1, to, 8).unwrap();
    assert!(!source.test(&[Q1]).unwrap());
    gate.open();
    source.wait(&[Q1]).unwrap();
    assert_eq!(read_back(&*target, to, 8), [1; 8]);
}

#[test]
fn a_ring_of_copies_at_the_same_time_does_not_lock_up() {
    let world = Arc::new(world(3, 2, regions(&Gate::default())));
    let places: Vec<_> = (0..6).map(|index| world.mapped(index, 8 * MIB)).collect();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (world, places) = (world.clone(), &places);
            scope.spawn(move || {
                for round in 0..10 {
                    let (source, target) = (thread, (thread + 1 + round % 5) % 6);
                    let (queue, at) = (QueueId(thread as u32), thread as u64 * MIB);
                    let (from, to) = (places[source].1.offset(at), places[target].1.offset(at));
                    let bytes = pattern(1_000_000, thread * 10 + round);
                    copy_in(&*places[source].0, queue, from, &bytes, ReadWhen::InOrder);
                    world.session.copy_between(queue, source, from, target, to, bytes.len() as u64).unwrap();
                    places[source].0.wait(&[queue]).unwrap();
                    let mut out = vec![0; bytes.len()];
                    places[target].0.copy_out(queue, to, range_mut(&mut out)).unwrap();
                    places[target].0.wait(&[queue]).unwrap();
                    assert!(out == bytes);
                }
            });
        }
    });
}

#[test]
fn a_refusing_target_fails_the_sources_queue_and_its_stream_goes_on() {
    let world = world(2, 1, regions(&Gate::default()));
    let ((source, from), (target, to)) = (world.mapped(0, MIB), world.mapped(1, MIB));
    // Nothing is mapped at the target.
    world.session.copy_between(Q1, 0, from, 1, to.offset(10 * MIB), 8).unwrap();
    let error = source.wait(&[Q1]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert_eq!(error.place().node.as_deref(), Some("h2"), "{error}");
    world.session.copy_between(Q2, 0, from, 1, to, 8).unwrap();
    source.wait(&[Q2]).unwrap();
    assert_eq!(read_back(&*target, to, 8), [0; 8]);
}

#[test]
fn a_failing_source_leaves_the_target_in_order() {
    let world = world(2, 1, regions(&Gate::default()));
    let ((source, from), (target, to)) = (world.mapped(0, MIB), world.mapped(1, MIB));
    launch(&*source, Q1, FAIL, &[]).unwrap();
    let _ = world.session.copy_between(Q1, 0, from, 1, to, 100_000);
    assert_eq!(source.wait(&[Q1]).unwrap_err().code(), ErrorCode::Execution);
    source.store(Q2, from, b"well").unwrap();
    world.session.copy_between(Q2, 0, from, 1, to, 4).unwrap();
    source.wait(&[Q2]).unwrap();
    assert_eq!(read_back(&*target, to, 4), b"well");
}

/// Bytes for a copy in, and the number of bytes read.
struct Bytes(Vec<u8>, usize);

impl Source for Bytes {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        piece.copy_from_slice(&self.0[self.1..][..piece.len()]);
        self.1 += piece.len();
        Ok(())
    }
}

/// A device of this machine, as the session uses it.
struct Here {
    info: DeviceInfo,
    device: Arc<FakeDevice>,
    hosted: Arc<Hosted>,
}

impl Here {
    fn new(device: Arc<FakeDevice>) -> Arc<Self> {
        Arc::new(Self {
            info: device.info().clone(),
            hosted: Arc::new(Hosted::new(device.clone(), 0, Arc::default())),
            device,
        })
    }

    /// Writes bytes in the order of `queue`.
    fn write(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) {
        let source = CopySource::new(Bytes(bytes.to_vec(), 0));
        self.put(queue, |stream| self.device.copy_in(stream, dst, bytes.len() as u64, source)).unwrap();
    }

    fn read(&self, src: DevicePtr, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.device.memory().read(src, &mut bytes).unwrap();
        bytes
    }

    fn put(&self, queue: QueueId, put: impl FnOnce(StreamId) -> Result<Seq>) -> Result<()> {
        let state = self.hosted.queue(queue)?;
        state.advance(put(state.stream())?);
        Ok(())
    }
}

impl LocalDeviceClient for Here {
    fn hosted(&self) -> Result<Arc<Hosted>> {
        Ok(self.hosted.clone())
    }

    fn stop(&self, error: Error) {
        self.device.stop(error);
    }
}

impl DeviceClient for Here {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn device_type(&self) -> DeviceType {
        DeviceType::Cpu
    }
    fn addresses(&self) -> (DevicePtr, u64) {
        self.device.addresses()
    }
    fn start(&self) -> Result<()> {
        Ok(())
    }
    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.device.map(start, len)
    }
    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<()> {
        self.put(queue, |stream| self.device.unmap(stream, start, len))
    }
    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()> {
        self.put(queue, |stream| self.device.store(stream, dst, bytes))
    }
    fn copy_in(&self, _: QueueId, _: DevicePtr, _: HostRange, _: ReadWhen) -> Result<()> {
        Err(Error::new(ErrorCode::Other, "not needed here"))
    }
    fn copy_out(&self, _: QueueId, _: DevicePtr, _: HostRange) -> Result<()> {
        Err(Error::new(ErrorCode::Other, "not needed here"))
    }
    fn copy_out_changed(&self, _: QueueId, _: DevicePtr, _: &[u8], _: &[Part], _: Option<&Arc<Chain>>) -> Result<()> {
        Err(Error::new(ErrorCode::Other, "not needed here"))
    }
    fn compare(&self, _: QueueId, _: DevicePtr, _: HostRange, _: HostRange) -> Result<()> {
        Err(Error::new(ErrorCode::Other, "not needed here"))
    }
    fn copy(&self, queue: QueueId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<()> {
        self.put(queue, |stream| self.device.copy(stream, dst, src, len))
    }
    fn launch(
        &self,
        queue: QueueId,
        _: u64,
        spec: &dyn Fn() -> Result<FunctionSpec>,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<()> {
        let function = self.device.function(&spec()?)?;
        self.put(queue, |stream| self.device.launch(stream, function, dims, block))
    }
    fn forget_functions(&self, _: Range<u64>) {}
    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        self.device.global(spec)
    }
    fn wait_queue(&self, _: QueueId, _: QueueId) -> Result<()> {
        Err(Error::new(ErrorCode::Other, "not needed here"))
    }
    fn wait(&self, queues: &[QueueId]) -> Result<()> {
        queues.iter().try_for_each(|&queue| {
            let Some(state) = self.hosted.known(queue) else { return Ok(()) };
            self.device.synchronize(state.stream(), state.last())
        })
    }
    fn test(&self, _: &[QueueId]) -> Result<bool> {
        Err(Error::new(ErrorCode::Other, "not needed here"))
    }
    fn memory_free(&self) -> Result<u64> {
        Ok(self.device.memory_free())
    }
    fn shutdown(&self) -> Result<()> {
        self.device.shutdown();
        Ok(())
    }
}

#[test]
fn between_devices_of_this_machine_and_of_others() {
    let key = Key::random().unwrap();
    let agent = Agent::start(1, 1, &key, regions(&Gate::default()));
    let own = NodeId(0);
    let locals: Vec<_> = (0..2)
        .map(|ordinal| {
            let device = FakeDevice::new(DeviceId { node: own, ordinal }, "h0", MEMORY);
            for (offset, name, region) in regions(&Gate::default()) {
                device.register(offset, name, region);
            }
            Here::new(device)
        })
        .collect();
    let mut lease = lease(std::slice::from_ref(&agent), 1);
    lease.own_node = Some(own);
    for local in &locals {
        let device = LeasedDevice { info: local.info.clone(), address: "127.0.0.1:1".to_owned(), is_shared: false };
        lease.devices.push(device);
    }
    let clients = locals.iter().map(|local| local.clone() as Arc<dyn LocalDeviceClient>).collect();
    let session = connect_direct(lease, settings(None, clients)).unwrap();
    for (source, target) in [(0, 1), (1, 0), (0, 2), (2, 0), (0, 1), (1, 0)] {
        for len in [1, 5000, 3_000_001] {
            check(&session, &locals, source, target, len);
        }
    }
    // The end of this machine's device fails only the pushing queue.
    let (remote, from) = (&session.clients()[0], session.clients()[0].addresses().0);
    remote.map(from, MIB).unwrap();
    locals[0].device.fail(Error::new(ErrorCode::Execution, "crashed"));
    let _ = session.copy_between(Q2, 0, from, 1, from, 100).map(|()| {
        assert!(remote.wait(&[Q2]).is_err());
    });
    remote.store(Q1, from, b"fine").unwrap();
    remote.wait(&[Q1]).unwrap();
    drop(session);
    agent.join();
}
