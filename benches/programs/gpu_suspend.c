// Keeps gigabytes on a GPU, and computes on them for each line of its input: `gpu_suspend GIB`. Says how long each region took
// from the line to its end.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    size_t n = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) << 27, sum = 0;
    char line[16];
    size_t *values = malloc(n * sizeof *values);
    if (values == NULL)
        return 1;
#pragma acc enter data create(values[0 : n])
#pragma acc parallel loop present(values[0 : n])
    for (size_t i = 0; i < n; i++)
        values[i] = i;
    printf("ready %.9f\n", now());
    fflush(stdout);
    for (size_t step = 1; fgets(line, sizeof line, stdin) != NULL; step++) {
#pragma acc parallel loop present(values[0 : n])
        for (size_t i = 0; i < 1024; i++)
            values[i * (n / 1024)]++;
        printf("region %.9f\n", now());
        fflush(stdout);
        sum = step;
    }
    size_t wrong = 0;
#pragma acc parallel loop reduction(+ : wrong) present(values[0 : n])
    for (size_t i = 0; i < n; i++)
        wrong += values[i] != i + (i % (n / 1024) == 0 ? sum : 0);
    printf("%zu wrong\n", wrong);
    return wrong != 0;
}
