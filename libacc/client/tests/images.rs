//! Executors get GPU code automatically.

mod common;

use accord_client::{SessionSettings, connect_direct};
use accord_device::image::{Image, ImageFunction, Images};
use accord_fabric::Key;
use accord_runtime::ports::{Cluster, DeviceClient};
use accord_types::{ArgBlock, DeviceKind, ErrorCode, FunctionSpec, ImageRef, LaunchDims, ObjectSpec, QueueId};
use common::*;
use std::sync::Arc;

fn image(name: &str, bytes: usize) -> Image {
    Image {
        objects: vec![pattern(bytes, 3)],
        functions: vec![ImageFunction { name: name.to_owned(), dims: [0, 1, 32] }],
        variables: Vec::new(),
    }
}

/// Launches the region at [`ADD`], as a function of an image.
fn launch_from(client: &dyn DeviceClient, key: u64, kernel: ImageRef) {
    let spec = move || {
        Ok(FunctionSpec {
            object: ObjectSpec { path: "/bin/app".to_owned(), build_id: String::new(), executable: true },
            offset: ADD,
            name: "add".to_owned(),
            kernel: Some(kernel),
        })
    };
    let dims = LaunchDims { gangs: 1, workers: 1, vector: 1 };
    let slots = [client.addresses().0.0, 0, 0];
    let bytes: Vec<u8> = slots.iter().flat_map(|slot: &u64| slot.to_le_bytes()).collect();
    client.launch(QueueId::SYNC, key, &spec, dims, ArgBlock { bytes: &bytes, slots: 3, relative: &[0] }).unwrap();
    client.wait(&[QueueId::SYNC]).unwrap();
}

#[test]
fn an_image_goes_once_to_each_node_that_has_a_gpu_and_later_ones_before_their_first_use() {
    let key = Key::random().unwrap();
    let agents: Vec<_> = (1..=3).map(|node| Agent::start(node, 1, &key, regions(&Gate::default()))).collect();
    let mut lease = lease(&agents, 1);
    for device in &mut lease.devices[..2] {
        device.info.kind = DeviceKind::CUDA;
    }
    let images = Arc::<Images>::default();
    // More bytes than may be in flight at once.
    let early = images.add(image("early", 3_000_001));
    let settings = SessionSettings { images: images.clone(), ..settings(None, Vec::new()) };
    let session = connect_direct(lease, settings).unwrap();
    let clients = session.clients();
    clients.iter().for_each(|client| client.start().unwrap());
    for agent in &agents[..2] {
        assert_eq!(agent.images().ids(), [early]);
    }
    assert_eq!(agents[2].images().ids(), [], "a CPU device has no use for it");

    let late = images.add(image("late", 10));
    launch_from(&*clients[0], 1, ImageRef { image: late, index: 0 });
    assert_eq!(agents[0].images().get(late).as_deref(), Some(&image("late", 10)));
    assert_eq!(agents[1].images().get(late), None);

    let before = session.counters();
    launch_from(&*clients[0], 2, ImageRef { image: early, index: 0 });
    let sent = session.counters()[0].command_sent - before[0].command_sent;
    assert!(sent < 4096, "an image that was there was sent again: {sent} bytes");
}

#[test]
fn a_device_that_starts_anew_in_the_same_executor_needs_no_code_again() {
    let key = Key::random().unwrap();
    let agent = Agent::start(1, 1, &key, regions(&Gate::default()));
    let mut lease = lease(std::slice::from_ref(&agent), 1);
    lease.devices[0].info.kind = DeviceKind::CUDA;
    let images = Arc::<Images>::default();
    let id = images.add(image("only", 500_000));
    let settings = SessionSettings { images, ..settings(None, Vec::new()) };
    let session = connect_direct(lease, settings).unwrap();
    let client = &session.clients()[0];
    client.start().unwrap();
    client.shutdown().unwrap();
    let before = session.counters()[0].command_sent;
    client.start().unwrap();
    assert_eq!(agent.images().ids(), [id]);
    assert!(session.counters()[0].command_sent - before < 4096);
}

#[test]
fn memory_that_a_gpu_lacks_is_an_error_of_the_allocation_and_not_of_the_device() {
    let key = Key::random().unwrap();
    let agent = Agent::start(1, 1, &key, regions(&Gate::default()));
    let mut lease = lease(std::slice::from_ref(&agent), 1);
    lease.devices[0].info.kind = DeviceKind::CUDA;
    // The device's memory is not all free: another program holds the rest.
    lease.devices[0].info.memory = 2 * MEMORY;
    let session = connect_direct(lease, settings(None, Vec::new())).unwrap();
    let client = &session.clients()[0];
    client.start().unwrap();
    let start = client.addresses().0;
    client.map(start, MEMORY).unwrap();
    let error = client.map(start.offset(MEMORY), MIB).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory, "{error}");
    launch(&**client, QueueId::SYNC, ADD, &[start.0, 1, 8]).unwrap();
    assert_eq!(read_back(&**client, start, 8), [1; 8]);
}
