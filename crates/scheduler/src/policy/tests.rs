use super::*;
use crate::ids::JobId;
use crate::request::Request;
use crate::units::time_text;
use accord_types::DeviceType;
use proptest::prelude::*;
use std::collections::BTreeSet;

const HOUR: u64 = 3_600_000;

/// A file with every key.
const FULL: &str = r#"
half-life = "14d"
ageing = "12h"
quantum = "30m"
grace = "2m"
keep = "10m"
longest-wait = "30d"
backfill = 32
sharers = 8
preempt-mode = "suspend"
preempt-exempt-time = "5m"
others-jobs = "all"
suspend-by = "administrators"
memory-quota = "20G"
stream-quota = 16
session-time = "2d"
linger = "45s"
idle = "30m"

[billing]
nvidia = 2
any = 0.5
"nvidia/h200" = 4.125

[site]
most = { nvidia = 64 }
device-hours = 100000
priorities = [-5, 5]
longest = "7d"
nodes = { net = "ib" }
running-jobs = 1000
waiting-jobs = 5000
default = "1"
default-limit = "4h"

[account.lattice]          # before its parent
parent = "physics"
users = ["alice", "bob \"b\" \\ \u00e9"]
default-for = ["alice"]
default = "2:nvidia/h200 near priority=1"

[account.physics]
weight = 3
guaranteed = { "nvidia/h200" = 8, cpu = 64 }
most = { nvidia = 32 }
device-hours = 20_000
priorities = [0, 3]
longest = "2d"
nodes = { rack = "r1", part = "gpu" }
running-jobs = 100
waiting-jobs = 0x100
default-limit = "2h"
users = ["@physics", "alice"]
each-user = { most = { nvidia = 8 }, running-jobs = 10, waiting-jobs = 20, device-hours = 500, longest = "1d", weight = 2 }

[account.physics.user."eva@x"]
weight = 5

[account.default]
users = ["*"]
"#;

fn read(text: &str) -> SitePolicy {
    SitePolicy::read(text, None).unwrap_or_else(|found| panic!("{found:#?}"))
}

/// Returns the errors of a file: line, marked text, message.
fn wrong(text: &str) -> Vec<(usize, String, String)> {
    wrong_with(text, None)
}

fn wrong_with(text: &str, inventory: Option<&Inventory>) -> Vec<(usize, String, String)> {
    let found = SitePolicy::read(text, inventory).expect_err(text);
    let marked = |finding: &Finding| {
        let line = text.lines().nth(finding.line - 1).unwrap_or_default();
        line.get(finding.error.range()).unwrap_or_default().to_owned()
    };
    found.iter().map(|finding| (finding.line, marked(finding), finding.error.message().to_owned())).collect()
}

fn nvidia(model: Option<&str>) -> ClassFilter {
    ClassFilter { kind: DeviceType::Nvidia, model: model.map(str::to_owned), ..ClassFilter::ALL }
}

fn class(model: &str) -> DeviceClass {
    DeviceClass { kind: DeviceType::Nvidia, model: model.to_owned(), memory: 1 << 37, context: 0, compute: (9, 0) }
}

