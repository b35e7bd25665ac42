"""A rank of a Slurm step, without MPI: the first rank comes late to a barrier of PMIx. FOLDER is the same for all ranks."""

import ctypes
import os
import pathlib
import sys
import time

folder, rank = pathlib.Path(sys.argv[1]), int(os.environ["SLURM_PROCID"])
pmix = ctypes.CDLL("libpmix.so.2")


def call(name, *arguments):
    status = getattr(pmix, name)(*arguments)
    if status != 0:
        sys.exit(f"{name}: {status}")


proc = ctypes.create_string_buffer(512)  # more than a pmix_proc_t
call("PMIx_Init", proc, None, ctypes.c_size_t(0))
if rank == 0:
    time.sleep(1)
    (folder / "came").touch()
call("PMIx_Fence", None, ctypes.c_size_t(0), None, ctypes.c_size_t(0))
print(f"rank={rank} behind the barrier: first={'came' if (folder / 'came').exists() else 'absent'}", flush=True)
call("PMIx_Finalize", None, ctypes.c_size_t(0))
