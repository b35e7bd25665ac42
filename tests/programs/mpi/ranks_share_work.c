// Each rank computes its part on a device of its own choice; the parts meet by MPI.
#include "check.h"
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    acc_device_t type = device_type();
    int devices = acc_get_num_devices(type);
    acc_set_device_num(rank % devices, type);

    long part = 0, total = 0;
    int n = 100000;
#pragma acc parallel loop reduction(+ : part)
    for (int i = rank; i < n; i += ranks)
        part += i;
    MPI_Allreduce(&part, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(total, (long)n * (n - 1) / 2);

    /* A ring: the right neighbour's data, put on this rank's device and changed there. */
    double mine[64], theirs[64];
    for (int i = 0; i < 64; i++)
        mine[i] = rank * 1000 + i;
#pragma acc data copy(mine) create(theirs)
    {
#pragma acc parallel loop present(mine)
        for (int i = 0; i < 64; i++)
            mine[i] += 0.5;
#pragma acc update self(mine)
        MPI_Sendrecv(mine, 64, MPI_DOUBLE, (rank + ranks - 1) % ranks, 0, theirs, 64, MPI_DOUBLE, (rank + 1) % ranks, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#pragma acc update device(theirs)
#pragma acc parallel loop present(mine, theirs)
        for (int i = 0; i < 64; i++)
            mine[i] += theirs[i];
    }
    int right = (rank + 1) % ranks;
    for (int i = 0; i < 64; i++)
        CHECK_EQ(mine[i], rank * 1000 + right * 1000 + 2 * i + 1);
    printf("rank=%d ranks=%d devices=%d total=%ld\n", rank, ranks, devices, total);
    MPI_Finalize();
    return 0;
}
