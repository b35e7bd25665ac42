//! Runs all rewritten GPU code (`crates/image/src`), before and after, in an interpreter of the PTX that GCC writes. The programs are random, and
//! their regions must leave the same in memory as their versions for the host.
//!
//! A failure names seed, region and level. `ACCORD_TEST_SEED` sets the first seed, by default that of the day or of the long tier.
//! `ACCORD_TEST_PROGRAMS` sets the number of programs, in steps of 200: with a failing seed the first file is the one that failed. With
//! `ACCORD_TEST_WRITE` the programs are written into that folder, for a GPU, and not run.

#[path = "rewritings/code.rs"]
mod code;
#[path = "rewritings/generate.rs"]
mod generate;
#[path = "rewritings/generate_fortran.rs"]
mod generate_fortran;
#[path = "rewritings/machine.rs"]
mod machine;
#[path = "rewritings/operations.rs"]
mod operations;
#[path = "rewritings/random.rs"]
mod random;
#[path = "rewritings/record.rs"]
mod record;
#[path = "rewritings/regions.rs"]
mod regions;

use accord_image::{BlockPath, GangCount, Image, ImageFunction, Kernel as Found, Refusal, gangs_apart, rewrite};
use machine::{Launch, Memory};
use random::Random;
use record::Region;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs per file: starting the compiler takes as long as some of them.
const OF_FILE: usize = 25;
/// Number of tests of this file, which run concurrently, each with its part of the programs.
const PARTS: u64 = 4;
/// Architecture for which the code is rewritten.
const SM: u32 = 90;
/// A fault of GCC in vector reductions of constant values: one thread shuffles with others that have left.
const ONE_OF_A_WARP: &str = "one warp at \"shfl.";
const LEVELS: [&str; 6] = ["-O2", "-O0", "-O2", "-O3", "-O1", "-O2"];

/// The language of the programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Fortran,
}

impl Language {
    fn source(self, seed: u64) -> String {
        match self {
            Self::C => generate::source(seed, OF_FILE),
            Self::Fortran => generate_fortran::source(seed, OF_FILE),
        }
    }

    /// The name of a region's function.
    fn region(self, number: usize) -> String {
        match self {
            Self::C => format!("region_{number}$_omp_fn$0"),
            Self::Fortran => format!("region_{number}_$_omp_fn$0"),
        }
    }

