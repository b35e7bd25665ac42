//! Reads a history in the format of `accord history --export`: a JSON object a line, nodes first, then ended jobs.

use super::trace::{Cluster, Pod};
use accord_scheduler::placement::{Models, NodeState, Task, WHOLE};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// Latest time, in seconds since 1970: in the year 2286.
const SECONDS_MAX: f64 = 1e10;

/// The nodes, jobs, and owners of a history.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) cluster: Cluster,
    pub(crate) pods: Vec<Pod>,
    /// Accounts and users.
    pub(crate) owners: Vec<(String, String)>,
    /// The index of each job's owner.
    pub(crate) owner_of: Vec<usize>,
}

/// Reads a file.
///
/// # Errors
/// Returns the file, the line and the field that is missing or out of range.
pub(crate) fn read(path: &Path) -> Result<History, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{}{error}", path.display()))
}

/// Reads the nodes and the jobs. Lines with neither `node` nor `job` are ignored, so that other kinds can be added.
///
/// # Errors
/// Returns the line and the field that is missing or out of range, to follow the file's name.
pub(crate) fn parse(text: &str) -> Result<History, String> {
    let mut history = History::default();
    let mut known = HashMap::new();
    for (line, at) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let wrong = |error: String| format!(", line {at}: {error}");
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if value.get("node").is_some() {
            add_node(&mut history.cluster, &value).map_err(wrong)?;
        } else if value.get("job").is_some() {
            history.pods.push(job(&history.cluster, &value).map_err(wrong)?);
            let owner = (text_of(&value, "account"), text_of(&value, "user"));
            let number = *known.entry(owner.clone()).or_insert(history.owners.len());
            if number == history.owners.len() {
                history.owners.push(owner);
            }
            history.owner_of.push(number);
        }
    }
    if history.pods.is_empty() || history.cluster.nodes.is_empty() {
        return Err(": it needs lines with \"node\" and lines with \"job\"".to_owned());
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
    let seconds = of.get(field).and_then(Value::as_f64).filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    seconds.ok_or_else(|| format!("{field} is no number of seconds from 0 to {SECONDS_MAX:e}"))
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
