//! Finds contradictions in a policy file.

use super::draft::{Draft, SITE, Span};
use super::finding::Findings;
use super::site::Member;
use super::{Policy, Quota};
use crate::class::{ClassFilter, DeviceClass};
use crate::effect::AllowedPriorities;
use crate::ids::AccountId;
use crate::units::time_text;
use accord_types::DeviceType;
use accord_types::nearest::nearest;
use std::collections::{BTreeMap, BTreeSet};

/// The number of a cluster's devices by class.
pub type Inventory = [(DeviceClass, u32)];

/// Most entries of `users` in all accounts.
pub const MEMBERS_MAX: usize = 65_536;

/// Sorts accounts so that parents precede their children, otherwise in the order of the file. Accounts in or below a
/// circle of parents are left out. The first draft is the site.
pub(super) fn order(drafts: Vec<Draft>, findings: &mut Findings<'_>) -> Vec<Draft> {
    let names: BTreeMap<String, usize> =
        drafts.iter().enumerate().map(|(at, draft)| (draft.account.name.clone(), at)).collect();
    let parents: Vec<Option<usize>> = drafts
        .iter()
        .enumerate()
        .map(|(at, draft)| if at == 0 { None } else { Some(parent_of(draft, &names, findings)) })
        .collect();
    let mut children = vec![Vec::new(); drafts.len()];
    for (at, parent) in parents.iter().enumerate() {
        if let Some(parent) = parent {
            children[*parent].push(at);
        }
    }
    let (mut ordered, mut open) = (Vec::new(), vec![0]);
    while let Some(at) = open.pop() {
        ordered.push(at);
        open.extend(children[at].iter().rev());
    }
    let reached: BTreeSet<usize> = ordered.iter().copied().collect();
    report_cycles(&drafts, &parents, &reached, findings);
    let position: BTreeMap<usize, usize> = ordered.iter().enumerate().map(|(new, old)| (*old, new)).collect();
    let mut drafts: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    let mut done: Vec<Draft> = Vec::new();
    for old in ordered {
        let Some(mut draft) = drafts[old].take() else { continue };
        let parent = parents[old].and_then(|parent| position.get(&parent)).copied();
        draft.account.parent = parent.and_then(|at| u32::try_from(at).ok()).map(AccountId);
        let inherited = parent.map_or((0, 0), |at| done[at].account.priorities);
        draft.account.priorities = draft.priorities.unwrap_or(inherited);
        done.push(draft);
    }
    done
}

fn parent_of(draft: &Draft, names: &BTreeMap<String, usize>, findings: &mut Findings<'_>) -> usize {
    let Some((parent, place)) = &draft.parent else { return 0 };
    if let Some(at) = names.get(parent) {
        return *at;
    }
    let near = nearest(parent, names.keys().map(String::as_str));
    let near = near.map_or_else(|| "leave parent out for the site".to_owned(), |near| format!("did you mean {near}?"));
    findings.add(place.clone(), format!("there is no account {parent}: {near}"));
    0
}

/// Reports each circle of parents once, at the parent of its first account.
fn report_cycles(drafts: &[Draft], parents: &[Option<usize>], reached: &BTreeSet<usize>, findings: &mut Findings<'_>) {
    let mut reported = BTreeSet::new();
    for start in (0..drafts.len()).filter(|at| !reached.contains(at)) {
        let (mut path, mut at) = (Vec::new(), start);
        while !path.contains(&at) {
            path.push(at);
            at = parents[at].unwrap_or(0);
        }
        let circle = &path[path.iter().position(|seen| *seen == at).unwrap_or(0)..];
        let first = circle.iter().copied().min().unwrap_or(start);
        if reported.insert(first) {
            let names: Vec<&str> =
                circle.iter().chain([&circle[0]]).map(|at| drafts[*at].account.name.as_str()).collect();
            let place =
                drafts[first].parent.as_ref().map_or_else(|| drafts[first].name.clone(), |(_, place)| place.clone());
            findings.add(place, format!("accounts are their own parents: {}; break the circle", names.join(" -> ")));
        }
    }
}

