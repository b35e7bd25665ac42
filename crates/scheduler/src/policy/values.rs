//! Reads the values of a policy file with their places.

use super::finding::Findings;
use super::site::{Member, UserLimits};
use super::{Quota, keys};
use crate::class::ClassFilter;
use crate::request::Request;
use crate::request::words::{LABELS_MAX, SIZE_MAX, TIME_MAX_MS, is_name};
use crate::units::{parse_milli, size_text};
use accord_types::nearest::nearest;
use accord_types::settings::{parse_bytes, parse_time};
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Most classes in a table.
pub(super) const CLASSES_MAX: usize = 128;
/// Longest name of a user or a group, in bytes.
pub(super) const USER_MAX: usize = 256;

/// A table of the file with known keys.
pub(super) struct Keys<'a, 't> {
    table: &'t DeTable<'a>,
}

pub(super) type Value<'a> = Spanned<DeValue<'a>>;

impl<'a, 't> Keys<'a, 't> {
    /// Creates a reader of a table, and reports keys that are not in `known`. `what` names the table in errors.
    pub(super) fn new(table: &'t DeTable<'a>, known: &[&str], what: &str, findings: &mut Findings<'_>) -> Self {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            findings.add(key.span(), unknown_key(key.get_ref(), known, what));
        }
        Self { table }
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'t Value<'a>> {
        self.table.get(key)
    }

    /// Reads a time. `may_be_zero` allows 0.
    pub(super) fn time(&self, key: &str, may_be_zero: bool, findings: &mut Findings<'_>) -> Option<u64> {
        let value = self.get(key)?;
        let text = value.get_ref().as_str().filter(|text| !text.contains(char::is_whitespace));
        let ms = text.and_then(parse_time).and_then(|time| u64::try_from(time.as_millis()).ok());
        let fitting = ms.filter(|ms| (*ms > 0 || may_be_zero) && *ms <= TIME_MAX_MS);
        if fitting.is_none() {
            findings
                .add(value.span(), format!("{key} is a time of at most ten years: write for example {key} = \"2h\""));
        }
        fitting
    }

    /// Reads one of two words.
    pub(super) fn word<T: Copy>(
        &self,
        key: &str,
        words: &[(&'static str, T); 2],
        findings: &mut Findings<'_>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let text = value.get_ref().as_str();
        let found = words.iter().find(|(word, _)| Some(*word) == text).map(|(_, found)| *found);
        if found.is_none() {
            let [(one, _), (other, _)] = words;
            findings.add(value.span(), format!("{key} is \"{one}\" or \"{other}\""));
        }
        found
    }

    /// Reads a number of bytes.
    pub(super) fn size(&self, key: &str, findings: &mut Findings<'_>) -> Option<u64> {
        let value = self.get(key)?;
        let size = value.get_ref().as_str().and_then(parse_bytes).filter(|size| (1..=SIZE_MAX).contains(size));
        if size.is_none() {
            let most = size_text(SIZE_MAX);
            findings.add(value.span(), format!("{key} is a size of at most {most}: write for example {key} = \"20G\""));
        }
        size
    }

    /// Reads a whole number.
    pub(super) fn number(&self, key: &str, fitting: RangeInclusive<u64>, findings: &mut Findings<'_>) -> Option<u64> {
        let value = self.get(key)?;
        let number = integer(value.get_ref()).and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| fitting.contains(number));
        if number.is_none() {
            let (least, most) = fitting.into_inner();
            findings.add(value.span(), format!("{key} is a whole number from {least} to {most}"));
        }
        number
    }

    /// Reads a 32-bit number.
    pub(super) fn count(&self, key: &str, least: u32, findings: &mut Findings<'_>) -> Option<u32> {
        let number = self.number(key, u64::from(least)..=u64::from(u32::MAX), findings)?;
        u32::try_from(number).ok()
    }

    /// Reads a table.
    pub(super) fn table(&self, key: &str, findings: &mut Findings<'_>) -> Option<&'t DeTable<'a>> {
        let value = self.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            findings.add(value.span(), format!("{key} is a table"));
        }
        table
    }

    /// Reads numbers of devices by class, in the order of the file.
    pub(super) fn quotas(&self, key: &str, findings: &mut Findings<'_>) -> Vec<(Quota, Range<usize>)> {
        let Some(table) = self.table(key, findings) else { return Vec::new() };
        let mut quotas = Vec::new();
        for (name, value) in in_order(table) {
            let class = class(name, findings);
            let devices = integer(value.get_ref()).and_then(|devices| u32::try_from(devices).ok());
            if devices.is_none() {
                findings.add(value.span(), format!("{key} counts devices: write for example {key} = {{ nvidia = 8 }}"));
            }
            quotas.extend(class.zip(devices).map(|(class, devices)| (Quota { class, devices }, value.span())));
        }
        if quotas.len() > CLASSES_MAX {
            findings.add(quotas[CLASSES_MAX].1.clone(), format!("{key} names at most {CLASSES_MAX} classes"));
            quotas.truncate(CLASSES_MAX);
        }
        quotas
    }

    /// Reads labels.
    pub(super) fn labels(&self, key: &str, findings: &mut Findings<'_>) -> Vec<(String, String)> {
        let Some(table) = self.table(key, findings) else { return Vec::new() };
        let mut labels = Vec::new();
        for (name, value) in in_order(table) {
            if !is_name(name.get_ref()) {
                findings.add(name.span(), "a label's name has letters, digits, '.', '_' and '-'");
                continue;
            }
            match value.get_ref().as_str().filter(|text| is_name(text)) {
                Some(text) => labels.push((name.get_ref().to_string(), text.to_owned())),
                None => findings.add(value.span(), "a label has a name as its value, as in { rack = \"r1\" }"),
            }
        }
        if labels.len() > LABELS_MAX {
            let place = self.get(key).map_or(0..0, Spanned::span);
            findings.add(place, format!("{key} has at most {LABELS_MAX} labels"));
            labels.truncate(LABELS_MAX);
        }
        labels
    }

