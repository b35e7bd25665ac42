use super::*;
use crate::transport::pair;
use std::thread;

/// What an executor says that ends.
fn reason() -> Vec<u8> {
    let mut text = Vec::new();
    let error =
        Error::new(ErrorCode::DeviceUnavailable, "the executor cannot start a thread").remedy("raise the limit");
    let failure = frame::encode_error(&error, &mut text);
    let mut bytes = Vec::new();
    frame::put(&mut bytes, &Event::Failed { device: u32::MAX, queue: u32::MAX, failure }, &[&text]).unwrap();
    bytes
}

/// What is read of these bytes, which come one by one, each after a pause; then the lane ends, if it does.
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
    let read = said_before_its_end(&*near);
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
    // The lane need not end for it.
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
    // Each byte alone comes soon enough; a deadline for each read would wait for all of them, which is seconds.
    assert!(read_of(whole, Duration::from_millis(30), true).is_none(), "it dribbles");
}