    fn compiler(self) -> &'static str {
        match self {
            Self::C => "gcc",
            Self::Fortran => "gfortran",
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the first seed of a part, and its number of files.
fn chosen(part: u64) -> (u64, usize) {
    let programs = number("ACCORD_TEST_PROGRAMS").unwrap_or(accord_test_tier::pick(100, 10_000));
    let files = programs.div_ceil(OF_FILE as u64 * PARTS);
    let first = number("ACCORD_TEST_SEED").unwrap_or_else(|| accord_test_tier::first_seed(files * PARTS));
    (first + part * files, files as usize)
}

#[test]
fn rewritten_code_leaves_what_the_compilers_does() {
    check(0);
}

#[test]
fn rewritten_code_leaves_what_the_compilers_does_in_the_second_part() {
    check(1);
}

#[test]
fn rewritten_code_leaves_what_the_compilers_does_in_the_third_part() {
    check(2);
}

#[test]
fn rewritten_code_leaves_what_the_compilers_does_in_the_fourth_part() {
    check(3);
}

/// A number of gangs that the image does not hold is needed only if another number leaves other values in memory.
#[test]
fn code_that_leaves_the_same_for_each_number_of_gangs_takes_any() {
    for level in ["-O2", "-O3"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(text) = compile(Language::C, folder.path(), include_str!("rewritings/updates.c"), level) else {
            return println!("skipped: gcc makes no PTX here");
        };
        let regions = record::run(folder.path());
        // As in the image, which has 16 bits of each number. The program launches regions in the order of their names, those that need the number first.
        let mut listed = functions(&text.replace(", 0x10000,", ", 0,"));
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(regions.len(), listed.len());
        let (kernels, found) = (code::read(&text).unwrap_or_else(|why| panic!("{why}")), rewrite(&text, SM).kernels);
        let (mut same, mut counting) = (0, 0);
        for (region, function) in regions.iter().zip(&listed) {
            let name = &function.name;
            let kernel = kernels.iter().find(|kernel| kernel.name == *name).expect("it is there");
            let displayed = found.iter().find(|kernel| kernel.name == *name).expect("it is there");
            let [_, workers, vector] = region.dims(function.dims);
            let left = |gangs| {
                let (mut memory, mut random) = (Memory::default(), Random::new(7));
                let parameter = region.place(&BlockPath::Memory(Refusal::NoLoad), &mut memory);
                let launch = Launch { gangs, workers, vector, of_block: 1, parameter: &parameter };
                machine::run(kernel, launch, &mut memory, &mut random).unwrap_or_else(|why| panic!("{name}: {why}"));
                memory.buffers
            };
            let is_same = left(1) == left(2) && left(1) == left(5);
            let wanted = if is_same { GangCount::AsGiven } else { GangCount::Lost };
            assert_eq!(displayed.gangs.count(function.dims[0]), wanted, "{level} {name}");
            *if is_same { &mut same } else { &mut counting } += 1;
        }
        assert_eq!((same, counting), (16, 6), "{level}");
    }
}

/// Fewer programs, because the compiler's back end and the rewriting are the same.
#[test]
fn rewritten_code_of_fortran_leaves_what_the_compilers_does() {
    let files =
        number("ACCORD_TEST_PROGRAMS").map_or(accord_test_tier::pick(1, 40), |all| all.div_ceil(OF_FILE as u64));
    let first = number("ACCORD_TEST_SEED").unwrap_or_else(|| accord_test_tier::first_seed(files));
    if std::env::var_os("ACCORD_TEST_WRITE").is_none() {
        check_files(Language::Fortran, first, files);
    }
}

fn check(part: u64) {
    let (first, files) = chosen(part);
    if let Some(folder) = std::env::var_os("ACCORD_TEST_WRITE") {
        for seed in first..first + files as u64 {
            let file = PathBuf::from(&folder).join(format!("generated_{seed}.c"));
            std::fs::write(file, generate::source(seed, OF_FILE)).expect("the folder is there");
        }
        return;
    }
    check_files(Language::C, first, files as u64);
}

fn check_files(language: Language, first: u64, files: u64) {
    let (mut all, mut wrong) = (Counts::default(), Vec::new());
    for seed in first..first + files {
        let level = LEVELS[seed as usize % LEVELS.len()];
        match file(language, seed, level, &mut wrong) {
            Some(counts) => all.add(&counts),
            None => return println!("skipped: {} makes no PTX here", language.compiler()),
        }
    }
    println!("seeds from {first}: {all:?}");
    assert!(wrong.is_empty(), "{} of {} regions:\n{}", wrong.len(), all.regions, wrong.join("\n"));
    assert!(all.wrong_already <= 1 + all.regions / 100, "{all:?}");
    // Without any rewriting the test would prove nothing.
    assert!(all.rewritten > all.regions / 4 || files == 1, "{all:?}");
    assert!(all.rewritten > 0 || LEVELS[first as usize % LEVELS.len()] == "-O0", "{all:?}");
}

/// Counts of a run.
#[derive(Default, Debug)]
struct Counts {
    regions: usize,
    rewritten: usize,
    blocks_of_several: usize,
    unrolled: u32,
    hardware_updates: u32,
    /// Regions left out because the compiler's code itself is wrong.
    wrong_already: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.regions += other.regions;
        self.rewritten += other.rewritten;
        self.blocks_of_several += other.blocks_of_several;
        self.unrolled += other.unrolled;
        self.hardware_updates += other.hardware_updates;
        self.wrong_already += other.wrong_already;
    }
}

/// Runs the programs of a file. Returns `None` if the compiler makes no code for GPUs.
fn file(language: Language, seed: u64, level: &str, wrong: &mut Vec<String>) -> Option<Counts> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = compile(language, folder.path(), &language.source(seed), level)?;
    let recorded = record::run(folder.path());
    assert_eq!(recorded.len(), OF_FILE, "seed {seed} {level}: every region starts once");
    let image = Image { objects: vec![text.clone().into_bytes()], functions: functions(&text), variables: Vec::new() };
    let apart = gangs_apart(&image);
    let rewritten = rewrite(&text, SM);
    let unknown = |why| panic!("seed {seed} {level}: {why}");
    let before = code::read(&text).unwrap_or_else(unknown);
    let after = code::read(&rewritten.text).unwrap_or_else(unknown);
    let mut counts = Counts::default();
    for (number, region) in recorded.iter().enumerate() {
        let name = language.region(number);
        let at = image.functions.iter().position(|function| function.name == name).expect("it is listed");
        let found = rewritten.kernels.iter().find(|kernel| kernel.name == name).expect("it is there");
        let [before, after] =
            [&before, &after].map(|kernels| kernels.iter().find(|kernel| kernel.name == name).expect("it is there"));
        counts.regions += 1;
        counts.rewritten += usize::from(matches!(found.block, BlockPath::Parameter(_)));
        counts.unrolled += found.unrolled;
        counts.hardware_updates += found.updates.hardware;
        let dims = region.dims(image.functions[at].dims);
        let shares = found.shares_blocks && apart[at].is_none();
        let mut random = Random::new(seed ^ (number as u64) << 32);
        let original = once(region, before, &BlockPath::Memory(Refusal::NoLoad), dims, 1, &mut random);
        if original.as_ref().is_err_and(|why| why.contains(ONE_OF_A_WARP)) {
            counts.wrong_already += 1;
            continue;
        }
        let result = original
            .and_then(|()| check_count(found, image.functions[at].dims[0], region))
            .and_then(|()| once(region, after, &found.block, dims, 1, &mut random))
            .and_then(|()| {
                let of_block = (2..=dims[0]).find(|size| dims[0] % size == 0).filter(|_| shares);
                counts.blocks_of_several += usize::from(of_block.is_some());
                of_block.map_or(Ok(()), |of_block| once(region, after, &found.block, dims, of_block, &mut random))
            });
        if let Err(why) = result {
            wrong.push(format!("ACCORD_TEST_SEED={seed} ACCORD_TEST_PROGRAMS=200 {level} {name} {dims:?}: {why}"));
        }
    }
    Some(counts)
}

