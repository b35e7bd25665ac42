//! Intrinsic reductions of device arrays in host code, which flang refuses. Procedures with such calls get the module that has them for device arrays.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The module, and the source that has it.
pub const MODULE: &str = "accord_reductions";
pub const SOURCE: &str = "reductions.cuf";
/// The remedy where the module does not have the reduction.
pub const REMEDY: &str = "sum, product, maxval, minval and dot_product take device arrays without mask and dim: \
                          otherwise assign the array to a host array, and reduce that";

/// The end of flang's message, after the names of the array and the intrinsic.
const MESSAGE: &str = "associated with host intrinsic";
const INTRINSICS: [&str; 5] = ["sum", "product", "maxval", "minval", "dot_product"];

/// Whether flang's errors are about a device array in an intrinsic of the host.
#[must_use]
pub fn is_refused(errors: &str) -> bool {
    errors.contains(MESSAGE)
}

/// Returns the lines, from 1, of reductions in flang's errors about the file `name`.
#[must_use]
pub fn lines(errors: &str, name: &str) -> BTreeSet<usize> {
    let line = |text: &str| {
        let (place, message) = text.split_once(": error: ")?;
        let (_, intrinsic) = message.split_once(MESSAGE)?;
        let mut place = place.rsplitn(3, ':');
        let (_, line, file) = (place.next()?, place.next()?, place.next()?);
        let is_known = INTRINSICS.contains(&intrinsic.split_whitespace().next()?);
        (is_known && file.trim_start_matches("./") == name.trim_start_matches("./")).then(|| line.parse().ok())?
    };
    errors.lines().filter_map(line).collect()
}

/// Returns the text of the source `name` with the module's use in the procedures that have these lines. Lines keep their numbers in messages.
#[must_use]
pub fn with_module(text: &str, name: &str, lines: &BTreeSet<usize>, is_fixed: bool) -> String {
    let headers = headers(text, lines, is_fixed);
    let mut out = format!("#line 1 \"{name}\"\n");
    if headers.contains(&0) {
        insert(&mut out, 1, name);
    }
    for (number, line) in (1..).zip(text.lines()) {
        out.push_str(line);
        out.push('\n');
        if headers.contains(&number) {
            insert(&mut out, number + 1, name);
        }
    }
    out
}

fn insert(out: &mut String, next: usize, name: &str) {
    let _ = write!(out, "      use {MODULE}\n#line {next} \"{name}\"\n");
}

/// Returns the last lines of the statements that begin the innermost program units around `lines`; 0 for a main program without such a statement.
fn headers(text: &str, lines: &BTreeSet<usize>, is_fixed: bool) -> BTreeSet<usize> {
    let all: Vec<&str> = text.lines().collect();
    let mut open: Vec<usize> = Vec::new();
    let mut found = BTreeSet::new();
    for (at, line) in all.iter().enumerate() {
        if lines.contains(&(at + 1)) {
            found.insert(open.last().copied().unwrap_or(0));
        }
        let words = words(line, is_fixed);
        if is_begin(&words) {
            let more = all[at..].windows(2).take_while(|pair| is_continued(pair[0], pair[1], is_fixed)).count();
            open.push(at + 1 + more);
        } else if is_end(&words) {
            open.pop();
        }
    }
    found
}

/// Returns the words of a line in lower case, without comments and quoted texts.
fn words(line: &str, is_fixed: bool) -> Vec<String> {
    if is_fixed && line.starts_with(['c', 'C', '*', '!']) {
        return Vec::new();
    }
    let mut code = String::new();
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some(_) => {}
            None if c == '!' => break,
            None if matches!(c, '\'' | '"') => {
                quote = Some(c);
                code.push('\'');
            }
            None => code.push(c.to_ascii_lowercase()),
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words: Vec<String> = Vec::new();
    let mut is_inside = false;
    for c in code.chars() {
        match words.last_mut() {
            Some(last) if is_word(c) && is_inside => last.push(c),
            _ if c.is_whitespace() => {}
            _ => words.push(c.to_string()),
        }
        is_inside = is_word(c);
    }
    words
}

/// Whether a statement begins a program unit, a procedure, or a procedure's interface.
fn is_begin(words: &[String]) -> bool {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let is_name = |at: usize| word(at).starts_with(|c: char| c.is_ascii_alphabetic());
    if is_end(words) {
        return false;
    }
    match word(0) {
        "program" | "submodule" => words.len() >= 2,
        "module" if !matches!(word(1), "procedure" | "subroutine" | "function") => is_name(1) && words.len() == 2,
        _ => {
            // Prefixes and a result's type come before.
            let at = words.iter().position(|word| matches!(&**word, "subroutine" | "function"));
            at.is_some_and(|at| {
                is_name(at + 1) && !words[..at].iter().any(|word| matches!(&**word, "=" | "'" | "%" | "call"))
            })
        }
    }
}

/// Whether a statement ends what [`is_begin`] begins.
fn is_end(words: &[String]) -> bool {
    const UNITS: [&str; 5] = ["subroutine", "function", "program", "module", "submodule"];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["end"] => true,
        ["end", unit, ..] => UNITS.contains(&unit),
        [word] | [word, _] => word.strip_prefix("end").is_some_and(|unit| UNITS.contains(&unit)),
        _ => false,
    }
}

/// Whether a statement goes on in the next line.
fn is_continued(line: &str, next: &str, is_fixed: bool) -> bool {
    if is_fixed {
        next.starts_with("     ") && next[5..].starts_with(|c: char| c != ' ' && c != '0')
    } else {
        words(line, false).last().is_some_and(|word| word == "&")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "module m\ncontains\n  attributes(global) subroutine k(a)\n    a = sum(b)\n  end subroutine\n  \
                        real(8) function f(a, &\n      b) result(c)\n    interface\n      subroutine other()\n      end subroutine\n    end interface\n    \
                        if (a) then\n      c = sum(a)\n    end if\n  end function\nend module\n";

    #[test]
    fn lines_are_those_of_reductions_in_the_source() {
        let errors = "error: Semantic errors in u.cuf\n./u.cuf:16:77: error: Actual argument b associated with host intrinsic sum is on the device\n\
                      ./v.cuf:3:7: error: Actual argument b associated with host intrinsic sum is on the device\n\
                      ./u.cuf:9:7: error: Actual argument b associated with host intrinsic sin is on the device\n";
        assert!(is_refused(errors));
        assert_eq!(lines(errors, "u.cuf"), BTreeSet::from([16]));
    }

    #[test]
    fn the_innermost_procedure_gets_the_module() {
        let lines = BTreeSet::from([13]);
        let got = with_module(TEXT, "x.cuf", &lines, false);
        let inserted = "      b) result(c)\n      use accord_reductions\n#line 8 \"x.cuf\"\n    interface\n";
        assert!(got.starts_with("#line 1 \"x.cuf\"\nmodule m\n") && got.contains(inserted), "{got}");
        assert_eq!(got.matches("use accord").count(), 1);
    }

    #[test]
    fn main_programs_with_and_without_a_statement_get_the_module() {
        let lines = |line| BTreeSet::from([line]);
        assert_eq!(headers("real :: x\nprint *, 'end'\nprint *, sum(a)\nend\n", &lines(3), false), lines(0));
        assert_eq!(headers("program p\nx = functional(2)\nprint *, sum(a) ! end\nend\n", &lines(3), false), lines(1));
        let fixed = "      SUBROUTINE S(A,\n     &  B)\nc end\n      B = SUM(A)\n      END\n";
        assert_eq!(headers(fixed, &lines(4), true), lines(2));
    }
}
