//! Memory of a GPU that another process writes: two processes with a GPU each, or with the same one.

#[path = "../../device/tests/support/ends.rs"]
mod ends;
#[path = "support/mapped_row.rs"]
mod mapped_row;
#[allow(dead_code)] // This suite uses some of it.
mod support;

use accord_device::image::{Image, ImageFunction, ImageVariable, Images};
use accord_device::ipc::{Exporter, Importer};
use accord_device::{
    CopySink, CopySource, Device, FetchTo, MappedRange, MemoryHandle, NativeSink, PeerSink, PeerWay, Sink,
};
use accord_gpu::{CudaConfig, CudaDevice, inventory};
use accord_types::{
    ArgBlock, DevicePtr, FunctionSpec, ImageRef, LaunchDims, NodeId, ObjectSpec, QueueId, Result, SpanKind, StreamId,
};
use ends::{Bytes, Spans};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::fake;

type Test = Result<(), Failed>;

/// The variable of the child process with the descriptor of its socket.
const OTHER: &str = "ACCORD_TEST_IPC_SOCKET";
const MIB: u64 = 1 << 20;
/// Bytes mapped at first: two pieces.
const MAPPED: u64 = 70 * MIB;
/// A range over both pieces, on no boundary.
const OFFSET: u64 = 3 * MIB + 5;
const LEN: u64 = 66 * MIB + 1;

fn main() {
    let args = Arguments::from_args();
    fake::load_unless_real();
    if let Ok(socket) = std::env::var(OTHER) {
        // SAFETY: the test has passed this descriptor on, for this process alone.
        return other(unsafe { OwnedFd::from_raw_fd(socket.parse().expect("a descriptor")) });
    }
    let here = inventory(NodeId(0), "here");
    if here.devices.is_empty() {
        println!("skipped: no GPU: {}", here.note.unwrap_or_default());
        return;
    }
    // Not to standard output, from which test runners read the list of tests.
    eprintln!("on {} x {} (driver {})", here.devices.len(), here.devices[0].name, here.devices[0].driver);
    let tests = [
        ("bytes_go_to_a_gpu_of_another_process", bytes_go as fn() -> Test),
        ("copies_of_a_stream_go_one_behind_the_other", mapped_row::go_together),
        ("such_copies_need_no_events", mapped_row::without_events),
        ("such_copies_come_behind_one_to_the_host", mapped_row::behind_a_copy_to_the_host),
        ("memory_that_is_mapped_anew_is_another_piece", mapped_anew),
        ("memory_comes_back_from_the_other_process", memory_comes_back),
        ("the_importer_may_die", taker_dies),
        ("the_exporter_may_die", giver_dies),
        ("the_exporters_gpu_may_be_lost", giver_crashes),
        ("a_device_may_end_on_either_side", devices_end),
        ("a_trace_tells_what_was_pushed", trace_tells),
        ("ranges_that_are_not_mapped_are_not_offered", no_handle),
        ("an_allocation_of_the_driver_is_reached_as_a_whole", allocation_goes),
        ("an_allocation_is_freed_when_the_other_process_has_let_go", allocation_is_kept),
        ("a_peer_that_says_something_else_is_left", wrong_words),
        ("a_peer_that_does_not_answer_is_left", no_answer),
    ];
    let fake_only = [
        ("a_driver_that_refuses_is_asked_once", driver_refuses as fn() -> Test),
        ("an_exporter_says_so_if_it_cannot_export", cannot_export),
        ("without_the_attribute_nothing_is_offered", without_attribute),
        ("memory_that_must_not_be_exportable_is_taken_as_before", refused_kind),
    ];
    let mut trials: Vec<_> = tests.into_iter().map(|(name, test)| Trial::test(name, test)).collect();
    if fake::is_loaded() {
        trials.extend(fake_only.into_iter().map(|(name, test)| Trial::test(name, test)));
    } else {
        trials.push(Trial::test("how_fast_it_is", how_fast));
    }
    libtest_mimic::run(&Arguments { test_threads: Some(1), ..args }, trials).exit();
}

// Devices.

