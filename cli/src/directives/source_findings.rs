//! Findings that depend on declarations and on surrounding statements.

use super::allocations;
use super::clause::{Clause, DATA_CLAUSES, Parsed, is_scattered};
use super::components::word;
use super::declared::Declared;
use super::finding::{Finding, Severity};
use super::variables::Variables;
use super::{Directive, Language};
use accord_kernels::text::split;

/// Routines whose Fortran interface gets a packed copy of an array with gaps.
const ROUTINES: &[&str] = &[
    "acc_copyin",
    "acc_copyin_async",
    "acc_create",
    "acc_create_async",
    "acc_copyout",
    "acc_copyout_async",
    "acc_copyout_finalize",
    "acc_delete",
    "acc_delete_async",
    "acc_delete_finalize",
    "acc_update_device",
    "acc_update_device_async",
    "acc_update_self",
    "acc_update_self_async",
    "acc_present_or_copyin",
    "acc_present_or_create",
    "acc_pcopyin",
    "acc_pcreate",
    "acc_is_present",
];

/// Returns all such findings of a source.
pub(super) fn findings(
    source: &str,
    language: Language,
    gcc: u32,
    all: &[(&Directive, &Parsed)],
    declared: &Declared,
) -> Vec<Finding> {
    if !language.is_fortran() {
        let mut found = answered_calls(source);
        found.extend(super::references::findings(source, all));
        return found;
    }
    let variables = Variables::read(source);
    let mut found = Vec::new();
    for (directive, parsed) in all {
        if parsed.name == "declare" {
            found.extend(allocatables(source, language, directive, parsed, all, declared, &variables));
            continue;
        }
        let mut say = |severity, message, remedy| found.push(Finding::at(directive, severity, message, remedy));
        for clause in &parsed.clauses {
            judge(directive.line, parsed, clause, &variables, gcc, all, &mut say);
        }
        if parsed.name == "wait" {
            internal_calls(directive.line, parsed.argument.as_deref().unwrap_or(""), &variables, &mut say);
        }
        if parsed.name.ends_with("loop") {
            let next = variables.statements().iter().find(|(line, _)| *line > directive.line);
            if next.is_some_and(|(_, text)| words(text).take(2).eq(["do", "concurrent"])) {
                say(Severity::Refused, "do concurrent under loop: GCC takes do only".into(), "do".into());
            }
        }
    }
    found.extend(allocations::findings(source, language, all, declared));
    found.extend(packed_arguments(&variables));
    found.extend(mixed(source, language, all));
    found
}

