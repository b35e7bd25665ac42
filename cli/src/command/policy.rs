//! `accord policy`: the policy of a site.

use crate::client::Coordinator;
use crate::failure::{Failure, Result};
use crate::output::{print, show};
use crate::policy_args::{PolicyArgs, PolicyCommand};
use accord_proto::v1::{ApplyPolicyReply, PolicyChange, PolicyFinding};
use accord_scheduler::Request;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::policy::{Bound, Finding, LongestWait, POLICY_BYTES_MAX, SitePolicy};
use accord_types::DeviceType;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The exit code if the policy has faults.
const FOUND: u8 = 1;

/// Runs `accord policy`.
pub(crate) fn policy(args: &PolicyArgs) -> Result<u8> {
    match &args.command {
        PolicyCommand::Check { file, cluster, json } => check(file, cluster.as_deref(), *json),
        PolicyCommand::Apply { file, dry_run, json } => apply(file, *dry_run, *json),
    }
}

fn check(file: &Path, cluster: Option<&str>, json: bool) -> Result<u8> {
    let inventory = cluster.map(inventory).transpose()?;
    let text = read(file)?;
    let checked = SitePolicy::read(&text, inventory.as_deref());
    let waits = checked.as_ref().map(SitePolicy::longest_waits).unwrap_or_default();
    let findings = checked.as_ref().err().map_or(&[][..], Vec::as_slice);
    let live = if findings.is_empty() { Live::of(text) } else { Live::NotAsked };
    if json {
        show(&format!("{:#}\n", as_json(file, findings, &waits, &live)));
    } else if findings.is_empty() {
        show(&format!("{}\n{}", as_text(&waits), live.text(file)));
    } else {
        let file = file.display();
        show(&findings.iter().map(|finding| format!("{file}:{finding}\n")).collect::<String>());
    }
    Ok(if findings.is_empty() && !live.is_refused() { 0 } else { FOUND })
}

/// The effect of a policy on the cluster's jobs.
enum Live {
    /// The policy has faults, so the coordinator was not queried.
    NotAsked,
    /// The answer of the coordinator.
    Known(ApplyPolicyReply),
    /// The reason why the effect is unknown.
    LeftOut(String),
}

impl Live {
    /// Queries the coordinator of the settings, if there is one.
    fn of(text: String) -> Self {
        let reply = Coordinator::required().and_then(|mut coordinator| coordinator.apply_policy(text, true));
        reply.map_or_else(|why| Self::LeftOut(why.to_string()), Self::Known)
    }

    /// Whether the coordinator finds a fault, which happens if it has another version.
    fn is_refused(&self) -> bool {
        matches!(self, Self::Known(reply) if !reply.findings.is_empty())
    }

    fn text(&self, file: &Path) -> String {
        match self {
            Self::NotAsked => String::new(),
            Self::Known(reply) => {
                format!("For the running and waiting jobs of the cluster:\n{}", applied(file, reply, true))
            }
            Self::LeftOut(why) => {
                format!("What it would change for running and waiting jobs of a cluster is left out: {why}\n")
            }
        }
    }

    fn add_json(&self, file: &Path, to: &mut Value) {
        match self {
            Self::NotAsked => to["cluster"] = Value::Null,
            Self::Known(reply) => to["cluster"] = applied_json(file, reply, true),
            Self::LeftOut(why) => to["cluster"] = json!({ "left_out": why }),
        }
    }
}

/// The coordinator parses the file again, and its result counts.
fn apply(file: &Path, dry_run: bool, as_json: bool) -> Result<u8> {
    let text = read(file)?;
    let reply = Coordinator::required()?.apply_policy(text, dry_run)?;
    if as_json {
        print(&format!("{:#}\n", applied_json(file, &reply, dry_run)));
    } else {
        show(&applied(file, &reply, dry_run));
    }
    Ok(if reply.findings.is_empty() { 0 } else { FOUND })
}

fn applied(file: &Path, reply: &ApplyPolicyReply, dry_run: bool) -> String {
    let ApplyPolicyReply { findings, changes, more_changes, policy_version } = reply;
    let file = file.display();
    if !findings.is_empty() {
        let found = findings.iter().map(|found| {
            let PolicyFinding { line, column, message, marked } = found;
            format!("{file}:{line}:{column}: {message}\n{marked}\n")
        });
        let in_effect = format!("nothing is changed: policy version {policy_version} stays in effect\n");
        return found.chain([in_effect]).collect();
    }
    let line = |change: &PolicyChange| match (change.line, change.column, &change.message) {
        (0, _, message) => format!("{message}\n"),
        (line, column, message) => format!("{file}:{line}:{column}: {message}\n"),
    };
    let mut text: String = changes.iter().map(line).collect();
    if *more_changes > 0 {
        text.push_str(&format!("and {more_changes} more changes\n"));
    }
    text.push_str(&if dry_run {
        let none = if changes.is_empty() { "no waiting or running job would notice it. " } else { "" };
        format!("{none}Nothing is changed: policy version {policy_version} stays in effect\n")
    } else {
        format!("policy version {policy_version} is in effect\n")
    });
    text
}

