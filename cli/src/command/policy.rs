//! `accord policy`: the policy of a site.

use crate::args::{PolicyArgs, PolicyCommand};
use crate::failure::{Failure, Result};
use crate::output::show;
use accord_scheduler::Request;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::policy::{Bound, Finding, LongestWait, POLICY_BYTES_MAX, SitePolicy};
use accord_types::DeviceType;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Something was found.
const FOUND: u8 = 1;

/// Runs `accord policy`.
pub(crate) fn policy(args: &PolicyArgs) -> Result<u8> {
    let PolicyCommand::Check { file, cluster, json } = &args.command;
    let inventory = cluster.as_deref().map(inventory).transpose()?;
    let text = read(file)?;
    let checked = SitePolicy::read(&text, inventory.as_deref());
    let waits = checked.as_ref().map(SitePolicy::longest_waits).unwrap_or_default();
    let findings = checked.as_ref().err().map_or(&[][..], Vec::as_slice);
    if *json {
        show(&format!("{:#}\n", as_json(file, findings, &waits)));
    } else if findings.is_empty() {
        show(&as_text(&waits));
    } else {
        let file = file.display();
        show(&findings.iter().map(|finding| format!("{file}:{finding}\n")).collect::<String>());
    }
    Ok(if findings.is_empty() { 0 } else { FOUND })
}

/// Reads a file that is not longer than a policy may be: one byte more lets the check say so.
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

/// The devices of a cluster, written as a request.
fn inventory(text: &str) -> Result<Vec<(DeviceClass, u32)>> {
    let request: Request =
        text.parse().map_err(|error: accord_scheduler::TextError| Failure::usage(error.to_string()))?;
    let form = || Failure::usage("--cluster lists devices of a type, such as \"64:nvidia/h200 + 512:cpu\"");
    let [all] = &request.alternatives[..] else { return Err(form()) };
    let class = |part: &accord_scheduler::request::Part| {
        let is_plain = part.class.kind != DeviceType::NotHost && part.count.least == part.count.most;
        let model = part.class.model.clone().unwrap_or_default();
        let class = DeviceClass { kind: part.class.kind, model, memory: 0, compute: (0, 0) };
        is_plain.then_some((class, part.count.most)).ok_or_else(form)
    };
    all.parts.iter().map(class).collect()
}

fn as_text(waits: &[LongestWait]) -> String {
    let mut text = String::from("nothing is wrong. The longest waits (docs/shared-cluster.md has the formula):\n");
    for wait in waits {
        text.push_str(&format!("{}\n", wait.account));
        text.extend(wait.lines().into_iter().map(|line| format!("  {line}\n")));
    }
    text
}

fn as_json(file: &Path, findings: &[Finding], waits: &[LongestWait]) -> Value {
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
    json!({
        "file": file.display().to_string(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "longest_waits": waits.iter().map(wait).collect::<Vec<_>>(),
    })
}
