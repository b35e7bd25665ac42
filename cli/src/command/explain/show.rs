//! A program's GPU code as text and as JSON.

use super::region::{Block, Image, Object, Program, Region};
use crate::output::{Table, bytes, count};
use accord_device::image::Updates;
use accord_types::ONE_THREAD;
use serde_json::{Value, json};
use std::fmt::Write as _;

impl Program {
    /// Returns the tables for display.
    pub(super) fn tables(&self) -> String {
        let mut text = String::new();
        for (object, image) in self.images() {
            let _ = writeln!(text, "{}", heading(object, image));
            let mut reasons = Vec::new();
            let heads = ["REGION", "SOURCE", ">GANGS", ">WORKERS", ">VECTOR", "A THREAD BLOCK", "ARGUMENT BLOCK"];
            let mut regions = Table::new(&heads);
            for region in &image.regions {
                regions.row(row(region, &mut reasons));
            }
            if !regions.is_empty() {
                let _ = write!(text, "\n{regions}");
            }
            for (number, reason) in (1..).zip(&reasons) {
                let _ = write!(text, "{}[{number}] {reason}", if number == 1 { "\n" } else { "" });
                text.push('\n');
            }
            let mut variables = Table::new(&["DECLARE VARIABLE", ">SIZE", "ON DEVICES"]);
            for variable in &image.variables {
                let form = if variable.link { "its address (link)" } else { "its own copy" };
                variables.row([variable.name.clone(), bytes(variable.bytes), form.to_owned()]);
            }
            if !variables.is_empty() {
                let _ = write!(text, "\n{variables}");
            }
            text.push('\n');
        }
        if text.is_empty() {
            return text;
        }
        for object in &self.objects {
            match &object.image {
                Some(Ok(_)) => {}
                Some(Err(why)) => {
                    let _ = writeln!(text, "{}: {why}", near(&object.path));
                }
                None if object.regions > 0 => {
                    let regions = count(object.regions, "region");
                    let _ = writeln!(text, "{}: {regions} without code for NVIDIA GPUs", near(&object.path));
                }
                None => {}
            }
        }
        text.push_str(&self.summary());
        text
    }

    fn summary(&self) -> String {
        let (by_parameter, all) = self.counts();
        let by_memory = all - by_parameter;
        let mut text = match (all, by_memory) {
            (0, _) => return "No regions.\n".to_owned(),
            (1, 0) => {
                "The region gets its argument block as its kernel's parameter: nothing is copied before a launch.\n"
                    .to_owned()
            }
            (1, _) => "The region gets its argument block by memory: one copy before each launch.\n".to_owned(),
            (_, 0) => format!(
                "All {all} regions get their argument blocks as their kernels' parameters: nothing is copied before a launch.\n"
            ),
            (_, _) if by_parameter == 0 => {
                format!("All {all} regions get their argument blocks by memory: one copy before each launch.\n")
            }
            _ => format!(
                "{by_parameter} of {all} regions get their argument blocks as their kernels' parameters; {by_memory} by memory, \
                 with one copy before each launch.\n"
            ),
        };
        if by_parameter > 0 {
            text.push_str("Parameters need a GPU of sm_70 or later and a driver for CUDA 11.7 or later; else blocks go by memory.\n");
        }
        if self.images().flat_map(|(_, image)| &image.regions).any(|region| region.dims.contains(&None)) {
            text.push_str("Open dimensions follow clauses, GOMP_OPENACC_DIM, or the device's choice, in this order.\n");
        }
        text.push_str(&self.updates());
        text
    }

    /// Returns how regions update results shared by threads, if any does.
    fn updates(&self) -> String {
        let sum = |of: fn(&Updates) -> u32| -> u64 {
            self.images().flat_map(|(_, image)| &image.regions).map(|region| u64::from(of(&region.updates))).sum()
        };
        let hardware = match sum(|updates| updates.hardware) {
            0 => None,
            number => Some(format!("{} by one operation of the GPU each", count(number, "update"))),
        };
        let loops = match (sum(|updates| updates.loops), &hardware) {
            (0, _) => None,
            (number, None) => Some(format!("{} by loops, one thread after the other", count(number, "update"))),
            (number, Some(_)) => Some(format!("{number} by loops, one thread after the other")),
        };
        let ways: Vec<String> = hardware.into_iter().chain(loops).collect();
        if ways.is_empty() { String::new() } else { format!("Reductions and atomic updates: {}.\n", ways.join(", ")) }
    }

    /// Returns the program as JSON. Sizes are in bytes; open dimensions are null.
    pub(super) fn json(&self) -> Value {
        let (by_parameter, regions) = self.counts();
        json!({
            "file": self.file,
            "objects": self.objects.iter().map(object_json).collect::<Vec<_>>(),
            "regions": regions,
            "by_parameter": by_parameter,
            "by_memory": regions - by_parameter,
        })
    }
}

