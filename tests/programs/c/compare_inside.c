// ACCORD_COMPARE: a section that begins inside a structure has the names and types of its members, of which addresses alone are left out.
// EXPECT device-memory
// EXPECT stderr=/accord: compare: compare_inside\.c:\d+, main: region main\._omp_fn\.0 .*: one\.x\[3\] \(compare_inside\.c:\d+.*\) is \d+\.5, on the CPU device \d+\.5/
// EXPECT stderr=/accord: compare: compare_inside\.c:\d+, main: region main\._omp_fn\.1 .*: .*\.sum \(compare_inside\.c:\d+.*\) is \d+\.5, on the CPU device \d+\.5/
// EXPECT stderr=/accord: compare: compared 3 runs of 3 regions with a CPU device: 2 runs differ\n/
// RUN env=ACCORD_COMPARE=on
// BUILD offload=no
// BUILD flags=-g -O0
#include "check.h"
#include <unistd.h>

enum { N = 200 };

static struct {
    int n;
    double x[N];
} one = {N, {0}};

static struct {
    int n;
    double *x;
    double sum;
    long rest[N];
} two;

#pragma acc routine seq
extern int getpid(void);

int main(void)
{
#pragma acc parallel loop copy(one.x)
    for (int i = 0; i < N; i++)
        one.x[i] = i == 3 ? getpid() + 0.5 : i;

    two.x = calloc(N, sizeof *two.x);
#pragma acc parallel loop copy(two.x[0:N], two.sum, two.rest)
    for (int i = 0; i < N; i++) {
        two.x[i] = two.rest[i] = i;
        if (i == 7)
            two.sum = getpid() + 0.5;
    }
    CHECK_EQ(one.x[4], 4);
    CHECK_EQ(two.x[9], 9);
    CHECK_EQ(two.rest[9], 9);
    CHECK(two.sum > 0.5);
    return pass();
}
