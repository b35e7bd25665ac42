//! Declarations outside of a source: in files that it includes, and in modules that it uses.

use crate::directives::{Language, Outside, Traits, declared_in_module, exported, names, uses};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of a module file.
const MODULE_BYTES_MAX: u64 = 64 << 20;
/// Most modules to read for one source.
const MODULES_MAX: usize = 1000;

/// Returns the declarations for a source: in C from the files that it includes, in Fortran from the modules that it
/// uses. A module's source is among `others`, or its module file is in `folders`, next to the source, or in the current
/// folder.
pub(crate) fn outside(
    source: &Path,
    text: &str,
    language: Language,
    included: &[(PathBuf, String)],
    others: &[&Path],
    folders: &[PathBuf],
) -> Outside {
    let mut outside = Outside::default();
    if !language.is_fortran() {
        for name in included.iter().flat_map(|(_, text)| names(text, language)) {
            outside.add(name, Traits::default());
        }
        return outside;
    }
    let here = [source.parent().unwrap_or(Path::new("")).to_owned(), PathBuf::new()];
    let modules = Modules { sources: sources(source, others), folders: here.iter().chain(folders).collect() };
    let mut seen = BTreeSet::new();
    for used in uses(text) {
        for (name, traits) in modules.declared(&used.module, &mut seen) {
            outside.add(used.local(&name), traits);
        }
        seen.clear();
    }
    outside
}

/// A module's variables with `declare`, and the modules that its source uses.
type Module = (Vec<(String, Traits)>, Vec<String>);

struct Modules<'a> {
    /// The modules of other sources, by name.
    sources: BTreeMap<String, Module>,
    folders: Vec<&'a PathBuf>,
}

impl Modules<'_> {
    /// Returns the declarations of a module, and of the modules that it uses.
    fn declared(&self, module: &str, seen: &mut BTreeSet<String>) -> Vec<(String, Traits)> {
        if seen.len() == MODULES_MAX || !seen.insert(module.to_owned()) {
            return Vec::new();
        }
        if let Some((own, used)) = self.sources.get(module) {
            let theirs = used.iter().flat_map(|module| self.declared(module, seen)).collect::<Vec<_>>();
            return own.iter().cloned().chain(theirs).collect();
        }
        let file = format!("{module}.mod");
        let text = self.folders.iter().find_map(|folder| module_text(&folder.join(&file)));
        text.map_or_else(Vec::new, |text| declared_in_module(&text))
    }
}

/// Returns the modules of other Fortran sources.
fn sources(source: &Path, others: &[&Path]) -> BTreeMap<String, Module> {
    let mut found = BTreeMap::new();
    for path in others.iter().filter(|path| **path != source) {
        let Some(language) = Language::of(path).filter(|language| language.is_fortran()) else { continue };
        let Ok(bytes) = std::fs::read(path) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let used: Vec<String> = uses(&text).into_iter().map(|used| used.module).collect();
        for (module, declared) in exported(&text, language) {
            found.insert(module, (declared, used.clone()));
        }
    }
    found
}

/// Returns the text of a module file, which gfortran compresses; `None` if it can't be read.
pub(super) fn module_text(path: &Path) -> Option<String> {
    let file = std::fs::File::open(path).ok()?;
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(file).take(MODULE_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