fn device(ordinal: usize, ipc: bool) -> Result<Arc<CudaDevice>, Failed> {
    let devices = inventory(NodeId(0), "here").devices;
    let info = devices.get(ordinal).unwrap_or(&devices[0]).clone();
    Ok(CudaDevice::start(info, CudaConfig { ipc, ..CudaConfig::default() })?)
}

fn owner() -> Result<Arc<CudaDevice>, Failed> {
    let device = device(0, true)?;
    device.map(device.addresses().0, MAPPED)?;
    Ok(device)
}

fn pattern(seed: u64, len: u64) -> Vec<u8> {
    // A length that divides no boundary; repeated, because copying is fast in every build.
    let block: Vec<u8> = (0..65_521u64).map(|n| (n.wrapping_mul(seed * 2 + 1) >> 3) as u8).collect();
    let mut bytes = block.repeat(len.div_ceil(block.len() as u64) as usize);
    bytes.truncate(len as usize);
    bytes
}

fn read(device: &CudaDevice, at: DevicePtr, len: u64) -> Result<Vec<u8>> {
    let stream = device.create_stream(QueueId(1))?;
    ends::read(device, stream, at, len)
}

/// A sink for mapped memory. Counts bytes that it receives instead, and its end.
struct Direct(Option<MappedRange>, Arc<AtomicUsize>);
impl Sink for Direct {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.1.fetch_add(piece.len(), Ordering::Relaxed);
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl PeerSink for Direct {
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Nowhere
    }
    fn follows(&self) -> bool {
        false
    }
    fn way(&mut self, _: bool) -> Result<PeerWay> {
        Ok(self.0.take().map_or(PeerWay::Host, PeerWay::Mapped))
    }
    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        None
    }
}

/// Exports memory of a device to the other process.
fn offer(exporter: &Arc<Exporter>, device: &CudaDevice, start: DevicePtr, len: u64) -> Option<MemoryHandle> {
    exporter.handle(&device.exports()?, start, len)
}

fn bytes_of(handle: &MemoryHandle) -> u64 {
    handle.bytes()
}

/// Makes memory of the other process accessible.
fn map(importer: &Arc<Importer>, device: &CudaDevice, handle: &MemoryHandle) -> Option<MappedRange> {
    importer.map(&device.imports()?, handle)
}

/// Copies to another process. Fails if bytes pass through the host.
fn copy(device: &CudaDevice, stream: StreamId, src: DevicePtr, len: u64, reached: MappedRange) -> Test {
    let count = Arc::<AtomicUsize>::default();
    let seq = device.copy_out(stream, src, len, CopySink::peer(Direct(Some(reached), count.clone())))?;
    device.synchronize(stream, seq)?;
    match count.load(Ordering::Relaxed) {
        1 => Ok(()),
        count => Err(format!("{count} calls and bytes instead of one end").into()),
    }
}

/// Runs a region that writes to unmapped memory, which ends the context.
fn crash(device: &CudaDevice, stream: StreamId) -> Result<()> {
    // In the order of the file's function list.
    let names = ["add", "double_slowly", "read_variable", "crash", "sum", "nothing"];
    let function = |name: &&str| ImageFunction { name: format!("{name}$_omp_fn$0"), dims: [1, 1, 32] };
    let image = Image {
        objects: vec![include_bytes!("regions/regions.ptx").to_vec()],
        functions: names.iter().map(function).collect(),
        variables: vec![ImageVariable { name: "variable".into() }],
    };
    let images = Arc::new(Images::default());
    let id = image.id();
    images.add(image);
    let again = CudaDevice::start(device.info().clone(), CudaConfig { images, ..CudaConfig::default() })?;
    let stream_of_it = again.create_stream(QueueId(6))?;
    let spec = FunctionSpec {
        object: ObjectSpec { path: "/somewhere/program".into(), build_id: "12ab".into(), executable: true },
        offset: 0x1000,
        name: "crash._omp_fn.0".into(),
        kernel: Some(ImageRef { image: id, index: 3 }),
    };
    // Two slots, each with the address of a private value: the target, and the distance from it.
    let numbers = [16, 32, device.addresses().0.0, 0, 1u64 << 40, 0];
    let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    let block = ArgBlock { bytes: &bytes, slots: 2, relative: &[0b11] };
    let seq = again.launch(stream_of_it, again.function(&spec)?, LaunchDims::default(), block)?;
    again.synchronize(stream_of_it, seq)?;
    // The other device has the same context.
    let seq = device.store(stream, device.addresses().0, b"x")?;
    device.synchronize(stream, seq)
}

