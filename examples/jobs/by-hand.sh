#!/bin/sh
# Accord over the hosts of a file, each step by hand: what `accord run --hostfile HOSTS -np R -- PROGRAM` does.
#
#   by-hand.sh HOSTS R PROGRAM [ARGUMENT...]
#
# For Open MPI and MPICH. Needs a folder that all nodes see (SHARED), and accord, accord-node-agent and libacc.so at the same path everywhere.
set -eu
hosts=$1 ranks=$2
shift 2
nodes=$(sed 's/#.*//; s/[: ].*//; /^$/d' "$hosts" | sort -u | wc -l)
bin=$(dirname "$(command -v accord)")
libacc=$bin/libacc.so
[ -e "$libacc" ] || libacc=$(dirname "$bin")/lib/libacc.so
folder=$(mktemp -d "${SHARED:-$HOME}/accord-job-XXXXXX")
world=world-$$
case $(mpirun --version) in
*HYDRA*) # MPICH's, which hands the environment on by itself, and has "node1:4" where Open MPI has "node1 slots=4".
    sed 's/#.*//; s/[[:space:]]*slots *= */:/' "$hosts" > "$folder/hosts"
    mpirun="mpirun -f $folder/hosts"
    one_each="-ppn 1 -bind-to none"
    export_to_ranks="-genv LD_PRELOAD $libacc"
    ;;
*)
    mpirun="mpirun --hostfile $hosts"
    [ "$(id -u)" -ne 0 ] || mpirun="$mpirun --allow-run-as-root"
    one_each="--map-by ppr:1:node --bind-to none"
    export_to_ranks="-x ACCORD_COORDINATOR -x ACCORD_TLS -x ACCORD_TRANSPORT -x LD_PRELOAD=$libacc"
    ;;
esac

# 1. Certificates for the time of the job: the coordinator's, the agents', the program's.
accord pki init "$folder/authority" --cluster job > "$folder/pki.log"
accord pki issue "$folder/authority" coordinator --out "$folder/coordinator" >> "$folder/pki.log"
accord pki issue "$folder/authority" agent '*' --out "$folder/agent" >> "$folder/pki.log"
accord pki issue "$folder/authority" tenant "$(id -un)" --out "$folder/program" >> "$folder/pki.log"

# 2. The coordinator, here.
address=${ADDRESS:-$(hostname -I | awk '{print $1}')}
accord-coordinator --listen "$address:0" --tls "$folder/coordinator" > "$folder/coordinator.log" &
coordinator=$!
agents=
trap 'kill $agents $coordinator 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
trap 'exit 143' INT TERM
until port=$(grep -o '[0-9]*$' "$folder/coordinator.log" 2> /dev/null); do sleep 0.1; done

# 3. One agent on each node: the ranks of an MPI world of their own.
$mpirun -np "$nodes" $one_each \
    accord-node-agent --fabric mpi --world "$world" --coordinator "$address:$port" --listen 0.0.0.0:0 \
    --tls "$folder/agent" --users 'root,0,*' --libacc "$libacc" > "$folder/agents.log" 2>&1 &
agents=$!
export ACCORD_COORDINATOR="$address:$port" ACCORD_TLS="$folder/program" ACCORD_TRANSPORT="mpi:$world"
until [ "$(accord info | grep -c ' up ')" -ge "$nodes" ]; do
    kill -0 $agents || { cat "$folder/agents.log" >&2; exit 1; }
    sleep 0.2
done

# 4. The program, in a world of its own.
$mpirun -np "$ranks" $export_to_ranks "$@"
