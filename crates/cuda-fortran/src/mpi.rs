//! The module `mpi` for flang, from the headers of an installed MPI, whose own modules are another compiler's.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Deepest nesting of included files.
const DEPTH: usize = 8;
/// Functions of Fortran that are no `int` functions in C. Their type is `integer(kind=mpi_address_kind)`.
const ADDRESSES: [&str; 2] = ["mpi_aint_add", "mpi_aint_diff"];

/// Returns the text of `name` with those of the files that it includes, in a form that flang compiles. `read` returns a file's text.
///
/// # Errors
/// Returns the name of the file that `read` does not have, or of one whose inclusion does not end.
pub fn header(name: &str, read: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut text = String::new();
    include(name, read, 0, &mut text)?;
    Ok(text)
}

fn include(name: &str, read: &dyn Fn(&str) -> Option<String>, depth: usize, out: &mut String) -> Result<(), String> {
    let text = read(name).filter(|_| depth < DEPTH).ok_or_else(|| name.to_owned())?;
    let mut is_dropped = false;
    for line in text.lines() {
        let words: Vec<String> = line.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["include", file] => {
                let file = file.trim_matches(['\'', '"']);
                // File names keep their case.
                let start = line.to_ascii_lowercase().find(file).unwrap_or(0);
                include(&line[start..start + file.len()], read, depth + 1, out)?;
            }
            // Its procedures for real(16) are not distinguishable for flang, which lacks that kind on some machines.
            ["interface", "mpi_sizeof" | "pmpi_sizeof"] => is_dropped = true,
            ["end", "interface", ..] | ["endinterface", ..] if is_dropped => is_dropped = false,
            _ if is_dropped => {}
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    Ok(())
}

/// Returns the source of the module `mpi`: the constants of `header`, and the routines that `prototypes`, the text of `mpi.h`, declares. They are
/// external, so that a buffer can be any array of the host or of a device.
#[must_use]
pub fn module(header: &str, prototypes: &str) -> String {
    let header_lower = header.to_ascii_lowercase();
    let declared: BTreeSet<&str> = header_lower.split(|c: char| !is_name(c)).collect();
    let names: BTreeSet<String> = functions(prototypes).collect();
    let mut text = String::from("module mpi\n  implicit none\n  include 'mpif.h'\n");
    for name in ADDRESSES {
        if !declared.contains(name) && prototypes.to_ascii_lowercase().contains(&format!("{name}(")) {
            let _ = writeln!(text, "  integer(kind=mpi_address_kind), external :: {name}");
        }
    }
    for name in names.iter().filter(|name| !declared.contains(name.as_str())) {
        let _ = writeln!(text, "  external :: {name}");
    }
    text.push_str("end module\n");
    text
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the functions of C that `text` declares with result `int`, by their names in Fortran.
fn functions(text: &str) -> impl Iterator<Item = String> + '_ {
    text.match_indices("MPI_").filter_map(|(at, _)| {
        let (before, rest) = text.split_at(at);
        let name = &rest[..rest.find(|c| !is_name(c))?];
        let is_function = before.ends_with(char::is_whitespace)
            && before.split_whitespace().next_back() == Some("int")
            && rest[name.len()..].starts_with('(')
            && name.contains(|c: char| c.is_ascii_lowercase());
        is_function.then(|| name.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_contains_what_it_includes() {
        let read = |name: &str| {
            Some(match name {
                "mpif.h" => "      include 'mpif-Config.h'\n      include \"sizes.h\"\n".to_owned(),
                "mpif-Config.h" => "      integer MPI_INT\n".to_owned(),
                "sizes.h" => {
                    "      INTERFACE MPI_Sizeof\n  subroutine a\n      END INTERFACE MPI_Sizeof\n! end\n".to_owned()
                }
                "endless.h" => "include 'endless.h'\n".to_owned(),
                _ => return None,
            })
        };
        assert_eq!(header("mpif.h", &read), Ok("      integer MPI_INT\n! end\n".to_owned()));
        assert_eq!(header("none.h", &read), Err("none.h".to_owned()));
        assert_eq!(header("endless.h", &read), Err("endless.h".to_owned()));
    }

    #[test]
    fn a_module_declares_each_routine_once() {
        let header = "      external MPI_DUP_FN\n      integer MPI_IN_PLACE\n";
        let c = "typedef int (MPI_Copy_function)(int);\nEXPORT  int MPI_Send(const void *b);\nint\nMPI_Dup_fn(int a);\n\
                 int PMPI_Send(const void *b);\nMPI_Aint MPI_Aint_add(MPI_Aint a);\n#define MPI_Old(a) MPI_Send(a)\n";
        let text = "module mpi\n  implicit none\n  include 'mpif.h'\n  integer(kind=mpi_address_kind), external :: mpi_aint_add\n  \
                    external :: mpi_send\nend module\n";
        assert_eq!(module(header, c), text);
    }
}
