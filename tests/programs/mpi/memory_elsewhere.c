// Rank 0 gives MPI memory of acc_malloc on a device of another node, to send from (argument 1) or to receive into (0), of so many bytes
// (argument 2).
#include "check.h"
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK_EQ(argc, 3);
    int sends = atoi(argv[1]), len = atoi(argv[2]), first = rank == 0;
    // Rank 0 is on the first node, device 1 on the second; the other rank keeps off it.
    acc_set_device_num(first ? 1 : 0, acc_get_device_type());
    char *memory = first ? acc_malloc(len) : calloc(len, 1);
    CHECK(memory);
    if (first == sends)
        MPI_Send(memory, len, MPI_CHAR, !rank, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(memory, len, MPI_CHAR, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return pass();
}
