//! CUDA Fortran by `accord cuf`, on CPU devices and on GPUs of the tests' driver, of the program's own node and of others. Skipped, with a
//! message, without LLVM 22.

mod driver;

use accord_test_tier::cases;
use accord_tests::{Cluster, Job, Tool, compile_support, libacc, root, tool};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FLANG: &str = "/usr/lib/llvm-22/bin/flang";

/// Whether flang is missing; prints so.
fn is_skipped() -> bool {
    let skipped = !Path::new(FLANG).is_file();
    if skipped {
        println!("skipped: no {FLANG}: install flang-22 and llvm-22");
    }
    skipped
}

fn source(name: &str) -> PathBuf {
    root().join("tests/programs/cuda-fortran").join(name)
}

/// Runs `accord cuf ARGUMENTS` in `folder`.
fn cuf<T: AsRef<std::ffi::OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = T>) -> Output {
    libacc().unwrap();
    let mut command = Command::new(tool(Tool::Accord).unwrap());
    command.arg("cuf").args(arguments).current_dir(folder).env_remove("ACCORD_LIBACC").output().unwrap()
}

#[track_caller]
fn good(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out.into_owned() + &err
}

/// Runs a program on a local cluster, beginning on one of its devices. Returns its output.
fn run(program: &Path, cluster: &[&str], device: &str) -> String {
    let mut command = Command::new(tool(Tool::Accord).unwrap());
    command.args(["run", "--local-cluster"]).args(cluster).arg("--").arg(program);
    command.env("ACC_DEVICE_NUM", device).env("ACCORD_CPU_MEMORY", "64M");
    good(&command.output().unwrap())
}

/// Compiles a program and runs it on the second device, of another node.
#[track_caller]
fn passes(name: &str) {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    good(&cuf(folder.path(), [source(name).as_os_str(), "-o".as_ref(), program.as_os_str()]));
    let printed = run(&program, &["2x1", "--remote-only"], "1");
    assert!(printed.contains("PASS"), "{printed}");
}

/// Compiles a program and runs it in-process, and on each of two devices of one node and of two; in the short tier on some of them.
#[track_caller]
fn passes_everywhere(name: &str) {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    good(&cuf(folder.path(), [source(name).as_os_str(), "-o".as_ref(), program.as_os_str()]));
    let all = [(&["1x1"][..], "0"), (&["2x1"], "1"), (&["2x1"], "0"), (&["2x1", "--remote-only"], "0")];
    for (cluster, device) in cases(&all, 2) {
        let printed = run(&program, cluster, device);
        assert!(printed.contains("PASS"), "{cluster:?} {device}: {printed}");
    }
}

macro_rules! programs {
    ($passes:ident; $($test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                $passes($name);
            }
        )*
    };
}

programs! {
    passes_everywhere;
    api_memset: "48_api_memset.cuf";
    api_allocations: "49_api_allocations.cuf";
    device_properties: "50_device_properties.cuf";
    events_async: "51_events_async.cuf";
    managed_module: "52_managed_module.cuf";
    api_symbols: "53_api_symbols.cuf";
    api_three_dimensions: "54_api_three_dimensions.cuf";
    barriers: "58_barriers.cuf";
    reductions: "60_reductions.cuf";
}

