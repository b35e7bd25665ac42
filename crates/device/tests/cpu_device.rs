//! CPU devices with real workers. This binary is also the program whose regions the workers run: a worker serves instead of
//! testing.

#[path = "support/ends.rs"]
mod ends;
#[path = "support/then.rs"]
mod then;

use accord_device::cpu::{CpuConfig, CpuDevice, inventory, is_worker, worker_main};
use accord_device::{CopySink, CopySource, Device, ProgramSpec, Sink};
use accord_types::{
    ArgBlock, DevicePtr, ErrorCode, FunctionSpec, GlobalSpec, HostRange, LaunchDims, NodeId, ObjectSpec, QueueId,
    ReadWhen, Result, Seq, StreamId,
};
use ends::{Bytes, Spans, keep, read};
use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use then::then;

type Test = Result<(), Failed>;

fn main() {
    if is_worker() {
        std::process::exit(worker_main());
    }
    let tests = [
        ("a_region_sees_device_addresses_and_private_values", a_region_sees_its_block as fn() -> Test),
        ("operations_of_a_stream_run_in_order", operations_run_in_order),
        ("streams_run_at_the_same_time_and_wait_for_each_other", streams_wait),
        ("copies_go_both_ways_in_pieces", copies_go_both_ways),
        ("a_copy_left_to_the_waiter_is_done_for_any_caller", left_to_the_waiter),
        ("host_work_runs_in_order_and_fails_its_stream_only", host_work),
        ("without_a_thread_for_it_an_operation_is_refused", no_thread_left),
        ("notify_is_called_once_reached", notify_is_called),
        ("a_full_ring_holds_the_caller_back", a_full_ring),
        ("a_stuck_stream_blocks_only_its_own_producers", a_stuck_stream),
        ("variables_are_shared_with_their_initial_value", variables),
        ("a_crash_names_the_region", a_crash_names_the_region),
        ("exit_in_a_region_is_a_device_error", exit_is_an_error),
        ("a_worker_that_answers_what_is_no_answer_is_ended", a_babbling_worker),
        ("a_region_that_writes_into_its_workers_ring_is_an_error_that_says_so", a_scribbling_region),
        ("a_killed_worker_fails_waiters_and_leaves_others_alone", a_killed_worker),
        ("waiters_for_a_killed_worker_are_notified_also_during_a_copy", told_in_a_copy),
        ("shutdown_ends_the_worker_and_what_waits", shutdown_ends),
        ("output_comes_before_the_wait_returns", output_comes),
        ("a_worker_that_can_not_begin_is_quoted", no_beginning),
        ("ranges_outside_memory_are_refused", ranges_are_refused),
        ("spans_tell_what_ran", spans_tell),
    ];
    let trials = tests.into_iter().map(|(name, test)| Trial::test(name, test)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

// The regions as GCC would outline them. Each gets the address of its argument block.

static VARIABLE: AtomicU32 = AtomicU32::new(41);

/// slot 0: device address of u64s; slot 1: address of their count; slot 2: address of an addend.
extern "C" fn add_to_all(block: *mut u8) {
    // SAFETY: the tests pass blocks of this shape.
    unsafe {
        let slots = block.cast::<*mut u64>();
        let (data, count, addend) = (*slots, **slots.add(1), **slots.add(2));
        for i in 0..count as usize {
            *data.add(i) += addend;
        }
    }
}

/// slot 0: device address of a u64, slot 1: a factor by value.
extern "C" fn double_slowly(block: *mut u8) {
    std::thread::sleep(Duration::from_millis(30));
    // SAFETY: as above.
    unsafe {
        let slots = block.cast::<*mut u64>();
        **slots = **slots * 2 + *block.cast::<u64>().add(1);
    }
}

/// The longest wait of a region for another one, or for the host.
const MEETS: Duration = Duration::from_secs(20);

/// Waits for a flag that the test raises, then raises one. Slot 0: device address of the first, slot 1: of the second.
extern "C" fn await_flag(block: *mut u8) {
    // SAFETY: as above; both flags are read and written atomically.
    let [awaited, own] = unsafe { [0, 1].map(|slot| &**block.cast::<*const AtomicU64>().add(slot)) };
    let start = Instant::now();
    while awaited.load(Ordering::SeqCst) == 0 && start.elapsed() < MEETS {
        std::thread::sleep(Duration::from_millis(1));
    }
    own.store(awaited.load(Ordering::SeqCst), Ordering::SeqCst);
}

/// Raises the second flag before it waits for the first.
extern "C" fn meet(block: *mut u8) {
    // SAFETY: as above.
    unsafe { (**block.cast::<*const AtomicU64>().add(1)).store(1, Ordering::SeqCst) };
    await_flag(block);
}

extern "C" fn read_variable(block: *mut u8) {
    // SAFETY: as above.
    unsafe { **block.cast::<*mut u64>() = VARIABLE.load(Ordering::SeqCst).into() };
}

extern "C" fn crash(_block: *mut u8) {
    // SAFETY: none; the access must crash.
    unsafe { (0x123usize as *mut u8).write_volatile(1) };
}

extern "C" fn leave(_block: *mut u8) {
    std::process::exit(3);
}

/// Answers, in place of the worker, a request that the owner has not made yet: writes to each of the process's sockets.
extern "C" fn babble(_block: *mut u8) {
    let entries = std::fs::read_dir("/proc/self/fd").expect("descriptors");
    let is_socket =
        |path: &std::path::Path| std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_socket(path)) {
        let number = path.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
        // SAFETY: one byte of a constant. The descriptor belongs to other code, as in a faulty program.
        unsafe { libc::write(number, [7_u8].as_ptr().cast(), 1) };
    }
}

extern "C" fn forever(_block: *mut u8) {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

extern "C" fn print(_block: *mut u8) {
    use std::io::Write as _;
    std::io::stdout().write_all(b"hello from a region\n").expect("stdout");
}

fn device() -> Result<Arc<CpuDevice>, Failed> {
    device_with(ProgramSpec::of_this_process())
}

fn device_with(program: ProgramSpec) -> Result<Arc<CpuDevice>, Failed> {
    let config = CpuConfig { devices: Some(1), memory: Some(256 << 20) };
    let mut info = inventory(NodeId(0), "here", &config).remove(0);
    info.units = 2;
    let device = CpuDevice::start(info, &program)?;
    device.map(device.addresses().0, 64 << 20)?;
    Ok(device)
}

/// Returns the location of a function of this position-independent binary, by /proc/self/maps.
fn spec(name: &str, function: extern "C" fn(*mut u8)) -> FunctionSpec {
    FunctionSpec { object: this_object(), offset: function as usize as u64 - base(), name: name.into(), kernel: None }
}

fn this_object() -> ObjectSpec {
    let path = std::env::current_exe().expect("this binary").to_string_lossy().into_owned();
    let bytes = std::fs::read(&path).expect("this binary");
    use object::Object as _;
    let id = object::File::parse(&*bytes).expect("ELF").build_id().expect("ELF").unwrap_or_default().to_vec();
    ObjectSpec { path, build_id: id.iter().map(|b| format!("{b:02x}")).collect(), executable: true }
}

fn base() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let exe = std::env::current_exe().expect("this binary");
    let line = maps.lines().find(|l| l.ends_with(&*exe.to_string_lossy())).expect("mapped");
    u64::from_str_radix(line.split('-').next().expect("address"), 16).expect("hex")
}

fn read_u64(device: &CpuDevice, stream: StreamId, at: DevicePtr) -> Result<u64> {
    Ok(u64::from_ne_bytes(read(device, stream, at, 8)?.try_into().expect("8 bytes")))
}

fn launch(device: &CpuDevice, stream: StreamId, f: &FunctionSpec, slots: &[u64]) -> Result<Seq> {
    let bytes: Vec<u8> = slots.iter().flat_map(|s| s.to_ne_bytes()).collect();
    let relative = vec![0; slots.len().div_ceil(64)];
    let block = ArgBlock { bytes: &bytes, slots: slots.len() as u32, relative: &relative };
    device.launch(stream, device.function(f)?, LaunchDims::default(), block)
}

fn a_region_sees_its_block() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId::SYNC)?;
    let data = device.addresses().0;
    let initial: Vec<u8> = (0..100u64).flat_map(u64::to_ne_bytes).collect();
    device.copy_in(stream, data, 800, CopySource::new(Bytes(initial, 0)))?;
    // Slots 1 and 2 are relative: their values follow the slots.
    let mut block = [0u64; 6];
    (block[0], block[1], block[2], block[3], block[4]) = (data.0, 24, 32, 100, 7);
    let bytes: Vec<u8> = block.iter().flat_map(|s| s.to_ne_bytes()).collect();
    let function = device.function(&spec("add_to_all", add_to_all))?;
    let block = ArgBlock { bytes: &bytes, slots: 3, relative: &[0b110] };
    let seq = device.launch(stream, function, LaunchDims::default(), block)?;
    device.synchronize(stream, seq)?;
    assert!(device.reached(stream, seq)?);
    let after = read(&*device, stream, data, 800)?;
    let expected: Vec<u8> = (7..107u64).flat_map(u64::to_ne_bytes).collect();
    assert_eq!(after, expected);
    // A private pointer: the number that the region adds points to the next word, 16 bytes into the values.
    let block: Vec<u8> = [data.0, 24, 32, 1, 40, 9].iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
    device.store(stream, data, &0u64.to_ne_bytes())?;
    device.launch(
        stream,
        function,
        LaunchDims::default(),
        ArgBlock { bytes: &block, slots: 3, relative: &[0b010_110] },
    )?;
    let pointer = read_u64(&device, stream, data)?;
    assert!(pointer > 4096 && pointer % 16 == 8, "{pointer:#x}");
    Ok(())
}

