//! `accord history --export`: nodes and ended jobs, one JSON object per line, as input of `sched-replay history`.

use super::words::device_count;
use crate::client::Coordinator;
use crate::cluster::type_of;
use crate::failure::{Failure, Result};
use accord_proto::v1::{ClusterView, EndedJob};
use accord_scheduler::Request;
use accord_scheduler::model::model_of;
use accord_scheduler::request::words::type_name;
use accord_scheduler::request::{Part, Take};
use accord_types::{DeviceInfo, DeviceType};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Thousandths of a whole device.
const WHOLE: u64 = 1_000;

/// Returns the text of the export, first jobs first.
pub(super) fn export(coordinator: &mut Coordinator) -> Result<String> {
    let (nodes, models) = nodes(coordinator.describe(None)?)?;
    let mut jobs = Vec::new();
    coordinator.history(|page| {
        jobs.extend(page.jobs);
        true
    })?;
    let lines = nodes.into_iter().chain(jobs.iter().rev().map(|ended| job(ended, &models)));
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

/// Returns a line for each node with devices, and the memory of each model's devices. A node is assigned the model of
/// most of its devices.
fn nodes(view: ClusterView) -> Result<(Vec<Value>, BTreeMap<String, u64>)> {
    let (mut lines, mut models) = (Vec::new(), BTreeMap::new());
    for node in view.nodes {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for device in node.devices {
            let info = DeviceInfo::try_from(device).map_err(|error| Failure::new(error.to_string()))?;
            let model = model_name(type_of(info.kind), &model_of(&info.name));
            *counts.entry(model.clone()).or_default() += 1;
            models.insert(model, info.memory);
        }
        let Some((model, devices)) = counts.into_iter().max_by_key(|(_, devices)| *devices) else { continue };
        let hardware = node.hardware.unwrap_or_default();
        let memory: u64 = hardware.numa.iter().map(|numa| numa.memory).sum();
        lines.push(json!({
            "node": node.name,
            "model": model,
            "devices": devices,
            "cores_milli": u64::from(hardware.processors) * WHOLE,
            "memory_mib": memory >> 20,
        }));
    }
    Ok((lines, models))
}

fn model_name(kind: DeviceType, model: &str) -> String {
    let kind = type_name(kind).unwrap_or_else(|| kind.name());
    if model.is_empty() { kind.to_owned() } else { format!("{kind}/{model}") }
}

/// Returns a job's line. A job that never started has `withdrawn` instead of `job`.
fn job(ended: &EndedJob, models: &BTreeMap<String, u64>) -> Value {
    let seconds = |ms: u64| ms as f64 / 1e3;
    let owner = json!({ "account": ended.account, "user": ended.user, "text": ended.request, "why": ended.why });
    let mut line = match ended.started_unix_ms {
        Some(started) => json!({ "job": ended.job, "started": seconds(started), "request": demand(ended, models) }),
        None => json!({ "withdrawn": ended.job }),
    };
    line["asked"] = seconds(ended.asked_unix_ms).into();
    line["ended"] = seconds(ended.ended_unix_ms).into();
    if let (Some(line), Value::Object(owner)) = (line.as_object_mut(), owner) {
        line.extend(owner);
    }
    line
}

/// Returns what a job used, by the first part of the alternative whose models it got.
fn demand(ended: &EndedJob, models: &BTreeMap<String, u64>) -> Value {
    let request: Option<Request> = ended.request.parse().ok();
    let got = ended.devices.first().map(|on| on.model.as_str());
    let parts = request.iter().flat_map(|request| &request.alternatives).filter_map(|one| one.parts.first());
    let part = parts.clone().find(|part| got.is_some_and(|got| suits(part, got))).or_else(|| parts.clone().next());
    let suiting: Vec<&String> =
        part.map_or_else(Vec::new, |part| models.keys().filter(|model| suits(part, model)).collect());
    let any = suiting.len() == models.len();
    let share = match part.map(|part| part.take) {
        Some(Take::Shared(amount)) => {
            let memory = got.and_then(|got| models.get(got)).copied().unwrap_or(0).max(1);
            let of_memory = u128::from(amount.memory) * u128::from(WHOLE) / u128::from(memory);
            u64::from(amount.milli).max(u64::try_from(of_memory).unwrap_or(WHOLE)).clamp(1, WHOLE)
        }
        Some(Take::Exclusive) | None => WHOLE,
    };
    let devices = device_count(&ended.devices) as u64;
    json!({
        "devices": devices,
        "share_milli": share,
        "cores_milli": part.map_or(0, |part| part.cores.saturating_mul(devices)),
        "memory_mib": part.map_or(0, |part| part.host_memory.saturating_mul(devices) >> 20),
        "models": if any { Vec::new() } else { suiting },
    })
}

/// Whether a part can be served by a model, `nvidia/h200` or `cpu`.
fn suits(part: &Part, model: &str) -> bool {
    let (kind, model) = model.split_once('/').unwrap_or((model, ""));
    (part.class.kind == DeviceType::NotHost || type_name(part.class.kind) == Some(kind))
        && part.class.model.as_deref().is_none_or(|wanted| wanted == model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_proto::v1::JobDevices;

    fn ended(request: &str, model: &str) -> EndedJob {
        let on =
            JobDevices { node_name: "n".into(), model: model.into(), ordinals: vec![0, 1], ..JobDevices::default() };
        EndedJob {
            job: 3,
            request: request.into(),
            devices: vec![on],
            started_unix_ms: Some(2_500),
            ended_unix_ms: 9_000,
            ..EndedJob::default()
        }
    }

    #[test]
    fn a_job_names_the_models_that_it_may_have() {
        let models =
            BTreeMap::from([("cpu".to_owned(), 64), ("nvidia/a100".to_owned(), 64), ("nvidia/h200".to_owned(), 128)]);
        let shared = demand(&ended("2:nvidia:32B:10%:cores=4", "nvidia/h200"), &models);
        assert_eq!(shared["models"], json!(["nvidia/a100", "nvidia/h200"]));
        assert_eq!(
            (&shared["devices"], &shared["share_milli"], &shared["cores_milli"]),
            (&json!(2), &json!(250), &json!(8_000))
        );
        assert_eq!(demand(&ended("2", "cpu"), &models)["models"], json!([]));
        assert_eq!(
            demand(&ended("4:nvidia/h200 else 2:nvidia/a100", "nvidia/a100"), &models)["models"],
            json!(["nvidia/a100"])
        );
        let line = job(&ended("2:cpu", "cpu"), &models);
        assert_eq!((&line["job"], &line["started"], &line["ended"]), (&json!(3), &json!(2.5), &json!(9.0)));
        let never = job(&EndedJob { started_unix_ms: None, ..ended("2:cpu", "cpu") }, &models);
        assert!(never.get("job").is_none() && never["withdrawn"] == json!(3));
    }
}
