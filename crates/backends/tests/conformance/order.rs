//! The order of operations.

use crate::{Rig, Test, pattern, until};
use accord_device::{CopySink, CopySource, Sink, Source};
use accord_types::{Error, ErrorCode, QueueId, Result, Seq, StreamId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

pub(crate) fn within_a_stream(rig: &Rig) -> Test {
    let stream = rig.device.create_stream(QueueId(1))?;
    for gated in [false, true] {
        let gate = if gated { Some(rig.gate(stream, rig.at, 0)?) } else { None };
        let mut last = Seq(0);
        for n in 0..300u64 {
            let next = match n % 3 {
                0 => rig.device.store(stream, rig.at, &n.to_le_bytes())?,
                1 => rig.device.copy(stream, rig.at.offset(4096 + 8 * n), rig.at, 8)?,
                _ => rig.write(stream, rig.at, &[n as u8; 3000])?,
            };
            assert!(next > last, "positions rise");
            last = next;
        }
        if let Some((seq, open)) = gate {
            assert!(!rig.device.reached(stream, seq)?, "the bytes have not come yet");
            open.send(())?;
        }
        rig.device.synchronize(stream, last)?;
        assert!(rig.device.reached(stream, last)?);
        assert!(rig.read(stream, rig.at, 2000)? == [299u64 as u8; 2000], "operation 299 wrote last");
        assert_eq!(
            rig.read(stream, rig.at.offset(4096 + 8 * 298), 8)?,
            297u64.to_le_bytes(),
            "298 copied what 297 stored"
        );
    }
    Ok(())
}

pub(crate) fn across_streams(rig: &Rig) -> Test {
    let one = rig.device.create_stream(QueueId(1))?;
    let other = rig.device.create_stream(QueueId(2))?;
    let third = rig.device.create_stream(QueueId(3))?;
    let (seq, open) = rig.gate(one, rig.at, 7)?;
    rig.device.wait_stream(other, one, seq)?;
    let copied = rig.device.copy(other, rig.at.offset(1), rig.at, 1)?;
    rig.device.wait_stream(third, other, copied)?;
    let last = rig.device.copy(third, rig.at.offset(2), rig.at.offset(1), 1)?;
    std::thread::sleep(Duration::from_millis(20));
    assert!(!rig.device.reached(other, copied)? && !rig.device.reached(third, last)?);
    open.send(())?;
    rig.device.synchronize(third, last)?;
    assert_eq!(rig.read(third, rig.at, 3)?, [7; 3]);
    Ok(())
}

pub(crate) fn busy(rig: &Rig) -> Test {
    let (one, other) = (rig.device.create_stream(QueueId(1))?, rig.device.create_stream(QueueId(2))?);
    until("the device is idle", || rig.device.is_busy() == Some(false))?;
    let (seq, open) = rig.gate(one, rig.at, 7)?;
    let written = rig.write(other, rig.at.offset(8), &[1])?;
    rig.device.synchronize(other, written)?;
    assert_eq!(rig.device.is_busy(), Some(true), "the bytes have not arrived yet");
    open.send(())?;
    rig.device.synchronize(one, seq)?;
    until("the device is idle again", || rig.device.is_busy() == Some(false))?;
    Ok(())
}

pub(crate) fn for_nothing(rig: &Rig) -> Test {
    let one = rig.device.create_stream(QueueId(1))?;
    let other = rig.device.create_stream(QueueId(2))?;
    rig.device.synchronize(one, Seq(0))?;
    assert!(rig.device.reached(one, Seq(0))?);
    let seq = rig.write(one, rig.at, &[1])?;
    rig.device.wait_stream(one, one, seq)?;
    rig.device.synchronize(one, seq)?;
    let waited = rig.device.wait_stream(other, one, seq)?;
    rig.device.synchronize(other, waited)?;
    assert!(rig.device.synchronize(StreamId(9999), Seq(0)).is_err(), "there is no such stream");
    assert!(rig.device.store(StreamId(9999), rig.at, &[1]).is_err());
    Ok(())
}

/// Fails, or counts how often it is called.
struct Fails(Arc<AtomicUsize>, bool);

impl Fails {
    fn act(&self) -> Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        if self.1 { Err(Error::new(ErrorCode::System, "the other end went away")) } else { Ok(()) }
    }
}

