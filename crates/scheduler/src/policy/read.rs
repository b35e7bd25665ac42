//! Reads a policy file, and reports all errors at once.

use super::check::{Inventory, check, order};
use super::draft::{Draft, SITE};
use super::finding::{Finding, Findings};
use super::site::{AccountRules, LINGER_MS, OthersJobs, SitePolicy, SuspendBy};
use super::values::{self, HOURS_MAX, Keys, Value};
use super::{Account, Policy, PreemptMode, keys};
use crate::class::ClassFilter;
use crate::request::words::{PRIORITY_MAX, is_name};
use toml::Spanned;
use toml::de::{DeString, DeTable};

/// Longest policy file, in bytes.
pub const POLICY_BYTES_MAX: usize = 4 << 20;
/// Most accounts of a policy, without the site.
pub const ACCOUNTS_MAX: usize = 4_096;
/// Most classes with a billing weight.
pub const BILLING_MAX: usize = 256;

impl SitePolicy {
    /// Reads a policy file. With `inventory`, guarantees are compared with the cluster's devices.
    ///
    /// # Errors
    /// Returns all errors in the file, in the order of its lines.
    pub fn read(text: &str, inventory: Option<&Inventory>) -> Result<Self, Vec<Finding>> {
        let mut findings = Findings::new(text);
        if text.len() > POLICY_BYTES_MAX {
            findings.add(0..0, format!("a policy has at most {POLICY_BYTES_MAX} bytes, this file {}", text.len()));
            return Err(findings.finish());
        }
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            findings.add(error.span().unwrap_or(0..0), error.message());
        }
        let (broken, syntax) = (findings.lines(), findings.len());
        let policy = file(document.get_ref(), inventory, &mut findings);
        // Further errors on a line with a syntax error result from that.
        findings.retain_lines(syntax, |line| !broken.contains(&line));
        if findings.is_empty() { Ok(policy) } else { Err(findings.finish()) }
    }
}

fn file(document: &DeTable<'_>, inventory: Option<&Inventory>, findings: &mut Findings<'_>) -> SitePolicy {
    let file = Keys::new(document, keys::FILE, "a policy", findings);
    let core = numbers(&file, findings);
    let mut drafts = vec![site(&file, findings)];
    let accounts = file.table("account", findings).map(values::in_order).unwrap_or_default();
    for (at, (name, value)) in accounts.into_iter().enumerate() {
        if at == ACCOUNTS_MAX {
            findings.add(name.span(), format!("a policy has at most {ACCOUNTS_MAX} accounts"));
            break;
        }
        drafts.extend(account(name, value, findings));
    }
    let drafts = order(drafts, findings);
    check(&drafts, &core, inventory, findings);
    let (accounts, rules) = drafts.into_iter().map(|draft| (draft.account, draft.rules)).unzip();
    let rules: Vec<AccountRules> = rules;
    SitePolicy {
        others_jobs: file.word("others-jobs", &OthersJobs::WORDS, findings).unwrap_or_default(),
        suspend_by: file.word("suspend-by", &SuspendBy::WORDS, findings).unwrap_or_default(),
        memory_quota: file.size("memory-quota", findings),
        stream_quota: file.number("stream-quota", 1..=32, findings).and_then(|streams| u32::try_from(streams).ok()),
        session_time_ms: file.time("session-time", false, findings),
        idle_ms: idle(&file, core.grace_ms, findings),
        linger_ms: file.time("linger", true, findings).unwrap_or(LINGER_MS),
        core: Policy { accounts, default_limit_ms: rules.first().and_then(|site| site.default_limit_ms), ..core },
        rules,
    }
}

/// Reads the numbers of the whole cluster.
fn numbers(file: &Keys<'_, '_>, findings: &mut Findings<'_>) -> Policy {
    let usual = Policy::default();
    let mut time = |key: &str, may_be_zero: bool, usual: u64| file.time(key, may_be_zero, findings).unwrap_or(usual);
    let half_life_ms = time("half-life", false, usual.half_life_ms);
    let ageing_ms = time("ageing", false, usual.ageing_ms);
    let quantum_ms = time("quantum", false, usual.quantum_ms);
    let grace_ms = time("grace", true, usual.grace_ms);
    let keep_ms = time("keep", true, usual.keep_ms);
    let preempt_exempt_ms = time("preempt-exempt-time", true, usual.preempt_exempt_ms);
    if quantum_ms <= grace_ms {
        let place = file.get("quantum").or_else(|| file.get("grace")).map_or(0..0, Spanned::span);
        findings.add(place, "a quantum is longer than the grace before its end: make quantum longer, or grace shorter");
    }
    let backfill = file.number("backfill", 1..=64, findings).and_then(|depth| usize::try_from(depth).ok());
    Policy {
        half_life_ms,
        ageing_ms,
        quantum_ms,
        grace_ms,
        keep_ms,
        preempt_mode: file.word("preempt-mode", &PreemptMode::WORDS, findings).unwrap_or_default(),
        preempt_exempt_ms,
        longest_wait_ms: file.time("longest-wait", false, findings),
        backfill_depth: backfill.unwrap_or(usual.backfill_depth),
        sharers_max: file
            .number("sharers", 1..=1_000, findings)
            .and_then(|most| u32::try_from(most).ok())
            .unwrap_or(usual.sharers_max),
        billing: billing(file, findings),
        ..usual
    }
}

