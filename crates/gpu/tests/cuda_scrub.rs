//! Memory that contains data of a previous user of the GPU. The tests' driver never clears memory; the real one may.

#[allow(dead_code)]
#[path = "../../device/tests/support/ends.rs"]
mod ends;
#[allow(dead_code)] // This suite uses some of it.
mod support;

use accord_device::{CopySource, Device};
use accord_gpu::{CudaConfig, CudaDevice, inventory};
use accord_types::{NodeId, QueueId, Result};
use ends::{Bytes, read};
use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::Arc;
use support::fake;

type Test = Result<(), Failed>;

const SECRET: u8 = 0x5e;
/// Several pieces of the driver's, and part of one.
const LEN: u64 = 130 << 20;

fn main() {
    let args = Arguments::from_args();
    let remains = tempfile::tempdir().expect("a folder");
    // SAFETY: there is only one thread so far.
    unsafe { std::env::set_var("FAKE_CUDA_REMAINS", remains.path()) };
    fake::load_unless_real();
    let tests = [
        ("the_tests_driver_clears_nothing", nothing_is_cleared as fn() -> Test),
        ("who_comes_next_finds_zeros", zeros),
        ("what_is_written_at_once_stays", writes_stay),
    ];
    let trials = tests.map(|(name, test)| Trial::test(name, test));
    // One at a time, because they search each other's memory.
    let conclusion = libtest_mimic::run(&Arguments { test_threads: Some(1), ..args }, trials.into());
    drop(remains);
    conclusion.exit();
}

fn device(scrub: bool) -> Result<Arc<CudaDevice>, Failed> {
    let info = inventory(NodeId(0), "here").devices.into_iter().next().ok_or("there is no GPU")?;
    Ok(CudaDevice::start(info, CudaConfig { scrub, ..CudaConfig::default() })?)
}

/// Writes to memory and ends the device.
fn leave() -> Test {
    let device = device(false)?;
    let (at, _) = device.addresses();
    device.map(at, LEN)?;
    let stream = device.create_stream(QueueId::SYNC)?;
    let seq = device.copy_in(stream, at, LEN, CopySource::new(Bytes(vec![SECRET; LEN as usize], 0)))?;
    device.synchronize(stream, seq)?;
    device.shutdown();
    Ok(())
}

/// Returns how many of the bytes another process sees.
fn seen(scrub: bool) -> Result<usize, Failed> {
    leave()?;
    let device = device(scrub)?;
    let (at, _) = device.addresses();
    device.map(at, LEN)?;
    let stream = device.create_stream(QueueId::SYNC)?;
    Ok(read(&*device, stream, at, LEN)?.iter().filter(|byte| **byte == SECRET).count())
}

fn nothing_is_cleared() -> Test {
    let seen = seen(false)?;
    assert!(seen == LEN as usize || !fake::is_loaded(), "{seen}");
    Ok(())
}

fn zeros() -> Test {
    assert_eq!(seen(true)?, 0);
    Ok(())
}

fn writes_stay() -> Test {
    leave()?;
    let device = device(true)?;
    let (at, _) = device.addresses();
    let streams = [QueueId::SYNC, QueueId(1), QueueId(2)].map(|queue| device.create_stream(queue));
    for round in 0..3 {
        device.map(at, LEN)?;
        // The last bytes are cleared last.
        let places = [at, at.offset(LEN - 4096), at.offset(LEN / 2)];
        for (index, &place) in places.iter().enumerate() {
            device.store(streams[index].clone()?, place, &[index as u8 + 1; 64])?;
        }
        for (index, &place) in places.iter().enumerate() {
            assert_eq!(read(&*device, streams[index].clone()?, place, 64)?, [index as u8 + 1; 64], "round {round}");
        }
        assert_eq!(read(&*device, streams[0].clone()?, at.offset(64), 64)?, [0; 64]);
        let seq = device.unmap(streams[0].clone()?, at, LEN)?;
        device.synchronize(streams[0].clone()?, seq)?;
    }
    Ok(())
}
