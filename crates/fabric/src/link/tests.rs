use super::*;
use crate::transport::pair;
use std::thread;

/// Returns the bytes of an executor that ends.
fn reason() -> Vec<u8> {
    let mut text = Vec::new();
    let error =
        Error::new(ErrorCode::DeviceUnavailable, "the executor cannot start a thread").remedy("raise the limit");
    let failure = frame::encode_error(&error, &mut text);
    let mut bytes = Vec::new();
    frame::put(&mut bytes, &Event::Failed { device: u32::MAX, queue: u32::MAX, failure }, &[&text]).unwrap();
    bytes
}

/// Returns what is read of these bytes, which are sent singly, each after a pause. The lane ends afterwards if `ends`.
fn read_of(bytes: Vec<u8>, pause: Duration, ends: bool) -> Option<Error> {
    let (near, far) = pair().unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let dribbles = thread::spawn(move || {
        for byte in bytes {
            // The reader closes the lane when it has read enough.
            if far.send(&[byte]).is_err() {
                return;
            }
            thread::sleep(pause);
        }
        if !ends {
            let _ = stopped.recv();
        }
    });
    let read = error_before_close(&*near);
    drop((near, stop));
    dribbles.join().unwrap();
    read
}

#[test]
fn a_reason_is_read_however_it_comes() {
    let read = read_of(reason(), Duration::ZERO, true).expect("all of it came");
    assert!(
        read.to_string().contains("cannot start a thread") && read.remedy_text() == Some("raise the limit"),
        "{read}"
    );
    // The lane need not end before the reason is read.
    assert!(read_of(reason(), Duration::ZERO, false).is_some());
}

#[test]
fn a_reason_that_does_not_come_whole_is_waited_for_a_moment_only() {
    let whole = reason();
    let part = whole[..whole.len() - 1].to_vec();
    assert!(read_of(part.clone(), Duration::ZERO, true).is_none(), "it ends before");
    assert!(read_of(part, Duration::ZERO, false).is_none(), "the rest never comes");
    assert!(read_of(Vec::new(), Duration::ZERO, false).is_none(), "nothing comes");
    assert!(read_of(vec![0xff; 4096], Duration::ZERO, true).is_none(), "it is none");
    // Each byte arrives soon enough alone; a deadline per read would wait for all of them, which takes seconds.
    assert!(read_of(whole, Duration::from_millis(30), true).is_none(), "it dribbles");
}
