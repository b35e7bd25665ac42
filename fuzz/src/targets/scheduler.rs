//! Requests for devices, which users write, and policy files of administrators.

use crate::{Memory, Target};
use accord_scheduler::Request;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::policy::{FINDINGS_MAX, SitePolicy};
use accord_types::DeviceType;

/// Requests for devices.
pub(super) const REQUESTS: Target = Target {
    name: "requests",
    run: requests,
    seeds: request_seeds,
    words: &[
        "nvidia",
        "cpu",
        "any",
        "else",
        " + ",
        ":",
        "/",
        "%",
        "-",
        "whole",
        "cc=",
        "cores=",
        "ram=",
        "per-rank",
        "local",
        "near",
        "pack",
        "spread",
        "nodes=",
        "label=",
        "on=",
        "avoid=",
        "limit=",
        "wait=",
        "priority=",
        "account=",
        ",",
        "G",
        "65536",
        "0.1",
        "18446744073709551615",
    ],
    input_max: 512,
    memory: Memory { fixed: 16 << 10, per_byte: 256 },
    inputs: 60_000,
};

/// Policy files.
pub(super) const POLICIES: Target = Target {
    name: "policies",
    run: policies,
    seeds: policy_seeds,
    words: &[
        "[account.",
        "[site]",
        "\n",
        "]",
        "=",
        "{",
        "}",
        "\"",
        "\"@",
        "\"*\"",
        "parent",
        "users",
        "default-for",
        "guaranteed",
        "most",
        "nvidia",
        "priorities = [",
        "longest",
        "default",
        "each-user",
        "billing",
        ".user.",
        "\\u0000",
        "'''",
        "9223372036854775808",
        "0x",
        "1e9",
    ],
    input_max: 2 << 10,
    // Every wrong byte may be a finding, which keeps its line.
    memory: Memory { fixed: 4 << 20, per_byte: 4 << 10 },
    inputs: 10_000,
};

fn requests(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match text.parse::<Request>() {
        Ok(request) => {
            let canonical = request.to_string();
            assert_eq!(canonical.parse::<Request>().as_ref(), Ok(&request), "{canonical}");
            let class =
                |kind| DeviceClass { kind, model: "h200".to_owned(), memory: 1 << 37, context: 0, compute: (9, 0) };
            let machine = [DeviceType::Nvidia, DeviceType::Nvidia, DeviceType::Cpu].map(class);
            if let Ok(chosen) = request.choose_alone(&machine) {
                assert!(!chosen.is_empty() && chosen.iter().all(|at| *at < machine.len()));
            }
        }
        Err(error) => {
            assert!(text.get(error.range()).is_some() && !error.message().contains('\n'), "{error}");
            assert!(error.marked().contains('^'));
        }
    }
}

fn request_seeds() -> Vec<Vec<u8>> {
    let all = "2-4:nvidia/h200:20G + 8:cpu:cores=4:ram=64G else 2:nvidia:50%:cc=9.0 near nodes=2 label=rack=r1 on=a,b avoid=c \
               limit=2h wait=30m priority=-1 account=physics";
    ["1", "4:nvidia/h200:20G", "1:nvidia:whole:80G local", "1:nvidia per-rank spread", all]
        .map(|seed| seed.into())
        .to_vec()
}

fn policies(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let class = DeviceClass {
        kind: DeviceType::Nvidia,
        model: "h200".to_owned(),
        memory: 1 << 37,
        context: 0,
        compute: (9, 0),
    };
    match SitePolicy::read(&text, Some(&[(class, 8)])) {
        Ok(policy) => {
            let written = policy.to_string();
            assert_eq!(SitePolicy::read(&written, None).as_ref(), Ok(&policy), "{written}");
            assert!(!policy.longest_waits().is_empty());
            assert!(policy.tree([]).accounts.len() >= policy.core.accounts.len());
        }
        Err(found) => {
            assert!(!found.is_empty() && found.len() <= FINDINGS_MAX + 1);
            let lines = text.split('\n').count();
            assert!(found.iter().all(|finding| (1..=lines).contains(&finding.line)));
        }
    }
}

fn policy_seeds() -> Vec<Vec<u8>> {
    let all = "half-life = \"7d\"\nothers-jobs = \"all\"\nmemory-quota = \"1G\"\n[billing]\nnvidia = 1.5\n[site]\nlongest = \"2d\"\n\
               nodes = { rack = \"r1\" }\n[account.a]\nweight = 2\nguaranteed = { nvidia = 4 }\nmost = { \"nvidia/h200\" = 4 }\nusers = [\"x\", \"@g\"]\n\
               default-for = [\"x\"]\n[account.b]\nparent = \"a\"\npriorities = [-1, 5]\ndefault = \"1:nvidia limit=1h\"\nusers = [\"x\", \"*\"]\n\
               each-user = { running-jobs = 2 }\n[account.b.user.x]\nweight = 3\n";
    ["", "account.a.parent = \"a\"", all].map(|seed| seed.into()).to_vec()
}