fn operations_run_in_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let double = spec("double_slowly", double_slowly);
    // ((1 * 2 + 1) copied, overwritten by 10, * 2 + 5): any other order gives another number.
    device.store(stream, at, &1u64.to_ne_bytes())?;
    launch(&device, stream, &double, &[at.0, 1])?;
    device.copy(stream, at.offset(8), at, 8)?;
    device.copy_in(stream, at, 8, CopySource::new(Bytes(10u64.to_ne_bytes().to_vec(), 0)))?;
    launch(&device, stream, &double, &[at.0, 5])?;
    device.store(stream, at.offset(16), &99u64.to_ne_bytes())?;
    device.copy(stream, at.offset(24), at.offset(16), 8)?;
    let bytes = read(&*device, stream, at, 32)?;
    let words: Vec<u64> = bytes.chunks(8).map(|c| u64::from_ne_bytes(c.try_into().expect("8 bytes"))).collect();
    assert_eq!(words, [25, 3, 99, 99]);
    Ok(())
}

/// Copies out of the synchronous queue's stream are left to a thread that waits for the stream. Any other caller that needs
/// the stream to continue makes them run too.
fn left_to_the_waiter() -> Test {
    let device = device()?;
    let (sync, other) = (device.create_stream(QueueId::SYNC)?, device.create_stream(QueueId(1))?);
    let at = device.addresses().0;
    let double = spec("double_slowly", double_slowly);
    for way in ["wait", "two wait", "next operation", "other stream", "look", "notify"] {
        device.store(sync, at, &3u64.to_ne_bytes())?;
        launch(&device, sync, &double, &[at.0, 1])?;
        let bytes = [(); 2].map(|()| Arc::<Mutex<Vec<u8>>>::default());
        let mut seq = Seq(0);
        for to in &bytes {
            seq = device.copy_out(sync, at, 8, keep(to, true))?;
        }
        assert!(bytes.iter().all(|bytes| bytes.lock().expect("test lock").is_empty()), "{way}: the region still runs");
        match way {
            "wait" => device.synchronize(sync, seq)?,
            "two wait" => std::thread::scope(|scope| {
                let waits = [0, 1].map(|_| scope.spawn(|| device.synchronize(sync, seq)));
                waits.into_iter().try_for_each(|wait| wait.join().expect("no panic"))
            })?,
            "next operation" => {
                let next = launch(&device, sync, &double, &[at.0, 1])?;
                device.synchronize(sync, next)?;
            }
            "other stream" => {
                device.wait_stream(other, sync, seq)?;
                let last = launch(&device, other, &double, &[at.0, 1])?;
                device.synchronize(other, last)?;
            }
            "look" => {
                while !device.reached(sync, seq)? {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => {
                let (notify, reported) = mpsc::channel();
                device.notify(sync, seq, Box::new(move |outcome| notify.send(outcome).expect("the test waits")));
                reported.recv()??;
            }
        }
        for bytes in bytes {
            assert_eq!(*bytes.lock().expect("test lock"), 7u64.to_ne_bytes(), "{way}");
        }
    }
    Ok(())
}

fn streams_wait() -> Test {
    let device = device()?;
    let [a, b, c] = [1, 2, 3].map(|queue| device.create_stream(QueueId(queue)));
    let (a, b, c) = (a?, b?, c?);
    let at = device.addresses().0;
    device.store(c, at, &[0; 32])?;
    let double = spec("double_slowly", double_slowly);
    let seq = device.store(c, at.offset(16), &3u64.to_ne_bytes())?;
    device.wait_stream(a, c, seq)?;
    launch(&device, a, &spec("await_flag", await_flag), &[at.0, at.0 + 8])?;
    let last = launch(&device, a, &double, &[at.0 + 16, 0])?;
    // b copies the result of a without a wait of the host.
    device.wait_stream(b, a, last)?;
    let seq = device.copy(b, at.offset(24), at.offset(16), 8)?;
    assert!(!device.reached(b, seq)?);
    device.store(c, at, &1u64.to_ne_bytes())?;
    device.synchronize(b, seq)?;
    assert_eq!(read_u64(&device, b, at.offset(8))?, 1, "the region has not waited");
    assert_eq!(read_u64(&device, b, at.offset(24))?, 6);
    // Regions of two streams overlap: each waits for the other.
    let seq = device.store(a, at, &[0; 16])?;
    device.wait_stream(b, a, seq)?;
    let x = launch(&device, a, &spec("meet", meet), &[at.0, at.0 + 8])?;
    let y = launch(&device, b, &spec("meet", meet), &[at.0 + 8, at.0])?;
    device.synchronize(a, x)?;
    device.synchronize(b, y)?;
    assert_eq!([read_u64(&device, a, at)?, read_u64(&device, a, at.offset(8))?], [1, 1]);
    Ok(())
}

fn copies_go_both_ways() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(0))?;
    let at = device.addresses().0;
    let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i * 7 % 251) as u8).collect();
    device.copy_in(stream, at, bytes.len() as u64, CopySource::new(Bytes(bytes.clone(), 0)))?;
    assert_eq!(read(&*device, stream, at, bytes.len() as u64)?, bytes);
    assert_eq!(read(&*device, stream, at.offset(1_000_000), 5)?, bytes[1_000_000..][..5]);
    device.unmap(stream, at, 64 << 20)?;
    device.map(at, 2 << 20)?;
    assert_eq!(read(&*device, stream, at, 16)?, [0; 16]);
    Ok(())
}

