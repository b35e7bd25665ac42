//! CUDA Fortran with MPI: `use mpi` and `mpif.h` of an MPI that was built for gfortran, and device arrays as buffers. Skipped, with a message, without
//! LLVM 22 or MPI.

mod driver;

use accord_tests::{Finished, Job, Tool, libacc, root, tool};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const FLANG: &str = "/usr/lib/llvm-22/bin/flang";
/// Ranks without devices of their own: all devices are on other nodes.
const REMOTE: [&str; 4] = ["run", "--local-cluster", "2x1", "--remote-only"];

/// Whether a compiler or MPI is missing; prints so.
fn is_skipped() -> bool {
    let has_mpi =
        Command::new("mpifort").arg("-show").output().is_ok() && Command::new("mpirun").arg("-V").output().is_ok();
    let missing = if !Path::new(FLANG).is_file() {
        format!("no {FLANG}: install flang-22 and llvm-22")
    } else if !has_mpi {
        "no mpifort or mpirun: install libopenmpi-dev or mpich".to_owned()
    } else {
        return false;
    };
    println!("skipped: {missing}");
    true
}

fn source(name: &str) -> PathBuf {
    root().join("tests/programs/cuda-fortran/mpi").join(name)
}

/// Returns `accord cuf ARGUMENTS` in `folder`, which keeps the modules.
fn cuf<T: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = T>) -> Command {
    libacc().unwrap();
    let mut command = Command::new(tool(Tool::Accord).unwrap());
    command.arg("cuf").args(arguments).current_dir(folder).env_remove("ACCORD_LIBACC");
    command.env("ACCORD_CACHE", folder.join("cache"));
    command
}

#[track_caller]
fn good(output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
}

/// Compiles a program of the tests.
fn program(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join("program");
    good(&cuf(folder, [source(name).as_os_str(), "-o".as_ref(), program.as_os_str()]).output().unwrap());
    program
}

/// Returns a job that starts `ranks` ranks by `mpirun`, after the words `before`. Open MPI names its files by host and
/// process number, which another test's hosts have too, so they are in `folder`.
fn ranks(folder: &Path, before: &[&str], ranks: &str) -> Job {
    let version = Command::new("mpirun").arg("--version").output().unwrap();
    let is_mpich = String::from_utf8_lossy(&version.stdout).contains("HYDRA");
    let options: &[&str] = if is_mpich { &[] } else { &["--allow-run-as-root", "--oversubscribe"] };
    let job =
        Job::new(tool(Tool::Accord).unwrap()).env("ACCORD_LIBACC", libacc().unwrap()).env("ACCORD_CPU_MEMORY", "64M");
    let job = job.env("TMPDIR", folder);
    job.args(before.iter().copied()).args(["--", "mpirun"]).args(options.iter().copied()).args(["-np", ranks])
}

#[track_caller]
fn passes(finished: Finished) {
    let finished = finished.success().unwrap();
    assert!(finished.stdout.contains("PASS") && !finished.stdout.contains("FAIL"), "{}", finished.report());
}

#[test]
fn ranks_exchange_halos_of_device_arrays() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "halo.cuf");
    passes(ranks(folder.path(), &REMOTE, "2").arg(&program).run().unwrap());
    let own = Job::new(tool(Tool::Accord).unwrap()).env("ACCORD_LIBACC", libacc().unwrap());
    passes(own.args(["run", "--local-cluster", "1x1", "-np", "2", "--"]).arg(&program).run().unwrap());
}

/// Datatypes with gaps, requests in any order, lists of counts, buffers that count only for the root, a module's variable.
#[test]
fn device_arrays_are_buffers_of_all_kinds_of_calls() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "buffers.cuf");
    for count in ["1", "3"] {
        passes(ranks(folder.path(), &REMOTE, count).arg(&program).run().unwrap());
    }
}

