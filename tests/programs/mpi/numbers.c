// Each rank chooses its device as codes do, by its rank or by its place on the node, and all tell who got which.
#include "check.h"
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *idiom = argc > 1 ? argv[1] : "";
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    if (!local)
        local = getenv("MPI_LOCALRANKID");
    CHECK(local != NULL);
    const char *node = getenv("ACCORD_NODE");
    char host[256] = "";
    gethostname(host, sizeof host - 1);

    acc_device_t type = acc_get_device_type();
    acc_set_device_type(type); /* none of these names a device, nor does acc_init */
    acc_init(type);
    int devices = acc_get_num_devices(type), num = 0;
    CHECK(acc_get_property_string(0, type, acc_property_name) != NULL);
    CHECK_EQ(acc_get_device_num(type), 0);
    if (strcmp(idiom, "rank") == 0)
        num = rank % devices;
    if (strcmp(idiom, "local") == 0)
        num = atoi(local) % devices;
    if (strcmp(idiom, "none") != 0)
        acc_set_device_num(num, type);

    int n = 1000;
    long sum = 0;
#pragma acc parallel loop reduction(+ : sum)
    for (int i = 0; i < n; i++)
        sum += i + rank;
    CHECK_EQ(sum, (long)n * (n - 1) / 2 + (long)n * rank);
    CHECK_EQ(acc_get_device_num(type), num);

    /* Numbers go round once: every device has one. */
    if (strcmp(idiom, "none") != 0)
        for (int d = 0; d < devices; d++) {
            int x = d;
            acc_set_device_num(d, type);
#pragma acc parallel copy(x)
            x++;
            CHECK_EQ(x, d + 1);
            CHECK_EQ(acc_get_device_num(type), d);
        }
    printf("rank=%d on=%s local=%s num=%d devices=%d\n", rank, node && *node ? node : host, local, num, devices);
    MPI_Finalize();
    return 0;
}