fn host_work() -> Test {
    let device = device()?;
    let (good, bad) = (device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?);
    let at = device.addresses().0;
    let ran = Arc::new(AtomicUsize::new(0));
    launch(&device, bad, &spec("double_slowly", double_slowly), &[at.0, 1])?;
    let seen = Arc::clone(&ran);
    then(&*device, bad, (at, 1), move || {
        seen.fetch_add(1, Ordering::SeqCst);
        Err(accord_types::Error::new(ErrorCode::System, "the other end went away"))
    })?;
    let seen = Arc::clone(&ran);
    let after = then(&*device, bad, (at, 1), move || {
        seen.fetch_add(10, Ordering::SeqCst);
        Ok(())
    })?;
    let error = device.synchronize(bad, after).expect_err("the stream has failed");
    assert_eq!(error.cause(), "the other end went away");
    assert_eq!(error.place().queue, Some(QueueId(2)));
    assert!(device.store(bad, at, &[1]).is_err(), "a failed stream takes nothing more");
    assert_eq!(ran.load(Ordering::SeqCst), 1, "what follows a failure is dropped");
    let seq = device.store(good, at, &[1])?;
    device.synchronize(good, seq)?;
    Ok(())
}

/// The system refuses threads when there is no memory for their stacks. Ended threads leave some stacks.
fn no_thread_left() -> Test {
    let device = device()?;
    let (at, slowly) = (device.addresses().0, spec("double_slowly", double_slowly));
    let stream = |number: u32| {
        let stream = device.create_stream(QueueId(number))?;
        let region = launch(&device, stream, &slowly, &[at.0 + 8 * u64::from(number % 64), 1])?;
        Ok((stream, region))
    };
    let streams: Vec<(StreamId, Seq)> = (0..40).map(stream).collect::<Result<_>>()?;
    // Left to the waiter.
    let (sync, _) = stream(QueueId::SYNC.0)?;
    let left = device.copy_out(sync, at, 8, keep(&Arc::default(), true))?;
    let (notify, reported) = mpsc::channel();
    // The memory mapped now, and less than a thread's stack.
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split(' ').next().unwrap_or_default().parse()?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the record is valid.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) }, 0);
    let before = limit.rlim_cur;
    limit.rlim_cur = pages * 4096 + (1 << 20);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let copies: Vec<_> =
        streams[..20].iter().map(|(to, _)| device.copy_in(*to, at, 8, CopySource::new(Bytes(vec![1; 8], 0)))).collect();
    for (stream, region) in &streams[20..] {
        let notify = notify.clone();
        device.notify(*stream, *region, Box::new(move |result| drop(notify.send(result))));
    }
    let behind = device.wait_stream(streams[0].0, sync, left);
    limit.rlim_cur = before;
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);

    let refused = |result: &Result<Seq>| {
        result.as_ref().is_err_and(|error| {
            error.cause().contains("cannot start a thread") && error.place().queue.is_some_and(|queue| queue.0 < 40)
        })
    };
    let copies: Vec<bool> = copies.iter().map(refused).collect();
    assert!(copies.iter().any(|refused| *refused), "the system had threads for all of them");
    drop(notify);
    let notices: Vec<bool> = reported.iter().map(|reported| refused(&reported.map(|()| Seq(0)))).collect();
    assert_eq!(notices.len(), 20);
    assert!(notices.iter().any(|refused| *refused), "the system had threads for all of these");
    // A refused copy has no effect. A stream that could not continue has failed, so that waits for it end.
    drop(behind);
    if let Err(error) = device.synchronize(sync, left) {
        assert!(error.cause().contains("cannot start a thread"), "{error}");
    }
    for (stream, _) in &streams[1..] {
        let seq = device.copy_in(*stream, at, 8, CopySource::new(Bytes(vec![1; 8], 0)))?;
        device.synchronize(*stream, seq)?;
    }
    Ok(())
}

