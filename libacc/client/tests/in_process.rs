//! Devices of the program's own machine: no thread waits for what another one does with the device.

use accord_client::{InProcess, LocalDeviceClient};
use accord_device::StartConfig;
use accord_runtime::ports::DeviceClient;
use accord_types::{DeviceId, DeviceInfo, DeviceKind, NodeId};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// An operation that has nothing to wait for takes no longer.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_query_does_not_wait_for_a_start() {
    let info = DeviceInfo {
        id: DeviceId { node: NodeId(0), ordinal: 0 },
        node_name: "here".to_owned(),
        // The fake.
        kind: DeviceKind::from_number(255),
        name: String::new(),
        vendor: String::new(),
        driver: String::new(),
        uuid: String::new(),
        memory: 1 << 20,
        units: 1,
        numa: None,
        cpus: Vec::new(),
    };
    let device = Arc::new(InProcess::new(info, None, StartConfig::default(), None).unwrap());
    let (started, news) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    device.on_start(Box::new(move || {
        started.send(()).unwrap();
        let _ = wait.lock().unwrap().recv();
    }));
    let starting = std::thread::spawn({
        let device = device.clone();
        move || device.start()
    });
    news.recv_timeout(SOON).unwrap();
    // The thread that starts it still tells others that it has: the coordinator, say, which may not read.
    let (asked, answer) = mpsc::channel();
    let asking = std::thread::spawn({
        let device = device.clone();
        move || asked.send(device.addresses()).unwrap()
    });
    let (_, len) = answer.recv_timeout(SOON).expect("it waits for the thread that starts the device");
    assert!(len > 0, "it has started");
    go_on.send(()).unwrap();
    starting.join().unwrap().unwrap();
    asking.join().unwrap();
    device.shutdown().unwrap();
}
