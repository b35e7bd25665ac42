//! Memory of nodes and devices: a node's memory is one pool, and the driver's share of a device is not available to
//! jobs.

use accord_scheduler::class::DeviceClass;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::{Effect, Forecast, Input, JobId, Lack, Millis, Policy, Scheduler, WaitReason};
use accord_types::{DeviceType, NodeId};
use std::collections::BTreeMap;

const GIB: u64 = 1 << 30;

struct Site {
    scheduler: Scheduler,
    now: u64,
}

impl Site {
    /// Creates a node with CPU devices and GPUs of these sizes, and host memory, in GiB.
    fn new(cpus: &[u64], gpus: &[u64], host_memory: u64) -> Self {
        let class = |kind, model: &str, memory: u64, context| DeviceClass {
            kind,
            model: model.to_owned(),
            memory,
            context,
            compute: (0, 0),
        };
        let cpus = cpus.iter().map(|memory| class(DeviceType::Cpu, "epyc", memory * GIB, 0));
        // Without the driver's share for the first process.
        let gpus = gpus.iter().map(|memory| class(DeviceType::Nvidia, "h200", memory * GIB - GIB / 2, GIB / 2));
        let devices = (0..).zip(cpus.chain(gpus)).map(|(ordinal, class)| DeviceDescription { ordinal, class });
        let node = NodeDescription {
            id: NodeId(0),
            name: "n0".to_owned(),
            incarnation: 1,
            devices: devices.collect(),
            cores: 64_000,
            host_memory: host_memory * GIB,
            labels: BTreeMap::new(),
        };
        let mut site = Self { scheduler: Scheduler::new(Policy::default()), now: 0 };
        site.apply(Input::NodeJoined(node));
        site
    }

    /// Applies an input. Returns the started jobs.
    fn apply(&mut self, input: Input) -> Vec<u64> {
        self.now += 1;
        let mut effects = Vec::new();
        self.scheduler.apply(Millis(self.now), input, &mut effects);
        self.scheduler.check_invariants().unwrap();
        let started = |effect: &Effect| if let Effect::Started { job, .. } = effect { Some(job.0) } else { None };
        effects.iter().filter_map(started).collect()
    }

    fn ask(&mut self, request: &str) -> Vec<u64> {
        let request = request.parse().unwrap();
        let (user, account) = ("ada".to_owned(), "site".to_owned());
        self.apply(Input::Ask { user, account, origin: None, request })
    }

    /// Ends a job, whose devices are free at once.
    fn end(&mut self, job: u64) -> Vec<u64> {
        let job = JobId(job);
        let mut started = self.apply(Input::Ended { job });
        started.extend(self.apply(Input::Released { job, node: NodeId(0) }));
        started
    }

    fn reason(&self, job: u64) -> WaitReason {
        self.scheduler.explain(JobId(job)).unwrap().reason.unwrap()
    }
}

#[test]
fn memory_of_cpu_devices_is_memory_of_their_node() {
    let mut site = Site::new(&[40, 40], &[80], 100);
    assert_eq!(site.ask("1:cpu"), [1], "40 GiB");
    assert_eq!(site.ask("1:cpu:10G:ram=5G"), [2], "10 GiB of the device and 5 GiB beside it");
    assert_eq!(site.ask("1:nvidia:ram=50G"), Vec::<u64>::new(), "45 GiB are left");
    let reason = WaitReason::HostMemory { model: "h200".to_owned(), needed: 50 * GIB, free: 45 * GIB };
    assert_eq!(site.reason(3), reason);
    let text = "it takes 50G of the memory of one node, and of the nodes with free h200 none has more than 45G left";
    assert_eq!(reason.to_string(), text);
    assert_eq!(site.end(2), [3]);
    // 10 GiB are left, although 40 GiB of the other CPU device are free.
    assert_eq!(site.ask("1:cpu:11G"), Vec::<u64>::new());
    assert_eq!(site.end(1), [4]);
}

#[test]
fn a_part_that_names_no_memory_takes_none_of_the_node() {
    let mut site = Site::new(&[100], &[80], 100);
    assert_eq!(site.ask("1:cpu:50%"), [1]);
    assert_eq!(site.ask("1:nvidia:ram=100G"), [2]);
    assert_eq!(site.ask("1:cpu:25%:1G"), Vec::<u64>::new());
}