/// Reports a clause's faults that declarations show.
fn judge(
    line: u32,
    parsed: &Parsed,
    clause: &Clause,
    variables: &Variables,
    gcc: u32,
    all: &[(&Directive, &Parsed)],
    say: &mut impl FnMut(Severity, String, String),
) {
    use Severity::{Refused, Wrong};
    let argument = clause.argument.as_deref().unwrap_or("").to_ascii_lowercase();
    let compute = ["parallel", "kernels", "serial"].contains(&parsed.name.split(' ').next().unwrap_or(""));
    let data = DATA_CLAUSES.contains(&clause.name.as_str()) && parsed.name != "update";
    if clause.name == "wait" {
        internal_calls(line, &argument, variables, say);
        return;
    }
    let list =
        if clause.name == "reduction" { argument.split_once(':').map_or("", |(_, list)| list) } else { &argument };
    for variable in split(list, ',') {
        let name = word(variable);
        let Some(known) = variables.at(line, name) else {
            if data && is_scattered(variable) {
                say(Refused, scattered(clause, variable), "the whole range, and single updates".into());
            }
            continue;
        };
        let component = variable.contains('%');
        let whole = variable == name;
        match clause.name.as_str() {
            "use_device" if whole && known.allocatable && !known.bounds.is_empty() => say(
                Refused,
                format!("use_device({name}) of an allocatable array"),
                "a dummy argument, to which it is handed".into(),
            ),
            "use_device" if whole && known.bounds.last().is_some_and(|bound| bound.ends_with('*')) => say(
                Refused,
                format!("use_device({name}) of an assumed-size array"),
                format!("a bound in its declaration, {name}(n); or a pointer to {name}(1:n)"),
            ),
            "use_device" if whole && known.bounds.is_empty() && !known.pointer => say(
                Refused,
                format!("use_device({name}) of a scalar"),
                "an array of one element, or acc_deviceptr".into(),
            ),
            "reduction" if whole && known.derived => say(
                Refused,
                format!("reduction of {name}, which is of a derived type"),
                "a scalar that is stored afterwards".into(),
            ),
            "reduction" if whole && known.pointer && known.bounds.is_empty() => say(
                Refused,
                format!("reduction of {name}, which is a pointer"),
                "a scalar that is stored afterwards".into(),
            ),
            "reduction" if whole && !known.bounds.is_empty() => say(
                Refused,
                format!("reduction of {name}, which is an array"),
                "a scalar for each element, or atomic".into(),
            ),
            "private" if whole && !known.allocatable && !known.pointer => {
                let open = known.bounds.iter().find(|bound| !variables.is_constant(line, bound));
                if let Some(bound) = open {
                    say(
                        Refused,
                        format!(
                            "private({name}) with the bound {bound}, which is no constant: GCC has no code for GPUs of that"
                        ),
                        "a constant size, or an array with one dimension more, in create".into(),
                    );
                }
            }
            _ if !data => {}
            _ if whole && known.bounds.last().is_some_and(|bound| bound.ends_with('*') || bound == "..") => say(
                Refused,
                format!("{}({name}) of a whole array whose shape is not known", clause.name),
                format!(
                    "{}({name}(1:n)); of assumed rank a dummy argument with a rank, to which it is handed",
                    clause.name
                ),
            ),
            _ if whole && known.deferred_length && known.dummy && compute && gcc == 12 => say(
                Refused,
                format!("{}({name}) of a dummy argument character(:): GCC 12 ends with an internal error", clause.name),
                "a dummy argument character(*), to which the caller hands it".into(),
            ),
            "copy" | "copyin" | "copyout" if whole && known.parameters && !has_parts(all, name) => say(
                Wrong,
                format!(
                    "{}({name}) of a type with parameters: its arrays are on the heap, and don't come along",
                    clause.name
                ),
                format!("enter data copyin({name}), then each of its arrays as {name}%component"),
            ),
            _ if component && known.derived && known.pointer && gcc == 12 && !allocations::is_made(all, name) => say(
                Wrong,
                format!(
                    "{}({variable}), and {name} is a pointer that no clause names: regions get the host's",
                    clause.name
                ),
                format!(
                    "enter data copyin({name}) before it, or associate (part => {variable}) and {}(part)",
                    clause.name
                ),
            ),
            _ if whole && known.polymorphic && !known.bounds.is_empty() && !variables.is_selected(line, name) => say(
                Refused,
                format!("{}({name}) of a class array: GCC ends with an internal error", clause.name),
                format!("the same in type is of a select type ({name}), or a type(...) pointer to it"),
            ),
            _ if component && compute && gcc == 12 && variables.is_selected(line, name) => say(
                Wrong,
                format!("{}({variable}) in select type ({name}): GCC 12 gives the region a wrong address", clause.name),
                format!("{}({name}), the whole", clause.name),
            ),
            _ if component && known.derived && known.dummy && !known.pointer && compute && gcc < 14 => say(
                Refused,
                format!(
                    "{}({variable}) of the dummy argument {name}: GCC before 14 ends with an internal error",
                    clause.name
                ),
                format!("associate (part => {variable}) around and {}(part), or the whole {name}", clause.name),
            ),
            _ if is_scattered(variable) => {
                say(Refused, scattered(clause, variable), "the whole range, and single updates".into());
            }
            _ => {}
        }
    }
}

fn scattered(clause: &Clause, variable: &str) -> String {
    format!("{}({variable}) skips elements, and GCC takes no such sections in data clauses", clause.name)
}

/// Reports allocatables with `declare create`, which `allocate` does not make present.
fn allocatables(
    source: &str,
    language: Language,
    directive: &Directive,
    parsed: &Parsed,
    all: &[(&Directive, &Parsed)],
    declared: &Declared,
    variables: &Variables,
) -> Vec<Finding> {
    let clauses = parsed.clauses.iter().filter(|clause| clause.name == "create");
    let names = clauses.flat_map(|clause| split(clause.argument.as_deref().unwrap_or(""), ','));
    let names = names.map(str::to_ascii_lowercase).filter(|name| {
        variables.at(directive.line, name).is_some_and(|known| known.allocatable) && !allocations::is_made(all, name)
    });
    let found = names.map(|name| {
        let done = declared.is_allocated_present(directive.line, &name)
            && !allocations::is_left(&name, source, language, all, declared);
        let message = format!("declare create({name}): allocate makes nothing of it on the device");
        let remedy = format!("enter data create({name}) after allocate, exit data delete({name}) before deallocate");
        Finding { rewritten: done, ..Finding::at(directive, Severity::Wrong, message, remedy) }
    });
    found.collect()
}

