// Constants of num_gangs that GCC's image has no room for: every iteration is done, once (2.5.10).
#include "check.h"

// Neither divides the other's multiples, so that the last gang has fewer iterations.
#define LENGTH 250001

static int a[LENGTH];

static void clear(void)
{
#pragma acc parallel loop present(a)
    for (int i = 0; i < LENGTH; i++)
        a[i] = 0;
}

static int wrong(int n)
{
    int wrong = 0;
#pragma acc update self(a[0:LENGTH])
    for (int i = 0; i < LENGTH; i++)
        wrong += a[i] != (i < n);
    clear();
    return wrong;
}

int main(void)
{
    int n = LENGTH - 3;
    long sum = 0;
#pragma acc enter data create(a)
    clear();
#pragma acc parallel loop gang num_gangs(100000) present(a)
    for (int i = 0; i < n; i++)
        a[i]++;
    CHECK_EQ(wrong(n), 0);
#pragma acc parallel loop gang num_gangs(65536) present(a)
    for (int i = 0; i < n; i++)
        a[i]++;
    CHECK_EQ(wrong(n), 0);
#pragma acc parallel loop gang num_gangs(131077) present(a)
    for (int i = 0; i < LENGTH; i++)
        a[i]++;
    CHECK_EQ(wrong(LENGTH), 0);
#pragma acc parallel loop gang vector num_gangs(65537) vector_length(64) present(a)
    for (int i = n - 1; i >= 0; i--)
        a[i]++;
    CHECK_EQ(wrong(n), 0);
#pragma acc parallel loop gang worker num_gangs(100000) num_workers(2) present(a)
    for (int i = 0; i < n; i++)
        a[i]++;
    CHECK_EQ(wrong(n), 0);
#pragma acc parallel loop gang(static : 2) num_gangs(100000) present(a)
    for (int i = 0; i < n; i++)
        a[i]++;
    CHECK_EQ(wrong(n), 0);
#pragma acc parallel loop gang collapse(2) num_gangs(70000) present(a)
    for (int i = 0; i < n / 500; i++)
        for (int j = 0; j < 500; j++)
            a[i * 500 + j]++;
    CHECK_EQ(wrong(n / 500 * 500), 0);
#pragma acc parallel loop gang num_gangs(100000) reduction(+ : sum) copy(sum)
    for (int i = 1; i <= n; i++)
        sum += i;
    CHECK_EQ(sum, (long)n * (n + 1) / 2);
    // Numbers that it has room for.
#pragma acc parallel loop gang num_gangs(65535) present(a)
    for (int i = 0; i < n; i++)
        a[i]++;
    CHECK_EQ(wrong(n), 0);
#pragma acc parallel loop gang num_gangs(1000) present(a)
    for (int i = 0; i < 1000; i++)
        a[i]++;
    CHECK_EQ(wrong(1000), 0);
#pragma acc exit data delete(a)
    return pass();
}
