//! Tests of gangs that share thread blocks, with PTX of the real compiler.

use super::tests::{compile_with, functions};
use super::*;
use std::collections::BTreeMap;

const KERNEL: &str = ".version 6.0\n.target sm_30\n.visible .shared .align 8 .u64 words[8];\n\
    .entry region (.param .u64 %in_ar0);\n.entry region (.param .u64 %in_ar0)\n{\n.reg .u64 %ar0;\n\
    ld.param.u64 %ar0,[%in_ar0];\n.reg .u32 %r1;\n.reg .u32 %r2;\n.reg .u64 %r3;\n.reg .pred %r4;\n\
    mov.u32 %r1,%ctaid.x;\nmov.u32 %r2,%nctaid.x;\nmov.u64 %r3,%ar0;\nbar.warp.sync 0xffffffff;\n// here\nret;\n}\n";

fn image(text: &str, dims: [u16; 3]) -> Image {
    Image {
        objects: vec![text.as_bytes().to_vec()],
        functions: vec![ImageFunction { name: "region".to_owned(), dims }],
        variables: Vec::new(),
    }
}

/// Returns why the kernel's gangs are apart if it has this additional line. Checks that the rewriting agrees.
fn with(line: &str) -> Option<String> {
    let text = KERNEL.replace("// here", line);
    let apart = gangs_apart(&image(&text, [0, 1, 32])).remove(0);
    let rewritten = rewrite(&text, 90);
    let calls = line.contains("call");
    assert!(calls || rewritten.kernels[0].shares_blocks == apart.is_none(), "{line}: {apart:?}");
    assert_eq!(rewritten.text.contains("%accord_gangs"), rewritten.kernels[0].shares_blocks, "{line}");
    apart.map(|why| why.to_string())
}

#[test]
fn a_gang_of_one_warp_that_keeps_to_itself_shares_its_block() {
    assert_eq!(with(""), None);
    for line in [
        "ld.f64 %r3,[%r3+8];",
        "@ %r4 bra $L3;",
        "atom.add.u32 _,[%r3],1;",
        "mov.b64 {%r1,%r2},%r3;",
        "shfl.sync.idx.b32 %r1,%r1,0,31,0xffffffff;",
        "mov.u32 %r1,%tid.x;",
        "mov.u32 %r2,%ctaid.x;",
        ".loc 1 5 3",
        "membar.gl;",
        "call (%value_in),malloc,(%out_arg1);",
    ] {
        let line = line.replace("call", ".param .u64 %out_arg1;\n.param .u64 %value_in;\ncall");
        assert_eq!(with(&line), None, "{line}");
    }
}

#[test]
fn block_level_instructions_keep_gangs_in_separate_blocks() {
    for (line, why) in [
        ("bar.sync 0;", "waits for its thread block by \"bar.sync 0;\""),
        ("@ %r4 barrier.sync.aligned 0,64;", "waits for its thread block"),
        ("bar.red.popc.u32 %r1,0,%r4;", "waits for its thread block"),
        ("st.shared.u32 [%r3],%r1;", "uses shared memory"),
        ("cvta.shared.u64 %r3,words;", "uses shared memory"),
        ("mov.u64 %r3,words;", "uses shared memory"),
        (".shared .align 4 .b8 own[16];", "uses shared memory"),
        ("mov.u32 %r1,%tid.y;", "reads %tid.y"),
        ("mov.u32 %r1,%ntid.z;", "reads %ntid.z"),
        ("mov.u32 %r1,%warpid;", "reads %warpid"),
        ("mov.v4.u32 {%r1,%r2,%r1,%r2},%ctaid;", "reads %ctaid"),
        ("mov.u32 %r1,%ctaid.y;", "reads %ctaid.y"),
        ("add.u32 %r1,%ctaid.x,1;", "reads %ctaid.x"),
        ("@ %r4 mov.u32 %r1,%ctaid.x;", "reads %ctaid.x"),
        ("cvt.u64.u32 %r3,%nctaid.x;", "reads %nctaid.x"),
        ("shfl.idx.b32 %r1,%r1,0,31;", "is not known"),
        ("setmaxnreg.inc.sync.aligned.u32 96;", "is not known"),
        ("add.u32 %r1,%r2,1; bar.sync 0;", "is not known"),
        (".pragma \"nounroll\";", "is not known"),
        ("call %r3,(),prototype;", "calls a function by its address"),
        ("call away;", "calls away, whose code is not in the image"),
    ] {
        let found = with(line).unwrap_or_default();
        assert!(found.contains(why), "{line}: {found:?}");
    }
    for dims in [[0, 4, 32], [0, 1, 128], [0, 0, 32], [0, 1, 0]] {
        assert_eq!(gangs_apart(&image(KERNEL, dims)), [Some(OwnBlockReason::Warps)]);
    }
    let other = Image { objects: Vec::new(), ..image("", [0, 1, 32]) };
    assert_eq!(gangs_apart(&other), [Some(OwnBlockReason::NoKernel)]);
}

