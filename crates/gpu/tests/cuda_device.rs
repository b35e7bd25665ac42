//! A GPU: the real one if there is a driver, otherwise the tests' own driver. The latter's device memory is the host's, and
//! its kernels are functions of this file.

#[path = "support/asked.rs"]
mod asked;
#[path = "support/behind.rs"]
mod behind;
#[path = "support/bounds.rs"]
mod bounds;
#[path = "support/egress.rs"]
mod egress;
#[path = "../../device/tests/support/ends.rs"]
mod ends;
#[path = "support/failures.rs"]
mod failures;
#[path = "support/fence.rs"]
mod fence;
#[path = "support/fetched.rs"]
mod fetched;
#[path = "support/gangs.rs"]
mod gangs;
#[path = "support/native.rs"]
mod native;
#[path = "support/native_row.rs"]
mod native_row;
#[path = "support/page_registration.rs"]
mod page_registration;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/refusals.rs"]
mod refusals;
#[path = "support/repeated.rs"]
mod repeated;
#[path = "support/rows.rs"]
mod rows;
#[path = "support/shutdowns.rs"]
mod shutdowns;
mod support;
#[path = "support/suspending.rs"]
mod suspending;
#[path = "../../device/tests/support/then.rs"]
mod then;

use accord_device::image::{Image, ImageFunction, ImageVariable, Images};
use accord_device::{CopySink, CopySource, Device, NativeHandles};
use accord_gpu::{CudaConfig, CudaDevice, inventory};
use accord_types::{
    ArgBlock, DevicePtr, ErrorCode, FunctionSpec, GlobalSpec, HostRange, ImageId, ImageRef, LaunchDims, NodeId,
    ObjectSpec, QueueId, ReadWhen, Result, Seq, SpanKind, StreamId,
};
use ends::{Bytes, Spans, keep, read};
use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use support::fake;
use then::then;

