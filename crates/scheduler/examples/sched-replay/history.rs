//! A history as `accord history --export` writes it: a JSON object a line, nodes first, then ended jobs.

use crate::trace::{Cluster, Pod};
use accord_scheduler::placement::{Models, NodeState, Task, WHOLE};
use serde_json::Value;
use std::path::Path;

/// Nodes, jobs, and whose jobs they were.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) cluster: Cluster,
    pub(crate) pods: Vec<Pod>,
    /// Accounts and users.
    pub(crate) owners: Vec<(String, String)>,
    /// For each job the position of its owner.
    pub(crate) owner_of: Vec<usize>,
}

/// Reads the nodes and the jobs. Lines with neither `node` nor `job` are left out, so that others may be added.
///
/// # Errors
/// Returns the file, the line and the field that is missing or out of range.
pub(crate) fn read(path: &Path) -> Result<History, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut history = History::default();
    for (line, at) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let wrong = |error: String| format!("{}, line {at}: {error}", path.display());
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if value.get("node").is_some() {
            add_node(&mut history.cluster, &value).map_err(wrong)?;
        } else if value.get("job").is_some() {
            history.pods.push(job(&history.cluster, &value).map_err(wrong)?);
            let owner = (text_of(&value, "account"), text_of(&value, "user"));
            let known = history.owners.iter().position(|known| *known == owner);
            history.owner_of.push(known.unwrap_or(history.owners.len()));
            if known.is_none() {
                history.owners.push(owner);
            }
        }
    }
    if history.pods.is_empty() || history.cluster.nodes.is_empty() {
        return Err(format!("{}: it needs lines with \"node\" and lines with \"job\"", path.display()));
    }
    Ok(history)
}

fn whole<T: TryFrom<u64>>(of: &Value, field: &str) -> Result<T, String> {
    let number = of.get(field).and_then(Value::as_u64).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("{field} is no whole number in range"))
}

fn text_of(of: &Value, field: &str) -> String {
    of.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn seconds(of: &Value, field: &str) -> Result<f64, String> {
    of.get(field).and_then(Value::as_f64).ok_or_else(|| format!("{field} is no number"))
}

fn add_node(cluster: &mut Cluster, value: &Value) -> Result<(), String> {
    let model = cluster.model(value.get("model").and_then(Value::as_str).unwrap_or_default())?;
    let devices: u8 = whole(value, "devices")?;
    let (cores, memory) = (whole(value, "cores_milli")?, whole(value, "memory_mib")?);
    cluster.nodes.push(NodeState::new(cores, memory, model, &vec![WHOLE; devices.into()]));
    Ok(())
}

fn job(cluster: &Cluster, value: &Value) -> Result<Pod, String> {
    let request = value.get("request").ok_or("request is missing")?;
    let names: Vec<&str> =
        request.get("models").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let models = cluster.known(&names)?;
    let task = Task {
        devices: whole(request, "devices")?,
        share: whole(request, "share_milli")?,
        cores: whole(request, "cores_milli")?,
        memory: whole(request, "memory_mib")?,
        models: Models::only(models),
    };
    let (started, ended) = (seconds(value, "started")?, seconds(value, "ended")?);
    if ended < started {
        return Err("ended is before started".to_owned());
    }
    Ok(Pod { task: task.normal(), created: Some(seconds(value, "asked")?), duration: Some(ended - started) })
}
