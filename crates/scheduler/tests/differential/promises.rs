//! What holds for each job whatever the naive scheduler decides: it gets what it requests as a whole, and its reserved start moves to a later time
//! only with a reason.

use accord_scheduler::request::{Alternative, Locality};
use accord_scheduler::{Effect, Input, JobId, LeasedDevice, Millis, Request};
use accord_types::NodeId;
use std::collections::BTreeMap;

/// The requests and the announced starts of waiting jobs.
#[derive(Default)]
pub(crate) struct Promises {
    requests: BTreeMap<JobId, (Request, Option<NodeId>)>,
    announced: BTreeMap<JobId, Millis>,
}

impl Promises {
    /// Checks the effects of an input.
    ///
    /// # Errors
    /// Returns the job for which one does not hold.
    pub(crate) fn check(&mut self, input: &Input, effects: &[Effect]) -> Result<(), String> {
        // A user or an administrator who holds a job back or changes its limit gives its reserved start up.
        let given_up = match input {
            Input::Hold { job, .. } | Input::SetLimit { job, .. } => Some(*job),
            _ => None,
        };
        for effect in effects {
            match effect {
                Effect::Queued { job } => {
                    if let Input::Ask { request, origin, .. } = input {
                        self.requests.insert(*job, (request.clone(), *origin));
                    }
                }
                Effect::Started { job, devices, .. } => {
                    self.announced.remove(job);
                    let Some((request, origin)) = self.requests.remove(job) else { continue };
                    if !request.alternatives.iter().any(|of| is_whole(&request, of, origin, devices)) {
                        return Err(format!("job {job} gets {devices:?}, and requests {request:?} on {origin:?}"));
                    }
                }
                Effect::Reserved { job, starts, slipped } => {
                    let before = self.announced.insert(*job, *starts);
                    if slipped.is_none() && given_up != Some(*job) && before.is_some_and(|before| before < *starts) {
                        return Err(format!(
                            "the start of job {job} moves from {before:?} to {starts:?} without a reason"
                        ));
                    }
                }
                _ => {}
            }
        }
        given_up.map(|job| self.announced.remove(&job));
        Ok(())
    }
}

/// Whether devices are as many as an alternative requests, where it requests them.
fn is_whole(request: &Request, of: &Alternative, origin: Option<NodeId>, devices: &[LeasedDevice]) -> bool {
    let ranks = if request.per_rank { request.ranks } else { 1 };
    let least: u32 = of.parts.iter().map(|part| part.count.least * ranks).sum();
    let most: u32 = of.parts.iter().map(|part| part.count.most * ranks).sum();
    let mut on_nodes: BTreeMap<NodeId, u32> = BTreeMap::new();
    for leased in devices {
        *on_nodes.entry(leased.device.node).or_default() += 1;
    }
    let is_placed = match (request.locality, request.nodes) {
        (Locality::Local, _) => on_nodes.keys().all(|node| Some(*node) == origin),
        _ if request.per_rank => on_nodes.values().all(|count| count % (least / ranks) == 0),
        (_, Some(nodes)) => {
            on_nodes.len() == nodes as usize && on_nodes.values().all(|count| count * nodes == devices.len() as u32)
        }
        _ => true,
    };
    is_placed && (least..=most).contains(&(devices.len() as u32))
}
