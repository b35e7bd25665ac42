//! The exports of libacc.so: all symbols that programs built by GCC may need, and no others.

use accord_tests::{Language, Optimize, Result, Variant, compile, gcc, libacc, programs, root};
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// GCC's entry points.
const GOACC: &[&str] = &[
    "GOACC_data_end",
    "GOACC_data_start",
    "GOACC_declare",
    "GOACC_enter_data",
    "GOACC_enter_exit_data",
    "GOACC_exit_data",
    "GOACC_get_num_threads",
    "GOACC_get_thread_num",
    "GOACC_parallel",
    "GOACC_parallel_keyed",
    "GOACC_update",
    "GOACC_wait",
    "GOMP_offload_register",
    "GOMP_offload_register_ver",
    "GOMP_offload_unregister",
    "GOMP_offload_unregister_ver",
];

/// Routines in their C form only.
const C_ONLY: &[&str] = &[
    "acc_callback_register",
    "acc_callback_unregister",
    "acc_pcopyin",
    "acc_pcreate",
    "acc_prof_lookup",
    "acc_prof_register",
    "acc_prof_unregister",
    "acc_register_library",
];

/// Routines with a C form, and `NAME_` for programs that declare them external.
const WITH_EXTERNAL: &[&str] = &[
    "acc_async_test_all_device",
    "acc_async_test_device",
    "acc_async_wait",
    "acc_async_wait_all",
    "acc_attach",
    "acc_attach_async",
    "acc_detach",
    "acc_detach_async",
    "acc_detach_finalize",
    "acc_detach_finalize_async",
    "acc_deviceptr",
    "acc_free",
    "acc_get_cuda_stream",
    "acc_get_current_cuda_context",
    "acc_get_current_cuda_device",
    "acc_get_default_async",
    "acc_hostptr",
    "acc_init_device",
    "acc_malloc",
    "acc_map_data",
    "acc_memcpy_d2d",
    "acc_memcpy_d2d_async",
    "acc_memcpy_device",
    "acc_memcpy_device_async",
    "acc_memcpy_from_device",
    "acc_memcpy_from_device_async",
    "acc_memcpy_to_device",
    "acc_memcpy_to_device_async",
    "acc_set_cuda_stream",
    "acc_set_default_async",
    "acc_shutdown_device",
    "acc_unmap_data",
    "acc_wait_all_device",
    "acc_wait_all_device_async",
    "acc_wait_any",
    "acc_wait_any_device",
    "acc_wait_device",
    "acc_wait_device_async",
];

/// Routines with a C form, `NAME_`, and `NAME_h_`, which gfortran's module calls.
const WITH_FORTRAN: &[&str] = &[
    "acc_async_test",
    "acc_async_test_all",
    "acc_get_device_num",
    "acc_get_device_type",
    "acc_get_num_devices",
    "acc_get_property",
    "acc_get_property_string",
    "acc_init",
    "acc_on_device",
    "acc_set_device_num",
    "acc_set_device_type",
    "acc_shutdown",
    "acc_wait",
    "acc_wait_all",
    "acc_wait_all_async",
    "acc_wait_async",
];

/// Routines with a C form and three Fortran forms: `NAME_32_h_`, `NAME_64_h_`, `NAME_array_h_`.
const WITH_FORTRAN_DATA: &[&str] = &[
    "acc_copyin",
    "acc_copyin_async",
    "acc_copyout",
    "acc_copyout_async",
    "acc_copyout_finalize",
    "acc_copyout_finalize_async",
    "acc_create",
    "acc_create_async",
    "acc_delete",
    "acc_delete_async",
    "acc_delete_finalize",
    "acc_delete_finalize_async",
    "acc_is_present",
    "acc_present_or_copyin",
    "acc_present_or_create",
    "acc_update_device",
    "acc_update_device_async",
    "acc_update_self",
    "acc_update_self_async",
];