#[test]
fn every_key_is_read() {
    let policy = read(FULL);
    let core = &policy.core;
    assert_eq!((core.half_life_ms, core.ageing_ms, core.quantum_ms), (14 * 24 * HOUR, 12 * HOUR, HOUR / 2));
    assert_eq!((core.grace_ms, core.keep_ms, core.longest_wait_ms), (120_000, 600_000, Some(720 * HOUR)));
    assert_eq!((core.backfill_depth, core.sharers_max, core.default_limit_ms), (32, 8, Some(4 * HOUR)));
    let billing = [(nvidia(Some("h200")), 4_125), (nvidia(None), 2_000), (ClassFilter::ALL, 500)];
    assert_eq!(core.billing, billing, "the most exact first");
    assert_eq!((core.preempt_mode, core.preempt_exempt_ms), (PreemptMode::Suspend, 300_000));
    assert_eq!((policy.others_jobs, policy.suspend_by), (OthersJobs::All, SuspendBy::Administrators));
    assert_eq!((policy.memory_quota, policy.stream_quota), (Some(20 << 30), Some(16)));
    assert_eq!((policy.session_time_ms, policy.linger_ms), (Some(48 * HOUR), 45_000));
    assert_eq!((policy.idle_ms, SitePolicy::default().idle_ms), (Some(HOUR / 2), None));
    assert_eq!(SitePolicy::default().linger_ms, 30_000);
    let names: Vec<&str> = core.accounts.iter().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["site", "physics", "lattice", "default"], "parents first, else as in the file");
    let [site, physics, lattice, _] = &core.accounts[..] else { panic!() };
    assert_eq!((site.most.len(), site.hours_a_month, site.priorities), (1, Some(100_000), (-5, 5)));
    assert_eq!((physics.weight, physics.priorities, physics.longest_ms), (3, (0, 3), Some(48 * HOUR)));
    assert_eq!(physics.guaranteed[0], Quota { class: nvidia(Some("h200")), devices: 8 });
    assert_eq!((physics.running_max, physics.waiting_max), (Some(100), Some(256)));
    assert_eq!(physics.labels, [("rack".into(), "r1".into()), ("part".into(), "gpu".into())]);
    assert_eq!((lattice.parent, lattice.priorities), (Some(AccountId(1)), (0, 3)));
    assert_eq!(policy.rules[1].each_user.running_max, Some(10));
    assert_eq!(policy.rules[1].user["eva@x"].weight, Some(5));
    assert_eq!(policy.rules[2].users[1], Member::User("bob \"b\" \\ é".into()));
}

#[test]
fn an_empty_file_is_the_default_policy() {
    assert_eq!(read(""), SitePolicy::default());
    assert_eq!(SitePolicy::default().to_string(), "");
}

#[test]
fn the_canonical_text_is_read_as_its_policy_and_written_again() {
    let policy = read(FULL);
    let text = policy.to_string();
    assert_eq!(read(&text), policy, "{text}");
    assert_eq!(read(&text).to_string(), text);
    assert!(text.contains("default = \"2:nvidia/h200 near priority=1\""), "{text}");
}