impl Source for Fails {
    fn fill(&mut self, _: &mut [u8]) -> Result<()> {
        self.act()
    }
}

impl Sink for Fails {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        self.act()
    }
}

pub(crate) fn failures(rig: &Rig) -> Test {
    let good = rig.device.create_stream(QueueId(9))?;
    for (queue, by_source) in [(1, true), (2, false)] {
        let bad = rig.device.create_stream(QueueId(queue))?;
        let (_, open) = rig.gate(bad, rig.at, 1)?;
        let asked = Arc::<AtomicUsize>::default();
        let put = |fails: bool| {
            let end = Fails(Arc::clone(&asked), fails);
            match by_source {
                true => rig.device.copy_in(bad, rig.at, 8, CopySource::new(end)),
                false => rig.device.copy_out(bad, rig.at, 8, CopySink::new(end)),
            }
        };
        put(true)?;
        let after = put(false)?;
        open.send(())?;
        let error = rig.device.synchronize(bad, after).expect_err("it has failed");
        assert_eq!((error.cause(), error.place().queue), ("the other end went away", Some(QueueId(queue))));
        assert_eq!(asked.load(Ordering::SeqCst), 1, "what follows a failure is dropped");
        assert!(rig.device.reached(bad, after).is_err());
        assert!(put(false).is_err(), "a failed stream takes nothing more");
        let seq = rig.write(good, rig.at, &[5; 8])?;
        rig.device.synchronize(good, seq)?;
        assert_eq!(rig.read(good, rig.at, 8)?, [5; 8]);
    }
    Ok(())
}

pub(crate) fn reported(rig: &Rig) -> Test {
    let stream = rig.device.create_stream(QueueId(1))?;
    let (notify, reported) = channel();
    let ask = |seq: Seq| {
        let notify = notify.clone();
        rig.device.notify(
            stream,
            seq,
            Box::new(move |outcome| {
                // A failed test no longer receives it.
                let _ = notify.send(outcome.is_ok());
            }),
        );
    };
    let (seq, open) = rig.gate(stream, rig.at, 1)?;
    ask(seq);
    assert!(reported.recv_timeout(Duration::from_millis(20)).is_err(), "not before it is reached");
    open.send(())?;
    assert!(reported.recv_timeout(crate::PATIENT)?);
    ask(seq);
    assert!(reported.recv_timeout(crate::PATIENT)?, "what was reached before");
    // A position without an operation can only fail.
    ask(Seq(u64::MAX));
    let failing = CopySource::new(Fails(Arc::default(), true));
    rig.device.copy_in(stream, rig.at, 8, failing)?;
    assert!(!reported.recv_timeout(crate::PATIENT)?);
    Ok(())
}

pub(crate) fn unmapping(rig: &Rig) -> Test {
    const LEN: u64 = 4 << 20;
    let stream = rig.device.create_stream(QueueId(1))?;
    let extra = rig.at.offset(crate::MAPPED);
    for round in 0..3 {
        rig.device.map(extra, LEN)?;
        let bytes = pattern(LEN as usize, round);
        rig.write(stream, extra, &bytes)?;
        let (_, open) = rig.gate(stream, rig.at, 1)?;
        // The copy precedes the unmapping, however long it takes.
        rig.device.copy(stream, rig.at, extra, LEN)?;
        let gone = rig.device.unmap(stream, extra, LEN)?;
        assert!(!rig.device.reached(stream, gone)?);
        open.send(())?;
        rig.device.synchronize(stream, gone)?;
        assert!(rig.read(stream, rig.at, LEN as usize)? == bytes);
    }
    until("memory is free again", || rig.device.memory_free() >= LEN)
}