/// Reductions that scatter, lists of datatypes, packed data, one-sided access, matched messages.
#[test]
fn device_arrays_are_buffers_of_further_calls() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "more_calls.cuf");
    for count in ["1", "3"] {
        passes(ranks(folder.path(), &REMOTE, count).arg(&program).run().unwrap());
    }
}

/// Files, also by nonblocking calls and with a datatype that has gaps.
#[test]
fn device_arrays_are_buffers_of_files() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "files.cuf");
    for count in ["1", "3"] {
        passes(ranks(folder.path(), &REMOTE, count).arg(&program).run().unwrap());
    }
}

/// A device array in a call that can't have one is refused with file, line and remedy, and a host array is not.
#[test]
fn calls_without_staging_are_refused_with_their_line() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "program p\n  use mpi\n  integer, device :: d(3)\n  integer :: h(3), which, handle, error, status(mpi_status_size)\n  character :: text\n  \
                d = 1\n  h = 1\n  call get_command_argument(1, text)\n  call mpi_init(error)\n  \
                call mpi_file_open(mpi_comm_self, '{}/f', mpi_mode_create + mpi_mode_rdwr, mpi_info_null, handle, error)\n  \
                call mpi_file_write_all_begin(handle, h, 3, mpi_integer, error)\n  call mpi_file_write_all_end(handle, h, status, error)\n  \
                if (text == 'w') call mpi_win_create(d, 12_mpi_address_kind, 4, mpi_info_null, mpi_comm_world, which, error)\n  \
                if (text == 'f') call mpi_file_read_at_all_begin(handle, 0_mpi_offset_kind, d, 3, mpi_integer, error)\n  \
                if (text == 'n') call mpi_neighbor_allgather(h, 3, mpi_integer, d, 3, mpi_integer, mpi_comm_world, error)\n  \
                call mpi_file_close(handle, error)\n  print *, 'PASS'\n  call mpi_finalize(error)\nend\n",
        folder.path().display()
    );
    std::fs::write(folder.path().join("calls.cuf"), text).unwrap();
    let program = folder.path().join("program");
    good(&cuf(folder.path(), ["calls.cuf".as_ref(), "-o".as_ref(), program.as_os_str()]).output().unwrap());
    let run = |which: &str| ranks(folder.path(), &REMOTE, "1").arg(&program).arg(which).run().unwrap();
    passes(run("-"));
    for (which, printed) in [
        (
            "w",
            "calls.cuf:13: MPI_Win_create with an array of device 0, which this MPI can't open to other ranks; make the window of a host array",
        ),
        (
            "f",
            "calls.cuf:14: MPI_File_read_at_all_begin with an array of device 0, which this call can't use as a buffer; pass a host array",
        ),
        ("n", "calls.cuf:15: MPI_Neighbor_allgather with an array of device 0, which this call can't use as a buffer"),
    ] {
        let finished = run(which);
        assert!(finished.code() != 0 && finished.stderr.contains(printed), "{}", finished.report());
    }
}

/// The results are the same whether MPI gets the device's address or a copy; which one it gets remains untested.
#[test]
fn device_arrays_of_gpus_are_buffers_with_every_setting() {
    if is_skipped() {
        return;
    }
    let folder = driver::driver();
    let program = program(folder.path(), "buffers.cuf");
    for direct in ["on", "off", "auto"] {
        let job = ranks(folder.path(), &["run"], "2")
            .arg(&program)
            .env("LD_LIBRARY_PATH", folder.path())
            .env("ACCORD_CACHE", "off");
        passes(job.env("ACCORD_MPI_GPUS", direct).env("ACCORD_CPU_DEVICES", "0").run().unwrap());
    }
}