#[test]
fn all_that_is_wrong_is_found_at_once_with_its_place() {
    let text = r#"
quantm = "1h"
grace = 60
backfill = 65
others-jobs = "none"
memory-quota = "much"
half-life = "0s"
stream-quota = 33
account.a.weight = 0
account.a.users = ["x", 7, "@"]
account.a.default = "4:nvida near"
account.b.parent = "c"
account.b.priorities = [3, 1]
account.b.wieght = 2
account.b.most = { nvdia = 2, cpu = -1 }
account.b.nodes = { rack = 1 }
site.weight = 2
site.longest = "2 h"
billing = { nvidia = 1.0001 }
"#;
    let expected = [
        (2, "quantm", "did you mean quantum?"),
        (3, "60", "grace = \"2h\""),
        (4, "65", "from 1 to 64"),
        (5, "\"none\"", "\"counts\" or \"all\""),
        (6, "\"much\"", "memory-quota = \"20G\""),
        (7, "\"0s\"", "half-life is a time"),
        (8, "33", "from 1 to 32"),
        (9, "0", "from 1 to"),
        (10, "7", "Unix groups"),
        (10, "\"@\"", "Unix groups"),
        (11, "nvida", "did you mean nvidia?"),
        (12, "\"c\"", "no account c"),
        (13, "[3, 1]", "[0, 10]"),
        (14, "wieght", "did you mean weight?"),
        (15, "nvdia", "did you mean nvidia?"),
        (15, "-1", "counts devices"),
        (16, "1", "as its value"),
        (17, "weight", "the site has no key weight"),
        (18, "\"2 h\"", "longest is a time"),
        (19, "1.0001", "three decimals"),
    ];
    let found = wrong(text);
    for ((line, marked, message), expected) in found.iter().zip(expected) {
        assert_eq!((*line, marked.as_str()), (expected.0, expected.1), "{message}");
        assert!(message.contains(expected.2), "{message} / {}", expected.2);
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn errors_of_toml_are_found_with_others() {
    let found = wrong("quantum = \nhalf-life = \"1d\"\nhalf-life = \"2d\"\nageng = \"1d\"\n");
    let lines: Vec<usize> = found.iter().map(|(line, _, _)| *line).collect();
    assert_eq!(lines, [1, 3, 4], "{found:#?}");
    assert!(found[1].2.contains("duplicate"), "{found:#?}");
}

#[test]
fn circles_of_parents_are_found_once_and_what_hangs_on_them_is_not() {
    let text =
        "account.a.parent = \"b\"\naccount.b.parent = \"c\"\naccount.c.parent = \"b\"\naccount.d.parent = \"d\"\n";
    let found = wrong(text);
    let reported: Vec<(usize, &str)> = found.iter().map(|(line, _, message)| (*line, message.as_str())).collect();
    assert_eq!(reported.len(), 2, "{found:#?}");
    assert!(reported[0].0 == 2 && reported[0].1.contains("b -> c -> b"), "{found:#?}");
    assert!(reported[1].0 == 4 && reported[1].1.contains("d -> d"), "{found:#?}");
}

#[test]
fn guarantees_fit_into_those_above_into_most_and_into_the_cluster() {
    let own = wrong("account.a = { guaranteed = { \"nvidia/h200\" = 9 }, most = { nvidia = 8 } }");
    assert_eq!((own[0].1.as_str(), own.len()), ("9", 1), "{own:?}");
    let below = "[account.p]\nguaranteed = { nvidia = 8 }\n[account.a]\nparent = \"p\"\nguaranteed = { nvidia = 5 }\n\
                 [account.b]\nparent = \"p\"\n[account.c]\nparent = \"b\"\nguaranteed = { \"nvidia/h200\" = 4 }\n";
    let found = wrong(below);
    assert_eq!((found[0].0, found[0].1.as_str(), found.len()), (10, "4", 1), "{found:?}");
    assert!(found[0].2.contains("accounts below p are guaranteed 9 of nvidia"), "{found:?}");
    read(&below.replace("= 5", "= 4"));
    let most = wrong("[site]\nmost = { any = 3 }\n[account.a]\nguaranteed = { nvidia = 2, cpu = 2 }\n");
    assert_eq!((most[0].0, most[0].1.as_str()), (4, "2"), "{most:?}");

    let cluster = [(class("h200"), 8), (class("a100"), 8)];
    let fits = "account.a.guaranteed = { \"nvidia/h200\" = 8 }\naccount.b.guaranteed = { nvidia = 8 }\n";
    assert!(SitePolicy::read(fits, Some(&cluster)).is_ok());
    let too_many = fits.replace("nvidia = 8", "nvidia = 9");
    let found = wrong_with(&too_many, Some(&cluster));
    assert_eq!((found[0].0, found.len()), (2, 1), "{found:?}");
    assert!(found[0].2.contains("17 of nvidia are guaranteed, and the cluster has 16"), "{found:?}");
    let none = wrong_with("account.a.guaranteed = { cpu = 1 }", Some(&cluster));
    assert!(none[0].2.contains("the cluster has 0"), "{none:?}");
}

#[test]
fn users_in_several_accounts_have_one_default() {
    let two = "account.a.users = [\"eva\", \"@g\"]\naccount.b.users = [\"@g\", \"eva\", \"*\"]\n";
    let found = wrong(two);
    let marked: Vec<(usize, &str)> = found.iter().map(|(line, marked, _)| (*line, marked.as_str())).collect();
    assert_eq!(marked, [(2, "\"@g\""), (2, "\"eva\"")], "{found:?}");
    assert!(found[1].2.contains("eva is in several accounts (a, b)"), "{found:?}");
    let one = format!("{two}account.a.default-for = [\"eva\"]\naccount.b.default-for = [\"@g\"]\n");
    let policy = read(&one);
    assert_eq!(policy.account_of("eva", &["g"], None), Ok("a"));
    assert_eq!(policy.account_of("eva", &[], Some("b")), Ok("b"));
    assert_eq!(policy.account_of("tom", &["g"], None), Ok("b"));
    assert_eq!(policy.account_of("tom", &[], None), Ok("b"));
    let elsewhere = policy.account_of("tom", &[], Some("a")).unwrap_err();
    assert_eq!(elsewhere, NoAccount::NotThere { wanted: "a".into(), own: vec!["b".into()] });
    let both = wrong(
        &format!("{one}account.b.default-for = [\"@g\", \"eva\"]\n").replace("account.b.default-for = [\"@g\"]\n", ""),
    );
    assert!(both[0].2.contains("several default accounts"), "{both:?}");
    let non_member = wrong("account.a.default-for = [\"eva\"]");
    assert!(non_member[0].2.contains("who is not in users of a"), "{non_member:?}");
    let twice = wrong("account.a.users = [\"eva\", \"eva\"]");
    assert!(twice[0].2.contains("twice"), "{twice:?}");
}

#[test]
fn a_service_account_is_in_the_account_of_its_namespace() {
    let text = "[account.physics]\nusers = [\"@physics\"]\n[account.rest]\nusers = [\"*\"]\n[account.named]\n\
                users = [\"system:serviceaccount:physics:other\"]\n";
    let policy = SitePolicy::read(text, None).unwrap();
    let of = |user: &str, wanted| policy.account_of(user, &[], wanted).ok();
    assert_eq!(of("system:serviceaccount:physics:train", None), Some("physics"));
    assert_eq!(of("system:serviceaccount:physics:train", Some("rest")), Some("rest"));
    // An entry by name takes precedence, but the namespace's account may still be requested.
    assert_eq!(of("system:serviceaccount:physics:other", None), Some("named"));
    assert_eq!(of("system:serviceaccount:physics:other", Some("physics")), Some("physics"));
    for other in ["system:serviceaccount:chemistry:train", "system:serviceaccount:site:train", "physics", "train"] {
        assert_eq!(of(other, None), Some("rest"), "{other}");
        assert_eq!(of(other, Some("physics")), None, "{other}");
    }
}

#[test]
fn users_of_no_account_are_refused_or_in_the_fallback() {
    let closed = read("account.a.users = [\"eva\"]");
    assert_eq!(closed.account_of("tom", &[], None), Err(NoAccount::Nowhere));
    let open = read("account.a.users = [\"eva\"]\naccount.default.weight = 1");
    assert_eq!(open.account_of("tom", &[], None), Ok(FALLBACK));
    assert_eq!(open.account_of("eva", &[], None), Ok("a"));
}

#[test]
fn names_come_before_groups_and_these_before_everyone() {
    let policy = read("account.all.users = [\"*\"]\naccount.group.users = [\"@g\"]\naccount.own.users = [\"eva\"]\n");
    assert_eq!(policy.account_of("eva", &["g"], None), Ok("own"));
    assert_eq!(policy.account_of("tom", &["g", "h"], None), Ok("group"));
    assert_eq!(policy.account_of("tom", &["h"], None), Ok("all"));
}

#[test]
fn each_user_is_a_leaf_of_the_tree() {
    let text = "[account.a]\nusers = [\"eva\", \"*\"]\npriorities = [0, 7]\neach-user = { running-jobs = 2 }\n\
                [account.a.user.eva]\nweight = 4\n";
    let tree = read(text).tree([("a", "tom"), ("gone", "x")]);
    let names: Vec<&str> = tree.accounts.iter().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["site", "a", "a/eva", "a/tom"]);
    let [_, _, eva, tom] = &tree.accounts[..] else { panic!() };
    assert_eq!((eva.weight, eva.running_max, tom.weight, tom.running_max), (4, None, 1, Some(2)));
    assert_eq!((eva.parent, eva.priorities), (Some(AccountId(1)), (0, 7)));
}

#[test]
fn defaults_are_inherited_and_within_the_longest_limit() {
    let policy = read(FULL);
    assert_eq!(policy.default_request("physics").map(Request::to_string).as_deref(), Some("1"));
    assert_eq!(
        policy.default_request("lattice").map(Request::to_string).as_deref(),
        Some("2:nvidia/h200 near priority=1")
    );
    let limits = ["site", "physics", "lattice", "default"].map(|name| policy.default_limit_ms(name).map(time_text));
    assert_eq!(limits, ["4h", "2h", "2h", "4h"].map(|text| Some(text.to_owned())));
    let only_longest = read("account.a.longest = \"3h\"");
    assert_eq!(only_longest.default_limit_ms("a"), Some(3 * HOUR));
    assert_eq!(only_longest.default_limit_ms("site"), None);
    let found = wrong(
        "site.longest = \"1h\"\naccount.a.default-limit = \"2h\"\naccount.a.default = \"1 limit=90m priority=1 account=b\"\n",
    );
    let lines: Vec<usize> = found.iter().map(|(line, _, _)| *line).collect();
    assert_eq!(lines, [2, 3, 3, 3], "{found:?}");
    let messages: String = found.iter().map(|(_, _, message)| message.as_str()).collect();
    for message in
        ["the default limit 2h is more than the longest of site, 1h", "90m", "may use priority 0 only", "no account"]
    {
        assert!(messages.contains(message), "{message}: {messages}");
    }
}

#[test]
fn settings_in_both_flags_and_policy_are_named() {
    let policy = read("memory-quota = \"1G\"\nsession-time = \"1h\"\n");
    assert_eq!(policy.set_twice(true, true, true), ["--memory-quota", "--session-time"]);
    assert!(policy.set_twice(false, true, false).is_empty());
}

#[test]
fn the_longest_wait_follows_from_ageing_limits_and_others() {
    let text = "ageing = \"1d\"\nquantum = \"1h\"\ngrace = \"1m\"\nsite.longest = \"10h\"\n[account.a]\nusers = [\"x\", \"y\"]\n\
                guaranteed = { nvidia = 2 }\n[account.b]\npriorities = [-1, 3]\nusers = [\"z\"]\nlongest = \"4h\"\n";
    let waits = read(text).longest_waits();
    let turn = 11 * HOUR + 120_000;
    let at_most =
        |levels: u64| Bound::AtMost { ms: levels * 24 * HOUR + 60_000 + 3 * turn, each_further_user_ms: turn };
    assert_eq!(waits[0].first, at_most(4), "0 below 3, and once more");
    assert_eq!(waits[1].first, at_most(5), "-1 below 3");
    assert_eq!((waits[0].guaranteed_ms, waits[1].guaranteed_ms), (Some(HOUR + 120_000), None));
    let endless = read(&text.replace("site.longest = \"10h\"\n", "")).longest_waits();
    assert_eq!(endless[1].first, Bound::None { endless: "a".into() });
    assert!(endless[1].lines()[0].contains("jobs of a may run without end: set its longest"), "{endless:?}");
}

fn job(id: u64, user: &str, account: &str, request: &str, held: u32) -> JobSummary {
    let held = if held > 0 { vec![(class("h200"), held)] } else { Vec::new() };
    let request = request.parse().unwrap();
    JobSummary { job: JobId(id), user: user.into(), groups: vec!["g".into()], account: account.into(), request, held }
}

/// The nodes of jobs by the values of their label `rack`: a job of each number runs on such a node, or could start on one with this label only.
struct Labelled(&'static [(u64, &'static str)]);

