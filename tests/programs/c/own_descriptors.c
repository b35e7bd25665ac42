// The standard descriptors are closed before the first use, as by programs that run in the background. What is written to them goes nowhere.
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int run(int *a, int n)
{
    int sum = 0;
#pragma acc parallel loop copy(a[0:n]) reduction(+:sum)
    for (int i = 0; i < n; i++) {
        a[i] += i;
        sum += a[i];
    }
    return sum;
}

int main(void)
{
    enum { N = 100 };
    static int a[N];
    static const char text[64];
    const int kept = fcntl(1, F_DUPFD, 100);
    CHECK(kept > 0);
    for (int i = 0; i < 3; i++)
        close(i);
    int first = run(a, N), refused = 0;
    for (int i = 0; i < 3; i++)
        refused += write(i, text, sizeof text) == -1 && errno == EBADF;
    int second = run(a, N);
    dup2(kept, 1);
    dup2(kept, 2);
    CHECK_EQ(refused, 3);
    CHECK_EQ(first, N * (N - 1) / 2);
    CHECK_EQ(second, N * (N - 1));
    return pass();
}
