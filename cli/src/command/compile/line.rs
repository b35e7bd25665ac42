//! The parts of GCC's command line that the wrappers need. Pure.

use crate::directives::Language;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Options whose value is the next argument.
const WITH_VALUE: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-L",
    "-l",
    "-D",
    "-U",
    "-J",
    "-T",
    "-u",
    "-z",
    "-e",
    "-A",
    "-B",
    "-G",
    "-MF",
    "-MT",
    "-MQ",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-isysroot",
    "-imultilib",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "-aux-info",
    "--param",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-wrapper",
    "-specs",
    "--sysroot",
    "-fintrinsic-modules-path",
];

/// A source on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Source {
    /// Index of its argument.
    pub(super) at: usize,
    /// Its path.
    pub(super) path: PathBuf,
    /// Its language.
    pub(super) language: Language,
}

/// The content of a command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Line {
    /// Sources whose directives matter.
    pub(super) sources: Vec<Source>,
    /// Whether there is anything to compile or link.
    pub(super) has_input: bool,
    /// Whether the command links: no `-c`, `-S`, `-E` or the like.
    pub(super) links: bool,
    /// Whether sources are only preprocessed, or only their dependencies written.
    pub(super) preprocesses_only: bool,
    /// Whether `-static` or the like forbids linking a shared library.
    pub(super) is_static: bool,
    /// `-fno-openacc`
    pub(super) without_openacc: bool,
    /// Folders of includes and modules besides the source's: `-I`, `-iquote`, `-J`.
    pub(super) folders: Vec<PathBuf>,
    /// The files of `-MD` or `-MMD`, one for each source; empty without these options.
    pub(super) dependencies: Vec<PathBuf>,
}