fn notify_is_called() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let (notify, reported) = mpsc::channel();
    for round in 0..50u64 {
        let function = if round % 10 == 0 { double_slowly } else { read_variable };
        let seq = launch(&device, stream, &spec("f", function), &[at.0, round])?;
        let notify = notify.clone();
        device.notify(stream, seq, Box::new(move |result| notify.send((round, result)).expect("test waits")));
    }
    for _ in 0..50 {
        reported.recv_timeout(Duration::from_secs(10)).map_err(|e| e.to_string())?.1?;
    }
    Ok(())
}

fn a_full_ring() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    launch(&device, stream, &spec("double_slowly", double_slowly), &[at.0, 1])?;
    let function = device.function(&spec("read_variable", read_variable))?;
    let block = at.0.to_ne_bytes();
    let mut last = Seq(0);
    // 1 MiB of ring holds some 16,000 of these records.
    for _ in 0..40_000 {
        let block = ArgBlock { bytes: &block, slots: 1, relative: &[0] };
        last = device.launch(stream, function, LaunchDims::default(), block)?;
    }
    device.synchronize(stream, last)?;
    assert_eq!(read_u64(&device, stream, at)?, 41);
    Ok(())
}

/// More copies than a stream holds: the enqueuing thread waits, another stream continues, and memory is bounded by the bytes copied aside and by the
/// number of other copies.
fn a_stuck_stream() -> Test {
    fill_a_stuck_stream(128 << 10, ReadWhen::BeforeReturn, 512)?;
    fill_a_stuck_stream(1 << 10, ReadWhen::InOrder, 1_024)
}

