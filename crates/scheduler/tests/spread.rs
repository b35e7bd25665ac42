//! `spread` places devices, shares and ranks on as many nodes as possible.
#![forbid(unsafe_code)]

use accord_scheduler::class::DeviceClass;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::{Effect, Input, Millis, Policy, Request, Scheduler};
use accord_types::{DeviceType, NodeId};

/// Returns a scheduler with four nodes of two devices each, in racks by pairs. A device of the last node is shared.
fn scheduler() -> Scheduler {
    let mut scheduler = Scheduler::new(Policy::default());
    let class = DeviceClass {
        kind: DeviceType::Nvidia,
        model: "h200".to_owned(),
        memory: 141 << 30,
        context: 0,
        compute: (9, 0),
    };
    for node in 0..4 {
        let description = NodeDescription {
            id: NodeId(node),
            name: format!("n{node}"),
            incarnation: 1,
            devices: (0..2).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
            cores: 0,
            host_memory: 0,
            labels: [("rack".to_owned(), format!("r{}", node / 2))].into(),
        };
        scheduler.apply(Millis(0), Input::NodeJoined(description), &mut Vec::new());
    }
    assert_eq!(ask(&mut scheduler, "1:nvidia:25% on=n3", 1), [3]);
    scheduler
}

/// Requests devices, and returns the nodes of those that the job gets.
fn ask(scheduler: &mut Scheduler, request: &str, ranks: u32) -> Vec<u32> {
    let request: Request = request.parse().unwrap();
    let request = Request { ranks, ..request };
    let (mut effects, user, account) = (Vec::new(), "eva".to_owned(), "site".to_owned());
    scheduler.apply(Millis(0), Input::Ask { user, account, origin: None, request }, &mut effects);
    scheduler.check_invariants().unwrap();
    let started = effects.into_iter().find_map(|effect| match effect {
        Effect::Started { devices, .. } => Some(devices),
        _ => None,
    });
    let mut nodes: Vec<u32> = started.unwrap_or_default().into_iter().map(|of| of.device.node.0).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn whole_devices_are_on_a_node_of_each_rack_first() {
    assert_eq!(ask(&mut scheduler(), "2:nvidia spread", 1), [0, 2]);
    assert_eq!(ask(&mut scheduler(), "3:nvidia spread", 1), [0, 1, 2]);
    assert_eq!(ask(&mut scheduler(), "7:nvidia spread", 1), [0, 0, 1, 1, 2, 2, 3]);
    assert_eq!(ask(&mut scheduler(), "8:nvidia spread", 1), []);
}

#[test]
fn shares_are_on_as_many_nodes_as_possible() {
    assert_eq!(ask(&mut scheduler(), "2:nvidia:25% spread", 1), [0, 2]);
    assert_eq!(ask(&mut scheduler(), "4:nvidia:25% spread", 1), [0, 1, 2, 3]);
    assert_eq!(ask(&mut scheduler(), "8:nvidia:25% spread", 1), [0, 0, 1, 1, 2, 2, 3, 3]);
    // Without the word a shared device is used up first.
    assert_eq!(ask(&mut scheduler(), "2:nvidia:25%", 1), [3, 3]);
}

#[test]
fn ranks_are_on_as_many_nodes_as_possible() {
    assert_eq!(ask(&mut scheduler(), "1:nvidia per-rank spread", 3), [0, 1, 2]);
    assert_eq!(ask(&mut scheduler(), "1:nvidia:50% per-rank spread", 4), [0, 1, 2, 3]);
    assert_eq!(ask(&mut scheduler(), "2:nvidia per-rank spread", 2), [0, 0, 2, 2]);
    assert_eq!(ask(&mut scheduler(), "2:nvidia per-rank spread", 4), []);
    assert_eq!(ask(&mut scheduler(), "1:nvidia per-rank", 3), [0, 0, 3]);
}
