//! `accord explain job` and `accord what-if`.

use super::queue::job_json;
use super::start_text;
use super::words::devices;
use crate::client::{Coordinator, variable};
use crate::failure::{Failure, Result};
use crate::job_args::WhatIfArgs;
use crate::output::{count, print, show};
use crate::viewpoint;
use accord_proto::json;
use accord_proto::v1::{WhatIfOutcome, WhatIfReply};
use serde_json::{Value, json};

/// The exit code if the request would be refused.
const REFUSED: u8 = 1;

/// Runs `accord explain job`.
pub(crate) fn explain(job: u64, as_json: bool) -> Result<u8> {
    let reply = Coordinator::required()?.explain_job(job)?;
    if as_json {
        let mut displayed = reply.job.as_ref().map_or(Value::Null, job_json);
        displayed["lines"] = json!(reply.lines);
        print(&format!("{displayed:#}\n"));
    } else {
        show(&reply.lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    }
    Ok(0)
}

/// Runs `accord what-if`.
pub(crate) fn what_if(args: &WhatIfArgs) -> Result<u8> {
    let request = args.request.request(variable)?;
    let request =
        request.ok_or_else(|| Failure::usage("what-if is about a request: --devices 4:nvidia names the devices"))?;
    let reply = Coordinator::required()?.what_if(request.to_string(), viewpoint::node_name())?;
    if args.json {
        print(&format!("{:#}\n", reply_json(&request.to_string(), &reply)));
    } else {
        show(&in_words(&request.to_string(), &reply));
    }
    Ok(if reply.outcome() == WhatIfOutcome::Refused { REFUSED } else { 0 })
}

fn in_words(request: &str, reply: &WhatIfReply) -> String {
    let of = if reply.account.is_empty() { String::new() } else { format!(" of account {}", reply.account) };
    let outcome = match reply.outcome() {
        WhatIfOutcome::Refused => format!("would be refused: {}", reply.why),
        WhatIfOutcome::Now => format!("would start now, on {}", devices(&reply.devices)),
        WhatIfOutcome::Later | WhatIfOutcome::Unknown | WhatIfOutcome::Unspecified => {
            let before = count(reply.position.into(), "job");
            let start = match reply.starts_unix_ms {
                Some(_) => format!("would start {}", start_text(reply.starts_unix_ms, reply.reserved, reply.unix_ms)),
                None => "would wait, and nothing that is known lets it start".to_owned(),
            };
            format!("{start}, with {before} before it: {}", reply.why)
        }
    };
    format!("{request}{of} {outcome}\n")
}

fn reply_json(request: &str, reply: &WhatIfReply) -> Value {
    let outcome = match reply.outcome() {
        WhatIfOutcome::Refused => "refused",
        WhatIfOutcome::Now => "now",
        WhatIfOutcome::Later => "later",
        WhatIfOutcome::Unknown | WhatIfOutcome::Unspecified => "unknown",
    };
    json!({
        "request": request,
        "account": reply.account,
        "outcome": outcome,
        "why": reply.why,
        "devices": json::devices(&reply.devices),
        "position": reply.position,
        "starts_unix_ms": reply.starts_unix_ms,
        "reserved": reply.reserved,
        "unix_ms": reply.unix_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_sentence() {
        let reply = |outcome: WhatIfOutcome| WhatIfReply {
            outcome: outcome.into(),
            account: "physics".into(),
            why: "it needs 2 of cpu, and none is free for as long as its limit".into(),
            position: 1,
            ..WhatIfReply::default()
        };
        let printed = |reply: &WhatIfReply| in_words("2:cpu", reply);
        let later = WhatIfReply { starts_unix_ms: Some(300_000), ..reply(WhatIfOutcome::Later) };
        let why = &later.why;
        assert_eq!(
            printed(&later),
            format!("2:cpu of account physics would start in 5 min, with 1 job before it: {why}\n")
        );
        let unknown = printed(&reply(WhatIfOutcome::Unknown));
        assert!(
            unknown.contains("would wait, and nothing that is known lets it start, with 1 job before it"),
            "{unknown}"
        );
        assert!(printed(&reply(WhatIfOutcome::Refused)).contains("would be refused: "));
        assert!(printed(&reply(WhatIfOutcome::Now)).ends_with("would start now, on -\n"));
        assert_eq!(reply_json("2:cpu", &later)["outcome"], "later");
    }
}