impl Labelled {
    fn lacks(&self, job: JobId, labels: &[(String, String)]) -> Option<String> {
        let rack = self.0.iter().find(|(of, _)| JobId(*of) == job)?.1;
        labels.iter().any(|(name, value)| name == "rack" && value != rack).then(|| format!("r-{rack}"))
    }
}

impl JobNodes for Labelled {
    fn node_without(&self, job: JobId, labels: &[(String, String)]) -> Option<String> {
        self.lacks(job, labels)
    }

    fn lack_with(&self, job: JobId, labels: &[(String, String)]) -> Option<String> {
        self.lacks(job, labels).map(|node| format!("only {node} has devices"))
    }
}

#[test]
fn changes_of_priorities_and_nodes_are_named_with_their_places() {
    let old = read(
        "[site]\npriorities = [0, 5]\n[account.a]\nusers = [\"eva\"]\n[account.b]\nusers = [\"tom\"]\npriorities = [0, 9]\n",
    );
    let text = "[site]\npriorities = [0, 2]\nnodes = { rack = \"1\" }\n[account.a]\nusers = [\"eva\"]\n\
                [account.b]\nusers = [\"tom\"]\npriorities = [0, 4]\nnodes = { rack = \"1\", zone = \"x\" }\n\
                each-user = { longest = \"1h\" }\n";
    let jobs = [
        job(1, "eva", "a", "1:nvidia limit=1h priority=2", 0),
        job(2, "eva", "a", "1:nvidia limit=1h priority=3", 0),
        job(3, "tom", "b", "1:nvidia limit=2h priority=5", 0),
        job(4, "eva", "a", "1:nvidia limit=1h", 1),
        job(5, "tom", "b", "1:nvidia limit=1h", 1),
        job(6, "tom", "b", "1:nvidia limit=1h", 0),
    ];
    let (new, nodes) = (read(text), Labelled(&[(4, "1"), (5, "2"), (6, "2")]));
    let keys = KeyPositions::new(text);
    let placed = |change: &Change| {
        let position = change.position(&new, &keys).map_or_else(String::new, |position| position.to_string());
        format!("{position}: {change}")
    };
    let reported: Vec<String> = changes(&old, &new, &jobs, &nodes).iter().map(placed).collect();
    assert_eq!(
        reported,
        [
            "2:1: job 2 would keep its priority 3, although new jobs of a may use priorities 0 to 2 only",
            "8:1: job 3 would keep its priority 5, although new jobs of b may use priorities 0 to 4 only",
            "10:15: job 3 would keep its limit, although new jobs of b/tom may last 1h at most",
            "9:1: job 5 would run on, on node r-2, which new jobs of b may not use",
            "9:1: job 6 would wait without end on the nodes of b: only r-2 has devices",
        ]
    );
}