type Test = Result<(), Failed>;
type Case = (&'static str, fn() -> Test);

const REGIONS: &str = include_str!("regions/regions.ptx");
/// In the order of the file's function list.
const NAMES: [&str; 6] = ["add", "double_slowly", "read_variable", "crash", "sum", "nothing"];
/// Argument of `double_slowly` for some 30 ms.
const SLOW: i32 = 3_000_000;

fn main() {
    let args = Arguments::from_args();
    fake::load_unless_real();
    let tests = [
        ("a_region_gets_addresses_and_private_values", a_region_gets_its_block as fn() -> Test),
        ("large_private_values_travel_by_memory", large_private_values),
        ("private_pointers_point_into_their_block", private_pointers),
        ("kernels_of_another_shape_take_their_block_from_memory", another_shape),
        ("vectors_and_workers_add_up", vectors_and_workers),
        ("operations_of_a_stream_run_in_order", operations_run_in_order),
        ("streams_wait_for_each_other_without_the_host", streams_wait),
        ("copies_go_both_ways_in_pieces", copies_go_both_ways),
        ("large_copies_of_the_programs_memory_go_both_ways", large_copies),
        ("a_copy_in_reads_what_a_copy_out_before_it_wrote", copies_follow_each_other),
        ("overlapping_ranges_are_moved", overlapping_ranges),
        ("memory_is_mapped_and_given_back_in_any_parts", memory_in_parts),
        ("host_work_runs_in_order_and_fails_its_stream_only", host_work),
        ("notify_is_called_once_reached", notify_is_called),
        ("many_small_copies_out_need_no_wait", many_small_copies),
        ("copies_out_land_without_a_waiter", copies_land_alone),
        ("a_stream_goes_on_while_a_network_takes_its_bytes", egress::goes_on),
        ("bytes_that_a_library_takes_are_taken_in_their_turn", native::taken_in_order),
        ("bytes_that_a_library_gives_come_in_their_turn", native::given_in_order),
        ("a_library_is_told_where_bytes_are", native::ranges),
        ("a_device_that_is_shut_down_waits_for_a_library", native::shutdown_waits),
        ("too_many_operations_behind_the_host_block_the_caller", bounds::held),
        ("a_launch_that_must_not_wait_does_not", bounds::launches_that_must_not_wait),
        ("too_many_operations_behind_a_network_block_the_caller", bounds::held_by_network),
        ("a_stream_remembers_so_many_waits_for_others", bounds::waits_for_streams),
        ("a_blocked_caller_learns_of_the_end", bounds::ended),
        ("a_variable_has_its_initial_value", variables),
        ("a_second_start_compiles_nothing", second_start),
        ("regions_without_gpu_code_say_so", without_code),
        ("the_programs_own_context_stays_current", own_context),
        ("two_devices_copy_to_each_other", two_devices),
        ("devices_that_copy_to_each_other_at_once_get_on", two_directions),
        ("a_device_that_is_shut_down_waits_for_what_another_copies_there", peers::shutdown_waits),
        ("copies_between_devices_end_before_a_suspension", suspending::copies_between_devices),
        ("suspended_memory_comes_back_after_failures", suspending::failures),
        ("a_gpu_is_found_by_its_uuid", native::found_by_uuid),
        ("spans_tell_what_ran", spans_tell),
        ("the_program_may_use_a_lent_stream_itself", lent_streams),
        ("the_drivers_default_stream_is_ordered_with_all_others", default_stream),
        ("regions_that_repeat_run_in_order", repeated::in_order),
        ("rows_are_copied_together", rows::together),
        ("rows_that_are_handed_over_are_copied_together", rows::that_are_handed_over),
        ("rows_of_synchronous_calls_are_not_held_back", rows::never_of_synchronous_calls),
        ("rows_keep_their_order", rows::in_order),
        ("rows_go_when_another_stream_is_waited_for", rows::when_another_stream_is_waited_for),
        ("rows_lie_across_pieces_of_memory", rows::across_pieces),
        ("rows_of_pinned_memory_are_read_in_their_turn", rows::never_of_pinned_memory),
        ("few_bytes_are_fetched_in_order", fetched::in_order),
        ("fetched_bytes_may_be_refused", fetched::refused),
        ("bytes_for_a_library_are_fetched_in_order", fetched::for_a_library),
        ("copies_for_a_library_are_under_way_at_once", native_row::at_once),
        ("a_copy_for_a_library_that_fails_leaves_none_under_way", native_row::failed),
        ("a_device_that_is_shut_down_leaves_a_library_what_it_reads", native_row::ended),
        ("a_failure_is_told_in_its_turn", failures::in_their_turn),
    ];
    let fake_only = [
        ("lack_of_memory_is_told_and_leaves_nothing_behind", refusals::lack_of_memory as fn() -> Test),
        ("a_device_that_another_process_holds_says_so", refusals::held_device),
        ("who_waits_asks_the_driver_for_nothing_that_is_known", asked::no_cached_state),
        ("what_comes_when_a_device_is_gone_is_not_given_to_the_driver", asked::nothing_after_shutdown),
        ("what_a_worker_is_about_to_give_the_driver_is_of_memory_that_is_there", shutdowns::before_memory_goes),
        ("a_trace_tells_of_copies_whose_end_the_host_knows", asked::traced_copies_are_reported),
        ("few_bytes_are_fetched_at_once", fetched::at_once),
        ("copies_raise_no_interrupts", fetched::without_interrupts),
        ("a_fence_that_cant_be_waited_for_is_an_error", fence::without_events),
        ("bytes_for_a_library_stay_where_no_memory_is_left", fetched::without_slots),
        ("a_region_has_as_many_gangs_as_it_is_long", gangs::by_length),
        ("gangs_share_blocks_if_that_is_faster", gangs::that_share_blocks),
        ("regions_that_repeat_go_the_ordinary_way_without_graphs", repeated::refused),
        ("rows_that_the_driver_refuses_are_an_error", rows::refused),
        ("a_copy_that_stops_halfway_gives_its_network_up", egress::given_up),
        ("old_code_that_the_driver_refuses_is_compiled_again", refusals::refused_code),
        ("ptx_that_the_driver_refuses_keeps_the_ordinary_way", refusals::refused_ptx),
    ];
    // A crash ends the context of the whole process, so that these tests run in processes of their own.
    let crashes = [
        ("a_crash_names_the_region", a_crash_names_the_region as fn() -> Test),
        ("shutdown_ends_what_waits", shutdown_ends),
        ("a_driver_that_locks_nothing_is_not_asked_again", page_registration::never_again),
    ];
    if let Some(name) = std::env::var_os("ACCORD_TEST_CRASH") {
        let test = crashes.iter().find(|(known, _)| *known == name).expect("a test's name").1;
        return match test() {
            Ok(()) => println!("passed"),
            Err(error) => println!("failed: {}", error.message().unwrap_or_default()),
        };
    }
    let here = inventory(NodeId(0), "here");
    if here.devices.is_empty() {
        println!("skipped: no GPU: {}", here.note.unwrap_or_default());
        return;
    }
    // Not to standard output, from which test runners read the list of tests.
    eprintln!("on {} x {} (driver {})", here.devices.len(), here.devices[0].name, here.devices[0].driver);
    let mut trials: Vec<_> = tests
        .into_iter()
        .chain([&page_registration::TESTS[..], &fence::TESTS, &behind::TESTS].concat())
        .map(|(name, test)| Trial::test(name, test))
        .collect();
    if fake::is_loaded() {
        trials.extend(fake_only.into_iter().map(|(name, test)| Trial::test(name, test)));
    }
    trials.extend(crashes.into_iter().map(|(name, _)| Trial::test(name, move || in_another_process(name))));
    libtest_mimic::run(&Arguments { test_threads: Some(1), ..args }, trials).exit();
}

fn in_another_process(name: &str) -> Test {
    let exe = std::env::current_exe()?;
    let output = std::process::Command::new(exe).env("ACCORD_TEST_CRASH", name).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.lines().last() != Some("passed") {
        return Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(())
}

fn device() -> Result<Arc<CudaDevice>, Failed> {
    device_with(0, REGIONS, None)
}

fn image(text: &str) -> Image {
    let function = |name: &&str| ImageFunction {
        name: format!("{name}$_omp_fn$0"),
        dims: match *name {
            "add" => [0, 1, 32],
            "sum" => [0, 4, 64],
            _ => [1, 1, 32],
        },
    };
    Image {
        objects: vec![text.as_bytes().to_vec()],
        functions: NAMES.iter().map(function).collect(),
        variables: vec![ImageVariable { name: "variable".into() }],
    }
}

fn device_with(ordinal: usize, text: &str, cache: Option<&std::path::Path>) -> Result<Arc<CudaDevice>, Failed> {
    device_of(ordinal, text, CudaConfig { cache: cache.map(Into::into), ..CudaConfig::default() })
}

fn device_of(ordinal: usize, text: &str, config: CudaConfig) -> Result<Arc<CudaDevice>, Failed> {
    let images = Arc::new(Images::default());
    images.add(image(text));
    let info = inventory(NodeId(0), "here").devices.into_iter().nth(ordinal).ok_or("there is no such device")?;
    let device = CudaDevice::start(info, CudaConfig { images, ipc: true, scrub: ordinal == 1, ..config })?;
    device.map(device.addresses().0, 64 << 20)?;
    Ok(device)
}

fn object() -> ObjectSpec {
    ObjectSpec { path: "/somewhere/program".into(), build_id: "12ab".into(), executable: true }
}

fn spec_in(image: ImageId, name: &str) -> FunctionSpec {
    let index = NAMES.iter().position(|known| *known == name).expect("a region's name") as u32;
    FunctionSpec {
        object: object(),
        offset: 0x1000,
        name: format!("{name}._omp_fn.0"),
        kernel: Some(ImageRef { image, index }),
    }
}

fn spec(name: &str) -> FunctionSpec {
    spec_in(image(REGIONS).id(), name)
}

/// A slot of a launch.
enum Slot<'a> {
    At(DevicePtr),
    Value(&'a [u8]),
}
use Slot::{At, Value};

fn launch(
    device: &CudaDevice,
    stream: StreamId,
    function: &FunctionSpec,
    dims: LaunchDims,
    slots: &[Slot<'_>],
) -> Result<Seq> {
    let mut bytes = vec![0; slots.len() * 8];
    let mut relative = vec![0u64; ArgBlock::RELATIVE_WORDS_MAX];
    for (index, slot) in slots.iter().enumerate() {
        let word = match slot {
            At(address) => address.0,
            Value(value) => {
                let at = bytes.len().next_multiple_of(16);
                bytes.resize(at, 0);
                bytes.extend_from_slice(value);
                relative[index / 64] |= 1 << (index % 64);
                at as u64
            }
        };
        bytes[index * 8..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    relative.truncate(ArgBlock::relative_words(bytes.len()));
    let block = ArgBlock { bytes: &bytes, slots: slots.len() as u32, relative: &relative };
    device.launch(stream, device.function(function)?, dims, block)
}

fn add(device: &CudaDevice, stream: StreamId, at: DevicePtr, n: i32, s: f64) -> Result<Seq> {
    launch(
        device,
        stream,
        &spec("add"),
        LaunchDims::default(),
        &[At(at), Value(&s.to_ne_bytes()), Value(&n.to_ne_bytes())],
    )
}

fn double_slowly(device: &CudaDevice, stream: StreamId, at: DevicePtr, b: f64) -> Result<Seq> {
    let slots = [At(at), Value(&SLOW.to_ne_bytes()), Value(&b.to_ne_bytes())];
    launch(device, stream, &spec("double_slowly"), LaunchDims::default(), &slots)
}

fn doubles(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    values.into_iter().flat_map(f64::to_ne_bytes).collect()
}

fn range(bytes: &[u8]) -> HostRange {
    HostRange { start: bytes.as_ptr().expose_provenance(), len: bytes.len() }
}

fn write(device: &CudaDevice, stream: StreamId, at: DevicePtr, bytes: Vec<u8>) -> Result<Seq> {
    device.copy_in(stream, at, bytes.len() as u64, CopySource::new(Bytes(bytes, 0)))
}

fn read_doubles(device: &CudaDevice, stream: StreamId, at: DevicePtr, n: u64) -> Result<Vec<f64>> {
    let bytes = read(device, stream, at, n * 8)?;
    Ok(bytes.chunks(8).map(|c| f64::from_ne_bytes(c.try_into().expect("8 bytes"))).collect())
}

fn a_region_gets_its_block() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId::SYNC)?;
    let at = device.addresses().0;
    write(&device, stream, at, doubles((0..1000).map(f64::from)))?;
    // Many launches, so that a stale parameter would be noticed.
    for _ in 0..100 {
        add(&device, stream, at, 1000, 0.25)?;
        add(&device, stream, at, 500, 0.5)?;
    }
    let seq = launch(&device, stream, &spec("nothing"), LaunchDims::default(), &[])?;
    device.synchronize(stream, seq)?;
    assert!(device.reached(stream, seq)?);
    let expected: Vec<f64> = (0..1000).map(|i| f64::from(i) + if i < 500 { 75.0 } else { 25.0 }).collect();
    assert_eq!(read_doubles(&device, stream, at, 1000)?, expected);
    let kernels = device.kernels(image(REGIONS).id());
    assert_eq!(kernels.len(), NAMES.len());
    assert!(kernels.iter().all(|(_, why)| why.is_none()), "{kernels:?}");
    Ok(())
}

fn large_private_values() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId::SYNC)?;
    let at = device.addresses().0;
    write(&device, stream, at, doubles([1.0; 8]))?;
    for round in 0..20 {
        let mut s = f64::from(round).to_ne_bytes().to_vec();
        s.resize(3000, 0xee);
        launch(&device, stream, &spec("add"), LaunchDims::default(), &[At(at), Value(&s), Value(&8i32.to_ne_bytes())])?;
    }
    assert_eq!(read_doubles(&device, stream, at, 8)?, [191.0; 8]);
    Ok(())
}

fn private_pointers() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId::SYNC)?;
    let at = device.addresses().0;
    write(&device, stream, at, doubles([0.0]))?;
    // The number that the region adds is a pointer to the next word, whose bits are the result.
    let bytes: Vec<u8> = [at.0, 32, 24, 1, 40, 7].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let block = ArgBlock { bytes: &bytes, slots: 3, relative: &[0b010_110] };
    device.launch(stream, device.function(&spec("add"))?, LaunchDims::default(), block)?;
    let pointer = read_doubles(&device, stream, at, 1)?[0].to_bits();
    assert!(pointer > 1 << 20 && pointer % 16 == 8, "{pointer:#x}");
    Ok(())
}