impl Line {
    /// Parses the arguments after the compiler's name.
    pub(super) fn new(arguments: &[OsString]) -> Self {
        let mut line = Self { links: true, ..Self::default() };
        let (mut language, mut output, mut dependencies, mut dependency_file) = (None, None, false, None);
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            let text = argument.to_str().unwrap_or("");
            let value = arguments.get(at + 1);
            match text {
                "-c" | "-S" | "-fsyntax-only" => line.links = false,
                "-E" | "-M" | "-MM" => {
                    line.links = false;
                    line.preprocesses_only = true;
                }
                "-r" => line.links = false,
                "-MD" | "-MMD" => dependencies = true,
                "-static" | "--static" => line.is_static = true,
                "-fno-openacc" => line.without_openacc = true,
                "-fopenacc" => line.without_openacc = false,
                "-ffixed-form" => language = Some(Language::FixedFortran),
                "-ffree-form" => language = Some(Language::FreeFortran),
                "-o" => output = value.map(PathBuf::from),
                "-MF" => dependency_file = value.map(PathBuf::from),
                "-I" | "-iquote" | "-J" => line.folders.extend(value.map(PathBuf::from)),
                "-x" => language = value.and_then(|value| named(value)),
                _ => {
                    if let Some(file) = text.strip_prefix("-o").filter(|file| !file.is_empty()) {
                        output = Some(PathBuf::from(file));
                    } else if let Some(file) = text.strip_prefix("-MF") {
                        dependency_file = Some(PathBuf::from(file));
                    } else if let Some(folder) = text
                        .strip_prefix("-I")
                        .or_else(|| text.strip_prefix("-iquote"))
                        .or_else(|| text.strip_prefix("-J"))
                    {
                        line.folders.push(PathBuf::from(folder));
                    } else if let Some(name) = text.strip_prefix("-x") {
                        language = named(OsStr::new(name));
                    } else if !text.starts_with('-') || text == "-" {
                        line.has_input = true;
                        let path = PathBuf::from(argument);
                        if let Some(language) = form(&path, language).filter(|_| text != "-") {
                            line.sources.push(Source { at, path, language });
                        }
                    }
                }
            }
            at += if WITH_VALUE.contains(&text) { 2 } else { 1 };
        }
        if dependencies {
            let file = |source: &Source| match (&dependency_file, &output) {
                (Some(file), _) => file.clone(),
                (None, Some(output)) if !line.links => output.with_extension("d"),
                (None, output) => {
                    let stem = source.path.file_stem().unwrap_or_default().to_string_lossy();
                    match (line.links, output) {
                        (false, _) => PathBuf::from(format!("{stem}.d")),
                        (true, Some(output)) => PathBuf::from(format!("{}-{stem}.d", output.display())),
                        (true, None) => PathBuf::from(format!("a-{stem}.d")),
                    }
                }
            };
            line.dependencies = line.sources.iter().map(file).collect();
        }
        line
    }

    /// Returns the arguments without inputs and outputs, for a run of the preprocessor on one source.
    pub(super) fn without_inputs(arguments: &[OsString]) -> Vec<OsString> {
        const WITH_VALUE_LEFT_OUT: &[&str] =
            &["-o", "-MF", "-x", "-aux-info", "-dumpbase", "-dumpbase-ext", "-dumpdir"];
        const LEFT_OUT: &[&str] = &["-c", "-S", "-fsyntax-only", "-r", "-pipe", "-save-temps"];
        const PREFIXES: &[&str] = &["-o", "-MF", "-x", "-l", "-L", "-Wl,"];
        let mut left = Vec::new();
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            let text = argument.to_str().unwrap_or("");
            let has_value = WITH_VALUE.contains(&text);
            let is_input = !text.starts_with('-') || text == "-";
            let out = is_input
                || LEFT_OUT.contains(&text)
                || WITH_VALUE_LEFT_OUT.contains(&text)
                || PREFIXES.iter().any(|prefix| text.starts_with(prefix));
            if !out {
                left.push(argument.clone());
                left.extend(arguments.get(at + 1).filter(|_| has_value).cloned());
            }
            at += if has_value { 2 } else { 1 };
        }
        left
    }

    /// Returns the default make target in a source's dependency file; `None` if an option names another.
    pub(super) fn target(&self, arguments: &[OsString], source: &Source) -> Option<OsString> {
        let at = self.sources.iter().position(|one| one.at == source.at)?;
        let file = self.dependencies.get(at)?;
        if arguments
            .iter()
            .any(|argument| ["-MT", "-MQ"].iter().any(|option| argument.to_string_lossy().starts_with(option)))
        {
            return None;
        }
        let output = arguments.iter().position(|argument| argument == "-o").and_then(|at| arguments.get(at + 1));
        match output.filter(|_| !self.links) {
            Some(output) => Some(output.clone()),
            None if self.links => Some(file.with_extension("o").into()),
            None => Some(source.path.with_extension("o").file_name()?.to_owned()),
        }
    }

    /// Returns the language that `-x` names for the argument at an index.
    pub(super) fn named_language(arguments: &[OsString], at: usize) -> Option<&str> {
        let before = &arguments[..at];
        let found = (0..before.len()).rev().find_map(|place| {
            let text = before[place].to_str()?;
            match text.strip_prefix("-x")? {
                "" => before.get(place + 1)?.to_str(),
                name => Some(name),
            }
        });
        found.filter(|name| *name != "none")
    }

    /// Whether any source is Fortran.
    pub(super) fn has_fortran(&self) -> bool {
        self.sources.iter().any(|source| source.language.is_fortran())
    }
}

/// Returns the language of `-x LANGUAGE`; `None` for `none` and for languages without directives.
fn named(language: &OsStr) -> Option<Language> {
    Some(match language.to_str()? {
        "c" | "c-header" | "cpp-output" => Language::C,
        "c++" | "c++-header" | "c++-cpp-output" => Language::Cxx,
        "f95" | "f95-cpp-input" => Language::FreeFortran,
        "f77" | "f77-cpp-input" => Language::FixedFortran,
        _ => return None,
    })
}