/// Other permitted exports, with reasons.
const OTHERS: &[&str] = &[
    // Breakpoint for an event of the profiling interface (accord_prof.h).
    "accord_prof_place",
    // The worker of a CPU device is the program started again, and leaves its normal course here.
    "__libc_start_main",
    // Called by ThreadSanitizer.
    "__tsan_default_suppressions",
    // ACCORD_UNMAPPED=map must know the program's blocks; without it these jump to the next library's functions.
    "aligned_alloc",
    "calloc",
    "free",
    "malloc",
    "memalign",
    "posix_memalign",
    "pvalloc",
    "realloc",
    "valloc",
    // Memory that these remove is checked again before a copy; each calls the next library's function.
    "mmap",
    "mmap64",
    "mprotect",
    "mremap",
    "munmap",
    "pkey_mprotect",
    "shmat",
    "shmdt",
    // By these, MPIs pass memory to the kernel; if it is refused, the address's owner is reported.
    "aio_read",
    "aio_read64",
    "aio_write",
    "aio_write64",
    "pread",
    "pread64",
    "preadv",
    "preadv64",
    "process_vm_readv",
    "process_vm_writev",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev64",
    "readv",
    "recv",
    "recvmsg",
    "send",
    "sendmsg",
    "writev",
];

/// Symbols that libacc leaves to stock libgomp: its lock for atomics without machine instructions.
const LEFT_TO_LIBGOMP: &[&str] = &["GOMP_atomic_start", "GOMP_atomic_end"];

#[test]
fn everything_that_programs_need_is_exported() {
    let exported = exports(&libacc().unwrap()).unwrap();
    let missing: Vec<_> = required().difference(&exported).cloned().collect();
    assert!(missing.is_empty(), "libacc.so lacks {missing:?}");
}

#[test]
fn nothing_else_is_exported() {
    let allowed: BTreeSet<String> = required().into_iter().chain(OTHERS.iter().map(|&name| name.to_owned())).collect();
    let exported = exports(&libacc().unwrap()).unwrap();
    // Routines of newer versions of the specification need no change here.
    let unexpected: Vec<_> = exported.difference(&allowed).filter(|name| !name.starts_with("acc_")).collect();
    assert!(unexpected.is_empty(), "libacc.so also exports {unexpected:?}");
}

#[test]
fn everything_of_this_machines_libgomp_is_exported() {
    let Some(libgomp) = libgomp() else {
        println!("skipped: gcc has no libgomp.so.1");
        return;
    };
    let exported = exports(&libacc().unwrap()).unwrap();
    let mut missing = exports(&libgomp).unwrap();
    missing.retain(|name| {
        (name.starts_with("acc_") || name.starts_with("GOACC_") || name.starts_with("GOMP_offload_"))
            && !exported.contains(name)
            && !LEFT_TO_LIBGOMP.contains(&name.as_str())
    });
    assert!(missing.is_empty(), "{} has, and libacc.so lacks, {missing:?}", libgomp.display());
}

/// With only some of libgomp's symbol versions, the loader would refuse the program.
#[test]
fn symbols_have_no_versions() {
    let data = std::fs::read(libacc().unwrap()).unwrap();
    let file = object::File::parse(&*data).unwrap();
    use object::ObjectSection;
    let versions = file.sections().any(|section| section.name() == Ok(".gnu.version_d"));
    assert!(!versions, "libacc.so defines symbol versions");
}