fn another_shape() -> Test {
    // The code uses the block's address in an unknown way.
    let text = REGIONS.replace("mov.u64 %r59,%ar0;", "add.u64 %r59,%ar0,0;");
    assert_ne!(text, REGIONS);
    let device = device_with(0, &text, None)?;
    let stream = device.create_stream(QueueId::SYNC)?;
    let at = device.addresses().0;
    write(&device, stream, at, doubles([0.0; 64]))?;
    let image = image(&text).id();
    for round in 0..50 {
        let s = f64::from(round).to_ne_bytes();
        let slots = [At(at), Value(&s), Value(&64i32.to_ne_bytes())];
        launch(&device, stream, &spec_in(image, "add"), LaunchDims::default(), &slots)?;
    }
    assert_eq!(read_doubles(&device, stream, at, 64)?, [1225.0; 64]);
    let kernels = device.kernels(image);
    let why = kernels.iter().find(|(name, _)| name.starts_with("add")).and_then(|(_, why)| why.clone());
    assert!(why.is_some_and(|why| why.contains("unknown")), "{kernels:?}");
    Ok(())
}

fn vectors_and_workers() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(3))?;
    let at = device.addresses().0;
    write(&device, stream, at, doubles((0..10_000).map(f64::from)))?;
    let total = at.offset(1 << 20);
    device.store(stream, total, &0f64.to_ne_bytes())?;
    let dims = LaunchDims { gangs: 7, ..LaunchDims::default() };
    launch(&device, stream, &spec("sum"), dims, &[At(total), At(at), Value(&10_000i32.to_ne_bytes())])?;
    assert_eq!(read_doubles(&device, stream, total, 1)?, [49_995_000.0]);
    Ok(())
}