/// Checks that the image holds the number of gangs, or the launch gives it.
fn check_count(found: &Found, given: u16, region: &Region) -> Result<(), String> {
    match found.gangs.count(given) {
        GangCount::AsGiven => Ok(()),
        _ if given == 0 && region.brings_gangs() => Ok(()),
        other => Err(format!("{other:?} gangs where {given} are given")),
    }
}

/// Runs a region once and compares memory.
fn once(
    region: &Region,
    kernel: &code::Kernel,
    block: &BlockPath,
    [gangs, workers, vector]: [u32; 3],
    of_block: u32,
    random: &mut Random,
) -> Result<(), String> {
    let mut memory = Memory::default();
    let parameter = region.place(block, &mut memory);
    let launch = Launch { gangs, workers, vector, of_block, parameter: &parameter };
    let way = if matches!(block, BlockPath::Parameter(_)) { "rewritten" } else { "with its block in memory" };
    machine::run(kernel, launch, &mut memory, random)
        .and_then(|()| region.compare(&memory))
        .map_err(|why| format!("{way}, {of_block} gangs a block: {why}"))
}

/// Compiles a program for this machine, as `program`. Returns its code for GPUs.
fn compile(language: Language, folder: &Path, source: &str, level: &str) -> Option<String> {
    let program = if language == Language::C { "program.c" } else { "program.f90" };
    std::fs::write(folder.join(program), source).expect("the folder is there");
    let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rewritings/recorder");
    let version = std::env::var("ACCORD_TEST_GCC").ok().filter(|version| !version.is_empty());
    let compiler = |name: &str| {
        Command::new(version.as_ref().map_or_else(|| name.to_owned(), |version| format!("{name}-{version}")))
    };
    let mut command = compiler(language.compiler());
    command.args([level, "-w", "-fopenacc", "-foffload=nvptx-none", "-save-temps", "-o", "program", program]);
    match language {
        Language::C => {
            command.arg(format!("-DRECORDER=\"{}\"", recorder.with_extension("h").display()));
        }
        Language::Fortran => {
            let made = compiler("gcc")
                .args(["-c", "-w", "-o", "recorder.o"])
                .arg(recorder.with_extension("c"))
                .current_dir(folder)
                .status();
            assert!(made.ok()?.success());
            command.arg("recorder.o");
        }
    }
    let output = command.current_dir(folder).output().ok()?;
    let made = std::fs::read_dir(folder).expect("the folder").flatten().map(|entry| entry.path());
    let text = made
        .filter(|path| path.to_string_lossy().ends_with("nvptx-none.mkoffload.o"))
        .find_map(|path| std::fs::read_to_string(path).ok());
    assert!(text.is_none() || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns the regions that the compiler lists after an object's code.
fn functions(text: &str) -> Vec<ImageFunction> {
    let dim = |text: &str| {
        text.trim()
            .strip_prefix("0x")
            .map_or(text.trim().parse(), |hex| u16::from_str_radix(hex, 16))
            .expect("a number")
    };
    let listed = text.lines().filter_map(|line| line.strip_prefix("//:FUNC_MAP \"")?.split_once("\", "));
    listed
        .map(|(name, dims)| ImageFunction {
            name: name.to_owned(),
            dims: dims.split(',').map(dim).collect::<Vec<_>>().try_into().expect("three numbers"),
        })
        .collect()
}
