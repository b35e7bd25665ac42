//! libm of GCC's offload compiler: archives of PTX texts, from which a kernel's functions are chosen.

use std::collections::{BTreeSet, HashMap};

/// The mark of an archive, the bytes of a member's head, and those that end it.
const MAGIC: &[u8] = b"!<arch>\n";
const HEAD: usize = 60;
const HEAD_END: &[u8] = b"`\n";
/// GCC's comment before a definition in PTX.
const DEFINITION: [&str; 2] = ["// BEGIN GLOBAL FUNCTION DEF: ", "// BEGIN GLOBAL VAR DEF: "];
const DECLARATION: [&str; 2] = ["// BEGIN GLOBAL FUNCTION DECL: ", "// BEGIN GLOBAL VAR DECL: "];

/// Functions that the driver provides.
const DRIVER: &[&str] = &["malloc", "free", "vprintf", "__assertfail"];

/// The address of a variable for libm's errors, which no kernel reads.
const ERRNO: &str = include_str!("archive/errno.ptx");

/// The PTX texts of archives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxArchives {
    texts: Vec<String>,
    /// The text that defines a symbol.
    definitions: HashMap<String, usize>,
}

impl Default for PtxArchives {
    fn default() -> Self {
        Self { texts: vec![ERRNO.to_owned()], definitions: HashMap::from([("__errno".to_owned(), 0)]) }
    }
}

impl PtxArchives {
    /// Adds the members of an archive that are PTX. The first definition of a symbol counts. Returns `false` if the bytes are no archive.
    pub fn add(&mut self, archive: &[u8]) -> bool {
        let Some(mut rest) = archive.strip_prefix(MAGIC) else { return false };
        while let Some((head, body)) = rest.split_at_checked(HEAD) {
            let size = std::str::from_utf8(&head[48..58]).ok().and_then(|size| size.trim().parse::<usize>().ok());
            let Some(size) = size.filter(|size| head.ends_with(HEAD_END) && *size <= body.len()) else { return false };
            if let Some(text) = std::str::from_utf8(&body[..size]).ok().filter(|text| text.contains(".version ")) {
                for symbol in marked(text, DEFINITION) {
                    self.definitions.entry(symbol.to_owned()).or_insert(self.texts.len());
                }
                self.texts.push(text.to_owned());
            }
            // Members begin at even offsets.
            rest = body.get(size.next_multiple_of(2)..).unwrap_or_default();
        }
        true
    }

    /// Returns the texts that define these functions and all that they refer to.
    ///
    /// # Errors
    /// Returns the first function that the archives lack, or that refers to a symbol which they lack.
    pub fn texts(&self, functions: &[String]) -> Result<Vec<String>, String> {
        let mut chosen = BTreeSet::new();
        for function in functions {
            let mut pending = vec![&**function];
            while let Some(symbol) = pending.pop() {
                let Some(at) = self.definitions.get(symbol) else {
                    if DRIVER.contains(&symbol) {
                        continue;
                    }
                    return Err(function.clone());
                };
                if chosen.insert(*at) {
                    let text = &self.texts[*at];
                    let own: BTreeSet<&str> = marked(text, DEFINITION).collect();
                    pending.extend(marked(text, DECLARATION).filter(|symbol| !own.contains(symbol)));
                }
            }
        }
        Ok(chosen.into_iter().map(|at| self.texts[at].clone()).collect())
    }
}

/// Returns the symbols after GCC's comments.
fn marked<'a>(text: &'a str, marks: [&'static str; 2]) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| marks.iter().find_map(|mark| line.strip_prefix(mark))).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(members: &[&str]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for member in members {
            bytes.extend(format!("{:<48}{:<10}`\n", "x.o/", member.len()).bytes());
            bytes.extend(member.bytes());
            bytes.resize(bytes.len().next_multiple_of(2), b'\n');
        }
        bytes
    }

    const SIN: &str = ".version 6.0\n// BEGIN GLOBAL FUNCTION DECL: sinf\n// BEGIN GLOBAL FUNCTION DECL: kernel\n// BEGIN GLOBAL FUNCTION DECL: free\n// BEGIN GLOBAL FUNCTION DEF: sinf\n";
    const KERNEL: &str = ".version 6.0\n// BEGIN GLOBAL VAR DEF: table\n// BEGIN GLOBAL FUNCTION DEF: kernel\n//";
    const OTHER: &str = ".version 6.0\n// BEGIN GLOBAL FUNCTION DEF: other\n// BEGIN GLOBAL FUNCTION DECL: absent\n";

    #[test]
    fn a_function_brings_what_it_calls() {
        let mut all = PtxArchives::default();
        assert!(all.add(&archive(&["index", OTHER, SIN])) && all.add(&archive(&[KERNEL])));
        assert_eq!(all.texts(&["sinf".to_owned()]), Ok(vec![SIN.to_owned(), KERNEL.to_owned()]));
        assert_eq!(all.texts(&["other".to_owned()]), Err("other".to_owned()));
        assert_eq!(all.texts(&[]), Ok(Vec::new()));
        assert_eq!(all.texts(&["__errno".to_owned()]), Ok(vec![ERRNO.to_owned()]));
    }

    #[test]
    fn other_bytes_are_refused() {
        let mut all = PtxArchives::default();
        let good = archive(&[SIN]);
        assert!(!all.add(b"ELF") && !all.add(&good[..good.len() - 9]));
        assert!(all.add(MAGIC));
    }
}
