// ACCORD_COMPARE: regions whose results depend on the process, as if the devices computed differently: the message names array, element, member and line.
// EXPECT device-memory
// EXPECT stderr=/accord: compare: compare_differs\.c:3[4-7], main: region main\._omp_fn\.0 on dev\d+ \(node .*\): a\[13\] \(compare_differs\.c:\d+, main\) is \d+\.5, on the CPU device \d+\.5; 2 of 20 elements differ, by up to \d\.\de/
// EXPECT stderr=/compare_differs\.c:(38|39|40), main: region main\._omp_fn\.1 .*: (one\.|parts->)cells\[7\]\.position\[1\] \(.*\) is \d+\.0, on the CPU device \d+\.0; 1 of 8 elements differs/
// EXPECT stderr=/compare_differs\.c:4[2-5], main: region main\._omp_fn\.2 .*: grid\[2\]\[3\] \(.*\) is \d+, on the CPU device \d+; 1 of 20 elements differs\n/
// EXPECT stderr=/compare_differs\.c:4[7-9], main: region main\._omp_fn\.3 .*: (sum .*|a small variable copied both ways) is \d+\.0, on the CPU device \d+\.0/
// EXPECT stderr=/accord: compare: compared \d runs of \d regions with a CPU device: 4 runs differ\n/
// EXPECT stderr=/accord: compare:   compare_differs\.c:3\d, main: region main\._omp_fn\.0 .*: differs in 1 of 1 run\n/
// RUN env=ACCORD_COMPARE=on
// BUILD offload=no
// BUILD flags=-g -O0
#include "check.h"
#include <unistd.h>

struct cell {
    char kind;
    double position[2];
};
struct parts {
    int count;
    struct cell *cells;
};

static int grid[4][5];
#pragma acc declare create(grid)

#pragma acc routine seq
extern int getpid(void);

int main(void)
{
    double *a = calloc(100, sizeof *a), sum = 0;
    struct parts one = {8, calloc(8, sizeof(struct cell))}, *parts = &one;
#pragma acc parallel loop copy(a[10:20])
    for (int i = 10; i < 30; i++)
        a[i] = (i == 13 || i == 20 ? getpid() : i) + 0.5;
#pragma acc enter data copyin(parts[0:1]) copyin(parts->cells[0:8])
#pragma acc parallel loop present(parts)
    for (int i = 0; i < 8; i++)
        parts->cells[i].position[1] = i == 7 ? getpid() : i;

#pragma acc parallel loop collapse(2) present(grid)
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 5; k++)
            grid[i][k] = i == 2 && k == 3 ? getpid() : i * k;

#pragma acc parallel loop reduction(+:sum)
    for (int i = 0; i < 10; i++)
        sum += i == 5 ? getpid() : 1;

#pragma acc parallel loop copy(a[0:10])
    for (int i = 0; i < 10; i++)
        a[i] = i;
    CHECK_EQ(a[9], 9);
    CHECK(sum > 9);
    CHECK_EQ(a[20], a[13]);
    return pass();
}