#[test]
fn parts_of_several_nodes_leave_enough_memory_on_each() {
    for place in ["", " pack", " spread", " near"] {
        let mut site = Site::new(&[40, 40, 40], &[], 100);
        assert_eq!(site.ask(&format!("3:cpu{place}")), Vec::<u64>::new(), "{place}: 100 GiB are no three times 40");
        let three = WaitReason::HostMemory { model: "epyc".to_owned(), needed: 40 * GIB, free: 100 * GIB };
        assert_ne!(site.reason(1), three, "one alone would have enough");
        site.apply(Input::Cancel { job: JobId(1), by: "ada".to_owned() });
        assert_eq!(site.ask(&format!("2:cpu{place}")), [2], "{place}");
    }
}

#[test]
fn each_process_on_a_gpu_takes_the_drivers_part() {
    let mut site = Site::new(&[], &[80], 100);
    // 79.5 GiB for one process, 79 GiB for two, 78.5 GiB for three.
    assert_eq!(site.ask("1:nvidia:40G"), [1]);
    assert_eq!(site.ask("1:nvidia:40G"), Vec::<u64>::new(), "two times 40.5 GiB are more than 80 GiB");
    site.apply(Input::Cancel { job: JobId(2), by: "ada".to_owned() });
    assert_eq!(site.ask("1:nvidia:39G"), [3]);
    assert_eq!(site.ask("1:nvidia:10%"), Vec::<u64>::new(), "no memory is left for the driver's part of a third one");
    assert_eq!(site.end(1), [4]);
    assert_eq!(site.end(3), Vec::<u64>::new());
    assert_eq!(site.end(4), Vec::<u64>::new());
    assert_eq!(site.ask("1:nvidia:80G"), Vec::<u64>::new(), "no process has all of a GPU");
    assert_eq!(site.reason(5), WaitReason::NoSuchDevices);
}

#[test]
fn no_start_is_reserved_for_what_no_node_can_hold() {
    let mut site = Site::new(&[], &[80, 80], 100);
    assert_eq!(site.ask("1:nvidia:cores=65"), Vec::<u64>::new());
    assert_eq!(site.ask("2:nvidia:ram=51G"), Vec::<u64>::new(), "on one node");
    let memory = |needed| Some(Lack::HostMemory { model: "h200".to_owned(), needed: needed * GIB, most: 100 * GIB });
    let cores = Some(Lack::Cores { model: "h200".to_owned(), needed: 65_000, most: 64_000 });
    for (job, lack) in [(1, cores), (2, Some(Lack::Together))] {
        assert_eq!(site.scheduler.reserved_start(JobId(job)), None, "job {job}");
        assert_eq!(site.scheduler.lack(JobId(job)), lack, "job {job}");
    }
    let request = "1:nvidia:ram=101G".parse().unwrap();
    let forecast = site.scheduler.clone().what_if("ada", "site", None, request);
    let Forecast::Unknown { reason: WaitReason::Never(lack), .. } = forecast else { panic!("{forecast:?}") };
    assert_eq!(Some(&lack), memory(101).as_ref());
    let text = "it takes 101G of the memory of one node, and no node with h200 has more than 100G";
    assert_eq!(lack.to_string(), text);
}

#[test]
fn a_reserved_start_is_when_memory_and_cores_of_a_node_are_free() {
    for (first, second) in [("ram=80G", "ram=50G"), ("cores=40", "cores=30")] {
        let mut site = Site::new(&[], &[80, 80], 100);
        assert_eq!(site.ask(&format!("1:nvidia:{first} limit=1h")), [1]);
        let ends = site.scheduler.job(JobId(1)).unwrap().ends;
        assert_eq!(site.ask(&format!("1:nvidia:{second} limit=1h")), Vec::<u64>::new());
        let (starts, _) = site.scheduler.reserved_start(JobId(2)).unwrap();
        assert_eq!(Some(starts), ends, "{second}: the second device is free before the node's {first}");
        // The next one waits for the reserved start's end, too.
        assert_eq!(site.ask(&format!("1:nvidia:{first} limit=1h")), Vec::<u64>::new());
        let (later, _) = site.scheduler.reserved_start(JobId(3)).unwrap();
        assert_eq!(later, starts.plus(3_600_000), "{first}");
        assert_eq!(site.end(1), [2]);
    }
}