fn operations_run_in_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    // Any other order gives other numbers. The copy in comes from another process, so that later operations wait in the list.
    device.store(stream, at, &doubles([1.0]))?;
    double_slowly(&device, stream, at, 1.0)?;
    device.copy(stream, at.offset(8), at, 8)?;
    write(&device, stream, at, doubles([10.0]))?;
    double_slowly(&device, stream, at, 5.0)?;
    device.store(stream, at.offset(16), &doubles([99.0]))?;
    device.copy(stream, at.offset(24), at.offset(16), 8)?;
    assert_eq!(read_doubles(&device, stream, at, 4)?, [25.0, 3.0, 99.0, 99.0]);
    Ok(())
}

fn streams_wait() -> Test {
    let device = device()?;
    let (a, b) = (device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?);
    let at = device.addresses().0;
    device.store(a, at, &doubles([3.0]))?;
    let (hold, held) = mpsc::channel();
    // Until this ends no operation of stream a is in the driver's stream.
    then(&*device, a, (at, 1), move || held.recv().map_err(|_| accord_types::Error::new(ErrorCode::Other, "gone")))?;
    let mut last = Seq(0);
    for _ in 0..4 {
        last = double_slowly(&device, a, at, 0.0)?;
    }
    device.wait_stream(b, a, last)?;
    let seq = device.copy(b, at.offset(8), at, 8)?;
    assert!(!device.reached(b, seq)?);
    hold.send(())?;
    device.synchronize(b, seq)?;
    assert_eq!(read_doubles(&device, b, at, 2)?, [48.0, 48.0]);
    // Also when all operations are in the driver's streams already.
    double_slowly(&device, a, at, 2.0)?;
    let last = double_slowly(&device, a, at, 1.0)?;
    device.wait_stream(b, a, last)?;
    device.copy(b, at.offset(8), at, 8)?;
    assert_eq!(read_doubles(&device, b, at.offset(8), 1)?, [197.0]);
    Ok(())
}

