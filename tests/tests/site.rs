//! Runs over the nodes of a site, by its mpirun: `accord run --hostfile`, and each step by hand. The nodes are hosts
//! that are network namespaces, where the program of `accord run --local-cluster HxD --bare` may use mpirun as on a
//! cluster. Skipped, with the reason, without namespaces or mpirun.

use accord_test_tier::{cases, pick};
use accord_tests::{
    Finished, Hosts, Job, Result, Tool, Variant, compile_mpi, libacc, no_mpi, repository_file, test_program, tool,
};
use std::path::Path;
use std::time::Duration;

/// Runs a script on the first of three hosts, with a file `$W/hosts` of all of them; `None` if that is impossible.
fn on_hosts(script: &str, arguments: &[&Path]) -> Result<Option<Finished>> {
    let Some(hosts) = Hosts::new(&["mpirun"])? else { return Ok(None) };
    let file = hosts.folder().join("hosts");
    std::fs::write(file, "h1 slots=2\nh2 slots=2\n# the last\nh3 slots=2\n").map_err(|error| error.to_string())?;
    hosts.run(script, arguments, |job| job.timeout(Duration::from_secs(180))).map(Some)
}

fn succeeded(finished: &Finished) {
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
    assert!(finished.stdout.contains("left: \n") || !finished.stdout.contains("left: "), "{}", finished.report());
}

fn own_world() -> Result<std::path::PathBuf> {
    compile_mpi(&repository_file("tests/programs/mpi/own_world.c"), Variant::PLAIN)
}

#[test]
fn ranks_of_an_mpi_program_use_the_devices_of_all_hosts() -> Result<()> {
    for (fabric, why) in [("auto", "fabric: mpi: the agents can use "), ("tcp", "fabric: tcp: --fabric tcp")] {
        let script = format!(
            "accord run -v --hostfile $W/hosts --shared $SHARED --fabric {fabric} -np 6 -- \"$1\" 6; code=$?; left; exit $code"
        );
        let Some(finished) = on_hosts(&script, &[&own_world()?])? else { return Ok(()) };
        succeeded(&finished);
        for rank in 0..6 {
            let line = format!("rank={rank} ranks=6 devices=3");
            assert!(finished.stdout.contains(&line), "no {line}: {}", finished.report());
        }
        assert!(finished.stderr.contains(why), "{}", finished.report());
    }
    Ok(())
}

/// Open MPI's file has `h1 slots=2` and MPICH's `h1:2`. The installed one gets its own.
#[test]
fn a_file_of_hosts_may_be_in_the_words_of_either_mpi() -> Result<()> {
    let script = r#"
        printf '# two\n\nh1:2\nh2:1 # one\n' > $W/hosts
        accord run --hostfile $W/hosts --shared $SHARED -np 3 -- "$1" 3 || exit
        printf 'h1 slots = 2\n\n# one more\nh2\n' > $W/hosts
        accord run --hostfile $W/hosts --shared $SHARED -np 3 -- "$1" 3 || exit
        printf 'h1:2\n\nh2:0\n' > $W/hosts
        accord run --hostfile $W/hosts --shared $SHARED -np 3 -- "$1" 3
        echo "code $?"
        left
    "#;
    let Some(finished) = on_hosts(script, &[&own_world()?])? else { return Ok(()) };
    succeeded(&finished);
    for rank in 0..3 {
        let line = format!("rank={rank} ranks=3 devices=2");
        assert_eq!(finished.stdout.matches(&line).count(), 2, "{line}: {}", finished.report());
    }
    assert!(finished.stderr.contains("hosts, line 3: \"0\" is not a number of slots"), "{}", finished.report());
    assert!(!finished.stdout.contains("code 0"), "{}", finished.report());
    Ok(())
}

/// The ranks of a local cluster use the gateway of their own job.
#[test]
fn ranks_of_a_local_cluster_go_by_mpi_too() -> Result<()> {
    if let Some(why) = no_mpi() {
        println!("skipped: {why}");
        return Ok(());
    }
    for options in cases(&[&[][..], &["--loopback"]], 1) {
        let job =
            Job::new(tool(Tool::Accord)?).with_mpi().env("ACCORD_LIBACC", libacc()?).env("ACCORD_CPU_MEMORY", "128M");
        let job = job
            .args(["run", "-v", "--local-cluster", "2x1", "--fabric", "mpi", "-np", "4"])
            .args(options.iter().copied());
        let finished = job.arg("--").arg(own_world()?).arg("4").run()?;
        succeeded(&finished);
        assert!(finished.stdout.contains("rank=3 ranks=4 devices=2"), "{}", finished.report());
        assert!(finished.stderr.contains("fabric: mpi: --fabric mpi"), "{}", finished.report());
    }
    Ok(())
}

