//! A copy of a source with directives that GCC accepts, in place of those that it doesn't know, omits or refuses.

use super::allocations;
use super::calls::{self, calls_for};
use super::clause::Parsed;
use super::declared::{Declared, Outside};
use super::pieces::{Edit, Piece};
use super::{Directive, Language, declared_update, repeated, scan};

/// A source with replacements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rewritten {
    /// The new text, with line markers for the original lines.
    pub(crate) text: String,
    /// Number of replacements.
    pub(crate) edits: usize,
}

/// Replaces what GCC doesn't know, omits or refuses; `None` if nothing is replaced. `name` is the source's own for
/// messages and debug information; `outside` has declarations of other files.
pub(crate) fn rewrite(source: &str, language: Language, name: &str, outside: &Outside) -> Option<Rewritten> {
    let mut text = String::with_capacity(source.len());
    let (mut done, mut count) = (0, 0);
    for edit in edits(source, language, outside) {
        if edit.place.start < done {
            continue;
        }
        text.push_str(&source[done..edit.place.start]);
        text.push_str(&edit.text(source, language, name));
        done = edit.place.end;
        count += 1;
    }
    text.push_str(&source[done..]);
    // GCC accepts only line markers of preprocessed text, and warns of them in other places.
    let first = super::pieces::marker(1, name, language, name);
    (count > 0).then_some(Rewritten { text: format!("{first}\n{text}"), edits: count })
}

/// Returns the replacements, in order.
fn edits(source: &str, language: Language, outside: &Outside) -> Vec<Edit> {
    let directives = scan(source, language);
    let parsed: Vec<Parsed> = directives.iter().map(|directive| Parsed::new(&directive.text)).collect();
    let all: Vec<(&Directive, &Parsed)> = directives.iter().zip(&parsed).collect();
    let declared = Declared::new(source, language, &all, outside);
    let mut edits = Vec::new();
    // For each open construct, the number of `data` directives that it became.
    let mut open: Vec<usize> = Vec::new();
    for (directive, parsed) in &all {
        let pieces = if language.is_fortran() && parsed.name == "end data" {
            match open.pop() {
                Some(count) if count > 1 => vec![Piece::Pragma("end data".into()); count],
                _ => continue,
            }
        } else {
            let pieces = pieces(directive, parsed, language, &declared);
            if parsed.name == "data" {
                open.push(pieces.as_ref().map_or(1, Vec::len));
            }
            let Some(pieces) = pieces else { continue };
            pieces
        };
        edits.push(Edit::of(directive, pieces));
    }
    if language.is_fortran() {
        edits.extend(allocations::edits(source, language, &all, &declared));
        edits.sort_by_key(|edit| edit.place.start);
    }
    edits
}

/// Returns the replacement of a directive.
fn pieces(directive: &Directive, parsed: &Parsed, language: Language, declared: &Declared) -> Option<Vec<Piece>> {
    if let Some(calls) = calls_for(&directive.text) {
        let code = if language.is_fortran() { calls::fortran(&calls) } else { calls::c(&calls) };
        return Some(vec![Piece::Code(code)]);
    }
    if parsed.name == "update" {
        return declared_update::pieces(directive, parsed, language, declared);
    }
    repeated::pieces(parsed, language)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(source: &str, language: Language, name: &str) -> Option<Rewritten> {
        super::rewrite(source, language, name, &Outside::default())
    }

    #[test]
    fn c_stays_on_its_line() {
        let source = "\nvoid f(int n) {\n#pragma acc set device_num(n)\n g(); }\n";
        let new = rewrite(source, Language::C, "a.c").unwrap();
        assert_eq!(new.edits, 1);
        let lines: Vec<&str> = new.text.lines().collect();
        assert_eq!((lines[0], lines.len()), ("#line 1 \"a.c\"", 5));
        assert_eq!(
            lines[3],
            "{ extern void accord_acc_set_device_num(int, int) __asm__(\"acc_set_device_num\"); \
             accord_acc_set_device_num(n, -1); }"
        );
        assert_eq!(rewrite("#pragma acc wait(1)\n", Language::C, "a.c"), None);
        let source = "#pragma acc set \\\n default_async(1)\n#define M _Pragma(\"acc init\") x\n";
        let new = rewrite(source, Language::C, "a.c").unwrap();
        assert_eq!(new.text.lines().count(), 4);
        assert!(new.text.contains("#define M { extern") && new.text.ends_with("} x\n"), "{}", new.text);
    }

    #[test]
    fn fortran_keeps_line_numbers() {
        let source = "program p\n!$acc init &\n!$acc device_type(host)\nx = 1\nend\n";
        let new = rewrite(source, Language::FreeFortran, "p.f90").unwrap();
        assert_eq!(new.text, "# 1 \"p.f90\"\nprogram p\ncall acc_init(int(2, 4))\n# 4 \"p.f90\"\nx = 1\nend\n");
    }

    #[test]
    fn fixed_form_is_cut_at_column_72() {
        let source = "c$acc wait(devnum:number_of_the_device_in_use:queues:the_first_queue,\nc$acc+ q2)\n      end\n";
        let new = rewrite(source, Language::FixedFortran, "p.f").unwrap();
        assert!(new.text.lines().all(|line| line.len() <= 72), "{}", new.text);
        assert!(new.text.contains("\n     &") && new.text.contains("# 3 \"p.f\"\n      end"), "{}", new.text);
    }

    #[test]
    fn data_constructs_end_as_often_as_they_begin() {
        let source = "!$acc data copy(a(1:2), a(5:6))\n!$acc data copy(b)\n!$acc end data\n!$acc end data\nend\n";
        let new = rewrite(source, Language::FreeFortran, "p.f90").unwrap();
        let lines: Vec<&str> = new.text.lines().filter(|line| !line.starts_with('#')).collect();
        let (first, second) = ("!$acc data copy(a(1:2))", "!$acc data copy(a(5:6))");
        let end = "!$acc end data";
        assert_eq!(lines, [first, second, "!$acc data copy(b)", end, end, end, "end"], "{}", new.text);
    }
}
