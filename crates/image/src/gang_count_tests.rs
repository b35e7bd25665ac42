//! Tests the number of gangs that code relies on, with PTX of this machine's compiler.

use super::tests::compile_with;
use super::*;
use accord_test_tier::cases;

/// Returns for each kernel its name, its number of gangs, and the result. The compiler's own list of kernels, a comment, has the full
/// numbers.
fn reported(source: &str, level: &str, gangs: u32, length: u32) -> Option<Vec<(String, u32, GangCount)>> {
    let text =
        compile_with(source, &[level, "-w", "-cpp", &format!("-DGANGS={gangs}"), &format!("-DLENGTH={length}")])?;
    let kernels = rewrite(&text, 90).kernels;
    let listed = text.lines().filter_map(|line| line.strip_prefix("//:FUNC_MAP \"")?.split_once("\", "));
    let reported = listed.filter_map(|(name, dims)| {
        let full = dims.split(',').next()?.trim();
        let full = full.strip_prefix("0x").map_or(full.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())?;
        let kernel = kernels.iter().find(|kernel| kernel.name == name).expect("a kernel of the list");
        Some((name.to_owned(), full, kernel.gangs.count(full as u16)))
    });
    Some(reported.collect())
}

fn named<'a>(reported: &'a [(String, u32, GangCount)], function: &str) -> impl Iterator<Item = (&'a str, GangCount)> {
    let found: Vec<_> = reported.iter().filter(|(name, ..)| name.contains(function)).collect();
    assert!(!found.is_empty(), "no {function} in {reported:?}");
    found.into_iter().map(|(name, _, count)| (name.as_str(), *count))
}

const SOURCES: [&str; 2] = ["gangs.c", "gangs.f90"];

#[test]
fn numbers_that_the_image_can_say_stay() {
    for source in SOURCES {
        let all = [
            ("-O0", 1000, 8000),
            ("-O1", 1000, 8000),
            ("-O1", 1000, 250_000),
            ("-O2", 2, 8000),
            ("-O2", 1000, 8000),
            ("-O2", 32_768, 250_000),
            ("-O3", 1000, 8000),
        ];
        for (level, gangs, length) in cases(&all, 2) {
            let Some(reported) = reported(source, level, gangs, length) else { return };
            assert!(reported.len() > 5, "{reported:?}");
            for (name, _, count) in reported {
                assert_eq!(count, GangCount::AsGiven, "{source} {level} {gangs} {length} {name}");
            }
        }
    }
}

#[test]
fn larger_numbers_are_seen_in_the_code_or_refused() {
    for source in SOURCES {
        let all = [
            ("-O1", 100_000),
            ("-O2", 65_536),
            ("-O2", 65_537),
            ("-O2", 98_304),
            ("-O2", 100_000),
            ("-O2", 131_077),
            ("-O2", 196_608),
            ("-O3", 100_000),
        ];
        for (level, gangs) in cases(&all, 3) {
            let Some(reported) = reported(source, level, gangs, 250_000) else { return };
            for (name, count) in named(&reported, "variable_length") {
                // Kernels 12 and 13 add the number in each round: 196,608 may be three rounds of 65,536, and 98,304 of 32,768.
                let rounds = name.ends_with("$12") || name.ends_with("$13");
                let wanted = match gangs {
                    98_304 if rounds => GangCount::AsGiven,
                    196_608 if rounds => GangCount::Lost,
                    _ => GangCount::Exactly(gangs),
                };
                assert_eq!(count, wanted, "{source} {level} {gangs} {name}");
            }
            for (name, count) in named(&reported, "constant_length") {
                // Fewer gangs do all work too, if the image's bits are the same.
                let right = match count {
                    GangCount::Exactly(count) => count <= gangs && count % 65_536 == gangs % 65_536,
                    GangCount::AsGiven => gangs % 65_536 != 0,
                    GangCount::Lost => gangs % 65_536 == 0,
                };
                assert!(right, "{source} {level} {gangs} {name} {count:?}");
            }
        }
    }
}

#[test]
fn all_iterations_of_a_known_number_are_done() {
    let Some(reported) = reported("gangs.c", "-O2", 100_000, 250_000) else { return };
    // 34,464 gangs of three iterations would do 103,392. With vectors they do all iterations.
    let count = |number: usize| {
        let name = format!("constant_length$_omp_fn${number}");
        named(&reported, &name).find(|(known, _)| *known == name).unwrap().1
    };
    assert_eq!(count(0), GangCount::Exactly(100_000));
    assert_eq!(count(1), GangCount::AsGiven);
    assert_eq!(count(2), GangCount::Exactly(100_000));
}

#[test]
fn nothing_is_claimed_of_code_that_shows_nothing() {
    // The list has them in reverse: a routine, which reads the number; each gang's own variable; a loop.
    for (gangs, wanted) in
        [(65_536, [GangCount::AsGiven, GangCount::AsGiven, GangCount::Lost]), (100_000, [GangCount::AsGiven; 3])]
    {
        let Some(reported) = reported("gangs.c", "-O2", gangs, 250_000) else { return };
        let counts: Vec<_> = named(&reported, "nothing_to_know").map(|(_, count)| count).collect();
        assert_eq!(counts, wanted, "{reported:?}");
        assert!(named(&reported, "open").all(|(_, count)| count == GangCount::AsGiven), "{reported:?}");
    }
}

#[test]
fn gang_count_stays_open_if_a_program_uses_gang_numbers() {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        for gangs in [32, 34_464] {
            let Some(reported) = reported("own_numbers.c", level, gangs, 0) else { return };
            assert!(reported.len() > 7, "{reported:?}");
            for (name, _, count) in reported {
                assert_eq!(count, GangCount::AsGiven, "{level} {gangs} {name}");
            }
        }
        let Some(reported) = reported("own_numbers.c", level, 131_072, 0) else { return };
        for (name, _, count) in reported {
            assert_eq!(count, GangCount::Lost, "{level} {name}");
        }
    }
}

#[test]
fn a_clause_with_a_variable_leaves_the_number_to_the_launch() {
    for gangs in [GangUse::read(&["mov.u32 %r1,%nctaid.x;", "mov.u32 %r2,%ctaid.x;"]), GangUse::read(&["ret;"])] {
        assert_eq!((gangs.count(0), gangs.count(34_464)), (GangCount::AsGiven, GangCount::AsGiven));
    }
}

#[test]
fn damaged_code_is_no_reason_to_panic() {
    let body = [
        "mov.u32 %r1,%ctaid.x;",
        "mul.lo.u64 %r1,%r1,9223372036854775807;",
        "add.u64 %r1,%r1,-9223372036854775808;",
        "sub.u64 %r3,%r1,-9223372036854775808;",
        "shl.b64 %r1,%r1,31;",
        "shr.u64 %r2,%r1,99;",
        "div.s64 %r2,%r1,-9223372036854775808;",
        "mul.lo.u64 %r2,%r1,%r2;",
        "min.s64 %r2,%r1,-9223372036854775808;",
        "setp.ge.s64 %r3,%r1,9223372036854775807;",
        "setp.ge.s64 %r3,%r2;",
        "add.u64 %r1,%r1,9223372036854775807;",
        "setp",
    ];
    for from in 0..body.len() {
        for given in [0, 1, 2, 65_535] {
            GangUse::read(&body[from..]).count(given);
            let mut turned = body;
            turned.reverse();
            GangUse::read(&turned[from..]).count(given);
        }
    }
}