programs! {
    passes;
    assign_whole: "01_assign_whole.cuf";
    assign_section: "02_assign_section.cuf";
    managed: "03_managed.cuf";
    pinned: "04_pinned.cuf";
    constant: "05_constant.cuf";
    shared_static: "06_shared_static.cuf";
    shared_dynamic: "07_shared_dynamic.cuf";
    device_function: "08_device_function.cuf";
    host_device_function: "09_host_device_function.cuf";
    module_device_vars: "10_module_device_vars.cuf";
    module_allocatable: "11_module_allocatable.cuf";
    streams_launch: "12_streams_launch.cuf";
    dim3: "13_dim3.cuf";
    cuf_kernel_1d: "14_cuf_kernel_1d.cuf";
    cuf_kernel_2d: "15_cuf_kernel_2d.cuf";
    cuf_kernel_reduce: "16_cuf_kernel_reduce.cuf";
    cuf_kernel_implicit_reduce: "16b_cuf_kernel_implicit_reduce.cuf";
    atomics: "17_atomics.cuf";
    syncthreads_count: "18_syncthreads_count.cuf";
    warp: "19_warp.cuf";
    shfl: "19b_shfl.cuf";
    api_device: "20_api_device.cuf";
    api_memory: "21_api_memory.cuf";
    api_async: "22_api_async.cuf";
    api_events: "23_api_events.cuf";
    derived_type: "24_derived_type.cuf";
    assumed_shape: "28_assumed_shape.cuf";
    math: "29_math.cuf";
    complex: "30_complex.cuf";
    device_pointer: "31_device_pointer.cuf";
    print_in_kernel: "32_print_in_kernel.cuf";
    automatic_device: "33_automatic_device.cuf";
    local_array: "34_local_array.cuf";
    derived_by_value: "35_derived_by_value.cuf";
    source_alloc: "37_source_alloc.cuf";
    expression_transfer: "38_expression_transfer.cuf";
    generic_device: "39_generic_device.cuf";
    bad_launch: "40_bad_launch.cuf";
    host_intrinsic_on_managed: "41_host_intrinsic_on_managed.cuf";
    arguments: "45_arguments.cuf";
    math_more: "46_math_more.cuf";
    section_argument: "42_section_argument.cuf";
    two_devices_alive: "43_two_devices_alive.cuf";
}

/// The matrix product of CUDA Fortran's guide, and the same on each device that the program selects.
#[test]
fn matrix_product_on_every_device() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    good(&cuf(folder.path(), [source("mmul.cuf").as_os_str(), "-o".as_ref(), own.as_os_str()]));
    let text = std::fs::read_to_string(source("mmul.cuf")).unwrap();
    let module = folder.path().join("module.cuf");
    std::fs::write(&module, text.split("program main").next().unwrap()).unwrap();
    good(&cuf(folder.path(), ["-c".as_ref(), module.as_os_str()]));
    let all = folder.path().join("all");
    good(&cuf(folder.path(), [source("mmul2.cuf").as_os_str(), "module.o".as_ref(), "-o".as_ref(), all.as_os_str()]));
    for cluster in cases(&[&["1x1"][..], &["2x1"], &["2x2"], &["2x1", "--remote-only"]], 2) {
        assert!(run(&own, cluster, "0").contains("right"), "{cluster:?}");
        assert!(run(&all, cluster, "0").contains("PASS"), "{cluster:?}");
    }
}

/// A kernel uses procedures and variables of another source.
#[test]
fn a_kernel_uses_another_sources_module() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let (module, main) = (source("two_sources_module.cuf"), source("47_two_sources.cuf"));
    good(&cuf(folder.path(), [module.as_os_str(), main.as_os_str(), "-o".as_ref(), program.as_os_str()]));
    let printed = run(&program, &["2x1", "--remote-only"], "1");
    assert!(printed.contains("PASS"), "{printed}");
}

/// One device array is used by GCC's OpenACC in C and in Fortran, and by CUDA Fortran.
#[test]
fn openacc_and_cuda_fortran_share_an_array() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (tool_, name, object) in [("cc", "scale.c", "scale.o"), ("fc", "scale_f.f90", "scale_f.o")] {
        let mut command = Command::new(tool(Tool::Accord).unwrap());
        command.arg(tool_).args(["-O1", "-c"]).arg(source(name)).args(["-o", object]).current_dir(folder.path());
        good(&command.env("ACCORD_CACHE", folder.path().join("cache")).env_remove("ACCORD_LIBACC").output().unwrap());
    }
    let program = folder.path().join("program");
    let mix = source("mix.cuf");
    let words: [&std::ffi::OsStr; 5] =
        [mix.as_os_str(), "scale.o".as_ref(), "scale_f.o".as_ref(), "-o".as_ref(), program.as_os_str()];
    good(&cuf(folder.path(), words));
    for device in ["0", "1"] {
        let printed = run(&program, &["2x1", "--remote-only"], device);
        assert!(printed.contains("PASS"), "{device}: {printed}");
    }
}

