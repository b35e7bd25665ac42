//! Site installations: the Helm chart, the services, the Debian package.

use accord_tests::{Tool, libacc, root, stripped, test_program, tool};
use std::path::Path;
use std::process::{Command, Output};

/// Exit code of scripts that lack a requirement.
const SKIPPED: i32 = 77;

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Whether a program is installed; prints so if it is not.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("skipped: no {program} here");
    }
    there
}

#[test]
fn the_chart_makes_what_kubernetes_takes() {
    let checked = Command::new(root().join("scripts/check-chart"))
        .arg("--accord")
        .arg(tool(Tool::Accord).unwrap())
        .output()
        .unwrap();
    match checked.status.code() {
        Some(0) => {}
        Some(SKIPPED) => println!("{}", text(&checked).trim()),
        _ => panic!("{}", text(&checked)),
    }
}

#[test]
fn systemd_takes_the_services() {
    if !has("systemd-analyze") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = libacc().unwrap().parent().unwrap().to_owned();
    // Lower is better; each unit file says what its service must be allowed.
    for (name, exposure) in [("accord-coordinator", "20"), ("accord-node-agent", "65")] {
        let service = std::fs::read_to_string(root().join(format!("install/systemd/{name}.service"))).unwrap();
        let service = service.replace("@PREFIX@/bin", programs.to_str().unwrap());
        let path = folder.path().join(format!("{name}.service"));
        std::fs::write(&path, service).unwrap();
        let verified = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
        assert!(verified.status.success() && text(&verified).is_empty(), "{}", text(&verified));
        let judged = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold", exposure])
            .arg(&path)
            .output()
            .unwrap();
        assert!(judged.status.success(), "{}", text(&judged));
    }
}

/// The package in a system of its own, whose services run a user's programs.
#[test]
fn the_services_run_programs_of_users() {
    let checked =
        Command::new(root().join("scripts/check-services")).env("BUILD", stripped().unwrap()).output().unwrap();
    match checked.status.code() {
        Some(0) => {}
        Some(SKIPPED) => println!("{}", text(&checked).trim()),
        _ => panic!("{}", text(&checked)),
    }
}

/// A server, two nodes, a user and an administrator, on hosts that are namespaces.
#[test]
fn a_cluster_is_set_up_and_used() {
    let build = libacc().unwrap().parent().unwrap().to_owned();
    let checked = Command::new(root().join("scripts/check-setup")).env("BUILD", build).output().unwrap();
    match checked.status.code() {
        Some(0) => {}
        Some(SKIPPED) => println!("{}", text(&checked).trim()),
        _ => panic!("{}", text(&checked)),
    }
}