fn copies_go_both_ways() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(0))?;
    let at = device.addresses().0;
    let bytes: Vec<u8> = (0..9_000_001u32).map(|i| (i * 7 % 251) as u8).collect();
    write(&device, stream, at, bytes.clone())?;
    assert_eq!(read(&*device, stream, at, bytes.len() as u64)?, bytes);
    assert_eq!(read(&*device, stream, at.offset(1_000_000), 5)?, bytes[1_000_000..][..5]);
    Ok(())
}

fn large_copies() -> Test {
    let device = device()?;
    let streams = [device.create_stream(QueueId(0))?, device.create_stream(QueueId(1))?];
    let at = device.addresses().0;
    for (round, &len) in [40_000_000usize, 70_000, 4 << 20, 1, 5_000_003].iter().enumerate() {
        let from: Vec<u8> = (0..len as u32).map(|i| ((i ^ round as u32) * 31 % 253) as u8).collect();
        let to = vec![0u8; len];
        let here = round % 2 == 0;
        let stream = streams[round % 2];
        if here {
            device.copy_in_program(stream, at, range(&from), ReadWhen::BeforeReturn)?;
        } else {
            let seq = device.copy_in(stream, at, len as u64, CopySource::program(range(&from), here))?;
            device.synchronize(stream, seq)?;
        }
        let gone = from.clone();
        drop(from);
        let seq = device.copy_out(stream, at, len as u64, CopySink::program(range(&to), here))?;
        device.synchronize(stream, seq)?;
        assert!(to == gone, "{len} bytes came back changed");
    }
    Ok(())
}

fn copies_follow_each_other() -> Test {
    let device = device()?;
    let (a, b) = (device.create_stream(QueueId(0))?, device.create_stream(QueueId(1))?);
    let at = device.addresses().0;
    let len = 12u64 << 20;
    let n = (len / 8) as i32;
    let host = doubles((0..n).map(|_| 1.0));
    device.copy_in(a, at, len, CopySource::program(range(&host), false))?;
    for _ in 0..3 {
        // Out to the program, and from there to another address by another stream that waits.
        let seq = add(&device, a, at, n, 1.0)?;
        assert!(seq.0 > 0);
        let seq = device.copy_out(a, at, len, CopySink::program(range(&host), false))?;
        device.wait_stream(b, a, seq)?;
        let seq = device.copy_in(b, at.offset(len), len, CopySource::program(range(&host), false))?;
        device.wait_stream(a, b, seq)?;
        device.copy(a, at, at.offset(len), len)?;
    }
    assert!(read_doubles(&device, a, at, n as u64)?.iter().all(|x| *x == 4.0));
    Ok(())
}

fn overlapping_ranges() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(0))?;
    let at = device.addresses().0;
    let bytes: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
    for (from, to) in [(0usize, 100usize), (100, 0), (7, 7)] {
        write(&device, stream, at, bytes.clone())?;
        device.copy(stream, at.offset(to as u64), at.offset(from as u64), 850)?;
        let mut expected = bytes.clone();
        expected.copy_within(from..from + 850, to);
        assert_eq!(read(&*device, stream, at, 1000)?, expected);
    }
    Ok(())
}

fn memory_in_parts() -> Test {
    const MIB: u64 = 1 << 20;
    let device = device()?;
    let stream = device.create_stream(QueueId(0))?;
    let at = device.addresses().0;
    let before = device.memory_free();
    device.map(at.offset(64 * MIB), 128 * MIB)?;
    assert!(device.map(at.offset(100 * MIB), 2 * MIB).is_err(), "mapped already");
    write(&device, stream, at.offset(150 * MIB), vec![7; 100])?;
    // Unmaps the middle and maps it again, then unmaps all from both sides.
    device.unmap(stream, at.offset(100 * MIB), 20 * MIB)?;
    let seq = device.unmap(stream, at.offset(120 * MIB), 16 * MIB)?;
    device.synchronize(stream, seq)?;
    device.map(at.offset(110 * MIB), 10 * MIB)?;
    write(&device, stream, at.offset(119 * MIB), vec![8; 100])?;
    assert_eq!(read(&*device, stream, at.offset(119 * MIB), 100)?, [8; 100]);
    assert_eq!(read(&*device, stream, at.offset(150 * MIB), 100)?, [7; 100]);
    device.unmap(stream, at.offset(64 * MIB), 56 * MIB)?;
    let seq = device.unmap(stream, at.offset(136 * MIB), 56 * MIB)?;
    device.synchronize(stream, seq)?;
    assert_eq!(device.memory_free(), before, "all of it went back to the driver");
    assert!(device.map(DevicePtr(4096), 2 * MIB).is_err(), "outside of the device's addresses");
    Ok(())
}