/// Reports contradictions. Parents must precede their children.
pub(super) fn check(drafts: &[Draft], core: &Policy, inventory: Option<&Inventory>, findings: &mut Findings<'_>) {
    let mut children = vec![Vec::new(); drafts.len()];
    for (at, draft) in drafts.iter().enumerate() {
        if let Some(parent) = draft.account.parent {
            children[parent.index()].push(at);
        }
    }
    let below: Vec<Vec<&(Quota, Span)>> = (0..drafts.len()).map(|at| guarantees_below(drafts, &children, at)).collect();
    for (at, draft) in drafts.iter().enumerate() {
        check_own(draft, core, findings);
        check_guarantees(draft, &below[at], findings);
        check_limits(drafts, at, findings);
    }
    if let Some(inventory) = inventory {
        check_inventory(&below[0], inventory, findings);
    }
    check_members(drafts, findings);
}

/// Returns the guarantees of the highest guaranteed accounts below one. Guarantees below these are part of them.
fn guarantees_below<'a>(drafts: &'a [Draft], children: &[Vec<usize>], of: usize) -> Vec<&'a (Quota, Span)> {
    let (mut found, mut open) = (Vec::new(), children[of].clone());
    while let Some(at) = open.pop() {
        if drafts[at].guaranteed.is_empty() {
            open.extend(&children[at]);
        }
        found.extend(&drafts[at].guaranteed);
    }
    found.sort_by_key(|(_, place)| place.start);
    found
}

/// Whether `outer` matches every class that `inner` matches.
pub(super) fn is_within(inner: &ClassFilter, outer: &ClassFilter) -> bool {
    (outer.kind == DeviceType::NotHost || outer.kind == inner.kind)
        && (outer.model.is_none() || outer.model == inner.model)
}

fn check_own(draft: &Draft, core: &Policy, findings: &mut Findings<'_>) {
    let name = &draft.account.name;
    for (quota, place) in &draft.guaranteed {
        let most =
            draft.most.iter().find(|(most, _)| is_within(&quota.class, &most.class) && most.devices < quota.devices);
        if let Some((most, _)) = most {
            let (class, most) = (&quota.class, most.devices);
            findings
                .add(place.clone(), format!("{name} is guaranteed more of {class} than its most, {most}: raise most"));
        }
    }
    if let Some(request) = &draft.rules.default {
        let mut wrong = |message: String| findings.add(draft.default_place.clone(), message);
        let (low, high) = draft.account.priorities;
        if request.priority < low || request.priority > high {
            wrong(format!(
                "{name} may use {} only, and its default asks for {}",
                AllowedPriorities(low, high),
                request.priority
            ));
        }
        if request.account.is_some() {
            wrong("a default names no account: leave account out".to_owned());
        }
        if core.longest_wait_ms.zip(request.wait_ms).is_some_and(|(longest, wait)| wait > longest) {
            wrong("the default waits for longer than longest-wait: make its wait shorter".to_owned());
        }
    }
    for (member, place) in &draft.default_for {
        if !draft.rules.users.contains(member) {
            findings.add(
                place.clone(),
                format!("default-for names {member}, who is not in users of {name}: add {member} there"),
            );
        }
    }
}

/// Reports guarantees below an account that exceed its own guarantee or maximum.
fn check_guarantees(draft: &Draft, below: &[&(Quota, Span)], findings: &mut Findings<'_>) {
    let name = &draft.account.name;
    for ((bound, _), what) in
        draft.guaranteed.iter().map(|of| (of, "is guaranteed")).chain(draft.most.iter().map(|of| (of, "has at most")))
    {
        if let Some((sum, place)) = beyond(below, |quota| is_within(&quota.class, &bound.class), bound.devices) {
            let class = &bound.class;
            let message = format!(
                "accounts below {name} are guaranteed {sum} of {class}, and {name} {what} {}: lower one of them",
                bound.devices
            );
            findings.add(place, message);
        }
    }
}

/// Returns the sum of the counted quotas and the place of the one that exceeds `most`; `None` if none does.
fn beyond(quotas: &[&(Quota, Span)], counts: impl Fn(&Quota) -> bool, most: u32) -> Option<(u64, Span)> {
    let (mut sum, mut place) = (0, None);
    for (quota, at) in quotas.iter().filter(|(quota, _)| counts(quota)) {
        sum += u64::from(quota.devices);
        if sum > u64::from(most) && place.is_none() {
            place = Some(at.clone());
        }
    }
    place.map(|place| (sum, place))
}