// Runs the other process, which executes commands line by line.

fn other(socket: OwnedFd) {
    let device = device(1, true).expect("a device");
    let start = device.addresses().0;
    device.map(start, 1024 * MIB).expect("memory");
    let stream = device.create_stream(QueueId(1)).expect("a stream");
    let mut socket = Some(socket);
    let mut importer = None;
    let mut exporter = None;
    let mut held = Vec::new();
    let notes = Arc::new(AtomicUsize::new(0));
    for line in std::io::stdin().lines() {
        let line = line.expect("the test's line");
        let words: Vec<_> = line.split(' ').collect();
        let handle = || MemoryHandle::decode(&from_hex(words[1])).expect("a memory handle");
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        let map =
            |importer: &Option<Arc<Importer>>| importer.as_ref().and_then(|importer| map(importer, &device, &handle()));
        let answer = match words[0] {
            "take" => {
                let notes = notes.clone();
                let note = move |_: &str| {
                    notes.fetch_add(1, Ordering::Relaxed);
                };
                importer = Importer::start(socket.take().expect("one role"), note);
                "ready".to_owned()
            }
            "give" => {
                exporter = Exporter::start(socket.take().expect("one role"));
                let stored = device.store(stream, start, b"the owner's bytes").expect("a store");
                device.synchronize(stream, stored).expect("the store's end");
                let handle = exporter
                    .as_ref()
                    .and_then(|exporter| offer(exporter, &device, start, MAPPED))
                    .expect("a memory handle");
                to_hex(&handle.encode())
            }
            "copy" => match map(&importer) {
                Some(reached) => {
                    let bytes = pattern(number(2), bytes_of(&handle()));
                    let len = bytes.len() as u64;
                    device.copy_in(stream, start, len, CopySource::new(Bytes(bytes, 0))).expect("a copy in");
                    copy(&device, stream, start, len, reached)
                        .map_or_else(|error| format!("{error:?}"), |()| "direct".into())
                }
                None => "refused".to_owned(),
            },
            "crash" => crash(&device, stream).map_or_else(|_| "crashed".to_owned(), |()| "well".to_owned()),
            "time" => match map(&importer) {
                Some(reached) => {
                    let before = Instant::now();
                    copy(&device, stream, start, bytes_of(&handle()), reached).expect("a copy");
                    before.elapsed().as_nanos().to_string()
                }
                None => "refused".to_owned(),
            },
            "read" => to_hex(&read(&device, start, number(1)).expect("a read")),
            "hold" => match map(&importer) {
                Some(reached) => {
                    held.push(reached);
                    "held".to_owned()
                }
                None => "refused".to_owned(),
            },
            "let-go" => {
                held.clear();
                "gone".to_owned()
            }
            "end" => {
                device.shutdown();
                "ended".to_owned()
            }
            "notes" => notes.load(Ordering::Relaxed).to_string(),
            "fail" => {
                fake::fail(words[1], 0, 801);
                "will".to_owned()
            }
            word => format!("{word} is no command"),
        };
        println!("{answer}");
    }
    drop(exporter);
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

/// The other process, seen from the test.
struct Other {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Other {
    fn start() -> Result<(Self, OwnedFd), Failed> {
        // Without the close-on-exec flag, because the other process gets it.
        let (theirs, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::empty(), None)?;
        let mut child = Command::new(std::env::current_exe()?)
            .env(OTHER, theirs.as_raw_fd().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        drop(theirs);
        let (to, from) = (child.stdin.take().ok_or("no pipe")?, child.stdout.take().ok_or("no pipe")?);
        Ok((Self { child, to, from: BufReader::new(from) }, ours))
    }

    /// Starts a process that exports memory. Returns the handle, and the importer here.
    fn giving() -> Result<(Self, MemoryHandle, Arc<Importer>), Failed> {
        let (mut other, socket) = Self::start()?;
        let handle = MemoryHandle::decode(&from_hex(&other.ask("give")?))?;
        let importer = Importer::start(socket, |_: &str| {}).ok_or("no thread")?;
        Ok((other, handle, importer))
    }

    /// Starts a process that imports memory of `device` of this process.
    fn taking() -> Result<(Self, Arc<Exporter>), Failed> {
        let (mut other, socket) = Self::start()?;
        other.expect("take", "ready")?;
        Ok((other, Exporter::start(socket).ok_or("no thread")?))
    }

    fn ask(&mut self, line: &str) -> Result<String, Failed> {
        writeln!(self.to, "{line}")?;
        let mut answer = String::new();
        self.from.read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }

    fn expect(&mut self, line: &str, expected: &str) -> Test {
        let answer = self.ask(line)?;
        if answer == expected { Ok(()) } else { Err(format!("{answer:?} instead of {expected:?}").into()) }
    }

    fn ask_of(&mut self, command: &str, handle: &MemoryHandle, seed: u64) -> Result<String, Failed> {
        self.ask(&format!("{command} {} {seed}", to_hex(&handle.encode())))
    }

    fn kill(&mut self) -> Test {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) -> Test {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        if Instant::now() > deadline {
            return Err(format!("it never came about: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

// Tests.

fn bytes_go() -> Test {
    let owner = owner()?;
    let (mut other, exporter) = Other::taking()?;
    let start = owner.addresses().0;
    let handle = offer(&exporter, &owner, start.offset(OFFSET), LEN).ok_or("no handle")?;
    for seed in [1, 2] {
        let stream = owner.create_stream(QueueId(2))?;
        let seq = owner.store(stream, start.offset(OFFSET - 1), &[77])?;
        owner.store(stream, start.offset(OFFSET + LEN), &[78])?;
        owner.synchronize(stream, seq)?;
        assert_eq!(other.ask_of("copy", &handle, seed)?, "direct");
        let bytes = read(&owner, start.offset(OFFSET - 1), LEN + 2)?;
        assert!(bytes[1..=LEN as usize] == pattern(seed, LEN), "the bytes are others");
        assert_eq!((bytes[0], bytes[LEN as usize + 1]), (77, 78), "nothing beside them changes");
    }
    // Part of it is imported already.
    owner.map(start.offset(MAPPED), 2 * MIB)?;
    let handle = offer(&exporter, &owner, start.offset(MAPPED - MIB), 2 * MIB).ok_or("no handle")?;
    assert_eq!(other.ask_of("copy", &handle, 3)?, "direct");
    assert!(read(&owner, start.offset(MAPPED - MIB), 2 * MIB)? == pattern(3, 2 * MIB));
    Ok(())
}

/// Returns a device whose driver chooses the address of its memory.
fn allocating() -> Result<Arc<CudaDevice>, Failed> {
    let info = inventory(NodeId(0), "here").devices[0].clone();
    Ok(CudaDevice::start(info, CudaConfig { ipc: true, allocate: true, ..CudaConfig::default() })?)
}

fn allocation_goes() -> Test {
    const WHOLE: u64 = 300 * MIB;
    let owner = allocating()?;
    assert_eq!(owner.addresses().1, 0, "it has no range");
    let (start, small) = (owner.allocate(WHOLE)?, owner.allocate(4 * MIB)?);
    let (mut other, exporter) = Other::taking()?;
    for (start, offset, len, seed) in [(start, 0, WHOLE, 1), (start, OFFSET, LEN, 2), (small, 5, 2 * MIB, 3)] {
        let start = start.offset(offset);
        let handle = offer(&exporter, &owner, start, len).ok_or("no handle")?;
        assert_eq!(other.ask_of("copy", &handle, seed)?, "direct");
        assert!(read(&owner, start, len)? == pattern(seed, len), "the bytes of {seed} are others");
    }
    assert!(offer(&exporter, &owner, start, WHOLE + 1).is_none(), "its end is in no allocation");
    assert!(offer(&exporter, &owner, DevicePtr(start.0.min(small.0) - 1), 1).is_none());
    // Neither in part, nor as mapped memory.
    assert!(owner.map(start, 2 * MIB).is_err());
    let stream = owner.create_stream(QueueId(3))?;
    let part = owner.unmap(stream, start, 2 * MIB)?;
    assert!(owner.synchronize(stream, part).is_err());
    Ok(())
}

fn allocation_is_kept() -> Test {
    const WHOLE: u64 = 300 * MIB;
    let owner = allocating()?;
    let (mut other, exporter) = Other::taking()?;
    let before = owner.memory_free();
    let start = owner.allocate(WHOLE)?;
    let handle = offer(&exporter, &owner, start, WHOLE).ok_or("no handle")?;
    assert_eq!(other.ask_of("hold", &handle, 0)?, "held");
    unmap(&owner, start, WHOLE)?;
    std::thread::sleep(Duration::from_millis(100));
    assert!(owner.memory_free() + WHOLE <= before, "it was freed while the other process had it");
    assert!(offer(&exporter, &owner, start, WHOLE).is_none());
    other.expect("let-go", "gone")?;
    until("it is freed", || owner.memory_free() + WHOLE > before)?;
    // Also when the other process ends.
    let start = owner.allocate(WHOLE)?;
    let handle = offer(&exporter, &owner, start, WHOLE).ok_or("no handle")?;
    assert_eq!(other.ask_of("hold", &handle, 0)?, "held");
    unmap(&owner, start, WHOLE)?;
    other.kill()?;
    until("it is freed", || owner.memory_free() + WHOLE > before)
}

fn unmap(device: &CudaDevice, start: DevicePtr, len: u64) -> Test {
    let stream = device.create_stream(QueueId(3))?;
    let seq = device.unmap(stream, start, len)?;
    Ok(device.synchronize(stream, seq)?)
}

fn mapped_anew() -> Test {
    let owner = owner()?;
    let (mut other, exporter) = Other::taking()?;
    let start = owner.addresses().0;
    let old = offer(&exporter, &owner, start, MAPPED).ok_or("no handle")?;
    assert_eq!(other.ask_of("copy", &old, 1)?, "direct");
    for seed in 2..6 {
        unmap(&owner, start, MAPPED)?;
        owner.map(start, MAPPED)?;
        let new = offer(&exporter, &owner, start, MAPPED).ok_or("no handle")?;
        assert_ne!(old, new);
        // At once: the notification that the old pieces are gone may not have arrived.
        assert_eq!(other.ask_of("copy", &new, seed)?, "direct");
        assert!(read(&owner, start, MAPPED)? == pattern(seed, MAPPED), "the bytes of round {seed} went elsewhere");
    }
    assert_eq!(other.ask_of("copy", &old, 9)?, "refused");
    // Other pieces with other boundaries, while an old one is in use.
    let new = offer(&exporter, &owner, start, MAPPED).ok_or("no handle")?;
    assert_eq!(other.ask_of("hold", &new, 0)?, "held");
    unmap(&owner, start, MAPPED)?;
    owner.map(start.offset(2 * MIB), MAPPED)?;
    let handle = offer(&exporter, &owner, start.offset(2 * MIB), MAPPED).ok_or("no handle")?;
    assert_eq!(other.ask_of("copy", &handle, 6)?, "refused");
    other.expect("let-go", "gone")?;
    assert_eq!(other.ask_of("copy", &handle, 7)?, "direct");
    assert!(read(&owner, start.offset(2 * MIB), MAPPED)? == pattern(7, MAPPED));
    Ok(())
}

fn memory_comes_back() -> Test {
    let owner = owner()?;
    let (mut other, exporter) = Other::taking()?;
    let at = owner.addresses().0.offset(1024 * MIB);
    // The driver uses some of this device's memory for the other process at its first access.
    let handle = offer(&exporter, &owner, owner.addresses().0, MAPPED).ok_or("no handle")?;
    assert_eq!(other.ask_of("copy", &handle, 0)?, "direct");
    let len = 256 * MIB;
    // Memory held by processes of other tests is freed after their end.
    until("no other process frees memory", || {
        let before = owner.memory_free();
        std::thread::sleep(Duration::from_millis(300));
        owner.memory_free() == before
    })?;
    for seed in 0..3 {
        let before = owner.memory_free();
        owner.map(at, len)?;
        assert!(owner.memory_free() < before - len / 2, "it is not others who make the difference");
        let handle = offer(&exporter, &owner, at, len).ok_or("no handle")?;
        assert_eq!(other.ask_of("hold", &handle, seed)?, "held");
        unmap(&owner, at, len)?;
        other.expect("let-go", "gone")?;
        until("the memory is free again", || owner.memory_free() >= before - len / 2).map_err(|error| {
            format!("{}: {} of {before} bytes are free", error.message().unwrap_or_default(), owner.memory_free())
        })?;
    }
    Ok(())
}

fn taker_dies() -> Test {
    let owner = owner()?;
    let (mut other, exporter) = Other::taking()?;
    let start = owner.addresses().0;
    let handle = offer(&exporter, &owner, start, MAPPED).ok_or("no handle")?;
    assert_eq!(other.ask_of("copy", &handle, 1)?, "direct");
    assert_eq!(other.ask_of("hold", &handle, 1)?, "held");
    other.kill()?;
    assert!(read(&owner, start, MAPPED)? == pattern(1, MAPPED));
    unmap(&owner, start, MAPPED)?;
    owner.map(start, MAPPED)?;
    until("the exporter sees the end", || offer(&exporter, &owner, start, MAPPED).is_none())
}

fn giver_dies() -> Test {
    let device = owner()?;
    let (mut other, handle, importer) = Other::giving()?;
    let first = map(&importer, &device, &handle).ok_or("it can't be reached")?;
    let second = map(&importer, &device, &handle).ok_or("it can't be reached")?;
    let stream = device.create_stream(QueueId(4))?;
    let start = device.addresses().0;
    copy(&device, stream, start, MAPPED, first)?;
    other.kill()?;
    until("the importer sees the end", || map(&importer, &device, &handle).is_none())?;
    // The memory lives as long as it is held, and the device works.
    copy(&device, stream, start, MAPPED, second)?;
    let seq = device.store(stream, start, b"well")?;
    device.synchronize(stream, seq)?;
    assert_eq!(read(&device, start, 4)?, b"well");
    Ok(())
}

fn giver_crashes() -> Test {
    let device = owner()?;
    let (mut other, handle, importer) = Other::giving()?;
    let reached = map(&importer, &device, &handle).ok_or("it can't be reached")?;
    other.expect("crash", "crashed")?;
    let stream = device.create_stream(QueueId(4))?;
    let start = device.addresses().0;
    // Imported memory lives as long as it is held. If a driver differs, this copy gets an error.
    if let Err(error) = copy(&device, stream, start, MAPPED, reached) {
        eprintln!("the copy to lost memory failed: {}", error.message().unwrap_or_default());
    }
    // This device works.
    let stream = device.create_stream(QueueId(5))?;
    let seq = device.store(stream, start, b"well")?;
    device.synchronize(stream, seq)?;
    assert_eq!(read(&device, start, 4)?, b"well");
    Ok(())
}

fn devices_end() -> Test {
    let owner = owner()?;
    let (mut other, exporter) = Other::taking()?;
    let handle = offer(&exporter, &owner, owner.addresses().0, MAPPED).ok_or("no handle")?;
    assert_eq!(other.ask_of("hold", &handle, 1)?, "held");
    owner.shutdown();
    other.expect("let-go", "gone")?;
    let anew = self::owner()?;
    let handle = offer(&exporter, &anew, anew.addresses().0, MAPPED).ok_or("no handle")?;
    assert_eq!(other.ask_of("copy", &handle, 2)?, "direct");
    assert_eq!(other.ask_of("hold", &handle, 2)?, "held");
    other.expect("end", "ended")?;
    assert_eq!(other.ask_of("hold", &handle, 2)?, "refused");
    other.expect("let-go", "gone")?;
    unmap(&anew, anew.addresses().0, MAPPED)
}

fn trace_tells() -> Test {
    let device = owner()?;
    let spans = Arc::new(Spans::default());
    device.trace(spans.clone());
    let (_other, handle, importer) = Other::giving()?;
    let stream = device.create_stream(QueueId(4))?;
    let reached = map(&importer, &device, &handle).ok_or("it can't be reached")?;
    copy(&device, stream, device.addresses().0, MAPPED, reached)?;
    let seq = device.store(stream, device.addresses().0, b"behind it")?;
    device.synchronize(stream, seq)?;
    let seen: Vec<_> = spans.0.lock().expect("test lock").iter().map(|span| (span.kind, span.bytes)).collect();
    assert_eq!(seen, [(SpanKind::Push, MAPPED), (SpanKind::CopyIn, 9)]);
    Ok(())
}

fn no_handle() -> Test {
    let owner = owner()?;
    let (_other, exporter) = Other::taking()?;
    let start = owner.addresses().0;
    assert!(offer(&exporter, &owner, start, MAPPED).is_some());
    assert!(offer(&exporter, &owner, start, MAPPED + 1).is_none(), "not all of it is mapped");
    assert!(offer(&exporter, &owner, start.offset(MAPPED + MIB), 1).is_none());
    assert!(offer(&exporter, &owner, DevicePtr(start.0 - 1), 2).is_none(), "not the device's");
    assert!(offer(&exporter, &owner, start, 0).is_none());
    owner.map(start.offset(MAPPED + 2 * MIB), 2 * MIB)?;
    assert!(offer(&exporter, &owner, start, MAPPED + 3 * MIB).is_none(), "there is a hole");
    let other_device = device(0, false)?;
    other_device.map(other_device.addresses().0, 2 * MIB)?;
    assert!(offer(&exporter, &other_device, other_device.addresses().0, 1).is_none(), "it is not for others");
    exporter.close();
    until("the exporter has ended", || offer(&exporter, &owner, start, MAPPED).is_none())
}

fn pair() -> Result<(OwnedFd, OwnedFd), Failed> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Returns a message of its kind, the piece and the range.
fn message(numbers: [u64; 3]) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn wrong_words() -> Test {
    let owner = owner()?;
    let start = owner.addresses().0;
    // Messages of the other role, unknown ones, and ones that are too short or too long.
    let long = [message([1, 2, 3]), message([1, 2, 3])].concat();
    for wrong in [message([2, 1, 0]), message([3, 1, 0]), message([9, 1, 0]), b"short".to_vec(), long.clone()] {
        let (near, far) = pair()?;
        let exporter = Exporter::start(near).ok_or("no thread")?;
        assert!(offer(&exporter, &owner, start, MAPPED).is_some());
        send(&far, &wrong, SendFlags::NOSIGNAL)?;
        until("the exporter leaves", || offer(&exporter, &owner, start, MAPPED).is_none())?;
    }
    let (near, far) = pair()?;
    let exporter = Exporter::start(near).ok_or("no thread")?;
    let handle = offer(&exporter, &owner, start, MAPPED).ok_or("no handle")?;
    // Unknown pieces and ranges, and a piece that was never exported.
    for odd in [message([1, u64::MAX, 0]), message([1, 1, u64::MAX]), message([4, u64::MAX, 0])] {
        send(&far, &odd, SendFlags::NOSIGNAL)?;
    }
    for _ in 0..2 {
        let mut answer = [0; 24];
        recv(&far, &mut answer[..], RecvFlags::empty())?;
        assert_eq!(answer[0], 2, "it says that it has no such piece");
    }
    assert!(offer(&exporter, &owner, start, MAPPED).is_some(), "that is no reason to leave");
    for wrong in [message([1, 1, 0]), message([4, 1, 0]), message([9, 1, 0]), b"short".to_vec(), long] {
        let (near, far) = pair()?;
        let importer = Importer::start(near, |_: &str| {}).ok_or("no thread")?;
        // An unrequested answer is ignored.
        send(&far, &message([2, 1, 0]), SendFlags::NOSIGNAL)?;
        send(&far, &wrong, SendFlags::NOSIGNAL)?;
        assert!(map(&importer, &owner, &handle).is_none());
    }
    Ok(())
}

fn no_answer() -> Test {
    let owner = owner()?;
    let (_other, exporter) = Other::taking()?;
    let handle = offer(&exporter, &owner, owner.addresses().0, MAPPED).ok_or("no handle")?;
    let (near, far) = pair()?;
    let importer = Importer::start(near, |_: &str| {}).ok_or("no thread")?;
    assert!(map(&importer, &owner, &handle).is_none());
    let mut question = [0; 24];
    assert_eq!(recv(&far, &mut question[..], RecvFlags::empty())?.0, 24);
    assert_eq!(recv(&far, &mut question[..], RecvFlags::empty())?.0, 0, "it has left");
    assert!(map(&importer, &owner, &handle).is_none());
    Ok(())
}

fn driver_refuses() -> Test {
    for call in ["cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemSetAccess", "cuMemMap"] {
        let owner = owner()?;
        let (mut other, exporter) = Other::taking()?;
        let handle = offer(&exporter, &owner, owner.addresses().0, MAPPED).ok_or("no handle")?;
        other.expect(&format!("fail {call}"), "will")?;
        assert_eq!(other.ask_of("copy", &handle, 1)?, "refused");
        // Not retried, and reported once.
        assert_eq!(other.ask_of("copy", &handle, 1)?, "refused");
        other.expect("notes", "1")?;
    }
    Ok(())
}

fn cannot_export() -> Test {
    let owner = owner()?;
    let (mut other, exporter) = Other::taking()?;
    let handle = offer(&exporter, &owner, owner.addresses().0, MAPPED).ok_or("no handle")?;
    fake::fail("cuMemExportToShareableHandle", 0, 2);
    assert_eq!(other.ask_of("copy", &handle, 1)?, "refused");
    other.expect("notes", "0")?;
    assert_eq!(other.ask_of("copy", &handle, 1)?, "direct");
    Ok(())
}

fn without_attribute() -> Test {
    let (_other, exporter) = Other::taking()?;
    let set = |can: &str| {
        // SAFETY: tests run one after the other, and no other of their threads reads the environment now.
        unsafe { std::env::set_var("FAKE_CUDA_IPC", can) };
    };
    set("0");
    let owner = owner();
    set("1");
    let owner = owner?;
    assert!(offer(&exporter, &owner, owner.addresses().0, MAPPED).is_none());
    Ok(())
}

fn refused_kind() -> Test {
    let (_other, exporter) = Other::taking()?;
    let device = device(0, true)?;
    let start = device.addresses().0;
    fake::fail("cuMemCreate", 0, 801);
    device.map(start, MAPPED)?;
    assert!(offer(&exporter, &device, start, MAPPED).is_none());
    assert_eq!(read(&device, start, 16)?.len(), 16);
    Ok(())
}

/// Prints the speed of a copy, and of one within a process. Checks no bound.
fn how_fast() -> Test {
    const BYTES: u64 = 1 << 30;
    let (owner, near) = (device(0, true)?, device(1, true)?);
    let start = owner.addresses().0;
    owner.map(start, BYTES)?;
    near.map(near.addresses().0, BYTES)?;
    let rate = |times: &[u128]| BYTES as f64 / *times.iter().min().expect("some") as f64;
    let stream = near.create_stream(QueueId(1))?;
    let mut within = Vec::new();
    for _ in 0..10 {
        let before = Instant::now();
        let seq = near.copy_to(stream, near.addresses().0, &*owner, start, BYTES, None)?.ok_or("another kind")?;
        near.synchronize(stream, seq)?;
        within.push(before.elapsed().as_nanos());
    }
    drop(near);
    let (mut other, exporter) = Other::taking()?;
    let handle = offer(&exporter, &owner, start, BYTES).ok_or("no handle")?;
    let mut between = Vec::new();
    for _ in 0..10 {
        between.push(other.ask_of("time", &handle, 0)?.parse().map_err(|_| "no time")?);
    }
    eprintln!("1 GiB: {:.1} GB/s within a process, {:.1} GB/s between two", rate(&within), rate(&between));
    Ok(())
}