fn host_work() -> Test {
    let device = device()?;
    let (good, bad) = (device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?);
    let at = device.addresses().0;
    let ran = Arc::new(AtomicUsize::new(0));
    double_slowly(&device, bad, at, 1.0)?;
    let seen = Arc::clone(&ran);
    then(&*device, bad, (at, 1), move || {
        seen.fetch_add(1, Ordering::SeqCst);
        Err(accord_types::Error::new(ErrorCode::System, "the other end went away"))
    })?;
    let seen = Arc::clone(&ran);
    let next = then(&*device, bad, (at, 1), move || {
        seen.fetch_add(10, Ordering::SeqCst);
        Ok(())
    });
    if let Ok(after) = next {
        let error = device.synchronize(bad, after).expect_err("the stream has failed");
        assert_eq!(error.cause(), "the other end went away");
        assert_eq!(error.place().queue, Some(QueueId(2)));
    }
    assert!(device.store(bad, at, &[1]).is_err(), "a failed stream takes nothing more");
    assert_eq!(ran.load(Ordering::SeqCst), 1, "what follows a failure is dropped");
    let seq = device.store(good, at, &[1])?;
    device.synchronize(good, seq)?;
    Ok(())
}

fn notify_is_called() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let (notify, reported) = mpsc::channel();
    for round in 0..50 {
        let seq = add(&device, stream, at, 100, 1.0)?;
        if round == 25 {
            double_slowly(&device, stream, at, 1.0)?;
        }
        let notify = notify.clone();
        device.notify(stream, seq, Box::new(move |result| notify.send((round, result)).expect("test waits")));
    }
    for _ in 0..50 {
        reported.recv_timeout(Duration::from_secs(10)).map_err(|e| e.to_string())?.1?;
    }
    Ok(())
}

fn many_small_copies() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    device.store(stream, at, &doubles([0.0; 100]))?;
    let sinks: Vec<_> = (0..1000).map(|_| Arc::<Mutex<Vec<u8>>>::default()).collect();
    let mut last = Seq(0);
    for sink in &sinks {
        add(&device, stream, at, 100, 1.0)?;
        last = device.copy_out(stream, at, 800, keep(sink, true))?;
    }
    device.synchronize(stream, last)?;
    for (round, sink) in sinks.iter().enumerate() {
        assert_eq!(*sink.lock().expect("test lock"), doubles([round as f64 + 1.0; 100]));
    }
    Ok(())
}

/// Copying threads that sleep, or are about to, must wake for each copy.
fn copies_land_alone() -> Test {
    const BYTES: usize = 128 << 10;
    const ROUNDS: u64 = 150;
    let device = device()?;
    let at = device.addresses().0;
    let streams = [device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?];
    let mut arrays = [vec![0u8; BYTES], vec![0u8; BYTES]];
    for round in 0..ROUNDS {
        device.store(streams[0], at, &[round as u8; 16])?;
        device.store(streams[1], at.offset(BYTES as u64), &[!(round as u8); 16])?;
        let (notify, reported) = mpsc::channel();
        for (index, (stream, array)) in streams.iter().zip(&mut arrays).enumerate() {
            let sink = CopySink::program(range(array), false);
            let seq = device.copy_out(*stream, at.offset((index * BYTES) as u64), BYTES as u64, sink)?;
            let notify = notify.clone();
            device.notify(*stream, seq, Box::new(move |result| notify.send(result).expect("test waits")));
            // Between zero and the longest pause of the threads.
            std::thread::sleep(Duration::from_micros(round % 5 * 60));
        }
        for _ in &streams {
            reported.recv_timeout(Duration::from_secs(10)).map_err(|e| format!("round {round}: {e}"))??;
        }
        assert_eq!((&arrays[0][..16], &arrays[1][..16]), (&[round as u8; 16][..], &[!(round as u8); 16][..]));
    }
    Ok(())
}

fn variables() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let variable = Some(ImageRef { image: image(REGIONS).id(), index: 0 });
    let global = GlobalSpec { object: object(), offset: 0x4000, len: 4, variable };
    let address = device.global(&global)?;
    assert_eq!(device.global(&global)?, address, "asked for twice, the same variable");
    assert_eq!(read(&*device, stream, address, 4)?, 41i32.to_ne_bytes());
    device.store(stream, address, &1234i32.to_ne_bytes())?;
    launch(&device, stream, &spec("read_variable"), LaunchDims::default(), &[At(at), At(address)])?;
    assert_eq!(read_doubles(&device, stream, at, 1)?, [1234.0]);
    assert!(device.global(&GlobalSpec { len: 400, ..global }).is_err(), "another size is another variable");
    Ok(())
}