#[test]
fn the_debian_package_has_all_that_is_installed() {
    if !has("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let build = stripped().unwrap();
    let script = |name: &str, arguments: &[&Path], variables: &[(&str, &Path)]| {
        let done = Command::new(root().join(name))
            .args(arguments)
            .env("BUILD", &build)
            // The package is used only once here.
            .env("DPKG_DEB_COMPRESSOR_TYPE", "none")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", text(&done));
        String::from_utf8(done.stdout).unwrap()
    };
    let package = script("scripts/deb", &[folder.path()], &[]);
    let (installed, unpacked) = (folder.path().join("installed"), folder.path().join("unpacked"));
    script("scripts/install", &[], &[("PREFIX", Path::new("/usr")), ("DESTDIR", &installed)]);
    let unpack = Command::new("dpkg-deb").args(["--extract", package.trim()]).arg(&unpacked).output().unwrap();
    assert!(unpack.status.success(), "{}", text(&unpack));
    std::fs::remove_dir_all(unpacked.join("usr/share/doc")).unwrap();
    let different = Command::new("diff").arg("--recursive").args([&installed, &unpacked]).output().unwrap();
    assert!(different.status.success(), "{}", text(&different));
    let ran = Command::new(unpacked.join("usr/bin/accord")).arg("--version").output().unwrap();
    assert!(text(&ran).starts_with(concat!("accord ", env!("CARGO_PKG_VERSION"), " (commit ")), "{}", text(&ran));
}

/// Scripts are left out: they run programs of the root.
#[test]
fn the_rpm_installs_in_an_empty_root_and_is_removed_again() {
    if !has("rpmbuild") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let build = libacc().unwrap().parent().unwrap().to_owned();
    let made = Command::new(root().join("scripts/rpm"))
        .arg(folder.path())
        .envs([("BUILD", build.as_os_str()), ("RPM_PAYLOAD", "w0.gzdio".as_ref())])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let package = String::from_utf8(made.stdout).unwrap();
    let system = folder.path().join("root");
    std::fs::create_dir(&system).unwrap();
    let rpm = |arguments: &[&str]| {
        let done = Command::new("rpm").arg("--root").arg(&system).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", text(&done));
        text(&done)
    };
    rpm(&["--install", "--nodeps", "--noscripts", package.trim()]);
    let ran = Command::new(system.join("usr/bin/accord")).arg("--version").output().unwrap();
    assert!(text(&ran).starts_with(concat!("accord ", env!("CARGO_PKG_VERSION"))), "{}", text(&ran));
    assert!(system.join("usr/lib/systemd/system/accord-node-agent.service").is_file());
    assert!(rpm(&["--query", "--list", "accord"]).contains("/usr/lib/libacc.so"));
    rpm(&["--erase", "--noscripts", "accord"]);
    assert!(!system.join("usr/bin/accord").exists() && !system.join("usr/include/accord").exists());
}

/// In a release the services are names of `accord`, which debug builds have as programs of their own.
#[test]
fn an_accord_without_the_services_is_not_installed_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let (build, tree) = (folder.path().join("build"), folder.path().join("tree"));
    std::fs::create_dir(&build).unwrap();
    let built = libacc().unwrap().parent().unwrap().to_owned();
    for name in ["accord", "libacc.so", "libaccord_cuf.a"] {
        std::os::unix::fs::symlink(built.join(name), build.join(name)).unwrap();
    }
    let install = || {
        let mut script = Command::new(root().join("scripts/install"));
        script.env("BUILD", &build).env("PREFIX", "/usr").env("DESTDIR", &tree).output().unwrap()
    };
    let refused = install();
    assert!(!refused.status.success() && !tree.exists(), "{}", text(&refused));
    assert!(text(&refused).contains("is not the accord-coordinator, too: run make first"), "{}", text(&refused));
}

/// Stripped programs still find their parts, and run a program on a CPU device.
#[test]
#[ignore = "long"]
fn a_release_runs_without_symbols_and_has_them_apart() {
    if !has("objcopy") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let build = libacc().unwrap().parent().unwrap().to_owned();
    let made = Command::new(root().join("scripts/release"))
        .arg("--quick")
        .arg(folder.path())
        .env("BUILD", &build)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let version = env!("CARGO_PKG_VERSION");
    let unpack = |archive: String| {
        let mut tar = Command::new("tar");
        let unpacked = tar.arg("-xf").arg(folder.path().join(&archive)).arg("-C").arg(folder.path()).output().unwrap();
        assert!(unpacked.status.success(), "{archive}: {}", text(&unpacked));
    };
    unpack(format!("accord-{version}-x86_64.tar.gz"));
    unpack(format!("accord-{version}-x86_64-debug.tar.gz"));
    let (tree, symbols) =
        (folder.path().join(format!("accord-{version}")), folder.path().join(format!("accord-{version}-x86_64-debug")));
    let sections = |file: &Path| text(&Command::new("objdump").arg("--section-headers").arg(file).output().unwrap());
    for name in ["bin/accord", "bin/accord-coordinator", "bin/accord-node-agent", "lib/libacc.so"] {
        let (stripped, file) = (sections(&tree.join(name)), Path::new(name).file_name().unwrap().to_str().unwrap());
        assert!(stripped.contains(".gnu_debuglink") && !stripped.contains(".debug_info"), "{name}: {stripped}");
        assert!(sections(&symbols.join(format!("{file}.debug"))).contains(".debug_line"), "{file}");
    }
    let ran = Command::new(tree.join("bin/accord"))
        .args(["run", "--"])
        .arg(test_program("cluster/who_am_i.c").unwrap())
        .envs([("ACCORD_CPU_DEVICES", "1"), ("ACCORD_CPU_MEMORY", "64M")])
        .env_remove("ACCORD_LIBACC")
        .output()
        .unwrap();
    assert!(ran.status.success() && text(&ran).starts_with("uid="), "{}", text(&ran));
    let mut sums = Command::new("sha256sum");
    let sums = sums.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(folder.path()).output().unwrap();
    assert!(sums.status.success(), "{}", text(&sums));
}
