//! In steady state a launch makes no heap allocation: counted, with a device that does nothing. In an executor,
//! returning credit occasionally allocates.

mod counting;

use accord_device::FunctionHandle;
use accord_executor::Limits;
use accord_executor::executor::{Effect, ExecutorCore, Facts, Operation, Request};
use accord_fabric::frame::{self, Command, STREAM_STEP, operation_cost};
use accord_runtime::ports::{Chain, Cluster, DeviceClient, HostMemory, Part, ReadWhen, TargetAccess};
use accord_runtime::prof::{Notice, Observer};
use accord_runtime::{Entries, LocalThread, Placement, Runtime, Settings, Tags};
use accord_types::{
    ArgBlock, DeviceId, DeviceInfo, DeviceKind, DevicePtr, DeviceType, FunctionSpec, GlobalSpec, HostRange, LaunchDims,
    NodeId, ObjectSpec, QueueId, Result, Seq, SessionId, StreamId,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A device that accepts all operations and only counts launches.
struct Nothing {
    info: DeviceInfo,
    launches: AtomicU64,
}

impl DeviceClient for Nothing {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn device_type(&self) -> DeviceType {
        DeviceType::Cpu
    }
    fn addresses(&self) -> (DevicePtr, u64) {
        (DevicePtr(1 << 44), 1 << 40)
    }
    fn start(&self) -> Result<()> {
        Ok(())
    }
    fn map(&self, _: DevicePtr, _: u64) -> Result<()> {
        Ok(())
    }
    fn unmap(&self, _: QueueId, _: DevicePtr, _: u64) -> Result<()> {
        Ok(())
    }
    fn store(&self, _: QueueId, _: DevicePtr, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn copy_in(&self, _: QueueId, _: DevicePtr, _: HostRange, _: ReadWhen) -> Result<()> {
        Ok(())
    }
    fn copy_out(&self, _: QueueId, _: DevicePtr, _: HostRange) -> Result<()> {
        Ok(())
    }
    fn copy_out_changed(
        &self,
        _: QueueId,
        _: DevicePtr,
        sent: &[u8],
        _: &[Part],
        chain: Option<&Arc<Chain>>,
    ) -> Result<()> {
        // The variables return at once, and unchanged.
        assert!(!chain.is_some_and(|chain| chain.is_changed(sent, sent)));
        Ok(())
    }
    fn compare(&self, _: QueueId, _: DevicePtr, _: HostRange, _: HostRange) -> Result<()> {
        Ok(())
    }
    fn copy(&self, _: QueueId, _: DevicePtr, _: DevicePtr, _: u64) -> Result<()> {
        Ok(())
    }
    fn launch(
        &self,
        _: QueueId,
        _: u64,
        _: &dyn Fn() -> Result<FunctionSpec>,
        _: LaunchDims,
        _: ArgBlock<'_>,
    ) -> Result<()> {
        self.launches.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn forget_functions(&self, _: std::ops::Range<u64>) {}
    fn global(&self, _: &GlobalSpec) -> Result<DevicePtr> {
        Ok(DevicePtr(1 << 43))
    }
    fn wait_queue(&self, _: QueueId, _: QueueId) -> Result<()> {
        Ok(())
    }
    fn wait(&self, _: &[QueueId]) -> Result<()> {
        Ok(())
    }
    fn test(&self, _: &[QueueId]) -> Result<bool> {
        Ok(true)
    }
    fn memory_free(&self) -> Result<u64> {
        Ok(1 << 30)
    }
    fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

struct One([Arc<dyn DeviceClient>; 1]);

impl Cluster for One {
    fn clients(&self) -> &[Arc<dyn DeviceClient>] {
        &self.0
    }
    fn copy_between(&self, _: QueueId, _: usize, _: DevicePtr, _: usize, _: DevicePtr, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Host memory filled with zeros.
struct Zeros;

impl HostMemory for Zeros {
    fn read(&self, _: usize, buffer: &mut [u8]) {
        buffer.fill(0);
    }
    fn check_source(&self, _: HostRange) -> Result<()> {
        Ok(())
    }
    fn check_target(&self, _: HostRange) -> Result<TargetAccess> {
        Ok(TargetAccess::Writable)
    }
    fn target_parts(&self, _: HostRange) -> Result<Vec<(HostRange, TargetAccess)>> {
        Ok(Vec::new())
    }
    fn function(&self, _: usize) -> Result<FunctionSpec> {
        Err(accord_types::Error::new(accord_types::ErrorCode::Other, "not asked for"))
    }
    fn allocate(&self, _: usize) -> usize {
        0
    }
    fn free(&self, _: usize) {}
    fn copy(&self, _: usize, _: usize, _: usize) {}
    fn merge(&self, _: usize, _: usize, _: usize, _: usize) {}
}

/// Counts events.
struct Counter(Arc<AtomicU64>);

impl Observer for Counter {
    fn wanted(&self) -> &'static AtomicBool {
        static WANTED: AtomicBool = AtomicBool::new(true);
        &WANTED
    }
    fn is_active(&self) -> bool {
        true
    }
    fn notice(&self, _: &Notice) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const TO: u16 = 0x01;
const TOFROM: u16 = 0x03;
const FORCE_PRESENT: u16 = 0x06;
const FORCE_TOFROM: u16 = 0x83;
const NORMAL: i32 = -1;
const ASYNC_1: &[u32] = &[0x2000_0001, 0];

#[test]
fn a_launch_in_steady_state_takes_nothing_from_the_heap() {
    let info = DeviceInfo {
        id: DeviceId { node: NodeId(0), ordinal: 0 },
        node_name: "here".into(),
        kind: DeviceKind::CPU,
        name: "nothing".into(),
        vendor: String::new(),
        driver: String::new(),
        uuid: String::new(),
        memory: 1 << 30,
        units: 1,
        compute: (0, 0),
        context: 0,
        attributes: Vec::new(),
        numa: None,
        cpus: Vec::new(),
    };
    let client = Arc::new(Nothing { info, launches: AtomicU64::new(0) });
    let runtime = Runtime::new(Box::new(One([client.clone()])), Box::new(Zeros), Settings::default());
    let mut thread = LocalThread::default();
    let arrays = [0x10_0000, 0x20_0000, 0x30_0000, 0x40_0000];
    let mut hosts = arrays.to_vec();
    runtime
        .enter_data(&mut thread, NORMAL, &mut Entries::new(&mut hosts, &[4096; 4], &[TO; 4]), -2, &[])
        .expect("enter data");
    // Four present arrays, two scalars, and a loop index as GCC maps it inside a data construct.
    let (sizes, kinds) =
        ([4096, 4096, 4096, 4096, 8, 4, 4], [FORCE_PRESENT, FORCE_PRESENT, TOFROM, TOFROM, TO, TO, TOFROM]);
    let launch = |thread: &mut LocalThread, queue: &[u32]| {
        let mut hosts = [arrays[0], arrays[1], arrays[2], arrays[3], 0x7000, 0x7010, 0x7020];
        let mut entries = Entries::new(&mut hosts, &sizes, &kinds);
        let placement = runtime
            .parallel(thread, NORMAL, 0x40_1000, &mut entries, &Tags::decode(queue.iter().copied()))
            .expect("parallel");
        assert_eq!(placement, Placement::Device);
    };
    for _ in 0..100 {
        launch(&mut thread, ASYNC_1);
    }
    let (before, launched) = (counting::here(), client.launches.load(Ordering::Relaxed));
    for _ in 0..1000 {
        launch(&mut thread, ASYNC_1);
    }
    assert_eq!(client.launches.load(Ordering::Relaxed) - launched, 1000);
    assert_eq!(counting::here() - before, 0, "heap allocations in 1000 launches");
    // A synchronous region with scalars that it may change.
    let kernels = |thread: &mut LocalThread| {
        let mut hosts: [usize; 15] = std::array::from_fn(|n| 0x7000 + 48 * n);
        let mut entries = Entries::new(&mut hosts, &[8; 15], &[FORCE_TOFROM; 15]);
        runtime.parallel(thread, NORMAL, 0x40_1000, &mut entries, &Tags::decode([0])).expect("kernels");
    };
    for _ in 0..100 {
        kernels(&mut thread);
    }
    let before_kernels = counting::here();
    for _ in 0..1000 {
        kernels(&mut thread);
    }
    assert_eq!(counting::here() - before_kernels, 0, "heap allocations in 1000 synchronous regions");
    // The same with a counting observer; programs/c/prof_allocations.c tests libacc's part of an event.
    let notices = Arc::new(AtomicU64::new(0));
    runtime.observe(Box::new(Counter(notices.clone())));
    for _ in 0..100 {
        launch(&mut thread, ASYNC_1);
        kernels(&mut thread);
    }
    let (before, reported) = (counting::here(), notices.load(Ordering::Relaxed));
    for _ in 0..1000 {
        launch(&mut thread, ASYNC_1);
        kernels(&mut thread);
    }
    assert!(notices.load(Ordering::Relaxed) - reported >= 2 * 2 * 1000, "start and end of each launch");
    assert_eq!(counting::here() - before, 0, "heap allocations in 2000 watched regions");
    let before = counting::here();
    drop(Vec::<u8>::with_capacity(1));
    assert_eq!(counting::here() - before, 1, "the counter counts");
}

/// Completes all operations at once.
struct AllDone;

impl Facts for AllDone {
    fn reached(&self, _: u32, _: StreamId, _: Seq) -> bool {
        true
    }

    fn incoming(&self) -> usize {
        0
    }
}

#[test]
fn an_executor_takes_a_launch_without_the_heap() {
    let limits = Limits { ordinals: vec![0], ..Limits::default() };
    let mut core = ExecutorCore::new(SessionId(1), limits, 4096);
    let (mut put, mut words) = (0, [0; ArgBlock::RELATIVE_WORDS_MAX]);
    let mut step = |core: &mut ExecutorCore, command: Command, payload: &[u8]| {
        let mut again = true;
        while std::mem::take(&mut again) {
            match core.handle(command, payload, 200, &mut words, &AllDone).expect("the protocol") {
                Request::MakeStream { device, queue } => {
                    core.stream_made(device, queue, Ok(StreamId(0)));
                    again = true;
                }
                Request::Put { operation: Operation::Launch { block, .. }, .. } => {
                    assert_eq!(block.bytes.len(), 64);
                    put += 1;
                    core.put(Ok(Seq(put))).expect("credit");
                }
                Request::Open { device, ticket, .. } => core.opened(device, ticket, Ok((DevicePtr(4096), 1 << 20))),
                Request::Function { device, function, .. } => core.named(device, function, Ok(FunctionHandle(7))),
                _ => {}
            }
        }
        core.handled(200);
        core.effects().for_each(|effect| {
            if let Effect::GiveBack { step, .. } = effect {
                step.done(|_, _| {});
            }
        });
    };
    let (mut program, mut function) = (Vec::new(), Vec::new());
    frame::encode_program(&mut program, &accord_fabric::ProgramSpec::default());
    let object = ObjectSpec { path: String::new(), build_id: String::new(), executable: true };
    let spec = FunctionSpec { object, offset: 0, name: "region".to_owned(), kernel: None };
    frame::encode_function(&mut function, &spec);
    step(&mut core, Command::Start { ticket: 1, trace: false, emulate_gpu: false }, &program);
    step(&mut core, Command::Open { device: 0, ticket: 2, start: 0, len: 0 }, &[]);
    step(&mut core, Command::Function { device: 0, function: 1, offset: 0, executable: true }, &function);
    // One word of bits, then the block.
    let payload = [0; 72];
    let launch = Command::Launch {
        device: 0,
        queue: 1,
        function: 1,
        gangs: 1,
        workers: 1,
        vector: 1,
        slots: 8,
        float_control: 0,
    };
    for _ in 0..1_000 {
        step(&mut core, launch, &payload);
    }
    let before = counting::here();
    for _ in 0..10_000 {
        step(&mut core, launch, &payload);
    }
    let taken = counting::here() - before;
    let credits = 10_000 * operation_cost(200) / STREAM_STEP + 1;
    assert!(taken <= credits, "{taken} heap allocations in 10,000 launches, which give credit {credits} times");
    assert_eq!(put, 11_000);
}
