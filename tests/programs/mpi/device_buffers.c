// Hands device addresses to MPI, as programs for GPU-aware MPI do: host_data, acc_deviceptr and acc_malloc; short and long messages.
// With an argument rank 1 receives on a device of another node.
#include "check.h"
#include <mpi.h>

enum { N = 3000000 };
static int a[N], b[N];

static int rank, other;

/* Fills a on the device, differently each time. */
static void fill(int n, int mark)
{
#pragma acc parallel loop present(a[0:n])
    for (int i = 0; i < n; i++)
        a[i] = mark + i * 3;
#pragma acc parallel loop present(b[0:n])
    for (int i = 0; i < n; i++)
        b[i] = -1;
}

static long wrong(int n, int mark)
{
    long count = 0;
#pragma acc parallel loop present(b[0:n]) reduction(+ : count)
    for (int i = 0; i < n; i++)
        count += b[i] != mark + i * 3;
    return count;
}

int main(int argc, char **argv)
{
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK_EQ(ranks, 2);
    other = 1 - rank;
    acc_device_t type = acc_get_device_type();
    acc_set_device_num(argc > 1 ? atoi(argv[1]) : rank, type);
#pragma acc enter data create(a, b)
    static const int sizes[] = {1, 100, 5000, 100000, N};
    for (int s = 0; s < 5; s++) {
        int n = sizes[s], mark = 1000 * s;
        fill(n, mark + rank);
#pragma acc host_data use_device(a, b)
        {
            if (rank == 0) {
                MPI_Send(a, n, MPI_INT, other, 1, MPI_COMM_WORLD);
                MPI_Recv(b, n, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(b, n, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(a, n, MPI_INT, other, 1, MPI_COMM_WORLD);
            }
        }
        CHECK_EQ(wrong(n, mark + other), 0);

        /* Both ways at once, by addresses of acc_deviceptr. */
        fill(n, mark + 500 + rank);
        MPI_Request requests[2];
        MPI_Irecv(acc_deviceptr(b), n, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(acc_deviceptr(a), n, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK_EQ(wrong(n, mark + 500 + other), 0);
    }

    /* A sum over ranks, in device memory of the program's own. */
    int *sum = acc_malloc(5000 * sizeof *sum);
    fill(5000, rank);
    MPI_Allreduce(acc_deviceptr(a), sum, 5000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    long count = 0;
#pragma acc parallel loop deviceptr(sum) reduction(+ : count)
    for (int i = 0; i < 5000; i++)
        count += sum[i] != 1 + i * 6;
    CHECK_EQ(count, 0);
    acc_free(sum);
#pragma acc exit data delete(a, b)
    printf("rank=%d PASS\n", rank);
    MPI_Finalize();
    return 0;
}