fn second_start() -> Test {
    let folder = tempfile::tempdir()?;
    let compiled = fake::links();
    for round in 0..3 {
        let device = device_with(0, REGIONS, Some(folder.path()))?;
        let stream = device.create_stream(QueueId(1))?;
        let at = device.addresses().0;
        device.store(stream, at, &doubles([1.0]))?;
        add(&device, stream, at, 1, 1.0)?;
        assert_eq!(read_doubles(&device, stream, at, 1)?, [2.0], "start {round}");
    }
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
    if fake::is_loaded() {
        assert_eq!(fake::links() - compiled, 1);
    }
    Ok(())
}

fn without_code() -> Test {
    let device = device()?;
    let bare = FunctionSpec { kernel: None, ..spec("add") };
    let unknown = FunctionSpec { kernel: Some(ImageRef { image: ImageId([1; 32]), index: 0 }), ..spec("add") };
    let beyond = FunctionSpec { kernel: Some(ImageRef { image: image(REGIONS).id(), index: 77 }), ..spec("add") };
    for bad in [bare, unknown, beyond] {
        let error = device.function(&bad).expect_err("there is no code");
        assert_eq!(error.code(), ErrorCode::DeviceInit);
        assert!(error.to_string().contains("add._omp_fn.0") && error.remedy_text().is_some(), "{error}");
    }
    Ok(())
}

fn own_context() -> Test {
    let before = fake::current_context();
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let seq = add(&device, stream, device.addresses().0, 1, 1.0)?;
    device.synchronize(stream, seq)?;
    assert_eq!(fake::current_context(), before);
    Ok(())
}

fn two_devices() -> Test {
    if inventory(NodeId(0), "here").devices.len() < 2 {
        println!("skipped: there is one GPU");
        return Ok(());
    }
    let (one, two) = (device()?, device_with(1, REGIONS, None)?);
    let (a, b) = (one.create_stream(QueueId(1))?, two.create_stream(QueueId(1))?);
    let (at_one, at_two) = (one.addresses().0, two.addresses().0);
    let len = 8u64 << 20;
    let n = (len / 8) as i32;
    write(&one, a, at_one, doubles((0..n).map(|_| 1.0)))?;
    for _ in 0..5 {
        add(&one, a, at_one, n, 1.0)?;
        let seq = one.copy_to(a, at_one, &*two, at_two, len, None)?.ok_or("two GPUs")?;
        one.synchronize(a, seq)?;
        let seq = add(&two, b, at_two, n, 1.0)?;
        let seq = two.copy_to(b, at_two, &*one, at_one, len, Some((a, Seq(seq.0.min(1)))))?.ok_or("two GPUs")?;
        two.synchronize(b, seq)?;
    }
    assert!(read_doubles(&one, a, at_one, n as u64)?.iter().all(|x| *x == 11.0));
    Ok(())
}

fn two_directions() -> Test {
    if inventory(NodeId(0), "here").devices.len() < 2 {
        println!("skipped: there is one GPU");
        return Ok(());
    }
    let (one, two) = (device()?, device_with(1, REGIONS, None)?);
    let (a, b) = (one.create_stream(QueueId::SYNC)?, two.create_stream(QueueId::SYNC)?);
    let (at_one, at_two) = (one.addresses().0, two.addresses().0);
    let last = [one.store(a, at_one, &[1; 8])?, two.store(b, at_two, &[2; 8])?];
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            (0..3000)
                .try_for_each(|_| one.copy_to(a, at_one, &*two, at_two.offset(64), 8, Some((b, last[1]))).map(drop))
        });
        let back = scope.spawn(|| {
            (0..3000)
                .try_for_each(|_| two.copy_to(b, at_two, &*one, at_one.offset(64), 8, Some((a, last[0]))).map(drop))
        });
        for thread in [there, back] {
            thread.join().map_err(|_| "a thread has panicked")??;
        }
        Ok::<(), Failed>(())
    })?;
    assert_eq!(read(&*one, a, at_one.offset(64), 8)?, [2; 8]);
    assert_eq!(read(&*two, b, at_two.offset(64), 8)?, [1; 8]);
    Ok(())
}

fn lent_streams() -> Test {
    let device = device()?;
    let (own, other) = (device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?);
    let at = device.addresses().0;
    let n = 1i32 << 20;
    let from = doubles((0..n).map(f64::from));
    let to = vec![0u8; from.len()];
    let exposed = device.expose_stream(own)?;
    let adopted = device.adopt_stream(QueueId(3), device.expose_stream(other)?)?;
    for (stream, raw) in [(own, exposed), (adopted, device.expose_stream(adopted)?)] {
        device.copy_in(stream, at, from.len() as u64, CopySource::program(range(&from), false))?;
        double_slowly(&device, stream, at.offset(8), 0.0)?;
        device.copy_out(stream, at, from.len() as u64, CopySink::program(range(&to), false))?;
        // Not through the device: all operations must be in the driver's stream.
        fake::synchronize(device.context(), raw);
        assert_eq!(to[..24], doubles([0.0, 2.0, 2.0]));
        assert_eq!(to[to.len() - 8..], doubles([f64::from(n - 1)]));
    }
    Ok(())
}

