// Copies MiB from device FROM to device TO and says how many bytes went over this host's network interface meanwhile.
#include "check.h"

/* Bytes received and sent by eth0, of the network namespace that this program is in. */
static long long traffic(void)
{
    char line[512];
    long long received = -1, sent = -1;
    FILE *file = fopen("/proc/net/dev", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, " eth0: %lld %*d %*d %*d %*d %*d %*d %*d %lld", &received, &sent) == 2)
            break;
    if (file)
        fclose(file);
    return received < 0 ? -1 : received + sent;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    int from = atoi(argv[1]), to = atoi(argv[2]);
    size_t n = (size_t)atoi(argv[3]) << 18;
    int *a = malloc(n * sizeof *a);
    acc_device_t type = device_type();
    acc_set_device_num(from, type);
#pragma acc enter data create(a[0:n])
#pragma acc parallel loop present(a[0:n])
    for (size_t i = 0; i < n; i++)
        a[i] = (int)(i * 7);
    acc_set_device_num(to, type);
#pragma acc enter data create(a[0:n])
#pragma acc wait
    long long before = traffic();
    acc_memcpy_d2d(a, a, n * sizeof *a, to, from);
    long long after = traffic();
    long wrong = 0;
#pragma acc parallel loop present(a[0:n]) reduction(+ : wrong)
    for (size_t i = 0; i < n; i++)
        wrong += a[i] != (int)(i * 7);
    CHECK_EQ(wrong, 0);
    printf("interface=%s copied=%zu traffic=%lld\n", before < 0 ? "none" : "eth0", n * sizeof *a, after - before);
    return pass();
}