fn fill_a_stuck_stream(len: usize, when: ReadWhen, most: u32) -> Test {
    let device = device()?;
    let [stuck, other] = [1, 2].map(|queue| device.create_stream(QueueId(queue)));
    let (stuck, other, at) = (stuck?, other?, device.addresses().0);
    let (go, gate) = mpsc::channel::<()>();
    then(&*device, stuck, (at, 8), move || {
        gate.recv().expect("the test opens the gate");
        Ok(())
    })?;
    let put = AtomicU32::new(0);
    let bytes = vec![7u8; len];
    let src = HostRange { start: bytes.as_ptr().expose_provenance(), len };
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| -> Result<()> {
            let mut last = Seq(0);
            for _ in 0..3 * most {
                last = device.copy_in_program(stuck, at, src, when)?;
                put.fetch_add(1, Ordering::SeqCst);
            }
            device.synchronize(stuck, last)
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        while put.load(Ordering::SeqCst) < most - 1 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        for value in 0..100u64 {
            let seq = device.store(other, at.offset(1 << 18), &value.to_ne_bytes())?;
            device.synchronize(other, seq)?;
        }
        let put = put.load(Ordering::SeqCst);
        assert!((most - 1..=most).contains(&put), "{put} copies are kept");
        assert!(!filling.is_finished());
        go.send(()).expect("the stream waits");
        filling.join().expect("no panic")
    })?;
    assert_eq!(read_u64(&device, other, at)?, u64::from_ne_bytes([7; 8]));
    Ok(())
}