/// A refusal has file, line and remedy.
#[test]
fn unsupported_cuda_fortran_is_refused_with_its_line() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let carried = folder.path().join("carried.cuf");
    let text = "subroutine s(n)\n  use cudafor\n  integer :: n\n  real, device :: a(100)\n  real :: x\n  x = 0\n  \
                !$cuf kernel do <<<*,*>>>\n  do i = 1, n\n    x = max(x, a(i))\n  end do\n  print *, x\nend subroutine\n";
    std::fs::write(&carried, text).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let arrays = write("arrays.cuf", "program p\n  use cudafor\n  type(cudaArrayPtr) :: a\nend program\n");
    let implicit = write("implicit.cuf", "program p\n  use cudafor\n  i = cudaMallocArray(j, k, 3, 4)\nend program\n");
    let tensor = write("tensor.cuf", "program p\n  use cutensor\nend program\n");
    for (path, printed) in [
        (source("25_texture.cuf"), "25_texture.cuf:2:29: error: ATTRIBUTES(TEXTURE)"),
        (source("27_openacc_and_cuf.cuf"), "27_openacc_and_cuf.cuf:6:1: error: OpenACC in a CUDA Fortran source"),
        (
            source("36_cooperative.cuf"),
            "36_cooperative.cuf:11:5: error: No specific subroutine of generic 'syncthreads'",
        ),
        (carried, "carried.cuf:7:"),
        (source("25_texture.cuf"), "note: textures are not supported: pass the device array to the kernel"),
        (arrays, "arrays.cuf:3:8: error: Derived type 'cudaarrayptr' not found"),
        (implicit, "implicit.cuf:3:"),
        (tensor, "tensor.cuf:2:7: error: Accord has no module cutensor"),
    ] {
        let output = cuf(folder.path(), ["-c".as_ref(), path.as_os_str()]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(printed), "{}: {text}", path.display());
    }
}

/// What the page for users lists as refused is refused with file, line and remedy.
#[test]
fn each_refusal_has_file_line_and_remedy() {
    if is_skipped() {
        return;
    }
    const CUDA: &str = "program p\n  use cudafor\n  implicit none\n  integer :: i\n  real, device :: a(3,3)\n  ";
    const KERNEL: &str = "module m\n  use cudafor\n  real, managed :: g(3)\ncontains\n  ";
    let end = "\nend program\n";
    let main = |line: &str| format!("{CUDA}{line}{end}");
    let kernel = |text: &str| format!("{KERNEL}{text}\nend module\n");
    let folder = tempfile::tempdir().unwrap();
    for (text, line, what, remedy) in [
        ("program p\n  !$omp parallel\nend program\n".to_owned(), 2, "OpenMP in a CUDA Fortran source", "gfortran compiles"),
        ("program p\n  !@cuf use cudafor\nend program\n".to_owned(), 2, "a line for CUDA Fortran only", "#ifdef _CUDA"),
        ("program p\n  use wmma\nend program\n".to_owned(), 2, "Accord has no module wmma", "leave its calls out"),
        (main("i = cudaGraphLaunch(i)"), 6, "'cudagraphlaunch'", "launch the kernels themselves"),
        (main("i = cudaStreamAddCallback(i, i)"), 6, "'cudastreamaddcallback'", "after cudaStreamSynchronize"),
        (main("i = cudaMallocAsync(i, i)"), 6, "'cudamallocasync'", "use cudaMalloc"),
        (main("i = cudaBindTexture(i, i)"), 6, "'cudabindtexture'", "pass the device array to the kernel"),
        (main("print *, sum(a, dim=1)"), 6, "intrinsic sum is on the device", "assign the array to a host array"),
        (main("print *, maxloc(a)"), 6, "intrinsic maxloc is on the device", "assign the array to a host array"),
        ("program p\n  use cudafor\n  i = cudaIpcOpenMemHandle(j, k)\nend program\n".to_owned(), 3, "cudaipcopenmemhandle", "by MPI"),
        (
            "program p\n  call mpi_sizeof(i, n, k)\nend program\n".to_owned(),
            2,
            "mpi_sizeof is not supported",
            "storage_size",
        ),
        (
            "subroutine s(n)\n  real, device :: a(9)\n  real :: x(9)\n  x = 0\n  !$cuf kernel do <<<*,*>>>\n  do i = 1, n\n    a(i) = x(i)\n  end do\nend\n"
                .to_owned(),
            7,
            "Host array 'x'",
            "attribute device or managed",
        ),
        (
            kernel("attributes(grid_global) subroutine k()\n  end subroutine\n  subroutine s()\n    call k<<<1, 1>>>()\n  end subroutine"),
            8,
            "a launch of a cooperative grid",
            "end the kernel",
        ),
        (
            kernel(
                "attributes(global) cluster_dims(2,1,1) subroutine k()\n  end subroutine\n  subroutine s()\n    call k<<<2, 32>>>()\n  end subroutine",
            ),
            8,
            "a launch with clusters",
            "leave attribute cluster_dims out",
        ),
        (
            kernel("attributes(host,device) real function f()\n    f = g(1)\n  end function"),
            3,
            "a managed module variable",
            "pass it as an argument",
        ),
    ] {
        std::fs::write(folder.path().join("refused.cuf"), &text).unwrap();
        let output = cuf(folder.path(), ["-c", "refused.cuf"]);
        let printed = String::from_utf8_lossy(&output.stderr);
        let place = format!("refused.cuf:{line}:");
        assert!(!output.status.success(), "{text}{printed}");
        for part in [&place, what, remedy] {
            assert!(printed.contains(part), "{part}: {text}{printed}");
        }
    }
}