#[test]
fn functions_called_by_a_region_are_checked_for_block_dependence() {
    let calling = KERNEL.replace("// here", "call (%r1),f,();");
    let reported = |functions: &str| {
        let mut image = image(&calling, [0, 1, 32]);
        image.objects.push(functions.as_bytes().to_vec());
        gangs_apart(&image).remove(0).map(|why| why.to_string())
    };
    let plain = ".func f\n{\n.reg .u32 %r1;\nmov.u32 %r1,%tid.x;\ncall g;\nret;\n}\n.func g\n{\ncall f;\nret;\n}\n";
    assert_eq!(reported(plain), None, "functions may call each other in a circle");
    let its_gang = plain.replace("call f;", ".reg .u32 %r1;\nmov.u32 %r1,%ctaid.x;");
    assert_eq!(reported(&its_gang).as_deref(), Some("it calls f: it calls g: it reads %ctaid.x"));
    let barrier = ".func f\n{\nret;\n}\n.func f\n{\nbar.sync 0;\n}\n";
    assert!(reported(barrier).is_some_and(|why| why.starts_with("it calls f: it waits")), "one of two with its name");
}

#[test]
fn numbers_of_gangs_count_all_gangs_of_a_block() {
    let text = rewrite(KERNEL, 90).text.into_owned();
    let own = "mov.u32 %accord_block,%ctaid.x;\nmov.u32 %accord_gangs,%ntid.z;\nmov.u32 %accord_gang,%tid.z;\n\
               mad.lo.u32 %r1,%accord_block,%accord_gangs,%accord_gang;\n}\n";
    assert!(text.contains(own), "{text}");
    let all = "mov.u32 %accord_block,%nctaid.x;\nmov.u32 %accord_gangs,%ntid.z;\n\
               mul.lo.u32 %r2,%accord_block,%accord_gangs;\n}\n";
    assert!(text.contains(all), "{text}");
    assert!(!rewrite(KERNEL, 60).kernels[0].shares_blocks);
}

/// Returns the compiler's names of regions, and why their gangs are apart.
fn reported(source: &str, level: &str) -> Option<BTreeMap<String, String>> {
    let text = compile_with(source, &[level, "-w"])?;
    let functions = functions(&text);
    let image = Image { objects: vec![text.clone().into_bytes()], functions, variables: Vec::new() };
    let apart = gangs_apart(&image).into_iter().map(|why| why.map_or(String::new(), |why| why.to_string()));
    let kernels = rewrite(&text, 90).kernels;
    let names = image.functions.iter().map(|function| function.name.clone());
    let reported: BTreeMap<String, String> = names.zip(apart).collect();
    for (name, why) in &reported {
        let shares = kernels.iter().find(|kernel| kernel.name == *name).is_some_and(|kernel| kernel.shares_blocks);
        assert!(shares || !why.is_empty(), "{name} is not rewritten");
    }
    Some(reported.into_iter().map(|(name, why)| (name.split('$').next().unwrap_or("").to_owned(), why)).collect())
}

#[test]
fn loops_of_the_compiler_share_blocks_unless_they_need_them() {
    for level in ["-O0", "-O2", "-O3"] {
        let Some(reported) = reported("gang_blocks.c", level) else { return };
        for plain in ["triad", "sum", "rows", "collapsed", "counts", "calls"] {
            assert_eq!(reported[plain], "", "{level}");
        }
        for (apart, why) in [
            ("with_workers", "more than one warp"),
            ("long_vectors", "more than one warp"),
            ("of_a_gang", "uses shared memory"),
        ] {
            assert!(reported[apart].contains(why), "{level} {apart}: {:?}", reported[apart]);
        }
        assert_ne!(reported["routine"], "", "{level}");
    }
}
