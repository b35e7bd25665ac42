//! The rewrite against PTX of the real compiler.

use super::*;
use proptest::prelude::*;
use std::path::Path;
use std::process::Command;

const REGIONS: &str = include_str!("fixtures/regions.ptx");

fn layout(rewritten: &Rewritten<'_>, name: &str) -> Result<BlockLayout, String> {
    match &rewritten.kernels.iter().find(|kernel| kernel.name == name).expect("a kernel of the file").block {
        BlockPath::Parameter(layout) => Ok(*layout),
        BlockPath::Memory(why) => Err(why.to_string()),
    }
}

#[test]
fn kernels_of_gcc_take_their_block_as_parameter() {
    let rewritten = rewrite(REGIONS, 90);
    let slots: Vec<_> =
        (0..5).map(|i| layout(&rewritten, &format!("main$_omp_fn${i}")).map(|layout| layout.slots)).collect();
    // The second and the third pass their address to other warps through shared memory.
    assert_eq!(slots, [Ok(4), Ok(3), Ok(1), Ok(1), Ok(0)]);
    assert!(rewritten.text.contains(".version 7.7\n.target sm_70\n"));
    assert!(!rewritten.text.contains("(.param .u64 %in_ar0)"));
    assert!(!rewritten.text.contains("ld.param.u64 %ar0,"));
    // These copy their slots to local memory; the others read the parameter directly.
    assert_eq!(rewritten.text.matches(".local .align 8 .b8 %accord_slots").count(), 2);
    assert_eq!(rewritten.text.matches("st.local.u64 [%accord_slots").count(), 4);
    assert_eq!(rewritten.text.matches("mov.u64 %ar0,0;").count(), 3);
    // Declaration and definition agree.
    for kernel in &rewritten.kernels {
        let head = format!(".entry {} (.param .align 16 .b8 %in_ar0[", kernel.name);
        assert_eq!(rewritten.text.matches(&head).count(), 2, "{head}");
    }
}

/// Returns the first kernel of the fixture with another line after the one that loads its block's address, `%r`.
fn with_line(line: &str) -> String {
    let start = REGIONS.find(".entry main$_omp_fn$0 (.param .u64 %in_ar0)\n").expect("definition");
    let copy = start + REGIONS[start..].find("mov.u64 %r").expect("a copy of the address");
    let end = copy + REGIONS[copy..].find('\n').expect("a line");
    let register = REGIONS[copy + 8..end].strip_suffix(",%ar0;").expect("a copy");
    format!("{}\n{}{}", &REGIONS[..end], line.replace("%r ", register), &REGIONS[end..])
}

#[test]
fn kernels_read_the_parameter_where_they_only_load_slots_and_share_them_in_a_warp() {
    let copies = |line: &str| {
        let text = with_line(line);
        let rewritten = rewrite(&text, 90);
        let text = &rewritten.text[rewritten.text.rfind(".entry main$_omp_fn$0 ").expect("definition")..];
        let body = text.split("\n.entry ").next().expect("a body");
        let loads = |text: &str| body.matches(text).count();
        assert_eq!(layout(&rewritten, "main$_omp_fn$0").map(|layout| layout.slots), Ok(4), "{line}");
        let copied = loads("%accord_slots") > 0;
        assert_eq!(
            loads("ld.param.u64 %accord_slot,"),
            if copied { 4 } else { 4 + usize::from(line.contains("ld.")) },
            "{line}"
        );
        copied
    };
    let broadcast = "mov.b64 {%r901,%r902},%r ;\nshfl.sync.idx.b32 %r901,%r901,0,31,0xffffffff;\n\
                     shfl.sync.idx.b32 %r902,%r902,0,31,0xffffffff;\nmov.b64 %r ,{%r901,%r902};";
    for known in ["// nothing", "ld.u64 %r900,[%r +8];", "ld.f64 %r900,[%r ];", broadcast] {
        assert!(!copies(known), "{known}");
    }
    for other in [
        "ld.u32 %r900,[%r +8];".to_owned(),
        "ld.u64 %r900,[%r +4];".to_owned(),
        broadcast.replace("%r901,0,31", "%r902,0,31"),
        broadcast.replace("idx", "down"),
        broadcast.replace("%r ,{%r901,%r902}", "%r ,{%r902,%r901}"),
        broadcast.replace("\nmov.b64", "\nadd.u32 %r901,%r901,8;\nmov.b64"),
        broadcast.replace("mov.b64 {%r901,%r902},%r ;", "mov.b64 {%r901,%r902},%r903;"),
    ] {
        assert!(copies(&other), "{other}");
    }
}

