//! Devices of the program's own machine: no thread waits for another one's long operation on the device.

use accord_client::{InProcess, LocalDeviceClient};
use accord_device::StartConfig;
use accord_runtime::ports::DeviceClient;
use accord_types::{DeviceId, DeviceInfo, DeviceKind, DevicePtr, Error, ErrorCode, NodeId, QueueId, Result};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// A time limit for an operation that has nothing to wait for.
const SOON: Duration = Duration::from_secs(20);

fn device() -> Arc<InProcess> {
    let info = DeviceInfo {
        id: DeviceId { node: NodeId(0), ordinal: 0 },
        node_name: "here".to_owned(),
        // The fake backend.
        kind: DeviceKind::from_number(255),
        name: String::new(),
        vendor: String::new(),
        driver: String::new(),
        uuid: String::new(),
        memory: 1 << 20,
        units: 1,
        compute: (0, 0),
        context: 0,
        attributes: Vec::new(),
        numa: None,
        cpus: Vec::new(),
    };
    Arc::new(InProcess::new(info, None, StartConfig::default(), None).unwrap())
}

/// Returns a thread that starts the device, and a sender that lets the start go on.
fn starting(device: &Arc<InProcess>) -> (JoinHandle<Result<()>>, mpsc::Sender<()>) {
    let (started, news) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    device.on_start(Box::new(move || {
        started.send(()).unwrap();
        let _ = wait.lock().unwrap().recv();
        Ok(())
    }));
    let starting = std::thread::spawn({
        let device = device.clone();
        move || device.start()
    });
    news.recv_timeout(SOON).unwrap();
    (starting, go_on)
}

#[test]
fn a_query_does_not_wait_for_a_start() {
    let device = device();
    // The starting thread still informs others, such as a coordinator that may not read.
    let (starting, go_on) = starting(&device);
    let (asked, answer) = mpsc::channel();
    let asking = std::thread::spawn({
        let device = device.clone();
        move || asked.send(device.addresses()).unwrap()
    });
    let (_, len) = answer.recv_timeout(SOON).expect("it waits for the thread that starts the device");
    assert_eq!(len, 0, "it has not started");
    go_on.send(()).unwrap();
    starting.join().unwrap().unwrap();
    asking.join().unwrap();
    device.shutdown().unwrap();
}

fn over() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "job 7 has ended: its time limit").remedy("ask for a longer limit")
}

#[track_caller]
fn is_over<T>(result: Result<T>) {
    let error = result.err().expect("the session is over");
    assert_eq!((error.cause(), error.remedy_text()), (over().cause(), over().remedy_text()), "{error}");
    assert!(error.to_string().contains("here"), "it names the node: {error}");
}

#[test]
fn a_stopped_device_fails_with_the_reason_for_good() {
    let device = device();
    device.start().unwrap();
    device.stop(over());
    is_over(device.wait(&[QueueId::SYNC]).and(device.store(QueueId::SYNC, DevicePtr(0), &[1])));
    device.shutdown().unwrap();
    is_over(device.memory_free());
    is_over(device.start());
    // The first reason counts.
    device.stop(Error::new(ErrorCode::DeviceUnavailable, "another one"));
    is_over(device.start());
}

#[test]
fn a_device_that_is_stopped_while_it_starts_fails_too() {
    let device = device();
    let (starting, go_on) = starting(&device);
    device.stop(over());
    go_on.send(()).unwrap();
    is_over(starting.join().unwrap());
    is_over(device.store(QueueId::SYNC, DevicePtr(0), &[1]));
}
