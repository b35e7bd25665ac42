//! The end of a device in any state.

use crate::ends::Bytes;
use crate::{PATIENT, Rig, Test, until};
use accord_device::CopySource;
use accord_types::{ErrorCode, QueueId, Seq};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

pub(crate) fn idle(rig: &Rig) -> Test {
    let stream = rig.device.create_stream(QueueId(1))?;
    let seq = rig.write(stream, rig.at, &[1; 100])?;
    rig.device.synchronize(stream, seq)?;
    rig.device.shutdown();
    // A second call is no error.
    rig.device.shutdown();
    Ok(())
}

pub(crate) fn busy(rig: &Rig) -> Test {
    let stream = rig.device.create_stream(QueueId(1))?;
    let other = rig.device.create_stream(QueueId(2))?;
    let (seq, open) = rig.gate(stream, rig.at, 1)?;
    let behind = rig.write(stream, rig.at, &[2; 5000])?;
    let waits = rig.device.wait_stream(other, stream, seq)?;
    let (notify, reported) = channel();
    for (stream, seq) in [(stream, behind), (other, waits), (other, Seq(u64::MAX))] {
        let notify = notify.clone();
        rig.device.notify(
            stream,
            seq,
            Box::new(move |outcome| {
                // A failed test no longer receives it.
                let _ = notify.send(outcome);
            }),
        );
    }
    let threads: Vec<_> = [(stream, behind), (other, waits)]
        .into_iter()
        .map(|(stream, seq)| {
            let device = Arc::clone(&rig.device);
            std::thread::spawn(move || device.synchronize(stream, seq))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    let ending = {
        let device = Arc::clone(&rig.device);
        std::thread::spawn(move || device.shutdown())
    };
    // A gate that opens before lets the copies end well.
    until("the device begins to end", || rig.device.reached(stream, seq).is_err())?;
    // The owner of a copy's bytes learns of the end elsewhere, and drops them.
    drop(open);
    until("the device ends", || ending.is_finished())?;
    for thread in threads {
        until("the waiters are notified", || thread.is_finished())?;
        let error = thread.join().expect("no panic").expect_err("the device has ended");
        assert_eq!(error.code(), ErrorCode::DeviceShutdown, "{error}");
    }
    for _ in 0..3 {
        let error = reported.recv_timeout(PATIENT)?.expect_err("the device has ended");
        assert_eq!(error.code(), ErrorCode::DeviceShutdown, "{error}");
    }
    Ok(())
}

pub(crate) fn ended(rig: &Rig) -> Test {
    let stream = rig.device.create_stream(QueueId(1))?;
    let seq = rig.write(stream, rig.at, &[1])?;
    rig.device.synchronize(stream, seq)?;
    let device = &rig.device;
    device.shutdown();
    let copy_in = device.copy_in(stream, rig.at, 1, CopySource::new(Bytes(vec![1], 0)));
    let copy = device.copy(stream, rig.at, rig.at, 1);
    for outcome in [copy_in, copy, device.store(stream, rig.at, &[1]), device.unmap(stream, rig.at, 2 << 20)] {
        assert!(outcome.is_err());
    }
    assert!(device.create_stream(QueueId(2)).is_err());
    assert!(device.synchronize(stream, Seq(seq.0 + 1)).is_err());
    let (notify, reported) = channel();
    device.notify(
        stream,
        Seq(seq.0 + 1),
        Box::new(move |outcome| {
            // A failed test no longer receives it.
            let _ = notify.send(outcome.is_err());
        }),
    );
    assert!(reported.recv_timeout(PATIENT)?);
    Ok(())
}
