#!/bin/sh
# Ranks by mpirun over the hosts of a file, without a batch system:
#
#   hostfile.sh HOSTS R PROGRAM [ARGUMENT...]
hosts=$1 ranks=$2
shift 2
exec accord run -v --hostfile "$hosts" --shared "${SHARED:-$HOME/.cache/accord}" -np "$ranks" -- "$@"