/// Returns a source's language: by `-x`, or by its name and the options for Fortran's form.
fn form(path: &Path, printed: Option<Language>) -> Option<Language> {
    match (printed, Language::of(path)) {
        (Some(printed), Some(own)) if printed.is_fortran() && !own.is_fortran() => Some(own),
        (Some(printed), _) => Some(printed),
        (None, own) => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::new(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn sources(text: &str) -> Vec<(usize, String, Language)> {
        line(text).sources.into_iter().map(|one| (one.at, one.path.display().to_string(), one.language)).collect()
    }

    #[test]
    fn sources_are_told_from_values_of_options() {
        let found = sources("-o x.c -I inc.c a.c -L lib b.cpp -MF d.c c.o -l m f.F90 g.f -Wl,x.c");
        let expected = [(4, "a.c", Language::C), (7, "b.cpp", Language::Cxx)];
        assert_eq!(found[..2], expected.map(|(at, name, language)| (at, name.to_owned(), language)));
        assert_eq!((found[2].2, found[3].2, found.len()), (Language::FreeFortran, Language::FixedFortran, 4));
        assert_eq!(sources("-x c++ a.c -x none b.c")[0].2, Language::Cxx);
        assert_eq!(sources("-x c++ a.c -x none b.c")[1].2, Language::C);
        assert_eq!(sources("-ffree-form old.f new.c")[0].2, Language::FreeFortran);
        assert_eq!(sources("-ffree-form old.f new.c")[1].2, Language::C);
    }

    #[test]
    fn compiler_mode_follows_from_the_command_line() {
        assert!(line("a.c").links && line("a.o").has_input && line("a.o").sources.is_empty());
        assert!(!line("-c a.c").links && !line("-r a.o").links);
        assert!(!line("--version").has_input && !line("-o a").has_input);
        assert!(line("-E a.c").preprocesses_only && line("-MM a.c").preprocesses_only);
        assert!(line("-static a.c").is_static && line("-fno-openacc a.c").without_openacc);
        assert!(line("a.o b.f90").has_fortran() && !line("a.c").has_fortran());
    }

    #[test]
    fn folders_of_includes_are_known() {
        let folders = line("-I a -Ib -iquote c -isystem d -Je x.c").folders;
        assert_eq!(folders, ["a", "b", "c", "e"].map(PathBuf::from));
    }

    #[test]
    fn the_preprocessor_gets_all_but_inputs_and_outputs() {
        let arguments = [
            "-O2", "-c", "a.c", "-o", "a.o", "-I", "inc", "-DN=2", "b.o", "-lm", "-MD", "-MF", "x.d", "-x", "c",
            "-std=c99",
        ];
        let arguments = arguments.map(OsString::from);
        assert_eq!(
            Line::without_inputs(&arguments),
            ["-O2", "-I", "inc", "-DN=2", "-MD", "-std=c99"].map(OsString::from)
        );
        let line = Line::new(&arguments);
        assert_eq!(line.target(&arguments, &line.sources[0]), Some("a.o".into()));
        assert_eq!(Line::named_language(&arguments, 15), Some("c"));
        assert_eq!(Line::named_language(&arguments, 2), None);
    }

    #[test]
    fn dependencies_are_where_gcc_writes_them() {
        let file = |text| line(text).dependencies.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(file("-c -MD -o out/a.o src/a.c"), ["out/a.d"]);
        assert_eq!(file("-c -MMD src/a.c"), ["a.d"]);
        assert_eq!(file("-c -MD -MF x.dep src/a.c -o y.o"), ["x.dep"]);
        assert_eq!(file("-MD a.c b.c -o p"), ["p-a.d", "p-b.d"]);
        assert_eq!(file("-MD a.c"), ["a-a.d"]);
        assert_eq!(file("-c a.c"), Vec::<String>::new());
    }
}
