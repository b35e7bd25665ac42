//! Replays lists of tasks against placement policies, and a trace with its times against queues.
//!
//! `cargo run --release -p accord-scheduler --example sched-replay -- arrivals --nodes NODES.csv --list LIST.csv ...`
//!
//! The lists are those of Alibaba's cluster-trace-gpu-v2023 (`docs/design/placement.md` says where they are).
#![forbid(unsafe_code)]

mod accord_queue;
mod fill;
mod history;
mod policy;
mod published;
mod report;
mod times;
mod trace;

use accord_scheduler::Policy as SchedulerPolicy;
use accord_scheduler::placement::{Placer, Task};
use accord_scheduler::policy::SitePolicy;
use clap::{Parser, Subcommand, ValueEnum};
use policy::{Baseline, Policy, Rule};
use report::Report;
use std::path::{Path, PathBuf};
use trace::Cluster;

#[derive(Parser)]
#[command(name = "sched-replay", about = "Replays task lists and traces against placement policies and queues")]
struct Arguments {
    #[command(subcommand)]
    command: Replay,
}

#[derive(Subcommand)]
enum Replay {
    /// Tasks arrive in random order and none leaves: how much of all devices is allocated in the end
    Arrivals {
        #[command(flatten)]
        lists: Lists,
        /// Random orders of each list
        #[arg(long, default_value_t = 10)]
        seeds: u64,
        /// The policies
        #[arg(long, value_enum, value_delimiter = ',', default_value = "random,best-fit,fgd,accord")]
        policies: Vec<Placement>,
    },
    /// Tasks arrive and leave at the trace's times: how long they wait
    Times {
        #[command(flatten)]
        lists: Lists,
        /// One of so many nodes takes part: all of the trace's are hardly used, and no task waits
        #[arg(long, default_value_t = 100)]
        one_of: usize,
        /// So many sets of nodes, each from another node on; their waits count together
        #[arg(long, default_value_t = 1)]
        sets: usize,
    },
    /// The same for a history as `accord history --export` writes it
    History {
        /// The history
        file: PathBuf,
        /// A policy file, whose accounts and users the history names
        #[arg(long)]
        policy: Option<PathBuf>,
        /// Writes the raw result to this file
        #[arg(long)]
        json: Option<PathBuf>,
    },
}

#[derive(clap::Args)]
struct Lists {
    /// The list of nodes, as openb_node_list_all_node.csv
    #[arg(long)]
    nodes: PathBuf,
    /// A list of tasks, as openb_pod_list_default.csv; may be given several times
    #[arg(long = "list", required = true)]
    lists: Vec<PathBuf>,
    /// Nodes without devices take part
    #[arg(long)]
    all_nodes: bool,
    /// Writes the raw result to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Placement {
    Random,
    BestFit,
    Fgd,
    Accord,
}

impl Placement {
    /// Returns the policy for a list of tasks.
    pub(crate) fn policy(self, list: impl Iterator<Item = Task>, seed: u64) -> Box<dyn Policy> {
        match self {
            Self::Random => Box::new(Baseline::new(Rule::Random, list, seed)),
            Self::BestFit => Box::new(Baseline::new(Rule::BestFit, list, seed)),
            Self::Fgd => Box::new(Baseline::new(Rule::Fgd, list, seed)),
            Self::Accord => Box::new(Placer::default()),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::BestFit => "best fit",
            Self::Fgd => "FGD",
            Self::Accord => "Accord",
        }
    }
}

fn main() {
    let outcome = match Arguments::parse().command {
        Replay::Arrivals { lists, seeds, policies } => filling(&lists, seeds, &policies),
        Replay::Times { lists, one_of, sets } => timed(&lists, one_of, sets),
        Replay::History { file, policy, json } => exported(&file, policy.as_deref(), json.as_deref()),
    };
    if let Err(error) = outcome {
        eprintln!("sched-replay: {error}");
        std::process::exit(1);
    }
}