#[test]
fn an_object_names_its_version_and_target() {
    assert_eq!(header(REGIONS), (Some("6.0"), Some("sm_30")));
    assert_eq!(header(".version 7.7 // old\n"), (Some("7.7"), None));
}

/// GCC 15 writes PTX 7.3 for sm_52, or for the `-march` option.
#[test]
fn versions_and_targets_are_raised_and_never_lowered() {
    for (version, target, raised) in [
        ("7.3", "sm_52", ".version 7.7\n.target sm_70\n"),
        ("7.3", "sm_80", ".version 7.7\n.target sm_80\n"),
        ("7.8", "sm_89", ".version 7.8\n.target sm_89\n"),
    ] {
        let text = REGIONS.replace(".version 6.0\n", &format!(".version {version}\n"));
        let text = text.replace(".target sm_30\n", &format!(".target {target}\n"));
        let rewritten = rewrite(&text, 90);
        assert!(rewritten.text.contains(raised), "{version} {target}");
        assert_eq!(layout(&rewritten, "main$_omp_fn$0").map(|layout| layout.slots), Ok(4));
    }
}

#[test]
fn unsupported_ptx_is_left_unchanged() {
    for (text, why) in [
        (REGIONS.to_owned(), "sm_60"),
        (REGIONS.replace("shfl.sync.", "shfl."), "without a mask"),
        (REGIONS.replace(".target sm_30", ""), "no version or target"),
    ] {
        let rewritten = rewrite(&text, if why == "sm_60" { 60 } else { 90 });
        assert_eq!(rewritten.text, text);
        assert!(layout(&rewritten, "main$_omp_fn$0").is_err_and(|text| text.contains(why)), "{why}");
    }
}

#[test]
fn an_unknown_use_of_the_address_keeps_the_ordinary_way() {
    let start = REGIONS.find(".entry main$_omp_fn$0 (.param .u64 %in_ar0)\n").expect("definition");
    let at = start + REGIONS[start..].find("mov.u64 %r").expect("a copy of the address");
    let line = REGIONS[at..].lines().next().expect("a line");
    let register = line.strip_prefix("mov.u64 ").and_then(|l| l.strip_suffix(",%ar0;")).expect("a copy");
    for use_ in [
        format!("add.u64 %r999,{register},8;"),
        format!("st.u64 [%frame+8],{register};"),
        format!("st.u64 [%r999],{register};"),
        format!("st.u64 [{register}],%r999;"),
        format!("ld.v2.u64 {{%r998,%r999}},[{register}];"),
        format!("ld.u64 %r999,[{register}+100000];"),
        "ld.param.u64 %ar0,[%in_ar0];".to_owned(),
        "add.u64 %r999,%ar0,1;".to_owned(),
    ] {
        let text = format!("{}{line}\n{use_}{}", &REGIONS[..at], &REGIONS[at + line.len()..]);
        let rewritten = rewrite(&text, 90);
        assert!(layout(&rewritten, "main$_omp_fn$0").is_err(), "{use_}");
        assert!(layout(&rewritten, "main$_omp_fn$1").is_ok(), "{use_}");
    }
}

