/* c = a + b, where a and b are filled at the same time in two queues.
 *
 * Queue 2 must not add before queue 1 has filled a: `wait(1) async(2)` puts that into queue 2,
 * and the host does not wait. Only the last line before the check does. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000000;
    if (n < 1) {
        fprintf(stderr, "usage: vecsum [elements]\n");
        return 2;
    }
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c) {
        perror("vecsum");
        return 1;
    }

#pragma acc data create(a[0:n], b[0:n], c[0:n])
    {
#pragma acc parallel loop async(1)
        for (int i = 0; i < n; i++)
            a[i] = i;
#pragma acc parallel loop async(2)
        for (int i = 0; i < n; i++)
            b[i] = 2.0 * i;
#pragma acc wait(1) async(2)
#pragma acc parallel loop async(2)
        for (int i = 0; i < n; i++)
            c[i] = a[i] + b[i];
#pragma acc update self(c[0:n]) async(2)
#pragma acc wait
    }

    double sum = 0;
    for (int i = 0; i < n; i++) {
        if (c[i] != 3.0 * i) {
            fprintf(stderr, "vecsum: c[%d] is %g, not %g\n", i, c[i], 3.0 * i);
            return 1;
        }
        sum += c[i];
    }
    printf("elements=%d sum=%.0f\n", n, sum);
    free(a), free(b), free(c);
    return 0;
}
