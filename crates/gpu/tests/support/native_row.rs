//! Copies out that a library reads concurrently.

use super::native::peer_by_library;
use super::{Test, add, device, doubles, read_doubles, write};
use accord_device::{CopySink, Device, FetchTo, NativeSink, Sink};
use accord_gpu::CudaDevice;
use accord_types::{DevicePtr, Error, ErrorCode, NativeRange, QueueId, Result, StreamId};
use libtest_mimic::Failed;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
/// Long enough for a wrong event to happen.
const WHILE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Begun,
    Taken,
    Finished,
    Dropped,
}

/// Reads its bytes once it is released, or fails.
struct Library {
    number: u32,
    beside: bool,
    open: Receiver<Result<()>>,
    steps: Sender<(u32, Step)>,
}

impl Library {
    fn say(&self, step: Step) {
        let _ = self.steps.send((self.number, step));
    }
}

impl Sink for Library {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("the bytes are taken where they are")
    }

    fn finish(&mut self) -> Result<()> {
        self.say(Step::Finished);
        Ok(())
    }
}

peer_by_library!(Library, FetchTo::Device);

impl NativeSink for Library {
    fn is_concurrent(&self) -> bool {
        self.beside
    }

    fn start(&mut self, _: NativeRange) -> Result<()> {
        self.say(Step::Begun);
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        // Closed at the end of a failed test.
        self.open.recv().unwrap_or(Ok(()))?;
        self.say(Step::Taken);
        Ok(())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.say(Step::Dropped);
    }
}

fn library(number: u32, beside: bool, steps: &Sender<(u32, Step)>) -> (CopySink, Sender<Result<()>>) {
    let (let_go, open) = channel();
    (CopySink::peer(Library { number, beside, open, steps: steps.clone() }), let_go)
}

/// Returns a device with 64 numbers, an idle stream, and their address.
fn filled() -> core::result::Result<(Arc<CudaDevice>, StreamId, DevicePtr), Failed> {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let written = write(&device, stream, at, doubles([1.0; 64]))?;
    device.synchronize(stream, written)?;
    Ok((device, stream, at))
}

type Steps = Receiver<(u32, Step)>;

/// The copy that occupies a stream's worker until it is released.
const BLOCKER: u32 = u32::MAX;

/// Occupies the stream's worker with a copy that runs alone, and returns what releases it. Copies are concurrent only if they are in the stream's list when
/// its worker takes the first of them: without this copy the worker may take the first before the test has enqueued the second.
fn block(
    (device, stream, at): (&CudaDevice, StreamId, DevicePtr),
    reported: &Sender<(u32, Step)>,
    steps: &Steps,
) -> core::result::Result<Sender<Result<()>>, Failed> {
    let (sink, release) = library(BLOCKER, false, reported);
    device.copy_out(stream, at, 512, sink)?;
    assert_eq!(steps.recv_timeout(SOON)?, (BLOCKER, Step::Begun));
    Ok(release)
}

/// Lets the copy of [`block`] end.
fn unblock(release: &Sender<Result<()>>, steps: &Steps) -> Test {
    release.send(Ok(()))?;
    for step in [Step::Taken, Step::Finished, Step::Dropped] {
        assert_eq!(steps.recv_timeout(SOON)?, (BLOCKER, step));
    }
    Ok(())
}

/// Copies that may run concurrently do, others run alone. They end in order, and later operations wait for them.
pub(crate) fn at_once() -> Test {
    let (device, stream, at) = filled()?;
    let (reported, steps) = channel();
    let release = block((&device, stream, at), &reported, &steps)?;
    let mut copies = Vec::new();
    for (number, beside) in [(0, true), (1, true), (2, true), (3, false), (4, true), (5, true)] {
        let (sink, let_go) = library(number, beside, &reported);
        copies.push((device.copy_out(stream, at, 512, sink)?, let_go));
    }
    let last = add(&device, stream, at, 64, 1.0)?;
    let begin = |numbers: &[u32]| {
        numbers.iter().for_each(|number| assert_eq!(steps.recv_timeout(SOON), Ok((*number, Step::Begun))));
        assert_eq!(steps.recv_timeout(WHILE), Err(RecvTimeoutError::Timeout));
    };
    let end = |number: usize| -> Test {
        assert!(!device.reached(stream, copies[number].0)?);
        copies[number].1.send(Ok(()))?;
        for step in [Step::Taken, Step::Finished, Step::Dropped] {
            assert_eq!(steps.recv_timeout(SOON), Ok((number as u32, step)));
        }
        device.synchronize(stream, copies[number].0)?;
        assert!(!device.reached(stream, last)?);
        Ok(())
    };
    unblock(&release, &steps)?;
    begin(&[0, 1, 2]);
    end(0)?;
    end(1)?;
    assert_eq!(steps.recv_timeout(WHILE), Err(RecvTimeoutError::Timeout), "the fourth one is to be alone");
    end(2)?;
    begin(&[3]);
    end(3)?;
    begin(&[4, 5]);
    end(4)?;
    copies[5].1.send(Ok(()))?;
    assert_eq!(read_doubles(&device, stream, at, 64)?, [2.0; 64]);
    device.shutdown();
    Ok(())
}

/// A failed copy fails its stream. Concurrent ones are over before that is reported, because the library may be reading.
pub(crate) fn failed() -> Test {
    let (device, stream, at) = filled()?;
    let (reported, steps) = channel();
    let release = block((&device, stream, at), &reported, &steps)?;
    let (first, let_first) = library(0, true, &reported);
    let (second, _second) = library(1, true, &reported);
    let seq = device.copy_out(stream, at, 512, first)?;
    let later = device.copy_out(stream, at, 512, second)?;
    unblock(&release, &steps)?;
    for number in 0..2 {
        assert_eq!(steps.recv_timeout(SOON)?, (number, Step::Begun));
    }
    let_first.send(Err(Error::new(ErrorCode::Execution, "it is not taken")))?;
    for seq in [seq, later] {
        let error = device.synchronize(stream, seq).expect_err("it has failed");
        assert_eq!(error.cause(), "it is not taken");
    }
    let dropped: Vec<_> = steps.try_iter().collect();
    assert_eq!(dropped, [(0, Step::Dropped), (1, Step::Dropped)]);
    device.shutdown();
    Ok(())
}

/// The shutdown of a device does not wait for a library, which may take as long as another node: the memory that it reads stays.
pub(crate) fn ended() -> Test {
    let (device, stream, at) = filled()?;
    let (reported, steps) = channel();
    let release = block((&device, stream, at), &reported, &steps)?;
    let [(first, let_first), (second, let_second)] = [library(0, true, &reported), library(1, true, &reported)];
    device.copy_out(stream, at, 512, first)?;
    let seq = device.copy_out(stream, at, 512, second)?;
    unblock(&release, &steps)?;
    for number in 0..2 {
        assert_eq!(steps.recv_timeout(SOON)?, (number, Step::Begun));
    }
    device.shutdown();
    assert_eq!(device.synchronize(stream, seq).expect_err("it was shut down").code(), ErrorCode::DeviceShutdown);
    assert!(steps.try_recv().is_err(), "the library is at both");
    drop(device);
    let_first.send(Ok(()))?;
    let_second.send(Ok(()))?;
    while steps.recv_timeout(SOON)? != (1, Step::Dropped) {}
    Ok(())
}
