//! `scripts/install`: a project in C, C++ and Fortran is built with the installation in each possible way, and its
//! programs run.

use accord_tests::{gcc, root, stripped};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Programs that call what GCC's own headers and library lack.
const C: &str = "#include <openacc.h>\n#include <stdio.h>\n#ifdef __cplusplus\nenum { CXX = 1 };\n#else\nenum { CXX = 0 };\n#endif\n\
    int main(void)\n{\n    int x = CXX;\n    acc_set_default_async(7);\n#pragma acc parallel copy(x) async\n    x += 41;\n\
    acc_wait_device(7, 0);\n    puts(x == 41 + CXX && acc_get_default_async() == 7 ? \"PASS\" : \"FAIL\");\n}\n";
const FORTRAN: &str = "program p\n  use openacc\n  implicit none\n  integer :: x = 0\n  call acc_set_default_async(7)\n\
    !$acc parallel copy(x) async\n  x = x + 41\n!$acc end parallel\n  call acc_wait_device(7, 0)\n\
    if (x == 41 .and. acc_get_default_async() == 7) print '(a)', 'PASS'\nend program\n";

struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("accord install ").tempdir().unwrap();
        let installed = Self { folder };
        good(installed.script(&[]));
        for (name, text) in [("a.c", C), ("b.cpp", C), ("c.f90", FORTRAN)] {
            std::fs::write(installed.at(name), text).unwrap();
        }
        installed
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn prefix(&self) -> PathBuf {
        // Without a blank, because a shell splits pkg-config's output.
        self.folder.path().with_file_name(self.folder.path().file_name().unwrap().to_string_lossy().replace(' ', "_"))
    }

    fn script(&self, words: &[&str]) -> Output {
        Command::new(root().join("scripts/install"))
            .args(words)
            .env("PREFIX", self.prefix())
            .env("BUILD", stripped().unwrap())
            .env_remove("DESTDIR")
            .output()
            .unwrap()
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("ACCORD_CACHE", self.at("cache")).env_remove("LD_PRELOAD");
        for (name, compiler) in [("ACCORD_CC", "gcc"), ("ACCORD_CXX", "g++"), ("ACCORD_FC", "gfortran")] {
            command.env(name, gcc(compiler));
        }
        command.env_remove("LD_LIBRARY_PATH").env_remove("ACCORD_LIBACC");
        command
    }

    #[track_caller]
    fn passes(&self, program: &str) {
        let output = self
            .command(self.at(program))
            .env("ACCORD_CPU_DEVICES", "1")
            .env("ACCORD_CPU_MEMORY", "64M")
            .output()
            .unwrap();
        assert!(good(output).contains("PASS"), "{program}");
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.prefix());
    }
}

#[track_caller]
fn good(output: Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out.into_owned() + &err
}

fn there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: no {program}");
    }
    there
}

#[test]
fn the_wrappers_build() {
    let installed = Installed::new();
    for (wrapper, source) in [("accord-cc", "a.c"), ("accord-c++", "b.cpp"), ("accord-fc", "c.f90")] {
        let program = installed.prefix().join("bin").join(wrapper);
        good(installed.command(program).args([source, "-o", source.split('.').next().unwrap()]).output().unwrap());
    }
    for program in ["a", "b", "c"] {
        installed.passes(program);
    }
}

