//! Reads node and task lists of Alibaba's cluster-trace-gpu-v2023 (openb).

use accord_scheduler::placement::{Models, NodeState, Task, WHOLE};
use std::collections::BTreeMap;
use std::path::Path;

/// The cluster, with the names of its models.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<NodeState>,
    models: BTreeMap<String, u8>,
}

/// A task of a list. Times are in seconds, `None` if the trace lacks them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pod {
    pub(crate) task: Task,
    pub(crate) created: Option<f64>,
    pub(crate) duration: Option<f64>,
}

/// Reads a table with a header. Calls `take` for each row with a function from column names to texts.
fn rows(
    path: &Path,
    mut take: impl FnMut(&dyn Fn(&str) -> Option<String>) -> Result<(), String>,
) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    for (at, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |name: &str| {
            let at = head.iter().position(|column| *column == name)?;
            fields.get(at).map(|text| (*text).to_owned())
        };
        take(&field).map_err(|error| format!("{}, line {}: {error}", path.display(), at + 2))?;
    }
    Ok(())
}

fn number<T: std::str::FromStr + Default>(text: Option<String>, column: &str) -> Result<T, String> {
    match text.as_deref() {
        None => Err(format!("no column {column}")),
        Some("") => Ok(T::default()),
        Some(text) => text.parse().map_err(|_| format!("{column}: {text:?} is no number in range")),
    }
}

impl Cluster {
    /// Reads a node list. Nodes without devices are included only if `all`.
    pub(crate) fn read(path: &Path, all: bool) -> Result<Self, String> {
        let mut cluster = Self::default();
        rows(path, |field| {
            let devices: usize = number(field("gpu"), "gpu")?;
            if devices == 0 && !all {
                return Ok(());
            }
            let model = cluster.model(&field("model").unwrap_or_default())?;
            let (cores, memory) =
                (number(field("cpu_milli"), "cpu_milli")?, number(field("memory_mib"), "memory_mib")?);
            cluster.nodes.push(NodeState::new(cores, memory, model, &vec![WHOLE; devices]));
            Ok(())
        })?;
        Ok(cluster)
    }

    /// Returns the number of a model, which is added if necessary.
    pub(crate) fn model(&mut self, name: &str) -> Result<u8, String> {
        let next = self.models.len();
        if next >= Models::MAX && !self.models.contains_key(name) {
            return Err(format!("more than {} models", Models::MAX));
        }
        Ok(*self.models.entry(name.to_owned()).or_insert(next as u8))
    }

    /// Returns the numbers of the models that some node has. It is an error if no node has any of them.
    pub(crate) fn known(&self, names: &[&str]) -> Result<Vec<u8>, String> {
        let known: Vec<u8> = names.iter().filter_map(|name| self.models.get(*name).copied()).collect();
        if known.is_empty() && !names.is_empty() {
            return Err(format!("no node has any of the models {}", names.join(", ")));
        }
        Ok(known)
    }

    /// Returns the cluster of every `of`-th node from `first` on.
    pub(crate) fn one_of(mut self, of: usize, first: usize) -> Self {
        self.nodes = self.nodes.into_iter().skip(first).step_by(of.max(1)).collect();
        self
    }

    /// Returns the device milli of all nodes.
    pub(crate) fn capacity(&self) -> u64 {
        self.nodes.iter().map(|node| u64::from(node.free())).sum()
    }

    /// Reads a task list.
    pub(crate) fn read_pods(&self, path: &Path) -> Result<Vec<Pod>, String> {
        let mut pods = Vec::new();
        rows(path, |field| {
            let specified = field("gpu_spec").unwrap_or_default();
            let names: Vec<&str> = specified.split('|').filter(|name| !name.is_empty()).collect();
            let known = self.known(&names)?;
            let task = Task {
                devices: number(field("num_gpu"), "num_gpu")?,
                share: number(field("gpu_milli"), "gpu_milli")?,
                cores: number(field("cpu_milli"), "cpu_milli")?,
                memory: number(field("memory_mib"), "memory_mib")?,
                models: Models::only(known),
            };
            let time = |name| field(name).and_then(|text| text.parse::<f64>().ok());
            let duration = time("deletion_time").zip(time("scheduled_time")).map(|(end, start)| (end - start).max(1.0));
            pods.push(Pod { task: task.normal(), created: time("creation_time"), duration });
            Ok(())
        })?;
        if pods.is_empty() { Err(format!("{}: no tasks", path.display())) } else { Ok(pods) }
    }
}

/// Returns a list's short name: `default` for `openb_pod_list_default.csv`.
pub(crate) fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.strip_prefix("openb_pod_list_").unwrap_or(&stem).to_owned()
}