fn variables() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let offset = std::ptr::from_ref(&VARIABLE) as u64 - base();
    let global = GlobalSpec { object: this_object(), offset, len: 4, variable: None };
    let address = device.global(&global)?;
    assert_eq!(device.global(&global)?, address, "asked for twice, the same variable");
    assert_eq!(read(&*device, stream, address, 4)?, 41u32.to_ne_bytes());
    device.store(stream, address, &1234u32.to_ne_bytes())?;
    let read_it = spec("read_variable", read_variable);
    let seq = launch(&device, stream, &read_it, &[at.0])?;
    device.synchronize(stream, seq)?;
    assert_eq!(read_u64(&device, stream, at)?, 1234);
    assert_eq!(VARIABLE.load(Ordering::SeqCst), 41, "the program's own variable is another");
    Ok(())
}

fn a_crash_names_the_region() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(5))?;
    let seq = launch(&device, stream, &spec("crash", crash), &[])?;
    let error = device.synchronize(stream, seq).expect_err("the region crashed");
    let text = error.to_string();
    assert_eq!(error.code(), ErrorCode::Execution);
    for part in ["region crash", "cpu_device.rs:", "SIGSEGV", "0x123", "queue 5"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(device.create_stream(QueueId(6)).is_err(), "a crashed device takes nothing more");
    Ok(())
}

fn exit_is_an_error() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let seq = launch(&device, stream, &spec("leave", leave), &[])?;
    let text = device.synchronize(stream, seq).expect_err("the region exited").to_string();
    assert!(text.contains("region leave") && text.contains("called exit(3)"), "{text}");
    Ok(())
}

fn a_babbling_worker() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let seq = launch(&device, stream, &spec("babble", babble), &[])?;
    device.synchronize(stream, seq)?;
    let (notify, reported) = mpsc::channel();
    let asking = device.clone();
    std::thread::spawn(move || notify.send(asking.function(&spec("forever", forever)).map(drop)));
    let answer = reported.recv_timeout(MEETS).map_err(|_| "no notification")?;
    let text = answer.expect_err("it was no answer").to_string();
    assert!(text.contains("the device's worker was killed"), "{text}");
    assert!(device.create_stream(QueueId(2)).is_err());
    Ok(())
}