/// Reports guarantees for which the cluster has too few devices.
fn check_inventory(guaranteed: &[&(Quota, Span)], inventory: &Inventory, findings: &mut Findings<'_>) {
    let matched = |class: &ClassFilter| -> BTreeSet<usize> {
        let matching = inventory.iter().enumerate().filter(|(_, (known, _))| class.matches(known));
        matching.map(|(at, _)| at).collect()
    };
    let mut reported = BTreeSet::new();
    for (quota, _) in guaranteed {
        let set = matched(&quota.class);
        let devices = set.iter().map(|at| u64::from(inventory[*at].1)).sum::<u64>();
        let devices = u32::try_from(devices).unwrap_or(u32::MAX);
        let counts = |other: &Quota| is_within(&other.class, &quota.class) || matched(&other.class).is_subset(&set);
        if let Some((sum, place)) = beyond(guaranteed, counts, devices)
            && reported.insert(place.start)
        {
            let class = &quota.class;
            findings.add(
                place,
                format!("{sum} of {class} are guaranteed, and the cluster has {devices}: lower a guarantee"),
            );
        }
    }
}

/// Reports defaults that exceed the longest limit.
fn check_limits(drafts: &[Draft], at: usize, findings: &mut Findings<'_>) {
    let draft = &drafts[at];
    let mut longest = draft.account.longest_ms.map(|longest| (longest, &draft.account.name));
    let mut next = draft.account.parent;
    while let Some(parent) = next {
        let above = &drafts[parent.index()].account;
        let own = above.longest_ms.map(|longest| (longest, &above.name));
        longest = longest.into_iter().chain(own).min();
        next = above.parent;
    }
    let Some((longest, of)) = longest else { return };
    let limits = [
        (draft.rules.default_limit_ms, &draft.default_limit_place),
        (draft.rules.default.as_ref().and_then(|request| request.limit_ms), &draft.default_place),
    ];
    for (limit, place) in limits {
        if let Some(limit) = limit.filter(|limit| *limit > longest) {
            let (limit, longest) = (time_text(limit), time_text(longest));
            findings.add(
                place.clone(),
                format!("the default limit {limit} is more than the longest of {of}, {longest}: lower it"),
            );
        }
    }
}

/// Reports entries of `users` that occur twice, or in several accounts without a default.
fn check_members(drafts: &[Draft], findings: &mut Findings<'_>) {
    let mut seen: BTreeMap<&Member, Vec<(&Draft, &Span)>> = BTreeMap::new();
    let mut all = 0;
    for draft in drafts.iter().filter(|draft| draft.account.name != SITE) {
        let mut own = BTreeSet::new();
        for (member, place) in &draft.users {
            all += 1;
            if all == MEMBERS_MAX + 1 {
                findings
                    .add(place.clone(), format!("a policy has at most {MEMBERS_MAX} entries of users: name groups"));
            }
            if own.insert(member) {
                seen.entry(member).or_default().push((draft, place));
            } else {
                findings.add(place.clone(), format!("{member} is there twice: leave one out"));
            }
        }
    }
    for (member, accounts) in seen.iter().filter(|(_, accounts)| accounts.len() > 1) {
        let chosen: Vec<&Span> = accounts
            .iter()
            .filter_map(|(draft, _)| draft.default_for.iter().find(|(of, _)| of == *member).map(|(_, place)| place))
            .collect();
        let names: Vec<&str> = accounts.iter().map(|(draft, _)| draft.account.name.as_str()).collect();
        let names = names.join(", ");
        match chosen[..] {
            [_] => {}
            [] => {
                let message =
                    format!("{member} is in several accounts ({names}): name {member} in default-for of one of them");
                findings.add(accounts[1].1.clone(), message);
            }
            [_, second, ..] => {
                let message =
                    format!("{member} has several default accounts ({names}): leave all but one out of default-for");
                findings.add(second.clone(), message);
            }
        }
    }
}
