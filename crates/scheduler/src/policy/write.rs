//! Writes a policy in its canonical form, which reads back as the same policy.

use super::site::{LINGER_MS, Member, OthersJobs, SitePolicy, SuspendBy, UserLimits};
use super::{Account, Policy, PreemptMode, Quota};
use crate::class::ClassFilter;
use crate::units::{milli_text, size_text, time_text};
use std::fmt::{self, Write};

impl fmt::Display for SitePolicy {
    /// Writes a policy file with all settings that differ from the defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut file = String::new();
        self.write_numbers(&mut file)?;
        write_billing(&self.core.billing, &mut file)?;
        let accounts = self.core.accounts.iter().zip(&self.rules);
        for (at, (account, _)) in accounts.enumerate() {
            let mut table = String::new();
            self.write_account(at, &mut table)?;
            match account.parent {
                None if table.is_empty() => {}
                None => write!(file, "\n[site]\n{table}")?,
                Some(_) => write!(file, "\n[account.{}]\n{table}", quoted(&account.name))?,
            }
            for (user, limits) in &self.rules[at].user {
                let mut table = String::new();
                write_user(limits, &mut table)?;
                write!(file, "\n[account.{}.user.{}]\n{table}", quoted(&account.name), quoted(user))?;
            }
        }
        f.write_str(file.trim_start_matches('\n'))
    }
}

impl SitePolicy {
    fn write_numbers(&self, to: &mut String) -> fmt::Result {
        let (core, usual) = (&self.core, Policy::default());
        for (key, ms, usual) in [
            ("half-life", core.half_life_ms, usual.half_life_ms),
            ("ageing", core.ageing_ms, usual.ageing_ms),
            ("quantum", core.quantum_ms, usual.quantum_ms),
            ("grace", core.grace_ms, usual.grace_ms),
            ("keep", core.keep_ms, usual.keep_ms),
            ("preempt-exempt-time", core.preempt_exempt_ms, usual.preempt_exempt_ms),
        ] {
            time(key, (ms != usual).then_some(ms), to)?;
        }
        time("longest-wait", core.longest_wait_ms, to)?;
        number("backfill", (core.backfill_depth != usual.backfill_depth).then_some(core.backfill_depth), to)?;
        number("sharers", (core.sharers_max != usual.sharers_max).then_some(core.sharers_max), to)?;
        word("preempt-mode", core.preempt_mode, &PreemptMode::WORDS, to)?;
        word("others-jobs", self.others_jobs, &OthersJobs::WORDS, to)?;
        word("suspend-by", self.suspend_by, &SuspendBy::WORDS, to)?;
        if let Some(bytes) = self.memory_quota {
            writeln!(to, "memory-quota = {}", quoted(&size_text(bytes)))?;
        }
        number("stream-quota", self.stream_quota, to)?;
        time("session-time", self.session_time_ms, to)?;
        time("idle", self.idle_ms, to)?;
        time("linger", (self.linger_ms != LINGER_MS).then_some(self.linger_ms), to)
    }

    fn write_account(&self, at: usize, to: &mut String) -> fmt::Result {
        let (account, rules) = (&self.core.accounts[at], &self.rules[at]);
        let parent: Option<&Account> = account.parent.map(|parent| &self.core.accounts[parent.index()]);
        if let Some(parent) = parent.filter(|parent| parent.parent.is_some()) {
            writeln!(to, "parent = {}", quoted(&parent.name))?;
        }
        number("weight", (account.weight != 1).then_some(account.weight), to)?;
        quotas("guaranteed", &account.guaranteed, to)?;
        quotas("most", &account.most, to)?;
        number("device-hours", account.hours_a_month, to)?;
        if account.priorities != parent.map_or((0, 0), |parent| parent.priorities) {
            let (low, high) = account.priorities;
            writeln!(to, "priorities = [{low}, {high}]")?;
        }
        time("longest", account.longest_ms, to)?;
        labels(&account.labels, to)?;
        number("running-jobs", account.running_max, to)?;
        number("waiting-jobs", account.waiting_max, to)?;
        if let Some(request) = &rules.default {
            writeln!(to, "default = {}", quoted(&request.to_string()))?;
        }
        time("default-limit", rules.default_limit_ms, to)?;
        members("users", &rules.users, to)?;
        members("default-for", &rules.default_for, to)?;
        let mut each = String::new();
        write_user(&rules.each_user, &mut each)?;
        if each.is_empty() { Ok(()) } else { writeln!(to, "each-user = {{ {} }}", each.trim_end().replace('\n', ", ")) }
    }
}

fn write_user(limits: &UserLimits, to: &mut String) -> fmt::Result {
    number("weight", limits.weight, to)?;
    quotas("most", &limits.most, to)?;
    number("device-hours", limits.hours_a_month, to)?;
    time("longest", limits.longest_ms, to)?;
    number("running-jobs", limits.running_max, to)?;
    number("waiting-jobs", limits.waiting_max, to)
}

fn write_billing(weights: &[(ClassFilter, u32)], to: &mut String) -> fmt::Result {
    if !weights.is_empty() {
        to.push_str("\n[billing]\n");
    }
    let mut weights = weights.iter();
    weights.try_for_each(|(class, weight)| {
        writeln!(to, "{} = {}", quoted(&class.to_string()), milli_text(u64::from(*weight)))
    })
}

fn time(key: &str, ms: Option<u64>, to: &mut String) -> fmt::Result {
    ms.map_or(Ok(()), |ms| writeln!(to, "{key} = {}", quoted(&time_text(ms))))
}

/// Writes the word of a choice that is not the default.
fn word<T: Copy + Default + PartialEq>(key: &str, chosen: T, words: &[(&str, T)], to: &mut String) -> fmt::Result {
    let found = words.iter().find(|(_, of)| *of == chosen && chosen != T::default());
    found.map_or(Ok(()), |(word, _)| writeln!(to, "{key} = {}", quoted(word)))
}

fn number(key: &str, number: Option<impl fmt::Display>, to: &mut String) -> fmt::Result {
    number.map_or(Ok(()), |number| writeln!(to, "{key} = {number}"))
}

fn quotas(key: &str, quotas: &[Quota], to: &mut String) -> fmt::Result {
    let entry = |quota: &Quota| format!("{} = {}", quoted(&quota.class.to_string()), quota.devices);
    table(key, quotas.iter().map(entry).collect(), to)
}

fn labels(labels: &[(String, String)], to: &mut String) -> fmt::Result {
    let entry = |(name, value): &(String, String)| format!("{} = {}", quoted(name), quoted(value));
    table("nodes", labels.iter().map(entry).collect(), to)
}

fn table(key: &str, entries: Vec<String>, to: &mut String) -> fmt::Result {
    if entries.is_empty() { Ok(()) } else { writeln!(to, "{key} = {{ {} }}", entries.join(", ")) }
}

fn members(key: &str, members: &[Member], to: &mut String) -> fmt::Result {
    let entries: Vec<String> = members.iter().map(|member| quoted(&member.to_string())).collect();
    if entries.is_empty() { Ok(()) } else { writeln!(to, "{key} = [{}]", entries.join(", ")) }
}

/// Returns a text as a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