    /// Reads a list of users and groups.
    pub(super) fn members(&self, key: &str, findings: &mut Findings<'_>) -> Vec<(Member, Range<usize>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            findings.add(value.span(), format!("{key} is a list: write for example {key} = [\"alice\", \"@physics\"]"));
            return Vec::new();
        };
        let mut members: Vec<(Member, Range<usize>)> = Vec::new();
        for entry in array {
            match entry.get_ref().as_str().and_then(member) {
                Some(member) => members.push((member, entry.span())),
                None => findings.add(entry.span(), format!("{key} lists users, Unix groups as \"@NAME\", and \"*\"")),
            }
        }
        members
    }

    /// Reads a request.
    pub(super) fn request(&self, key: &str, findings: &mut Findings<'_>) -> Option<Request> {
        let value = self.get(key)?;
        let Some(text) = value.get_ref().as_str() else {
            findings.add(value.span(), format!("{key} is a request: write for example {key} = \"1:nvidia\""));
            return None;
        };
        match text.parse::<Request>() {
            Ok(request) => Some(request),
            Err(error) => {
                let range = error.range();
                findings.add_within(value.span(), text, range, error.message());
                None
            }
        }
    }

    /// Reads the limits of a user.
    pub(super) fn user_limits(&self, findings: &mut Findings<'_>) -> UserLimits {
        UserLimits {
            weight: self.count("weight", 1, findings),
            most: self.quotas("most", findings).into_iter().map(|(quota, _)| quota).collect(),
            hours_a_month: self.number("device-hours", 0..=HOURS_MAX, findings),
            longest_ms: self.time("longest", false, findings),
            running_max: self.count("running-jobs", 0, findings),
            waiting_max: self.count("waiting-jobs", 0, findings),
        }
    }
}

/// Most device-hours a month.
pub(super) const HOURS_MAX: u64 = 1_000_000_000;

/// Reads `each-user` or `user.NAME`.
pub(super) fn user_limits(value: &Value<'_>, what: &str, findings: &mut Findings<'_>) -> UserLimits {
    match value.get_ref().as_table() {
        Some(table) => Keys::new(table, keys::USER, what, findings).user_limits(findings),
        None => {
            findings.add(value.span(), format!("{what} is a table: write for example {{ running-jobs = 10 }}"));
            UserLimits::default()
        }
    }
}

/// Returns the entries of a table in the order of the file.
pub(super) fn in_order<'a, 't>(table: &'t DeTable<'a>) -> Vec<(&'t Spanned<DeString<'a>>, &'t Value<'a>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Reads a class as a key.
pub(super) fn class(name: &Spanned<DeString<'_>>, findings: &mut Findings<'_>) -> Option<ClassFilter> {
    match name.get_ref().parse::<ClassFilter>() {
        Ok(class) => Some(class),
        Err(error) => {
            let range = error.range();
            findings.add_within(name.span(), name.get_ref(), range, error.message());
            None
        }
    }
}

/// Reads a billing weight, in thousandths.
pub(super) fn billing_weight(value: &Value<'_>, findings: &mut Findings<'_>) -> Option<u32> {
    let text = match value.get_ref() {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => "",
    };
    let milli = parse_milli(text).and_then(|milli| u32::try_from(milli).ok());
    if milli.is_none() {
        findings.add(value.span(), "a billing weight is a number with at most three decimals, as in 1.5");
    }
    milli
}

/// Reads a pair of priorities.
pub(super) fn priorities(value: &Value<'_>, most: i32, findings: &mut Findings<'_>) -> Option<(i32, i32)> {
    let allowed = -i64::from(most)..=i64::from(most);
    let number = |value: &Value<'_>| integer(value.get_ref()).filter(|number| allowed.contains(number));
    let pair = match value.get_ref().as_array().map(|array| array.iter().collect::<Vec<_>>()).as_deref() {
        Some([low, high]) => number(low).zip(number(high)).filter(|(low, high)| low <= high),
        _ => None,
    };
    let pair = pair.and_then(|(low, high)| Some((i32::try_from(low).ok()?, i32::try_from(high).ok()?)));
    if pair.is_none() {
        let message = format!("priorities are the lowest and the highest one, from -{most} to {most}, as in [0, 10]");
        findings.add(value.span(), message);
    }
    pair
}

/// Reads a text: the name of an account, a parent or an option.
pub(super) fn text<'t>(value: &'t Value<'_>, what: &str, findings: &mut Findings<'_>) -> Option<&'t str> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        findings.add(value.span(), format!("{what} is a text in quotes"));
    }
    text
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn member(text: &str) -> Option<Member> {
    let is_user = |name: &str| {
        (1..=USER_MAX).contains(&name.len())
            && !name.starts_with('@')
            && name != "*"
            && !name.contains(char::is_control)
    };
    match text.strip_prefix('@') {
        Some(group) => is_user(group).then(|| Member::Group(group.to_owned())),
        None if text == "*" => Some(Member::Everyone),
        None => is_user(text).then(|| Member::User(text.to_owned())),
    }
}

fn unknown_key(key: &str, known: &[&str], what: &str) -> String {
    match nearest(key, known.iter().copied()) {
        Some(near) => format!("{what} has no key {key}: did you mean {near}?"),
        None => format!("{what} has no key {key}; it has {}", known.join(", ")),
    }
}