#[test]
fn each_step_by_hand_does_the_same() -> Result<()> {
    let script = "ADDRESS=10.77.0.1 \"$2\" $W/hosts 3 \"$1\" 3; code=$?; left; exit $code";
    let Some(finished) = on_hosts(script, &[&own_world()?, &repository_file("examples/jobs/by-hand.sh")])? else {
        return Ok(());
    };
    succeeded(&finished);
    assert!(finished.stdout.contains("rank=2 ranks=3 devices=3"), "{}", finished.report());
    Ok(())
}

/// An agent dies, or a node with all its processes: the run reports which one, and ends. Ranks that their launcher
/// leaves alive get the reason, too.
#[test]
fn a_run_whose_node_dies_names_it_and_ends() -> Result<()> {
    let script = r#"
        cd "$SHARED/.."
        accord run --hostfile $W/hosts --shared $SHARED -np 3 -- "$1" launch 2 > out 2> err &
        run=$!
        until [ "$(grep -c ready out)" -eq 3 ]; do sleep 0.1; done
        kill -9 $(for pid in $(ps -e -o pid=); do
            { tr '\0' ' ' < /proc/$pid/cmdline | grep -q -E "$DIES" &&
                [ "$(nsenter --uts=/proc/$pid/ns/uts hostname)" = h3 ] && echo $pid; } 2> /dev/null
        done)
        begin=$(date +%s)
        wait $run
        echo "code $? after $(($(date +%s) - begin)) s"
        cat out err
        left
    "#;
    for dies in cases(&["accord-node-agent", "accord-node-agent|orted|hydra|endless"], 1) {
        let script = format!("DIES='{dies}'\n{script}");
        let Some(finished) = on_hosts(&script, &[&test_program("cluster/endless.c")?])? else { return Ok(()) };
        let report = finished.report();
        assert!(finished.stdout.contains("left: \n") && finished.left_behind.is_empty(), "{dies}: {report}");
        assert!(!finished.stdout.contains("code 0 "), "{dies}: {report}");
        let ended = "the run has ended early: the agent of node h3 ";
        assert!(finished.stdout.contains(ended), "{dies}: {report}");
        let reported = finished.stdout.lines().any(|line| line.contains("acc_error") && line.contains("node h3"));
        assert!(reported || dies.contains("orted"), "{dies}: {report}");
    }
    Ok(())
}

/// Whichever process is killed, and whenever: nothing is left on any host, nor in the shared folder.
#[test]
fn a_run_that_is_killed_at_any_moment_leaves_nothing() -> Result<()> {
    let script = r#"
        for whom in $WHOM; do
            for moment in $MOMENTS; do
                accord run --hostfile $W/hosts --shared $SHARED -np 3 -- "$1" launch 1 > /dev/null 2>&1 &
                run=$!
                sleep $moment
                case $whom in
                run) kill -9 $run ;;
                term) kill -15 $run ;;
                supervisor) kill -9 $(cat /proc/$run/task/$run/children) ;;
                esac
                wait $run
                echo "$whom after $moment s:"
                left
            done
        done
    "#;
    let (whom, moments) = (cases(&["run", "supervisor", "term"], 2), pick(&["0.3", "2"][..], &["0.3", "1", "4"]));
    let script = format!("WHOM='{}' MOMENTS='{}'\n{script}", whom.join(" "), moments.join(" "));
    let Some(finished) = on_hosts(&script, &[&test_program("cluster/endless.c")?])? else { return Ok(()) };
    let runs = whom.len() * moments.len();
    assert_eq!(finished.stdout.matches("left: \n").count(), runs, "{}", finished.report());
    // The folder is empty, too: lines come in pairs.
    assert_eq!(finished.stdout.lines().count(), 2 * runs, "{}", finished.report());
    Ok(())
}