#[test]
fn changes_for_waiting_and_running_jobs_are_named() {
    let old = read("account.a.users = [\"eva\", \"tom\"]\naccount.b.users = [\"@g\"]\nsite.most = { nvidia = 100 }");
    let jobs = [
        job(1, "eva", "a", "4:nvidia", 4),
        job(2, "tom", "a", "4:nvidia", 0),
        job(3, "tom", "a", "4:nvidia", 2),
        job(4, "ada", "b", "8:nvidia else 2:cpu", 0),
        job(5, "ada", "b", "8:nvidia/h200 else 6:nvidia", 0),
        job(6, "ada", "b", "2:nvidia per-rank", 0),
    ];
    let nodes = Labelled(&[]);
    assert!(changes(&old, &old, &jobs, &nodes).is_empty());
    let new = read(
        "account.a.users = [\"eva\"]\naccount.a.most = { \"nvidia/h200\" = 5 }\n\
                    [account.b]\nusers = [\"@g\"]\neach-user = { most = { nvidia = 5 } }",
    );
    let reported: Vec<String> = changes(&old, &new, &jobs, &nodes).iter().map(Change::to_string).collect();
    assert_eq!(
        reported,
        [
            "job 2 would stop waiting: tom would not be in the account a",
            "job 3 would run on, charged to the site and no longer to a",
            "job 5 would wait without end: b/ada would have at most 5 of nvidia",
            "a holds 6 of nvidia/h200 and would have at most 5: it would get no more until enough are free",
        ]
    );
}

