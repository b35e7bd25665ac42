//! The format of the checked-in corpus, and that every test run uses it.

use accord_fuzz::corpus::{self, CorpusEntry, EntryReason};
use accord_fuzz::{ALL, Budget, CORPUS_BYTES_MAX, CORPUS_MAX, Memory, Target, collect, drive};
use std::cell::RefCell;

#[test]
fn a_text_says_every_byte() {
    let all: Vec<u8> = (0..=255).chain(0..=255).collect();
    let rare = |input: &[u8]| CorpusEntry { why: EntryReason::Rare, input: input.to_vec() };
    let kept = [
        rare(&all),
        rare(b""),
        rare(b"kept\n\nfound: # \\x20 "),
        CorpusEntry { why: EntryReason::Found("a panic at x.rs:3".to_owned()), input: vec![b' '; 1000] },
        rare(b"# no comment\n"),
    ];
    let text = corpus::text("ptx", &kept);
    assert_eq!(corpus::parse(&text).unwrap(), kept);
    assert!(text.is_ascii() && text.lines().all(|line| line.len() < 120 && !line.ends_with(' ')), "{text}");
}

#[test]
fn malformed_corpus_entries_are_refused() {
    for wrong in ["sometimes\nabc", "kept\n\\x4", "kept\n\\q", "kept\n\\xgg", "kept\n\u{e9}", "kept\n\u{7}", "kept\n\\"]
    {
        assert!(corpus::parse(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn each_target_has_inputs_that_are_kept_and_they_are_small() {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(corpus::folder()).expect("there is a corpus").flatten() {
        let name = entry.file_name().into_string().unwrap();
        let target = ALL.iter().find(|target| format!("{}.txt", target.name) == name);
        let target = target.unwrap_or_else(|| panic!("fuzz/corpus/{name} is of no target"));
        let kept = corpus::read(target).unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert!(text == corpus::text(target.name, &kept), "{name} is not as accord-fuzz writes it");
        assert!(kept.iter().all(|kept| kept.input.len() <= target.input_max), "{name}");
        let rare: Vec<_> = kept.iter().filter(|kept| kept.why == EntryReason::Rare).collect();
        let bytes: usize = rare.iter().map(|kept| kept.input.len()).sum();
        assert!(rare.len() <= CORPUS_MAX && bytes <= CORPUS_BYTES_MAX, "{name}: {} inputs, {bytes} bytes", rare.len());
        files.push(name);
    }
    let none: Vec<_> =
        ALL.iter().map(|target| target.name).filter(|name| !files.contains(&format!("{name}.txt"))).collect();
    assert!(none.is_empty(), "nothing is kept of {none:?}: make fuzz-corpus FUZZ_TARGETS=NAME");
}

thread_local! {
    static TAKEN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A target under the name of another one's corpus, which records its inputs.
fn noting(name: &'static str) -> Target {
    Target {
        name,
        run: |bytes| TAKEN.with_borrow_mut(|taken| taken.push(bytes.to_vec())),
        seeds: || vec![b"seed".to_vec()],
        words: &[],
        input_max: 1 << 20,
        memory: Memory { fixed: 1 << 30, per_byte: 0 },
        inputs: 0,
    }
}

#[test]
fn a_run_begins_with_what_is_kept() {
    let mut some = 0;
    for target in ALL {
        TAKEN.take();
        drive(&noting(target.name), Budget::Inputs(0), 1).unwrap();
        let mut expected: Vec<_> = corpus::read(target).unwrap().into_iter().map(|kept| kept.input).collect();
        some += expected.len();
        expected.push(b"seed".to_vec());
        assert!(TAKEN.take() == expected, "{}", target.name);
    }
    assert!(some > 0);
}

/// Gets as deep as the input's correct prefix, and allocates more at each step, by which builds without counters measure progress.
fn deep(bytes: &[u8]) {
    let depth = bytes.iter().zip(b"ACC!").take_while(|(byte, right)| byte == right).count();
    let taken: Vec<Vec<u8>> = (0..depth).map(|step| vec![0; 64 << step]).collect();
    std::hint::black_box(taken);
}

#[test]
fn inputs_beyond_the_seeds_are_found_and_minimized() {
    let deep = |seed: &'static [u8]| {
        let seeds = if seed == b"ACC!" { || vec![b"ACC!".to_vec()] } else { || vec![b"A".to_vec()] };
        Target { run: deep, seeds, input_max: 64, ..noting("deep") }
    };
    let found = collect(&deep(b"A"), Budget::Inputs(100_000), 1).unwrap();
    assert!(found.contains(&b"ACC!".to_vec()), "{found:?}");
    let found = collect(&deep(b"ACC!"), Budget::Inputs(100_000), 1).unwrap();
    assert!(!found.contains(&b"ACC!".to_vec()), "{found:?}");
}