/// Whether a clause names a component of this variable.
fn has_parts(all: &[(&Directive, &Parsed)], name: &str) -> bool {
    let clauses = all.iter().flat_map(|(_, parsed)| &parsed.clauses);
    clauses
        .flat_map(|clause| split(clause.argument.as_deref().unwrap_or(""), ','))
        .any(|variable| variable.contains('%') && word(variable).eq_ignore_ascii_case(name))
}

/// Reports calls of internal procedures in a list of queues.
fn internal_calls(line: u32, list: &str, variables: &Variables, say: &mut impl FnMut(Severity, String, String)) {
    for queue in split(list, ',') {
        let name = word(queue).to_ascii_lowercase();
        if queue.contains('(') && variables.is_internal(line, &name) {
            let message = format!("wait({queue}): GCC takes no internal procedure there");
            say(Severity::Refused, message, "a variable with its result".into());
        }
    }
}

/// Returns findings about data routines to which GCC's module passes a packed copy of an array.
fn packed_arguments(variables: &Variables) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, statement) in variables.statements() {
        for routine in ROUTINES {
            let Some(at) = statement.find(&format!("{routine}(")).filter(|at| !statement[..*at].ends_with('_')) else {
                continue;
            };
            let arguments = &statement[at + routine.len() + 1..];
            let name = word(arguments);
            let whole = arguments[name.len()..].trim_start().starts_with([',', ')']);
            if whole && variables.at(*line, name).is_some_and(|variable| variable.may_have_gaps()) {
                found.push(Finding {
                    file: None,
                    line: *line,
                    severity: Severity::Wrong,
                    message: format!("{routine}({name}) gets a packed copy of {name} by GCC's module: {name} itself does not become present"),
                    remedy: format!("enter data or update, or declare {name} contiguous, or use Accord's module"),
                    rewritten: true,
                    everywhere: true,
                });
            }
        }
    }
    found
}

/// Returns findings about directives of OpenACC in regions of OpenMP, and the reverse.
fn mixed(source: &str, language: Language, all: &[(&Directive, &Parsed)]) -> Vec<Finding> {
    if language == Language::FixedFortran {
        return Vec::new();
    }
    let (mut openmp, mut openacc, mut found) = (0u32, 0u32, Vec::new());
    for (line, text) in (1..).zip(source.lines()) {
        let text = text.trim_start().to_ascii_lowercase();
        let mut say = |message: &str| {
            found.push(Finding {
                file: None,
                line,
                severity: Severity::Refused,
                message: message.to_owned(),
                remedy: "a procedure that has them, called there".into(),
                rewritten: false,
                everywhere: false,
            });
        };
        if let Some(rest) = text.strip_prefix("!$omp ") {
            let ends = word(rest) == "end";
            let name = word(rest.trim_start_matches("end").trim_start());
            if ["parallel", "target", "teams", "single", "task", "master", "sections"].contains(&name)
                && !rest.contains(" do")
            {
                openmp = if ends { openmp.saturating_sub(1) } else { openmp + 1 };
            }
            if openacc > 0 && !ends {
                say("a directive of OpenMP in a region of OpenACC");
            }
        } else if all.iter().any(|(directive, _)| directive.line == line && directive.file.is_none()) {
            let rest = text.strip_prefix("!$acc").unwrap_or("").trim_start();
            let ends = word(rest) == "end";
            let name = rest.trim_start_matches("end").trim_start();
            if ["parallel", "kernels", "serial", "data", "host_data"].contains(&word(name)) && !name.contains("loop") {
                openacc = if ends { openacc.saturating_sub(1) } else { openacc + 1 };
            }
            if openmp > 0 && !ends && word(rest) != "routine" {
                say("a directive of OpenACC in a region of OpenMP");
            }
        }
    }
    found
}

/// Returns findings about calls in C and C++ that GCC evaluates itself.
fn answered_calls(source: &str) -> Vec<Finding> {
    let lines = (1..).zip(source.lines());
    let calls = lines.filter(|(_, text)| {
        let code = text.split("//").next().unwrap_or(text);
        code.contains("acc_on_device(") && !code.contains("int acc_on_device(") && !code.contains('"')
    });
    let found = calls.map(|(line, _)| Finding {
        file: None,
        line,
        severity: Severity::Wrong,
        message: "GCC answers acc_on_device itself where it optimizes, outside of GPU code as on the host".into(),
        remedy: "compile with Accord's openacc.h, or with -fno-builtin-acc_on_device".into(),
        rewritten: true,
        everywhere: true,
    });
    found.collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
