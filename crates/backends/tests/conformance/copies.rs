//! Bytes from everywhere to everywhere.

use crate::ends::{Bytes, keep};
use crate::{PATIENT, Rig, Test, pattern};
use accord_device::{CopySink, CopySource, MovesWhen, Sink};
use accord_types::{HostRange, QueueId, ReadWhen, Result};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

/// Lengths around all thresholds of the backends.
const LENGTHS: [usize; 12] = [
    0,
    1,
    7,
    4096,
    (16 << 10) + 1,
    64 << 10,
    (64 << 10) + 1,
    1 << 20,
    (1 << 20) + 1,
    (4 << 20) - 1,
    (4 << 20) + 3,
    9 << 20,
];

fn range(bytes: &[u8]) -> HostRange {
    HostRange { start: bytes.as_ptr().expose_provenance(), len: bytes.len() }
}

pub(crate) fn sources(rig: &Rig) -> Test {
    let streams = [rig.device.create_stream(QueueId::SYNC)?, rig.device.create_stream(QueueId(1))?];
    for (round, len) in LENGTHS.into_iter().enumerate() {
        for kind in 0..6 {
            let stream = streams[(round + kind) % 2];
            let at = rig.at.offset((round + kind) as u64);
            let bytes = pattern(len, round * 10 + kind);
            let memory = bytes.clone();
            let size = len as u64;
            let seq = match kind {
                0 => rig.device.copy_in(stream, at, size, CopySource::new(Bytes(memory.clone(), 0)))?,
                1 => rig.device.copy_in(stream, at, size, CopySource::at_once(Bytes(memory.clone(), 0)))?,
                2 => rig.device.copy_in(stream, at, size, CopySource::program(range(&memory), false))?,
                3 => rig.device.copy_in(stream, at, size, CopySource::program(range(&memory), true))?,
                4 => rig.device.copy_in_program(stream, at, range(&memory), ReadWhen::InOrder)?,
                _ => rig.device.copy_in_program(stream, at, range(&memory), ReadWhen::BeforeReturn)?,
            };
            if kind == 5 {
                // The bytes were read, so that the program may change its memory.
                let mut memory = memory;
                memory.fill(0xee);
            } else {
                rig.device.synchronize(stream, seq)?;
            }
            assert!(rig.read(stream, at, len)? == bytes, "{len} bytes from source {kind}");
        }
    }
    Ok(())
}

/// A sink whose bytes are read later.
struct Detached(Vec<u8>, Sender<Vec<u8>>);

impl Sink for Detached {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.0.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        // A failed test no longer receives them.
        let _ = self.1.send(std::mem::take(&mut self.0));
        Ok(())
    }
}

pub(crate) fn sinks(rig: &Rig) -> Test {
    let streams = [rig.device.create_stream(QueueId::SYNC)?, rig.device.create_stream(QueueId(1))?];
    for (round, len) in LENGTHS.into_iter().enumerate() {
        for kind in 0..5 {
            let stream = streams[(round + kind) % 2];
            let at = rig.at.offset((round + kind) as u64);
            let bytes = pattern(len, round * 10 + kind);
            rig.write(stream, at, &bytes)?;
            let size = len as u64;
            let got = if kind < 2 {
                let collected = Arc::<Mutex<Vec<u8>>>::default();
                let seq = rig.device.copy_out(stream, at, size, keep(&collected, kind == 0))?;
                rig.device.synchronize(stream, seq)?;
                collected.lock().expect("test lock").split_off(0)
            } else if kind < 4 {
                let memory = vec![0xeeu8; len];
                let sink = CopySink::program(range(&memory), kind == 2);
                let seq = rig.device.copy_out(stream, at, size, sink)?;
                rig.device.synchronize(stream, seq)?;
                memory
            } else {
                let (notify, reported) = channel();
                let seq = rig.device.copy_out(
                    stream,
                    at,
                    size,
                    CopySink::when(MovesWhen::Detached, Detached(Vec::new(), notify)),
                )?;
                rig.device.synchronize(stream, seq)?;
                reported.recv_timeout(PATIENT)?
            };
            assert!(got == bytes, "{len} bytes to sink {kind}");
        }
    }
    Ok(())
}

pub(crate) fn overlapping(rig: &Rig) -> Test {
    let stream = rig.device.create_stream(QueueId(1))?;
    const LEN: usize = 300_000;
    let mut model = pattern(LEN, 3);
    rig.write(stream, rig.at, &model)?;
    for (from, to, len) in [
        (0, 1, 2000),
        (1, 0, 2000),
        (0, 150_000, 150_000),
        (5000, 5000, 1000),
        (100, 3000, 290_000),
        (3000, 100, 290_000),
        (200_000, 199_999, 70_000),
        (7, 7, 0),
    ] {
        rig.device.copy(stream, rig.at.offset(to as u64), rig.at.offset(from as u64), len as u64)?;
        model.copy_within(from..from + len, to);
        assert!(rig.read(stream, rig.at, LEN)? == model, "{len} bytes from {from} to {to}");
    }
    Ok(())
}