fn filling(lists: &Lists, seeds: u64, policies: &[Placement]) -> Result<(), String> {
    let cluster = Cluster::read(&lists.nodes, lists.all_nodes)?;
    let mut report = Report::new("placement of openb, arrivals only");
    let mut decisions = Vec::new();
    for path in &lists.lists {
        let (pods, name) = (cluster.read_pods(path)?, trace::name(path));
        for placement in policies {
            let mut allocated = [Vec::new(), Vec::new()];
            for seed in 0..seeds {
                let tasks = fill::draw(&pods, cluster.capacity(), seed);
                let mut policy = placement.policy(pods.iter().map(|pod| pod.task), seed);
                let filled = fill::run(&mut *policy, &cluster, &tasks);
                allocated[0].push(filled.allocated[0]);
                allocated[1].push(filled.allocated[1]);
                if *placement == Placement::Accord {
                    decisions.extend(filled.decisions);
                }
            }
            let line = report.allocated(&name, placement.name(), &allocated);
            println!("{line}");
        }
    }
    println!("{}", report.summary(&decisions));
    report.keep(lists.json.as_deref())
}

fn timed(lists: &Lists, one_of: usize, sets: usize) -> Result<(), String> {
    let all = Cluster::read(&lists.nodes, lists.all_nodes)?;
    let first = |set: usize| set * one_of / sets.max(1);
    let clusters: Vec<Cluster> = (0..sets).map(|set| all.clone().one_of(one_of, first(set))).collect();
    for cluster in &clusters {
        println!("{} nodes with {} devices", cluster.nodes.len(), cluster.capacity() / 1000);
    }
    let mut report = Report::new("openb with its times");
    for path in &lists.lists {
        let pods = all.read_pods(path)?;
        let traces = clusters.iter().map(|cluster| Ok((cluster, times::jobs(cluster, &pods)?)));
        compare(&mut report, &trace::name(path), &traces.collect::<Result<Vec<_>, String>>()?);
    }
    report.keep(lists.json.as_deref())
}

fn exported(file: &Path, policy: Option<&Path>, json: Option<&Path>) -> Result<(), String> {
    let history = history::read(file)?;
    let mut report = Report::new("an exported history");
    let jobs = times::jobs(&history.cluster, &history.pods)?;
    let name = trace::name(file);
    let trace = [(&history.cluster, jobs)];
    compare(&mut report, &name, &trace);
    let [(_, jobs)] = &trace;
    if let Some(path) = policy {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let site = SitePolicy::read(&text, None).map_err(|findings| {
            findings.iter().map(|finding| format!("{}:{finding}", path.display())).collect::<Vec<_>>().join("\n")
        })?;
        let owners = history.owners.iter().map(|(account, user)| (account.as_str(), user.as_str()));
        let owner = |job: usize| {
            let (account, user) = &history.owners[history.owner_of[jobs[job].pod]];
            (user.clone(), SitePolicy::leaf(account, user))
        };
        let run = accord_queue::run(&history.cluster, jobs, site.tree(owners), &owner);
        println!("{}", report.waits(&name, "Accord with this policy", &run));
    }
    report.keep(json)
}

/// Compares queues and placements on traces, with the waits of all traces together.
fn compare(report: &mut Report, name: &str, traces: &[(&Cluster, Vec<times::Job>)]) {
    let run_all = |run: &dyn Fn(&Cluster, &[times::Job]) -> times::Timed| {
        times::Timed::of_all(traces.iter().map(|(cluster, jobs)| run(cluster, jobs)).collect())
    };
    for (queue, placement) in times::COMPARED {
        let run = run_all(&|cluster, jobs| times::run(queue, placement, cluster, jobs));
        let queue = format!("{}, {}", queue.name(), placement.name());
        println!("{}", report.waits(name, &queue, &run));
    }
    let site = |_| ("trace".to_owned(), "site".to_owned());
    let run = run_all(&|cluster, jobs| accord_queue::run(cluster, jobs, SchedulerPolicy::default(), &site));
    println!("{}", report.waits(name, "Accord", &run));
}