fn heading(object: &Object, image: &Image) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for ptx in &image.ptx {
        let part = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
        let kind = format!("PTX {} for {}", part(&ptx.version), part(&ptx.target));
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    format!(
        "{}: image {}, {} in {} ({})",
        near(&object.path),
        image.id,
        bytes(image.bytes()),
        count(image.ptx.len() as u64, "PTX object"),
        kinds.join(", ")
    )
}

/// Returns a region's entries, and adds new reasons to the list below the table.
fn row(region: &Region, reasons: &mut Vec<String>) -> [String; 7] {
    let [gangs, workers, vector] = region.dims.map(|dim| dim.map_or_else(|| "open".to_owned(), |dim| dim.to_string()));
    let mut mark = |reason: String| {
        let known = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
            reasons.push(reason);
            reasons.len() - 1
        });
        known + 1
    };
    let gangs = match &*region.kernels {
        [] if region.one_thread => format!("{gangs} [{}]", mark(ONE_THREAD.to_owned())),
        [] => gangs,
        loops => loops.iter().fold(gangs, |gangs, one| {
            let file = region.source.as_deref().and_then(|source| source.rsplit_once(':')).map_or("", |(file, _)| file);
            let reason = format!("runs on one thread: {}:{}: {}; {}", near(file), one.line, one.reason, one.remedy);
            format!("{gangs} [{}]", mark(reason))
        }),
    };
    let gangs = region.problem.map_or(gangs, |problem| format!("lost [{}]", mark(problem.to_owned())));
    let shared = match &region.gangs_apart {
        None => "several gangs".to_owned(),
        Some(why) => format!("one gang [{}]", mark(format!("a thread block for each gang: {why}"))),
    };
    let block = match &region.block {
        Block::Parameter { slots, bytes } => format!("parameter, {}, {bytes} B", count((*slots).into(), "slot")),
        Block::Memory { why, remedy } => {
            let reason = match remedy {
                Some(remedy) => format!("{why}; {remedy}"),
                None => why.clone(),
            };
            format!("memory [{}]", mark(reason))
        }
    };
    let source = region.source.as_deref().map_or_else(|| "-".to_owned(), near);
    [region.name.clone(), source, gangs, workers, vector, shared, block]
}

/// Strips the current directory from a path.
fn near(path: &str) -> String {
    let here = std::env::current_dir().ok();
    let rest = here.as_deref().and_then(|here| path.strip_prefix(here.to_str()?)?.strip_prefix('/'));
    rest.unwrap_or(path).to_owned()
}

fn object_json(object: &Object) -> Value {
    let mut value = json!({
        "path": object.path,
        "executable": object.executable,
        "uses_openacc": object.openacc,
        "listed_regions": object.regions,
        "image": null,
        "problem": null,
    });
    match &object.image {
        None => {}
        Some(Err(why)) => value["problem"] = json!(why),
        Some(Ok(image)) => value["image"] = image_json(image),
    }
    value
}

fn image_json(image: &Image) -> Value {
    let id: String = image.id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let ptx: Vec<Value> = image
        .ptx
        .iter()
        .map(|ptx| json!({ "version": ptx.version, "target": ptx.target, "bytes": ptx.bytes }))
        .collect();
    let regions: Vec<Value> = image
        .regions
        .iter()
        .map(|region| {
            json!({
                "name": region.name,
                "kernel": region.kernel,
                "source": region.source,
                "gangs": region.dims[0],
                "workers": region.dims[1],
                "vector": region.dims[2],
                "problem": region.problem,
                "one_thread": region.one_thread,
                "kernels": region.kernels.iter().map(|one| {
                    json!({ "line": one.line, "reason": one.reason, "remedy": one.remedy })
                }).collect::<Vec<_>>(),
                "gangs_apart": region.gangs_apart,
                "unrolled_loops": region.unrolled,
                "argument_block": match &region.block {
                    Block::Parameter { slots, bytes } => json!({ "way": "parameter", "slots": slots, "bytes": bytes }),
                    Block::Memory { why, remedy } => json!({ "way": "memory", "why": why, "remedy": remedy }),
                },
                "updates": { "hardware": region.updates.hardware, "loops": region.updates.loops },
            })
        })
        .collect();
    let variables: Vec<Value> = image
        .variables
        .iter()
        .map(|variable| json!({ "name": variable.name, "bytes": variable.bytes, "link": variable.link }))
        .collect();
    json!({ "id": id, "bytes": image.bytes(), "ptx": ptx, "regions": regions, "variables": variables })
}