/// Overwrites all memory that the worker shares with its owner, except the device's. Slot 0: the byte.
extern "C" fn scribble(block: *mut u8) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's mappings");
    let shared = maps.lines().find(|line| line.contains("accord-device") && line.contains(" 00000000 "));
    let (from, to) = shared.and_then(|line| line.split(' ').next()?.split_once('-')).expect("the ring's mapping");
    let [from, to] = [from, to].map(|address| usize::from_str_radix(address, 16).expect("an address"));
    // SAFETY: the tests pass a block of this shape. The mapping is the worker's, and the test is about the consequences.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(from).write_bytes(*block, to - from) };
}

fn a_scribbling_region() -> Test {
    for byte in [0, 1, 0x5a, 0x7f, 0x80, 0xff] {
        let device = device()?;
        device.trace(Arc::new(Spans::default()));
        let (stream, data) = (device.create_stream(QueueId(1))?, device.addresses().0);
        let scribble = launch(&device, stream, &spec("scribble", scribble), &[byte])?;
        let _ = device.synchronize(stream, scribble);
        let fill = CopySource::new(Bytes(vec![1; 100_000], 0));
        let outcome = device
            .copy_in(stream, data, 100_000, fill)
            .and_then(|_| launch(&device, stream, &spec("babble", babble), &[]))
            .and_then(|seq| device.synchronize(stream, seq));
        let text = outcome.expect_err("nothing goes on").to_string();
        assert!(text.contains("the worker's ring is corrupt"), "{byte:#x}: {text}");
    }
    Ok(())
}

fn a_killed_worker() -> Test {
    let (victim, other) = (device()?, device()?);
    let stream = victim.create_stream(QueueId(1))?;
    let seq = launch(&victim, stream, &spec("forever", forever), &[])?;
    let (notify, reported) = mpsc::channel();
    victim.notify(stream, seq, Box::new(move |result| notify.send(result).expect("test waits")));
    let waiter = {
        let victim = Arc::clone(&victim);
        std::thread::spawn(move || victim.synchronize(stream, seq))
    };
    let pid = victim.worker_pid();
    assert!(std::process::Command::new("sh").args(["-c", "kill -9 $0", &pid.to_string()]).status()?.success());
    assert!(waiter.join().expect("no panic").is_err());
    assert!(reported.recv_timeout(Duration::from_secs(5)).map_err(|e| e.to_string())?.is_err());
    let stream = other.create_stream(QueueId(1))?;
    let seq = other.store(stream, other.addresses().0, &[1])?;
    other.synchronize(stream, seq)?;
    Ok(())
}

/// A sink that waits for the test.
struct Waits(mpsc::Sender<()>, mpsc::Receiver<()>);

impl Sink for Waits {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        let _ = self.0.send(());
        // Until the test is over.
        let _ = self.1.recv();
        Ok(())
    }
}

/// The stream's own thread can't report it, because it waits, for example for a device of another node.
fn told_in_a_copy() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let ((began, begun), (_open, gate)) = (mpsc::channel(), mpsc::channel());
    let seq = device.copy_out(stream, device.addresses().0, 8, CopySink::new(Waits(began, gate)))?;
    begun.recv_timeout(Duration::from_secs(5))?;
    let (notify, reported) = mpsc::channel();
    let notify = |_| {
        let notify = notify.clone();
        // A failed test no longer receives it.
        device.notify(stream, seq, Box::new(move |outcome| drop(notify.send(outcome))));
    };
    notify(());
    let pid = device.worker_pid();
    assert!(std::process::Command::new("sh").args(["-c", "kill -9 $0", &pid.to_string()]).status()?.success());
    let error = reported.recv_timeout(Duration::from_secs(5))?.expect_err("the worker is dead");
    assert!(error.cause().contains("was killed"), "{error}");
    // The remedy must not name data clauses, which are not at fault.
    let remedy = error.remedy_text().ok_or("no remedy")?;
    assert!(remedy.contains("the system's log") && !remedy.contains("data clauses"), "{error}");
    notify(());
    assert!(reported.recv_timeout(Duration::from_secs(5))?.is_err(), "who asks later is told as well");
    Ok(())
}

