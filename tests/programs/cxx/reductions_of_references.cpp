// References in reductions, with a data clause beside the reduction or around the construct: GCC maps what they name and an
// entry without bytes for each reference, or the reference alone.
// EXPECT device-memory
#include "check.h"

struct Sums {
    float first, second;
    double whole;
};

static void both(float &a, float &b, int n)
{
#pragma acc parallel loop copy(a, b) reduction(+ : a) reduction(max : b)
    for (int i = 0; i < n; i++) {
        a += i;
        b = b > i ? b : i;
    }
}

static void around(double &s, int n)
{
#pragma acc data copy(s)
    {
#pragma acc parallel loop present(s) reduction(+ : s)
        for (int i = 0; i < n; i++)
            s += i;
#pragma acc parallel loop copy(s) reduction(+ : s)
        for (int i = 0; i < n; i++)
            s += 1;
#pragma acc parallel loop reduction(+ : s)
        for (int i = 0; i < n; i++)
            s += 2;
    }
}

template <class T> static void queued(T &s, const T *values, int n, int queue)
{
#pragma acc parallel loop copy(s) copyin(values[0:n]) reduction(+ : s) async(queue)
    for (int i = 0; i < n; i++)
        s += values[i];
}

static void levels(long &s, int n, int m)
{
#pragma acc parallel loop gang copy(s) reduction(+ : s)
    for (int i = 0; i < n; i++) {
#pragma acc loop vector reduction(+ : s)
        for (int j = 0; j < m; j++)
            s += j;
    }
}

static void inside(int &s, int n)
{
#pragma acc serial copy(s)
    for (int i = 0; i < n; i++)
        s += i;
    // Without the first one of the two GCC's code for GPUs loses the sum.
#pragma acc parallel copy(s) reduction(+ : s)
#pragma acc loop reduction(+ : s)
    for (int i = 0; i < n; i++)
        s += i;
#pragma acc kernels loop reduction(+ : s)
    for (int i = 0; i < n; i++)
        s += i;
}

int main()
{
    Sums sums = {1, 2, 3};
    both(sums.first, sums.second, 100);
    CHECK(sums.first == 4951 && sums.second == 99 && sums.whole == 3);
    around(sums.whole, 100);
    CHECK(sums.whole == 3 + 4950 + 300);

    double values[50], sum = 0;
    for (int i = 0; i < 50; i++)
        values[i] = i;
    for (int k = 0; k < 4; k++)
        queued(sum, values, 50, 1);
#pragma acc wait(1)
    CHECK(sum == 4 * 1225);

    long parts = 7;
    levels(parts, 10, 40);
    CHECK(parts == 7 + 10 * 780);

    int all = 0;
    inside(all, 10);
    CHECK(all == 3 * 45);
    return pass();
}
