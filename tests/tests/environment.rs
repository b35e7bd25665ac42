//! The environment: regions see all of it on their program's own node and a list of variables elsewhere. It also sets
//! the number of cores that waits assume.

use accord_tests::{Cluster, Finished, Job, Tool, gcc, repository_file, test_program, tool};
use std::path::Path;
use std::process::Command;

fn run(cluster: &Cluster, program: &Path, more: Option<&str>) -> Finished {
    let job = cluster.job(0, program).unwrap().env("MY_TOKEN", "secret").env("OMP_DYNAMIC", "false");
    let job = more.into_iter().fold(job, |job, more| job.env("ACCORD_ENV", more));
    let job = job.args(["MY_TOKEN", "OMP_DYNAMIC", "ACCORD_TLS", "ACCORD_COORDINATOR"]);
    job.run().unwrap().success().unwrap()
}

#[test]
fn secrets_in_the_environment_stay_on_their_node() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("what_is_set");
    let output = Command::new(gcc("gcc"))
        .args(["-O1", "-g", "-fopenacc", "-foffload=disable"])
        .arg(repository_file("tests/programs/cluster/what_is_set.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").start().unwrap();

    let printed = run(&cluster, &program, None).stdout;
    for (device, name, state) in [
        (0, "MY_TOKEN", "set"),
        (0, "OMP_DYNAMIC", "set"),
        (1, "MY_TOKEN", "unset"),
        (1, "OMP_DYNAMIC", "set"),
        (1, "ACCORD_TLS", "unset"),
        (1, "ACCORD_COORDINATOR", "unset"),
    ] {
        assert!(printed.contains(&format!("device {device}: {name} {state}\n")), "{printed}");
    }
    for more in ["OTHER, MY_TOKEN", "MY_*", "*"] {
        let printed = run(&cluster, &program, Some(more)).stdout;
        assert!(printed.contains("device 1: MY_TOKEN set\n"), "{more}: {printed}");
        assert!(printed.contains("device 1: ACCORD_TLS unset\n"), "{more}: {printed}");
    }
}

/// Programs are correct with any number; programs and agents refuse an invalid one.
#[test]
fn waits_reckon_with_as_many_cores_as_is_said() {
    let program = test_program("c/d2d_all_pairs.c").unwrap();
    for cores in ["1", "64"] {
        let cluster =
            Cluster::builder().hosts(2).devices(1).memory("64M").env("ACCORD_SPIN_CORES", cores).start().unwrap();
        cluster.job(0, &program).unwrap().env("ACCORD_SPIN_CORES", cores).run().unwrap().success().unwrap();
    }
    let cluster = Cluster::builder().hosts(1).devices(1).memory("64M").start().unwrap();
    let agent = Job::new(tool(Tool::NodeAgent).unwrap()).args(["--coordinator", "127.0.0.1:1"]);
    for job in [cluster.job(0, &program).unwrap(), agent] {
        let finished = job.env("ACCORD_SPIN_CORES", "all").run().unwrap();
        assert_ne!(finished.code(), 0, "{}", finished.report());
        let printed = &finished.stderr;
        assert!(printed.contains("ACCORD_SPIN_CORES is \"all\""), "{}", finished.report());
        assert!(printed.contains("set it to a number of cores"), "{}", finished.report());
    }
}
