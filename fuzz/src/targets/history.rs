//! Histories, as `accord history --export` writes them and `sched-replay` reads them.

use crate::{Memory, Target};

/// The replay is a program without a library, so this includes its modules.
#[allow(dead_code, unreachable_pub, reason = "the program uses all of it")]
#[path = "../../../crates/scheduler/examples/sched-replay/history.rs"]
mod code;
#[allow(dead_code, unreachable_pub, reason = "the program uses all of it")]
#[path = "../../../crates/scheduler/examples/sched-replay/trace.rs"]
mod trace;

/// Exported histories.
pub(super) const HISTORIES: Target = Target {
    name: "histories",
    run: histories,
    seeds,
    words: &[
        "\"node\":",
        "\"job\":",
        "\"withdrawn\":",
        "\"model\":",
        "\"models\":[",
        "\"devices\":",
        "\"share_milli\":",
        "\"cores_milli\":",
        "\"memory_mib\":",
        "\"request\":{",
        "\"asked\":",
        "\"started\":",
        "\"ended\":",
        "\"account\":",
        "\"user\":",
        "null",
        "-1",
        "1e308",
        "18446744073709551615",
        "}\n{",
    ],
    input_max: 2 << 10,
    // A JSON value takes more memory than its text.
    memory: Memory { fixed: 64 << 10, per_byte: 128 },
    inputs: 20_000,
};

fn histories(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match code::parse(&text) {
        Ok(history) => {
            let lines = text.lines().count();
            assert!(history.cluster.nodes.len() + history.pods.len() <= lines);
            assert_eq!(history.owner_of.len(), history.pods.len());
            assert!(history.owner_of.iter().all(|owner| *owner < history.owners.len()));
            for pod in &history.pods {
                assert_eq!(pod.task, pod.task.normal());
                assert!(pod.created.is_some_and(|at| at >= 0.0) && pod.duration.is_some_and(|ran| ran >= 0.0));
                // The replay counts in milliseconds.
                assert!(pod.created.zip(pod.duration).is_some_and(|(at, ran)| (at + ran) * 1e3 < u64::MAX as f64));
            }
        }
        Err(why) => assert!(why.starts_with(", line ") || why.starts_with(": it needs"), "{why}"),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let node = r#"{"node":"n0","model":"nvidia/h200","devices":8,"cores_milli":128000,"memory_mib":1048576}"#;
    let job = r#"{"job":3,"started":2.5,"request":{"devices":2,"share_milli":250,"cores_milli":8000,"memory_mib":64,"models":["nvidia/h200"]},"asked":1.0,"ended":9.0,"account":"a","user":"eva","text":"2:nvidia:25%","why":"Done"}"#;
    let withdrawn =
        r#"{"withdrawn":4,"asked":1.5,"ended":2.0,"account":"a","user":"tom","text":"1","why":"Cancelled"}"#;
    [format!("{node}\n{job}\n{withdrawn}\n"), format!("{node}\n{node}\n\n{job}\n{job}"), String::new()]
        .map(String::into_bytes)
        .to_vec()
}