/// Threads of one warp exchange values while the others wait for the block.
#[test]
fn a_barrier_waits_for_a_warp_that_exchanges() {
    passes("44_warp_ahead_of_barrier.cuf");
}

/// Compiles a program for the tests' driver. Returns it with the folder of the driver and of functions in place of kernels.
fn for_gpus(name: &str) -> (PathBuf, tempfile::TempDir) {
    let folder = driver::driver();
    let program = folder.path().join("program");
    good(&cuf(folder.path(), [source(name).as_os_str(), "-o".as_ref(), program.as_os_str()]));
    compile_support("cuda_fortran_kernels", folder.path()).unwrap();
    (program, folder)
}

/// Runs a program on this machine's GPUs of the tests' driver.
fn on_gpus(program: &Path, folder: &tempfile::TempDir) -> Job {
    let job = Job::new(program).env("LD_LIBRARY_PATH", folder.path()).env("ACCORD_CACHE", "off");
    job.env("FAKE_CUDA_KERNELS", folder.path().join("cuda_fortran_kernels.so"))
}

/// A launch brings grid, block, shared memory and arguments to the driver, and times name the kernel.
#[test]
fn kernels_run_on_gpus_of_this_node() {
    if is_skipped() {
        return;
    }
    let (program, folder) = for_gpus("45_arguments.cuf");
    let finished = on_gpus(&program, &folder).env("ACCORD_TIME", "full").run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
    assert!(finished.stderr.contains("m::k"), "{}", finished.report());
}

#[test]
fn kernels_run_on_gpus_of_other_nodes() {
    if is_skipped() {
        return;
    }
    let (program, folder) = for_gpus("45_arguments.cuf");
    let cluster = Cluster::builder().hosts(2).devices(0).gpus(&[0, 1]).env("LD_LIBRARY_PATH", folder.path());
    let kernels = folder.path().join("cuda_fortran_kernels.so");
    let cluster = cluster.env("FAKE_CUDA_KERNELS", kernels).env("ACCORD_CACHE", "off").start().unwrap();
    let finished = cluster.job(0, &program).unwrap().env("ACCORD_TIME", "full").run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS") && finished.stderr.contains("m::k"), "{}", finished.report());
}

/// A GPU's properties reach programs on every node, and its blocks may have more shared memory than 48 KiB.
#[test]
fn gpus_report_their_properties_and_give_blocks_all_shared_memory() {
    if is_skipped() {
        return;
    }
    let (program, folder) = for_gpus("50_device_properties.cuf");
    let finished = on_gpus(&program, &folder).run().unwrap().success().unwrap();
    // The tests' driver has 4 multiprocessors.
    let is_right = |printed: &str| printed.split_whitespace().eq(["PASS", "4", "101376"]);
    assert!(is_right(&finished.stdout), "{}", finished.report());
    let cluster = Cluster::builder().hosts(2).devices(0).gpus(&[0, 1]).env("LD_LIBRARY_PATH", folder.path());
    let kernels = folder.path().join("cuda_fortran_kernels.so");
    let cluster = cluster.env("FAKE_CUDA_KERNELS", kernels).env("ACCORD_CACHE", "off").start().unwrap();
    let finished = cluster.job(0, &program).unwrap().run().unwrap().success().unwrap();
    assert!(is_right(&finished.stdout), "{}", finished.report());
}