fn applied_json(file: &Path, reply: &ApplyPolicyReply, dry_run: bool) -> Value {
    let finding = |found: &PolicyFinding| json!({ "line": found.line, "column": found.column, "message": found.message, "marked": found.marked });
    let change = |change: &PolicyChange| {
        let place = |number: u32| (number > 0).then_some(number);
        json!({ "line": place(change.line), "column": place(change.column), "message": change.message })
    };
    json!({
        "file": file.display().to_string(),
        "applied": !dry_run && reply.findings.is_empty(),
        "policy_version": reply.policy_version,
        "findings": reply.findings.iter().map(finding).collect::<Vec<_>>(),
        "changes": reply.changes.iter().map(change).collect::<Vec<_>>(),
        "more_changes": reply.more_changes,
    })
}

/// Reads a file up to one byte beyond a policy's maximum, so that the check detects the excess.
fn read(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let most = u64::try_from(POLICY_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(file)
        .and_then(|opened| opened.take(most).read_to_end(&mut bytes))
        .map_err(|error| Failure::system(format!("can't read {}", file.display()), error))?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        Failure::new(format!("{}:{line}: no UTF-8, as TOML is; save the file in UTF-8", file.display()))
    })
}

/// Parses the devices of a cluster, written as a request.
fn inventory(text: &str) -> Result<Vec<(DeviceClass, u32)>> {
    let request: Request =
        text.parse().map_err(|error: accord_scheduler::TextError| Failure::usage(error.to_string()))?;
    let form = || Failure::usage("--cluster lists devices of a type, such as \"64:nvidia/h200 + 512:cpu\"");
    let [all] = &request.alternatives[..] else { return Err(form()) };
    let class = |part: &accord_scheduler::request::Part| {
        let is_plain = part.class.kind != DeviceType::NotHost && part.count.least == part.count.most;
        let model = part.class.model.clone().unwrap_or_default();
        let class = DeviceClass { kind: part.class.kind, model, memory: 0, context: 0, compute: (0, 0) };
        is_plain.then_some((class, part.count.most)).ok_or_else(form)
    };
    all.parts.iter().map(class).collect()
}

fn as_text(waits: &[LongestWait]) -> String {
    let mut text = String::from("nothing is wrong. The longest waits (docs/site/shared-cluster.md has the formula):\n");
    for wait in waits {
        text.push_str(&format!("{}\n", wait.account));
        text.extend(wait.lines().into_iter().map(|line| format!("  {line}\n")));
    }
    text
}

fn as_json(file: &Path, findings: &[Finding], waits: &[LongestWait], live: &Live) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "line": finding.line,
            "column": finding.column,
            "message": finding.error.message(),
            "marked": finding.error.marked(),
        })
    };
    let wait = |wait: &LongestWait| {
        let (first_ms, further_ms, endless) = match &wait.first {
            Bound::AtMost { ms, each_further_user_ms } => (Some(ms), Some(each_further_user_ms), None),
            Bound::None { endless } => (None, None, Some(endless)),
        };
        json!({
            "account": wait.account,
            "guaranteed_ms": wait.guaranteed_ms,
            "first_ms": first_ms,
            "each_further_user_ms": further_ms,
            "others": wait.others,
            "endless": endless,
        })
    };
    let mut displayed = json!({
        "file": file.display().to_string(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "longest_waits": waits.iter().map(wait).collect::<Vec<_>>(),
    });
    live.add_json(file, &mut displayed);
    displayed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_applied_policy_says_what_it_changes_and_its_version() {
        let file = Path::new("p.toml");
        let change = |line, column, message: &str| PolicyChange { line, column, message: message.into() };
        let good = ApplyPolicyReply {
            changes: vec![change(0, 0, "job 3 would stop waiting: eva would not be in the account physics")],
            policy_version: 2,
            ..ApplyPolicyReply::default()
        };
        let printed = applied(file, &good, false);
        assert!(
            printed.starts_with("job 3 would") && printed.ends_with("policy version 2 is in effect\n"),
            "{printed}"
        );
        assert!(applied(file, &good, true).contains("Nothing is changed: policy version 2 stays in effect"));
        assert_eq!(applied_json(file, &good, false)["applied"], true);
        let changes = vec![change(9, 12, "job 3 would run on"), change(0, 0, "5gpu holds 6 of nvidia: it")];
        let placed = ApplyPolicyReply { changes, ..good };
        let printed = applied(file, &placed, true);
        assert!(printed.starts_with("p.toml:9:12: job 3 would run on\n5gpu holds 6"), "{printed}");
        let json = applied_json(file, &placed, true);
        assert_eq!(json["changes"][0], json!({ "line": 9, "column": 12, "message": "job 3 would run on" }));
        assert_eq!(json["changes"][1]["line"], Value::Null);
        let finding = PolicyFinding { line: 3, column: 9, message: "m".into(), marked: "  x\n  ^".into() };
        let bad = ApplyPolicyReply { findings: vec![finding], policy_version: 1, ..ApplyPolicyReply::default() };
        let printed = applied(file, &bad, false);
        assert_eq!(printed, "p.toml:3:9: m\n  x\n  ^\nnothing is changed: policy version 1 stays in effect\n");
        assert_eq!(applied_json(file, &bad, false)["applied"], false);
    }
}
