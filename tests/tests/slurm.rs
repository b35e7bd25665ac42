//! Runs inside of Slurm allocations: munge, slurmctld and three slurmd from the distribution's packages, on hosts that
//! are network namespaces. Skipped, with the reason, if one of them is missing.

use accord_tests::{Finished, Hosts, Result, Variant, compile_mpi, is_mpich, repository_file, test_program};
use std::path::Path;
use std::time::Duration;

/// Starts Slurm on h1, h2 and h3, for the duration of the run: its processes end with the hosts. W is a folder for it.
const SLURM: &str = r#"
rsh=$OMPI_MCA_plm_rsh_agent
unset OMPI_MCA_plm OMPI_MCA_plm_rsh_agent OMPI_MCA_plm_rsh_no_tree_spawn
unset HYDRA_LAUNCHER HYDRA_LAUNCHER_EXEC HYDRA_LAUNCHER_EXTRA_ARGS
dd if=/dev/urandom of=$W/munge.key bs=128 count=1 2> /dev/null
chmod 600 $W/munge.key
mkdir -p $W/state
cat > $W/slurm.conf <<CONF
ClusterName=test
SlurmctldHost=h1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$W/munge.socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmctldPidFile=$W/slurmctld.pid
SlurmdPidFile=$W/slurmd-%n.pid
SlurmdSpoolDir=$W/spool-%n
TmpFS=$W/tmp-%n
StateSaveLocation=$W/state
SlurmctldLogFile=$W/slurmctld.log
SlurmdLogFile=$W/slurmd-%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=2
SlurmdTimeout=5
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=h[1-3] NodeAddr=10.77.0.[1-3] CPUs=2 RealMemory=500 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$W/slurm.conf
{
    munged --force --key-file=$W/munge.key --socket=$W/munge.socket --pid-file=$W/munged.pid --log-file=$W/munged.log \
        --seed-file=$W/munge.seed
    slurmctld -f $SLURM_CONF -c
    for host in h1 h2 h3; do
        mkdir -p $W/spool-$host $W/tmp-$host
        $rsh $host slurmd -f $SLURM_CONF -N $host
    done
} > $W/start.log 2>&1
for look in $(seq 1 100); do
    sinfo -h 2> /dev/null | grep -q '3 *idle' && break
    sleep 0.3