#[test]
fn pkg_config_builds() {
    if !there("pkg-config") {
        return;
    }
    let installed = Installed::new();
    let ask = |words: &[&str]| {
        let mut command = installed.command("pkg-config");
        command.env("PKG_CONFIG_PATH", installed.prefix().join("lib/pkgconfig")).args(words).arg("accord");
        good(command.output().unwrap()).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (flags, libraries) = (ask(&["--cflags"]), ask(&["--libs"]));
    let module = ask(&["--variable=fortran_module"]);
    for (compiler, sources, program) in
        [("gcc", vec!["a.c"], "a"), ("g++", vec!["b.cpp"], "b"), ("gfortran", vec![module[0].as_str(), "c.f90"], "c")]
    {
        let mut command = installed.command(gcc(compiler));
        good(command.args(&flags).args(sources).args(&libraries).args(["-o", program]).output().unwrap());
        installed.passes(program);
    }
}

#[test]
fn cmake_builds() {
    if !there("cmake") {
        return;
    }
    let installed = Installed::new();
    let project = "cmake_minimum_required(VERSION 3.15)\nproject(three C CXX Fortran)\nfind_package(Accord 0.1 REQUIRED)\n\
        add_executable(a a.c)\nadd_executable(b b.cpp)\nadd_executable(c c.f90)\n\
        foreach(program a b c)\n  target_link_libraries(${program} PRIVATE Accord::OpenACC)\nendforeach()\n";
    std::fs::write(installed.at("CMakeLists.txt"), project).unwrap();
    let mut command = installed.command("cmake");
    command.args(["-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release"]);
    for (name, compiler) in [("C", "gcc"), ("CXX", "g++"), ("Fortran", "gfortran")] {
        command.arg(format!("-DCMAKE_{name}_COMPILER={}", gcc(compiler)));
    }
    good(command.env("CMAKE_PREFIX_PATH", installed.prefix()).output().unwrap());
    good(installed.command("cmake").args(["--build", "build"]).output().unwrap());
    for program in ["build/a", "build/b", "build/c"] {
        installed.passes(program);
    }
}

/// The environment module is Tcl: a Tcl shell that knows no others prints its commands.
#[test]
fn the_environment_module_leads_to_what_is_installed() {
    if !Command::new("tclsh").arg("/dev/null").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no tclsh");
        return;
    }
    let installed = Installed::new();
    let folder = installed.prefix().join("share/modulefiles/accord");
    let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let script = "proc prepend-path {name path} { puts \"$name=$path\" }\nproc setenv {name value} { puts \"$name=$value\" }\n\
        proc conflict {name} {}\nproc module-whatis {text} {}\nsource [lindex $argv 0]\n";
    std::fs::write(installed.at("load.tcl"), script).unwrap();
    let printed = good(installed.command("tclsh").arg("load.tcl").arg(file).output().unwrap());
    let value =
        |name: &str| printed.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap().to_owned();
    assert!(Path::new(&value("PATH")).join("accord-cc").exists(), "{printed}");
    assert!(Path::new(&value("LD_LIBRARY_PATH")).join("libacc.so").exists(), "{printed}");
    assert!(Path::new(&value("PKG_CONFIG_PATH")).join("accord.pc").exists(), "{printed}");
    assert!(Path::new(&value("CMAKE_PREFIX_PATH")).join("lib/cmake/Accord/AccordConfig.cmake").exists(), "{printed}");
    assert_eq!(value("ACCORD_HOME"), installed.prefix().display().to_string());
}

/// With DESTDIR all files are created there for PREFIX, and uninstalling leaves nothing.
#[test]
fn a_package_can_be_made_and_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let script = |words: &[&str]| {
        let mut command = Command::new(root().join("scripts/install"));
        command.args(words).env("PREFIX", "/opt/accord").env("DESTDIR", folder.path());
        good(command.env("BUILD", stripped().unwrap()).output().unwrap());
    };
    script(&[]);
    let prefix = folder.path().join("opt/accord");
    let module = std::fs::read_dir(prefix.join("share/modulefiles/accord")).unwrap().next().unwrap().unwrap().path();
    assert!(std::fs::read_to_string(module).unwrap().contains("set prefix /opt/accord\n"));
    assert!(prefix.join("bin/accord").is_file() && prefix.join("bin/accord-fc").is_symlink());
    std::fs::write(prefix.join("lib/other"), "").unwrap();
    script(&["--uninstall"]);
    let left = Command::new("find").arg(&prefix).args(["!", "-type", "d"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), prefix.join("lib/other").display().to_string());
    assert!(!prefix.join("include/accord").exists());
}
