//! Directives that GCC doesn't know (`init`, `shutdown`, `set`, forms of `wait`), as calls of the equivalent routines
//! (OpenACC 3.3, 2.14.1 to 2.14.3, 2.16.3).

use super::clause::Parsed;
use accord_kernels::text::split;
use std::fmt::Write;

/// Calls that are equivalent to a directive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Calls {
    condition: Option<String>,
    calls: Vec<(&'static str, Vec<String>)>,
}

impl Calls {
    /// Returns the calls in the usual notation.
    pub(super) fn displayed(&self, fortran: bool) -> String {
        let calls: Vec<String> = self
            .calls
            .iter()
            .map(|(name, arguments)| {
                let last = arguments.len().saturating_sub(1);
                let arguments: Vec<&str> =
                    arguments.iter().enumerate().map(|(at, argument)| named(name, argument, at == last)).collect();
                format!("{}{name}({})", if fortran { "call " } else { "" }, arguments.join(", "))
            })
            .collect();
        let calls = calls.join("; ");
        match (&self.condition, fortran) {
            (Some(condition), false) => format!("if ({condition}) {calls}"),
            (Some(condition), true) => format!("if ({condition}) then; {calls}; end if"),
            (None, _) => calls,
        }
    }
}

/// Device types with their names and GCC's numbers. `*` and `default` leave the choice to the runtime.
const TYPES: &[(&str, &str, &str)] = &[
    ("nvidia", "5", "acc_device_nvidia"),
    ("host", "2", "acc_device_host"),
    ("not_host", "4", "acc_device_not_host"),
    ("radeon", "8", "acc_device_radeon"),
    ("multicore", "64", "acc_device_cpu"),
    ("cpu", "64", "acc_device_cpu"),
    ("default", "1", "acc_device_default"),
    ("*", "1", "acc_device_default"),
];
/// `acc_device_current`
const CURRENT: &str = "-1";
/// `acc_async_noval`
const NOVAL: &str = "-1";

/// Returns an argument with its parameter name in `openacc.h` as a comment. Types come last.
fn named<'a>(call: &str, argument: &'a str, last: bool) -> &'a str {
    let takes_a_type = last && !call.starts_with("acc_wait") && call != "acc_set_default_async";
    match TYPES.iter().find(|(_, number, _)| *number == argument) {
        Some((_, _, name)) if takes_a_type => name,
        _ if takes_a_type && argument == CURRENT => "acc_device_current",
        _ if argument == NOVAL => "acc_async_noval",
        _ => argument,
    }
}

/// Returns the calls for a directive; `None` if GCC knows it, or if it can't be parsed.
pub(super) fn calls_for(text: &str) -> Option<Calls> {
    let parsed = Parsed::new(text);
    let condition = parsed.value(&["if"]).map(str::to_owned);
    let num = parsed.value(&["device_num"]);
    let types = device_types(&parsed)?;
    let mut calls: Vec<(&'static str, Vec<String>)> = Vec::new();
    match parsed.name.as_str() {
        "set" => {
            let kind = types.first().copied();
            match (num, kind) {
                (Some(num), kind) => {
                    calls.push(("acc_set_device_num", vec![num.to_owned(), kind.unwrap_or(CURRENT).into()]));
                }
                (None, Some(kind)) => calls.push(("acc_set_device_type", vec![kind.to_owned()])),
                (None, None) => {}
            }
            if let Some(queue) = parsed.value(&["default_async"]) {
                calls.push(("acc_set_default_async", vec![queue.to_owned()]));
            }
        }
        name @ ("init" | "shutdown") => {
            let (all, one) = match name {
                "init" => ("acc_init", "acc_init_device"),
                _ => ("acc_shutdown", "acc_shutdown_device"),
            };
            let types = if types.is_empty() { vec![CURRENT] } else { types };
            for kind in types {
                match num {
                    Some(num) => calls.push((one, vec![num.to_owned(), kind.to_owned()])),
                    None => calls.push((all, vec![kind.to_owned()])),
                }
            }
        }
        "wait" => return waits(&parsed, condition),
        _ => return None,
    }
    (!calls.is_empty()).then_some(Calls { condition, calls })
}

/// Returns the numbers of the types in a `device_type` clause; `None` if one is unknown.
fn device_types(parsed: &Parsed) -> Option<Vec<&'static str>> {
    let Some(list) = parsed.value(&["device_type", "dtype"]) else { return Some(Vec::new()) };
    split(list, ',')
        .into_iter()
        .map(|name| {
            let name = name.to_ascii_lowercase();
            let name = name.strip_prefix("acc_device_").unwrap_or(&name);
            TYPES.iter().find(|(known, ..)| *known == name).map(|(_, number, _)| *number)
        })
        .collect()
}