done
sinfo -h | grep -q '3 *idle' || { echo "no Slurm:"; cat $W/start.log $W/*.log; exit 1; }

# Waits until no job is there.
over() {
    for look in $(seq 1 200); do
        squeue -h | grep -q . || break
        sleep 0.3
    done
}
# Waits for so many ranks of a job, and prints how many there are.
ready() {
    for look in $(seq 1 200); do
        [ "$(grep -c ready $W/out)" -eq $1 ] && break
        sleep 0.2
    done
    grep -c ready $W/out
}
"#;

/// Runs a script on the first host, under Slurm over all three; `None` if that is impossible.
fn in_slurm(script: &str, arguments: &[&Path]) -> Result<Option<Finished>> {
    let Some(hosts) = Hosts::new(&["munged", "slurmctld", "slurmd", "srun"])? else { return Ok(None) };
    let script = format!("{SLURM}{script}");
    hosts.run(&script, arguments, |job| job.timeout(Duration::from_secs(240))).map(Some)
}

fn well(finished: &Finished) {
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
    assert!(finished.stdout.contains("left: \n"), "{}", finished.report());
}

/// The job scripts of examples/jobs, unchanged.
#[test]
fn job_scripts_run_ranks_over_all_nodes() -> Result<()> {
    let script = r#"
        for launcher in srun mpirun; do
            sbatch -Q --nodes=3 --ntasks=6 --overcommit -o $W/out "$2/slurm-$launcher.sbatch" "$1" 6
            over
            echo "== $launcher"
            cat $W/out
        done
        left
    "#;
    let program = compile_mpi(&repository_file("tests/programs/mpi/own_world.c"), Variant::PLAIN)?;
    let Some(finished) = in_slurm(script, &[&program, &repository_file("examples/jobs")])? else { return Ok(()) };
    well(&finished);
    let parts: Vec<_> = finished.stdout.split("== ").skip(1).collect();
    assert_eq!(parts.len(), 2, "{}", finished.report());
    for part in parts {
        for rank in 0..6 {
            assert!(part.contains(&format!("rank={rank} ranks=6 devices=3")), "{rank}: {}", finished.report());
        }
        assert!(part.contains("fabric: mpi: the agents can use "), "{}", finished.report());
    }
    Ok(())
}

/// A barrier that Slurm's own PMIx omits for so few nodes (`cli/src/launch/srun.rs`). Ranks that MPI_Init releases too
/// early die occasionally; here the first one is late on purpose.
#[test]
fn ranks_wait_at_a_barrier_for_the_last_one() -> Result<()> {
    if is_mpich() {
        println!("skipped: MPICH's ranks know each other by PMI2");
        return Ok(());
    }
    let script = r#"
        sbatch -Q --nodes=3 --ntasks=3 -o $W/out "$2/slurm-srun.sbatch" python3 "$1" $W
        over
        cat $W/out
        left
    "#;
    let ranks = repository_file("tests/programs/support/pmix_barrier.py");
    let Some(finished) = in_slurm(script, &[&ranks, &repository_file("examples/jobs")])? else { return Ok(()) };
    well(&finished);
    for rank in 0..3 {
        assert!(
            finished.stdout.contains(&format!("rank={rank} behind the barrier: first=came")),
            "{}",
            finished.report()
        );
    }
    Ok(())
}

#[test]
fn a_job_that_is_cancelled_leaves_nothing() -> Result<()> {
    let script = r#"
        sbatch -Q --nodes=3 --ntasks=3 -o $W/out "$2/slurm-srun.sbatch" "$1" launch 1
        ready 3
        scancel --user=root
        over
        left
    "#;
    let Some(finished) = in_slurm(script, &[&test_program("cluster/endless.c")?, &repository_file("examples/jobs")])?
    else {
        return Ok(());
    };
    well(&finished);
    assert!(finished.stdout.starts_with("3\n"), "{}", finished.report());
    Ok(())
}

#[test]
fn a_job_whose_node_fails_ends_and_leaves_nothing() -> Result<()> {
    let script = r#"
        sbatch -Q --nodes=3 --ntasks=3 --no-requeue -o $W/out "$2/slurm-srun.sbatch" "$1" launch 1
        ready 3
        # All that the node has.
        kill -9 $(for pid in $(ps -e -o pid=); do
            { tr '\0' ' ' < /proc/$pid/cmdline | grep -q -E 'accord-node-agent|slurm|endless' &&
                [ "$(nsenter --uts=/proc/$pid/ns/uts hostname)" = h3 ] && echo $pid; } 2> /dev/null
        done)
        over
        cat $W/out
        left
    "#;
    let Some(finished) = in_slurm(script, &[&test_program("cluster/endless.c")?, &repository_file("examples/jobs")])?
    else {
        return Ok(());
    };
    well(&finished);
    assert!(finished.stdout.contains("the agent of node h3 "), "{}", finished.report());
    Ok(())
}

/// Two jobs of Slurm on a node of a standing cluster: the first one's epilog takes back nothing that the second one has.
#[test]
fn the_prolog_takes_a_node_from_a_standing_cluster_and_the_epilog_gives_it_back() -> Result<()> {
    let Some(hosts) = Hosts::new(&["munged", "slurmctld", "slurmd", "srun", "flock"])? else { return Ok(()) };
    let before = r#"
        for script in prolog epilog; do
            # The hosts share one file system.
            sed -e "s|/etc/accord|$W|; s|/run/accord-slurm|$W/run-\$SLURMD_NODENAME|; s|@PREFIX@|/usr|; s|^PATH=.*|PATH=$PATH|" "$1/$script" > $W/$script
            chmod 755 $W/$script
        done
        accord pki init $W/authority --cluster test > /dev/null
        for role in coordinator "agent h2" "agent h3" "admin slurm"; do
            accord pki issue $W/authority $role --out "$W/tls-${role#* }" > /dev/null
        done
        printf 'ACCORD_COORDINATOR=10.77.0.1:7447\nACCORD_TLS=%s/tls-slurm\n' $W > $W/slurm.env
        export ACCORD_COORDINATOR=10.77.0.1:7447
        accord-coordinator --listen 10.77.0.1:7447 --tls $W/tls-coordinator > $W/coordinator.log 2>&1 &
        for host in h2 h3; do
            $OMPI_MCA_plm_rsh_agent $host accord-node-agent --tls $W/tls-$host --keep off > $W/agent-$host.log 2>&1 &
        done
    "#;
    let after = r#"
        state() { ACCORD_TLS=$W/tls-slurm accord info | awk '$1 == "h2" { print $2 }'; }
        await() {
            for look in $(seq 1 200); do
                [ "$(state)" = $1 ] && break
                sleep 0.2
            done
            echo "$2: h2 is $(state)"
        }
        jobs() {
            for look in $(seq 1 200); do
                [ "$(squeue -h -t R,CG | wc -l)" -eq $1 ] && break
                sleep 0.2
            done
        }
        await up "at first"
        for job in 1 2; do
            sbatch -Q -w h2 -n 1 --mem 10 -o $W/out --wrap "until [ -e $W/go-$job ]; do sleep 0.1; done"
        done
        jobs 2
        await draining "two jobs"
        touch $W/go-1
        jobs 1
        await draining "one job"
        touch $W/go-2
        over
        await up "none"
        sinfo -h -n h2 -o %t
        cat $W/agent-h2.log
        ACCORD_TLS=$W/tls-slurm accord shutdown --agents > /dev/null
        left
    "#;
    let slurm = SLURM
        .replace("ReturnToService=2\n", "ReturnToService=2\nProlog=$W/prolog\nEpilog=$W/epilog\nPrologFlags=Alloc\n");
    let script = format!("{before}{slurm}{after}");
    let scripts = repository_file("install/slurm");
    let finished = hosts.run(&script, &[&scripts], |job| job.timeout(Duration::from_secs(240)))?;
    well(&finished);
    let states =
        ["at first: h2 is up", "two jobs: h2 is draining", "one job: h2 is draining", "none: h2 is up", "idle"];
    assert!(finished.stdout.starts_with(&states.join("\n")), "{}", finished.report());
    Ok(())
}