fn shutdown_ends() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    launch(&device, stream, &spec("forever", forever), &[])?;
    device.shutdown();
    let error = device.create_stream(QueueId(2)).expect_err("it is shut down");
    assert_eq!(error.code(), ErrorCode::DeviceShutdown);
    Ok(())
}

fn output_comes() -> Test {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let mut program = ProgramSpec::of_this_process();
    let taken = Arc::clone(&lines);
    program.output = Some(Arc::new(move |which, bytes: &[u8]| {
        taken.lock().expect("test lock").push((which, bytes.to_vec()));
    }));
    let device = device_with(program)?;
    let stream = device.create_stream(QueueId(1))?;
    for round in 1..=20 {
        let seq = launch(&device, stream, &spec("print", print), &[])?;
        device.synchronize(stream, seq)?;
        let lines = lines.lock().expect("test lock");
        let text: Vec<u8> = lines.iter().flat_map(|(_, b)| b.clone()).collect();
        assert_eq!(text, b"hello from a region\n".repeat(round));
        assert!(lines.iter().all(|(which, _)| *which == 1));
    }
    Ok(())
}

fn no_beginning() -> Test {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir()?;
    let exe = folder.path().join("program");
    std::fs::write(&exe, "#!/bin/sh\necho 'libphysics.so.3: cannot open shared object file' >&2\nexit 127\n")?;
    std::fs::set_permissions(&exe, std::fs::Permissions::from_mode(0o755))?;
    let mut program = ProgramSpec::of_this_process();
    program.exe = exe;
    program.output = Some(Arc::new(|_, _: &[u8]| {}));
    let error = device_with(program).map(drop).expect_err("no worker serves");
    let error = error.message().unwrap_or_default();
    assert!(error.contains("ended before it was ready: libphysics.so.3: cannot open shared object file"), "{error}");
    Ok(())
}

fn ranges_are_refused() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let (start, len) = device.addresses();
    assert!(device.store(stream, DevicePtr(64), &[1]).is_err());
    assert!(device.copy(stream, start, start.offset(len - 4), 8).is_err());
    assert!(device.map(start.offset(len), 4096).is_err());
    assert!(device.copy_in(stream, start, u64::MAX, CopySource::new(Bytes(vec![], 0))).is_err());
    let error = device.map(start.offset(64 << 20), 512 << 20).expect_err("more than the device has");
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(device.store(StreamId(9), start, &[1]).is_err());
    Ok(())
}

fn spans_tell() -> Test {
    let device = device()?;
    let spans = Arc::new(Spans::default());
    device.trace(spans.clone());
    let stream = device.create_stream(QueueId(4))?;
    let at = device.addresses().0;
    device.copy_in(stream, at, 4096, CopySource::new(Bytes(vec![1; 4096], 0)))?;
    let seq = launch(&device, stream, &spec("double_slowly", double_slowly), &[at.0, 1])?;
    device.synchronize(stream, seq)?;
    // Performed on the calling thread, because the stream is empty.
    device.store(stream, at, &[2; 8])?;
    let spans = spans.0.lock().expect("test lock");
    assert!(spans.iter().any(|s| s.kind == accord_types::SpanKind::CopyIn && s.bytes == 8), "no span of the store");
    let launch = spans.iter().find(|s| s.kind == accord_types::SpanKind::Launch).ok_or("no launch span")?;
    let copy = spans.iter().find(|s| s.kind == accord_types::SpanKind::CopyIn).ok_or("no copy span")?;
    assert_eq!((launch.name.as_str(), launch.queue, copy.bytes), ("double_slowly", QueueId(4), 4096));
    assert!(launch.end_ns - launch.start_ns >= 30_000_000 && copy.end_ns <= launch.start_ns);
    Ok(())
}