/// Returns the calls for a `wait` with what GCC lacks: a device number, the word `queues`, a condition.
fn waits(parsed: &Parsed, condition: Option<String>) -> Option<Calls> {
    let list = WaitList::new(parsed.argument.as_deref().unwrap_or(""));
    if list.device.is_none() && !list.says_queues && condition.is_none() {
        return None;
    }
    let waiting = parsed.clause(&["async"]).map(|clause| clause.argument.clone().unwrap_or_else(|| NOVAL.to_owned()));
    let mut calls = Vec::new();
    let mut call = |names: [&'static str; 4], queue: Option<&str>| {
        let name = names[usize::from(list.device.is_some()) + 2 * usize::from(waiting.is_some())];
        let arguments = queue.into_iter().chain(waiting.as_deref()).chain(list.device).map(str::to_owned).collect();
        calls.push((name, arguments));
    };
    if list.queues.is_empty() {
        call(["acc_wait_all", "acc_wait_all_device", "acc_wait_all_async", "acc_wait_all_device_async"], None);
    }
    for queue in &list.queues {
        call(["acc_wait", "acc_wait_device", "acc_wait_async", "acc_wait_device_async"], Some(queue));
    }
    Some(Calls { condition, calls })
}

/// The list of a `wait`: `[devnum: n :] [queues:] list`
pub(super) struct WaitList<'a> {
    pub(super) device: Option<&'a str>,
    pub(super) says_queues: bool,
    pub(super) queues: Vec<&'a str>,
}

impl<'a> WaitList<'a> {
    pub(super) fn new(argument: &'a str) -> Self {
        let (mut rest, mut device, mut says_queues) = (argument.trim(), None, false);
        if let Some(after) = modifier(rest, "devnum") {
            let end = colon(after).unwrap_or(after.len());
            device = Some(after[..end].trim());
            rest = after.get(end + 1..).unwrap_or("").trim();
        }
        if let Some(after) = modifier(rest, "queues") {
            says_queues = true;
            rest = after;
        }
        let queues = split(rest, ',').into_iter().filter(|queue| !queue.is_empty()).collect();
        Self { device, says_queues, queues }
    }
}

/// Returns the text after `word :`.
fn modifier<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    let rest = head.eq_ignore_ascii_case(word).then_some(rest)?.trim_start().strip_prefix(':')?;
    (!rest.starts_with(':')).then(|| rest.trim_start())
}

/// Returns the place of the first single colon outside of parentheses; C++'s `::` does not count.
fn colon(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => {
                let double = bytes.get(at + 1) == Some(&b':') || (at > 0 && bytes[at - 1] == b':');
                if !double {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns one compound statement on one line. It declares the routines under names of its own, with assembler labels,
/// so no header is needed.
pub(super) fn c(calls: &Calls) -> String {
    let mut text = String::from("{ ");
    for (name, arguments) in &calls.calls {
        let types = vec!["int"; arguments.len()];
        let types = if types.is_empty() { "void".to_owned() } else { types.join(", ") };
        let _ = write!(text, "extern void accord_{name}({types}) __asm__(\"{name}\"); ");
    }
    if let Some(condition) = &calls.condition {
        let _ = write!(text, "if ({condition}) {{ ");
    }
    for (name, arguments) in &calls.calls {
        let _ = write!(text, "accord_{name}({}); ", arguments.join(", "));
    }
    if calls.condition.is_some() {
        text.push_str("} ");
    }
    text.push('}');
    text
}

/// Returns call statements, with their condition.
pub(super) fn fortran(calls: &Calls) -> String {
    let statements: Vec<String> = calls
        .calls
        .iter()
        .map(|(name, arguments)| {
            let arguments: Vec<String> = arguments.iter().map(|argument| format!("int({argument}, 4)")).collect();
            format!("call {name}({})", arguments.join(", "))
        })
        .collect();
    let all = statements.join("; ");
    match &calls.condition {
        Some(condition) => format!("if ({condition}) then; {all}; end if"),
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn displayed(text: &str) -> String {
        calls_for(text).map_or_else(|| "-".to_owned(), |calls| calls.displayed(false))
    }

    #[test]
    fn directives_become_the_routines_that_do_the_same() {
        for (text, calls) in [
            ("set device_num(5)", "acc_set_device_num(5, acc_device_current)"),
            ("set device_num(n+1)", "acc_set_device_num(n+1, acc_device_current)"),
            ("set device_type(nvidia) device_num(f(1,2))", "acc_set_device_num(f(1,2), acc_device_nvidia)"),
            ("set device_type(host)", "acc_set_device_type(acc_device_host)"),
            ("set default_async(q) if(x > 1)", "if (x > 1) acc_set_default_async(q)"),
            ("set", "-"),
            ("set device_type(toaster)", "-"),
            ("init", "acc_init(acc_device_current)"),
            ("init device_type(nvidia, host)", "acc_init(acc_device_nvidia); acc_init(acc_device_host)"),
            ("shutdown device_num(1)", "acc_shutdown_device(1, acc_device_current)"),
            ("wait(devnum:1:queues:2, 3)", "acc_wait_device(2, 1); acc_wait_device(3, 1)"),
            ("wait(devnum: a::b : q[i:j]) async", "acc_wait_device_async(q[i:j], acc_async_noval, a::b)"),
            ("wait(devnum:1)", "acc_wait_all_device(1)"),
            ("wait(devnum:1) async(4)", "acc_wait_all_device_async(4, 1)"),
            ("wait(queues:2) async(3)", "acc_wait_async(2, 3)"),
            ("wait if(go)", "if (go) acc_wait_all()"),
            ("wait(1) async(2)", "-"),
            ("wait", "-"),
            ("parallel wait(devnum:1:2)", "-"),
        ] {
            assert_eq!(displayed(text), calls, "{text}");
        }
    }
}