fn default_stream() -> Test {
    const WORDS: usize = 2 << 20;
    let device = device()?;
    let at = device.addresses().0;
    for queue in [QueueId::SYNC, QueueId(1)] {
        let stream = device.create_stream(queue)?;
        for n in 1..20u32 {
            fake::fill(device.context(), at.0, n, WORDS);
            // The last bytes, which are written last, soon after the call and late.
            let last = read(&*device, stream, at.offset(4 * WORDS as u64 - 4), 4)?;
            assert_eq!(last, n.to_ne_bytes(), "{queue}: fill, copy out");
            double_slowly(&device, stream, at, 1.0)?;
            fake::fill(device.context(), at.0, n, 2);
            assert_eq!(read(&*device, stream, at, 4)?, n.to_ne_bytes(), "{queue}: region, fill, copy out");
        }
    }
    Ok(())
}

fn spans_tell() -> Test {
    let device = device()?;
    let spans = Arc::new(Spans::default());
    device.trace(spans.clone());
    let stream = device.create_stream(QueueId(4))?;
    let at = device.addresses().0;
    write(&device, stream, at, doubles([1.0; 1000]))?;
    double_slowly(&device, stream, at, 1.0)?;
    device.copy(stream, at.offset(8000), at, 800)?;
    read(&*device, stream, at, 160)?;
    let spans = spans.0.lock().expect("test lock").clone();
    let seen: Vec<_> = spans.iter().map(|span| (span.kind, span.name.as_str(), span.bytes)).collect();
    let expected = [
        (SpanKind::CopyIn, "", 8000),
        (SpanKind::Launch, "double_slowly._omp_fn.0", 0),
        (SpanKind::Copy, "", 800),
        (SpanKind::CopyOut, "", 160),
    ];
    assert_eq!(seen, expected);
    assert!(spans.iter().all(|span| span.queue == QueueId(4) && span.start_ns <= span.end_ns));
    assert!(spans.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns + 1000), "{spans:?}");
    assert!(spans[1].end_ns - spans[1].start_ns > 1_000_000, "a slow region takes its time");
    Ok(())
}

fn a_crash_names_the_region() -> Test {
    let device = device()?;
    let second =
        if inventory(NodeId(0), "here").devices.len() > 1 { Some(device_with(1, REGIONS, None)?) } else { None };
    let (stream, other) = (device.create_stream(QueueId(5))?, device.create_stream(QueueId(6))?);
    let at = device.addresses().0;
    let far = 1i64 << 40;
    let last = launch(
        &device,
        stream,
        &spec("crash"),
        LaunchDims::default(),
        &[Value(&at.0.to_ne_bytes()), Value(&far.to_ne_bytes())],
    )?;
    let to = vec![0u8; 32 << 20];
    let copy = device.copy_out(other, at, 32 << 20, CopySink::program(range(&to), false));
    let error = device.synchronize(stream, last).expect_err("the region crashed");
    let text = error.to_string();
    assert_eq!(error.code(), ErrorCode::Execution);
    for part in ["region crash._omp_fn.0", "CUDA_ERROR_", "(7", "queue 5"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    if let Ok(seq) = copy {
        // The copy may have been faster than the crash.
        let _ = device.synchronize(other, seq);
    }
    assert!(device.create_stream(QueueId(7)).is_err(), "a lost device takes nothing more");
    // The driver destroys all contexts of the process, and the other device reports that too.
    if let Some(second) = second {
        let error = second.create_stream(QueueId(1)).err().ok_or("the second GPU went on")?;
        assert!(
            error.cause().contains("number 0 of the driver") && error.cause().contains("region crash._omp_fn.0"),
            "{error}"
        );
    }
    device.shutdown();
    let error = CudaDevice::start(device.info().clone(), CudaConfig::default()).err().ok_or("it started anew")?;
    assert!(error.to_string().contains("start the program anew"), "{error}");
    Ok(())
}

fn shutdown_ends() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let (hold, held) = mpsc::channel::<()>();
    let seq = then(&*device, stream, (device.addresses().0, 1), move || {
        let _ = held.recv();
        Ok(())
    })?;
    let (notify, reported) = mpsc::channel();
    device.notify(stream, seq, Box::new(move |result| notify.send(result).expect("test waits")));
    let waiter = {
        let device = Arc::clone(&device);
        std::thread::spawn(move || device.synchronize(stream, seq))
    };
    device.shutdown();
    assert_eq!(waiter.join().expect("no panic").expect_err("ended").code(), ErrorCode::DeviceShutdown);
    assert_eq!(reported.recv_timeout(Duration::from_secs(10))?.expect_err("ended").code(), ErrorCode::DeviceShutdown);
    assert!(device.map(device.addresses().0, 2 << 20).is_err());
    drop(hold);
    Ok(())
}