/// Reads the billing weights. The most specific classes come first, because the first match counts.
fn billing(file: &Keys<'_, '_>, findings: &mut Findings<'_>) -> Vec<(ClassFilter, u32)> {
    let Some(table) = file.table("billing", findings) else { return Vec::new() };
    let mut weights: Vec<(ClassFilter, u32)> = Vec::new();
    for (at, (name, value)) in values::in_order(table).into_iter().enumerate() {
        if at == BILLING_MAX {
            findings.add(name.span(), format!("billing names at most {BILLING_MAX} classes"));
            break;
        }
        let class = values::class(name, findings);
        let weight = values::billing_weight(value, findings);
        weights.extend(class.zip(weight));
    }
    weights.sort_by_key(|(class, _)| (class.model.is_none(), *class == ClassFilter::ALL));
    weights
}

/// Reads the idle time, which must leave room for the warning before the end.
fn idle(file: &Keys<'_, '_>, grace_ms: u64, findings: &mut Findings<'_>) -> Option<u64> {
    let idle_ms = file.time("idle", false, findings)?;
    if idle_ms <= grace_ms {
        let place = file.get("idle").map_or(0..0, Spanned::span);
        findings.add(place, "idle is longer than the grace before the end: make idle longer, or grace shorter");
    }
    Some(idle_ms)
}

fn site(file: &Keys<'_, '_>, findings: &mut Findings<'_>) -> Draft {
    let mut draft = Draft::new(Account::plain(SITE, None, 1), 0..0);
    if let Some(table) = file.table(SITE, findings) {
        let keys = Keys::new(table, keys::SITE, "the site", findings);
        limits(&keys, &mut draft, findings);
    }
    draft
}

fn account(name: &Spanned<DeString<'_>>, value: &Value<'_>, findings: &mut Findings<'_>) -> Option<Draft> {
    let mut draft = Draft::new(Account::plain(name.get_ref(), None, 1), name.span());
    if !is_name(name.get_ref()) || **name.get_ref() == *SITE {
        let message = "an account's name has at most 64 letters, digits, '.', '_' and '-', and is not site";
        findings.add(name.span(), message);
    }
    let Some(table) = value.get_ref().as_table() else {
        findings.add(value.span(), format!("an account is a table: write for example [account.{}]", name.get_ref()));
        return Some(draft);
    };
    let keys = Keys::new(table, keys::ACCOUNT, "an account", findings);
    if let Some(parent) = keys.get("parent") {
        let text = values::text(parent, "parent", findings);
        draft.parent = text.map(|text| (text.to_owned(), parent.span()));
    }
    draft.account.weight = keys.count("weight", 1, findings).unwrap_or(1);
    draft.guaranteed = keys.quotas("guaranteed", findings);
    limits(&keys, &mut draft, findings);
    draft.users = keys.members("users", findings);
    draft.default_for = keys.members("default-for", findings);
    draft.take_members();
    if let Some(value) = keys.get("each-user") {
        draft.rules.each_user = values::user_limits(value, "each-user", findings);
    }
    for (user, value) in keys.table("user", findings).map(values::in_order).unwrap_or_default() {
        if user.get_ref().is_empty() || user.get_ref().len() > values::USER_MAX {
            findings.add(user.span(), "a user's name has 1 to 256 bytes");
            continue;
        }
        let limits = values::user_limits(value, "a user", findings);
        draft.rules.user.insert(user.get_ref().to_string(), limits);
    }
    Some(draft)
}

/// Reads the keys that the site and accounts share.
fn limits(keys: &Keys<'_, '_>, draft: &mut Draft, findings: &mut Findings<'_>) {
    draft.most = keys.quotas("most", findings);
    draft.take_quotas();
    let account = &mut draft.account;
    account.hours_a_month = keys.number("device-hours", 0..=HOURS_MAX, findings);
    if let Some(value) = keys.get("priorities") {
        draft.priorities = values::priorities(value, PRIORITY_MAX, findings);
    }
    account.longest_ms = keys.time("longest", false, findings);
    account.labels = keys.labels("nodes", findings);
    account.running_max = keys.count("running-jobs", 0, findings);
    account.waiting_max = keys.count("waiting-jobs", 0, findings);
    draft.rules.default = keys.request("default", findings);
    draft.rules.default_limit_ms = keys.time("default-limit", false, findings);
    let place = |key: &str| keys.get(key).map_or_else(|| draft.name.clone(), Spanned::span);
    (draft.default_place, draft.default_limit_place) = (place("default"), place("default-limit"));
}