/// A CPU device that appears as a GPU runs the kernels of CPU devices, with the module variables of its own memory.
#[test]
fn kernels_run_on_a_cpu_device_that_appears_as_a_gpu() {
    if is_skipped() {
        return;
    }
    let (program, _folder) = for_gpus("10_module_device_vars.cuf");
    let job = Job::new(&program).env("ACCORD_EMULATE", "nvidia").env("ACCORD_CPU_DEVICES", "1");
    let finished = job.env("ACCORD_CPU_MEMORY", "64M").run().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
}

/// A kernel that prints has no code for GPUs: the compiler says so, and a launch on a GPU names both lines.
#[test]
fn a_launch_without_code_for_gpus_is_refused_with_the_reason() {
    if is_skipped() {
        return;
    }
    let (program, folder) = for_gpus("32_print_in_kernel.cuf");
    let finished = on_gpus(&program, &folder).run().unwrap();
    assert_eq!(finished.code(), 1, "{}", finished.report());
    for part in
        ["32_print_in_kernel.cuf:5:", "input or output in device code; print on the host", "ACC_DEVICE_TYPE=cpu"]
    {
        assert!(finished.stderr.contains(part), "{part}: {}", finished.report());
    }
}

/// Times and notices name the source's lines, also those of calls that have no line of their own.
#[test]
fn times_name_the_lines_of_launches_and_routines() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    good(&cuf(folder.path(), [source("53_api_symbols.cuf").as_os_str(), "-o".as_ref(), program.as_os_str()]));
    let mut command = Command::new(tool(Tool::Accord).unwrap());
    command.args(["run", "--local-cluster", "2x1", "--remote-only", "--time=full", "--"]).arg(&program);
    let printed = good(&command.env("ACCORD_CPU_MEMORY", "64M").output().unwrap());
    let text = std::fs::read_to_string(source("53_api_symbols.cuf")).unwrap();
    for statement in ["call scaled<<<1, 8>>>(8)", "if (cudaMemcpyFromSymbol(back, symbol, 8,"] {
        let line = text.lines().position(|line| line.contains(statement)).unwrap() + 1;
        let place = format!("53_api_symbols.cuf:{line}, ");
        assert!(printed.contains(&place), "{place}: {printed}");
    }
}

/// A trace has the ranges that the program names, each in the row of its depth.
#[test]
fn traces_have_the_ranges_of_nvtx() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    // The library of NVTX need not be there.
    let words = ["-cudalib=nvtx".as_ref(), "-lnvToolsExt".as_ref(), "-o".as_ref(), program.as_os_str()];
    good(&cuf(folder.path(), [&[source("55_ranges.cuf").as_os_str()], &words[..]].concat()));
    let trace = folder.path().join("trace.json");
    let mut command = Command::new(tool(Tool::Accord).unwrap());
    command.args(["run", "--local-cluster", "2x1", "--remote-only"]).arg("--trace").arg(&trace).arg("--").arg(&program);
    assert!(good(&command.env("ACCORD_CPU_MEMORY", "64M").output().unwrap()).contains("PASS"));
    let text = std::fs::read_to_string(&trace).unwrap();
    let queue = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.contains("\"cat\":\"range\"") && line.contains(&format!("\"name\":\"{name}\"")));
        let number = line.and_then(|line| line.split("\"queue\":").nth(1)?.split(',').next()?.parse::<u32>().ok());
        number.unwrap_or_else(|| panic!("no range {name}: {text}"))
    };
    let outer = queue("outer");
    assert_eq!([queue("inner"), queue("event"), queue("own")], [outer + 1, outer + 1, outer]);
    assert!(text.contains("\"name\":\"ranges, level 2\""), "{text}");
}