/// Pieces of files.
const PIECES: &[&str] = &[
    "\"",
    "=",
    "[",
    "]",
    "{",
    "}",
    "\n",
    ".",
    "account",
    "a",
    "parent = \"lattice\"",
    "nvidia",
    "0",
    "-1",
    "é",
    "\u{0}",
];

/// Returns a change of a file: a position, the number of removed bytes, and an inserted text.
fn mutation() -> impl Strategy<Value = (usize, usize, String)> {
    (any::<usize>(), 0..12_usize, prop_oneof![proptest::sample::select(PIECES).prop_map(str::to_owned), "[ -~]{0,4}"])
}

proptest! {
    #[test]
    fn a_changed_file_is_read_or_its_errors_have_places(mutations in proptest::collection::vec(mutation(), 1..4)) {
        let mut text = FULL.to_owned();
        for (at, len, with) in mutations {
            let border = |at: usize| (at..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
            let start = border(at % (text.len() + 1));
            let end = border((start + len).min(text.len()));
            text.replace_range(start..end, &with);
        }
        match SitePolicy::read(&text, None) {
            Ok(policy) => {
                let written = policy.to_string();
                prop_assert_eq!(SitePolicy::read(&written, None), Ok(policy), "{}", written);
            }
            Err(found) => {
                prop_assert!(!found.is_empty());
                for finding in found {
                    let line = text.split('\n').nth(finding.line - 1);
                    prop_assert!(line.is_some_and(|line| finding.column <= line.chars().count() + 1), "{}", finding);
                    prop_assert!(!finding.error.message().is_empty() && !finding.error.message().contains('\n'), "{}", finding);
                }
            }
        }
    }
}

#[test]
fn findings_are_bounded_and_say_how_many_more_there_are() {
    let text: String = (0..FINDINGS_MAX + 3).map(|n| format!("x{n}x = 1\n")).collect();
    let found = wrong(&text);
    assert_eq!(found.len(), FINDINGS_MAX + 1);
    assert!(found[FINDINGS_MAX].2.contains("and 3 more"));
    let long = wrong(&"#".repeat(POLICY_BYTES_MAX + 1));
    assert!(long[0].2.contains("at most"));
}

#[test]
fn documented_files_are_read() {
    let document = include_str!("../../../../docs/site/shared-cluster.md");
    let mut examples = 0;
    for example in document.split("```toml\n").skip(1) {
        read(example.split("```").next().unwrap_or_default());
        examples += 1;
    }
    assert!(examples >= 2, "{examples}");
}

#[test]
fn every_key_is_documented() {
    let document = include_str!("../../../../docs/site/shared-cluster.md");
    let all: BTreeSet<&str> =
        [keys::FILE, keys::SITE, keys::ACCOUNT, keys::USER].into_iter().flatten().copied().collect();
    let missing: Vec<&&str> = all.iter().filter(|key| !document.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn an_idle_time_leaves_room_for_the_warning_before_the_end() {
    let short = "idle = \"1m\"\n[site]\n";
    let [(1, marked, why)] = &wrong(short)[..] else { panic!("{:?}", wrong(short)) };
    assert!(marked == "\"1m\"" && why.contains("idle is longer than the grace"), "{marked} {why}");
    assert_eq!(read("grace = \"0s\"\nidle = \"1m\"\n").idle_ms, Some(60_000));
}

#[test]
fn a_choice_of_two_words_names_both() {
    let found = wrong("preempt-mode = \"requeue\"\nsuspend-by = true\npreempt-exempt-tim = 5\n");
    let messages: String = found.iter().map(|(_, _, message)| message.as_str()).collect();
    for text in ["\"off\" or \"suspend\"", "\"owners\" or \"administrators\"", "did you mean preempt-exempt-time?"] {
        assert!(messages.contains(text), "{text}: {found:?}");
    }
}