#[test]
fn only_the_c_library_is_needed() {
    let output = Command::new("readelf").arg("-d").arg(libacc().unwrap()).output();
    let Ok(output) = output else {
        println!("skipped: no readelf");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let needed: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    let allowed = ["libc.so.6", "libgcc_s.so.1", "libm.so.6", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0"];
    let other: Vec<_> = needed.iter().filter(|name| !allowed.contains(name)).collect();
    assert!(other.is_empty(), "libacc.so needs {other:?}");
    assert!(!needed.is_empty(), "readelf says nothing about libacc.so");
}

/// Each routine is called by at least one conformance program, in C and in each Fortran form. Compiles all of them
/// unoptimized.
#[test]
#[ignore = "long"]
fn every_routine_is_called_by_a_program() {
    let mut called = BTreeSet::new();
    for program in programs().unwrap() {
        if program.language == Language::Python {
            continue;
        }
        // Unoptimized, because the compiler folds some calls.
        let unoptimized = Variant { optimize: Optimize::No, linked: program.linked, ..Variant::PLAIN };
        let compiled = compile(&program, unoptimized).unwrap();
        called.extend(imports(&compiled.program).unwrap());
    }
    let mut not_called = required();
    // No compiler here emits GCC 5's calls. Start files of programs with device code call the registration. The last
    // two are for profiling libraries.
    let not_by_programs = [
        "GOMP_offload_register",
        "GOMP_offload_register_ver",
        "GOMP_offload_unregister",
        "GOMP_offload_unregister_ver",
        "acc_prof_lookup",
        "acc_register_library",
    ];
    not_called.retain(|name| !called.contains(name) && !not_by_programs.contains(&name.as_str()));
    assert!(not_called.is_empty(), "no program calls {not_called:?}");
}

/// Each routine is declared in C and in Fortran.
#[test]
fn every_routine_is_in_the_headers() {
    let read = |name: &str| std::fs::read_to_string(root().join("libacc/include").join(name)).unwrap();
    let (c, prof, fortran) = (read("openacc.h"), read("acc_prof.h"), read("openacc_lib.h"));
    let mut missing = Vec::new();
    for name in [C_ONLY, WITH_EXTERNAL, WITH_FORTRAN, WITH_FORTRAN_DATA].concat() {
        let call = format!("{name}(");
        let profiling = ["acc_prof_", "acc_callback_", "acc_register_"].iter().any(|prefix| name.starts_with(prefix));
        let header = if profiling { ("acc_prof.h", &prof) } else { ("openacc.h", &c) };
        if !header.1.lines().any(|line| line.contains(&call) && !line.starts_with(' ')) {
            missing.push(format!("{}: {name}", header.0));
        }
        let generic = format!("interface {name}");
        let words = |line: &str| line.trim() == generic || line.contains(&format!(" {call}"));
        if !profiling && !fortran.lines().any(words) {
            missing.push(format!("openacc_lib.h: {name}"));
        }
    }
    assert!(missing.is_empty(), "not declared: {missing:#?}");
}

/// The compiler in use accepts the headers without a warning. Programs of all three languages that call every routine
/// through them are among the conformance programs (`header_routines`, `module_routines`, `include_routines`).
#[test]
fn headers_compile_by_themselves_in_every_standard() {
    let include = root().join("libacc/include");
    for header in ["openacc.h", "acc_prof.h"] {
        for (compiler, language, standards) in
            [("gcc", "c", ["c90", "c99", "c11", "gnu17"]), ("g++", "c++", ["c++98", "c++11", "c++17", "c++20"])]
        {
            for standard in standards {
                let output = Command::new(gcc(compiler))
                    .args(["-fopenacc", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"])
                    .arg(format!("-std={standard}"))
                    .args(["-x", language])
                    .arg(include.join(header))
                    .arg(format!("-I{}", include.display()))
                    .output()
                    .unwrap();
                let printed = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && printed.is_empty(), "{header} as {standard}: {printed}");
            }
        }
    }
}

fn required() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = GOACC.iter().chain(C_ONLY).map(|&name| name.to_owned()).collect();
    for name in WITH_EXTERNAL {
        names.extend([(*name).to_owned(), format!("{name}_")]);
    }
    for name in WITH_FORTRAN {
        names.extend([(*name).to_owned(), format!("{name}_"), format!("{name}_h_")]);
    }
    for name in WITH_FORTRAN_DATA {
        names.insert((*name).to_owned());
        names.extend(["32", "64", "array"].map(|form| format!("{name}_{form}_h_")));
    }
    names
}

fn exports(path: &Path) -> Result<BTreeSet<String>> {
    let data = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file = object::File::parse(&*data).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text)
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect())
}

fn imports(path: &Path) -> Result<BTreeSet<String>> {
    let data = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file = object::File::parse(&*data).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(file
        .dynamic_symbols()
        .filter(ObjectSymbol::is_undefined)
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect())
}

fn libgomp() -> Option<PathBuf> {
    let output = Command::new(gcc("gcc")).arg("-print-file-name=libgomp.so.1").output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}