/// Programs with NVIDIA's libraries link without them. They call them on GPUs of their own node, after the work of the stream; elsewhere, and without a
/// library, they end with a message.
#[test]
fn vendors_libraries_run_on_gpus_of_this_node() {
    if is_skipped() {
        return;
    }
    let more: &[&str] = &["libcusparse.so.12", "libcusolver.so.11", "libcurand.so.10"];
    let all: [(&str, &[&str], &str, u32); 3] = [
        ("56_cublas.cuf", &["libcublas.so.12"], "cublasCreate_v2", 15),
        ("57_cufft.cuf", &["libcufft.so.11"], "cufftPlan1d", 12),
        ("59_more_libraries.cuf", more, "cusparseCreate", 27),
    ];
    for (name, libraries, call, line) in all {
        let (program, folder) = for_gpus(name);
        let at = format!("{name}:{line}: {call} ");
        let absent = on_gpus(&program, &folder).run().unwrap();
        let printed = format!("{at}needs ");
        assert!(absent.code() == 1 && absent.stderr.contains(&printed), "{printed}: {}", absent.report());
        assert!(absent.stderr.contains("LD_LIBRARY_PATH"), "{}", absent.report());
        compile_support("vendor_libraries", folder.path()).unwrap();
        for library in libraries {
            std::fs::copy(folder.path().join("vendor_libraries.so"), folder.path().join(library)).unwrap();
        }
        let finished = on_gpus(&program, &folder).run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{}", finished.report());
        let on_cpu = Job::new(&program).env("ACCORD_CPU_DEVICES", "1").env("ACCORD_CPU_MEMORY", "64M").run().unwrap();
        assert!(on_cpu.code() == 1 && on_cpu.stderr.contains(&format!("{at}on device 0")), "{}", on_cpu.report());
        assert!(on_cpu.stderr.contains("which is no GPU"), "{}", on_cpu.report());
        let cluster = Cluster::builder().hosts(2).devices(0).gpus(&[0, 1]).env("LD_LIBRARY_PATH", folder.path());
        let cluster = cluster.env("ACCORD_CACHE", "off").start().unwrap();
        let remote = cluster.job(0, &program).unwrap().run().unwrap();
        assert!(remote.code() == 1 && remote.stderr.contains("which is of another node"), "{}", remote.report());
    }
}

/// The script for public sources tells apart what Accord lacks from the rest.
#[test]
fn public_sources_are_classified() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::copy(source("01_assign_whole.cuf"), folder.path().join("right.cuf")).unwrap();
    write("shared.cuf", "module shared\n  integer :: n = 3\nend module\n");
    write("uses.cuf", "program p\n  use shared\n  if (n /= 3) stop 1\nend program\n");
    write("rule.cuf", "program p\n  logical :: a\n  a = .true. .and. 3\nend program\n");
    write("vendor.cuf", "program p\n  use cutensor\nend program\n");
    write(
        "lacks.cuf",
        "program p\n  use cudafor\n  implicit none\n  integer :: i\n  i = cudaGraphLaunch(i)\nend program\n",
    );
    write("absent.cuf", "program p\n  use theirs\nend program\n");
    write("wrong.cuf", "program p\n  print *, 'Test failed'\nend program\n");
    libacc().unwrap();
    let mut command = Command::new(root().join("scripts/public-cuda-fortran"));
    command.arg("--accord").arg(tool(Tool::Accord).unwrap()).arg(folder.path()).env("ACCORD_CPU_MEMORY", "64M");
    let output = command.env_remove("ACCORD_LIBACC").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for (word, name) in [
        ("right", "right.cuf"),
        ("right", "uses.cuf"),
        ("flang", "rule.cuf"),
        ("vendor", "vendor.cuf"),
        ("ours", "lacks.cuf"),
        ("incomplete", "absent.cuf"),
        ("ours", "wrong.cuf"),
    ] {
        let row = printed.lines().find(|line| line.contains(&format!("/{name}")));
        assert!(
            row.is_some_and(|row| row.starts_with(word)),
            "{name}: {printed}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(output.status.code(), Some(1), "{printed}");
}