/// The header in fixed form; compilers that make the module at one time; objects that are linked later.
#[test]
fn mpis_header_compiles_in_fixed_form() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "c     A comment.\n      program fixed\n      include 'mpif.h'\n      integer, device :: d(3)\n      integer h(3), error, rank\n      \
                call mpi_init(error)\n      call mpi_comm_rank(mpi_comm_world, rank, error)\n      h = rank + 1\n      d = h\n      \
                call mpi_allreduce(mpi_in_place, d, 3, mpi_integer,\n     &     mpi_sum, mpi_comm_world, error)\n      h = d\n      \
                if (rank .eq. 0 .and. h(3) .eq. 3) print *, 'PASS'\n      call mpi_finalize(error)\n      end\n";
    std::fs::write(folder.path().join("fixed.cuf"), text).unwrap();
    let compile = |object: &str| {
        let mut command = cuf(folder.path(), ["-Mfixed", "-c", "fixed.cuf", "-o", object]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let compilers = ["a.o", "b.o", "c.o"].map(compile);
    compilers.into_iter().for_each(|compiler| good(&compiler.wait_with_output().unwrap()));
    let kept: Vec<_> =
        std::fs::read_dir(folder.path().join("cache")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(kept.len() == 1 && kept[0].to_string_lossy().starts_with("mpi-"), "{kept:?}");
    good(&cuf(folder.path(), ["a.o", "-o", "program"]).output().unwrap());
    passes(ranks(folder.path(), &REMOTE, "2").arg(folder.path().join("program")).run().unwrap());
}

/// C starts MPI, and no object but a library's calls one of its routines in Fortran.
#[test]
fn a_library_alone_calls_mpi() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "add.cuf",
        "subroutine add(h)\n  use mpi\n  integer :: h(3), error\n  integer, device, allocatable :: d(:)\n  allocate(d(3))\n  d = h\n  \
         call mpi_allreduce(mpi_in_place, d, 3, mpi_integer, mpi_sum, mpi_comm_world, error)\n  h = d\n  deallocate(d)\nend\n",
    );
    write(
        "start.c",
        "#include <stdio.h>\nint MPI_Init(int *, char ***);\nint MPI_Finalize(void);\nvoid add_(int *);\n\
         int main(int argc, char **argv) {\n  int h[3] = {1, 2, 3};\n  MPI_Init(&argc, &argv);\n  add_(h);\n  \
         puts(h[0] == 2 && h[1] == 4 && h[2] == 6 ? \"PASS\" : \"FAIL\");\n  MPI_Finalize();\n  return 0;\n}\n",
    );
    good(&cuf(folder.path(), ["-c", "add.cuf", "-o", "add.o"]).output().unwrap());
    let tool = |name: &str, arguments: &[&str]| {
        good(&Command::new(name).args(arguments).current_dir(folder.path()).output().unwrap());
    };
    tool("ar", &["rcs", "libadd.a", "add.o"]);
    tool("gcc", &["-c", "start.c"]);
    good(&cuf(folder.path(), ["start.o", "libadd.a", "-o", "program"]).output().unwrap());
    passes(ranks(folder.path(), &REMOTE, "2").arg(folder.path().join("program")).run().unwrap());
}

#[test]
fn modules_of_other_compilers_are_refused_with_their_line() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("theirs.f90", "module theirs\n  integer :: i\nend module\n");
    write("own.cuf", "program p\n  use theirs\n  print *, i\nend\n");
    write("f08.cuf", "program p\n  use cudafor\n  use mpi_f08\nend\n");
    write("mpi.cuf", "program p\n  use mpi\nend\n");
    let gfortran = Command::new("gfortran").args(["-c", "theirs.f90"]).current_dir(folder.path()).output().unwrap();
    good(&gfortran);
    let cases: [(&[&str], &str); 3] = [
        (
            &["-c", "own.cuf"],
            "own.cuf:2:7: error: theirs.mod is another compiler's, as gfortran's; compile its source with accord cuf",
        ),
        (
            &["-c", "f08.cuf"],
            "f08.cuf:3:7: error: the module mpi_f08 exists only for the compiler that built the MPI; write use mpi",
        ),
        (&["-c", "mpi.cuf", "--mpi=/none/mpifort"], "can't start /none/mpifort"),
    ];
    for (arguments, printed) in cases {
        let output = cuf(folder.path(), arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(printed), "{arguments:?}: {text}");
    }
}