#[test]
fn unoptimized_kernels_keep_their_address_in_memory_and_the_ordinary_way() {
    let Some(text) = compile("regions.c", "-O0") else { return };
    let rewritten = rewrite(&text, 90);
    assert_eq!(rewritten.kernels.len(), 5);
    assert!(layout(&rewritten, "main$_omp_fn$0").is_err_and(|why| why.contains("stack")));
}

#[test]
fn todays_compiler_still_writes_what_is_known() {
    let Some(text) = compile("regions.c", "-O2") else { return };
    let rewritten = rewrite(&text, 90);
    assert_eq!(rewritten.kernels.len(), 5);
    for kernel in &rewritten.kernels {
        assert!(matches!(kernel.block, BlockPath::Parameter(_)), "{kernel:?}");
    }
}

/// Returns the PTX that this machine's compiler, or the one under test, makes of a fixture's source.
pub(super) fn compile(source: &str, level: &str) -> Option<String> {
    compile_with(source, &[level])
}

pub(super) fn compile_with(source: &str, options: &[&str]) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fixtures").join(source);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let version = std::env::var("ACCORD_TEST_GCC").unwrap_or_default();
    let gcc = if source.extension().is_some_and(|extension| extension == "f90") { "gfortran" } else { "gcc" };
    let gcc = if version.is_empty() { gcc.to_owned() } else { format!("{gcc}-{version}") };
    let output = Command::new(gcc)
        .args(options)
        .args(["-fopenacc", "-foffload=nvptx-none", "-save-temps", "-o", "program"])
        .arg(source)
        .current_dir(folder.path())
        .output();
    let made = std::fs::read_dir(folder.path()).expect("the folder").flatten().map(|entry| entry.path());
    let text = made
        .filter(|path| path.to_string_lossy().ends_with("nvptx-none.mkoffload.o"))
        .find_map(|path| std::fs::read_to_string(path).ok());
    if text.is_none() {
        println!("skipped: gcc makes no PTX here ({output:?})");
    }
    text
}

/// Returns the regions that the compiler lists after an object's code.
pub(super) fn functions(text: &str) -> Vec<ImageFunction> {
    let dim = |text: &str| {
        text.trim().strip_prefix("0x").map_or(text.trim().parse(), |hex| u16::from_str_radix(hex, 16)).ok()
    };
    let listed = text.lines().filter_map(|line| line.strip_prefix("//:FUNC_MAP \"")?.split_once("\", "));
    let function = |(name, dims): (&str, &str)| {
        let dims: Vec<u16> = dims.split(',').filter_map(dim).collect();
        ImageFunction { name: name.to_owned(), dims: dims.try_into().expect("three numbers") }
    };
    listed.map(function).collect()
}

#[test]
fn images_are_told_apart_by_everything_in_them() {
    let image = Image {
        objects: vec![b"a".to_vec(), b"b".to_vec()],
        functions: vec![ImageFunction { name: "f".into(), dims: [0, 1, 32] }],
        variables: vec![ImageVariable { name: "v".into() }],
    };
    let mut others = vec![image.clone(); 4];
    others[0].objects = vec![b"ab".to_vec()];
    others[1].functions[0].dims = [1, 1, 32];
    others[2].variables[0].name = "w".into();
    others[3].objects.swap(0, 1);
    assert!(others.iter().all(|other| other.id() != image.id()));
    let images = Images::default();
    let id = images.add(image.clone());
    assert_eq!(images.add(image.clone()), id);
    assert_eq!(images.get(id).as_deref(), Some(&image));
    assert!(images.get(others[0].id()).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_ptx_is_no_reason_to_panic(cut in 0..REGIONS.len(), add in "[{};%.a-z0-9 \\[\\]\\n,@/]{0,40}") {
        prop_assume!(REGIONS.is_char_boundary(cut));
        rewrite(&format!("{}{add}{}", &REGIONS[..cut], &REGIONS[cut..]), 90);
        rewrite(&REGIONS[..cut], 90);
    }
}
