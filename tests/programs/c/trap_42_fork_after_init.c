// fork after the devices are in use: the child starts anew and works, the parent goes on.
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static int doubled(int x)
{
#pragma acc parallel copy(x)
    x *= 2;
    return x;
}

int main(void)
{
    int a[10] = {0};
    CHECK_EQ(doubled(4), 8);
#pragma acc enter data copyin(a)
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int ok = doubled(21) == 42;
        fflush(stdout);
        _exit(ok ? 0 : 3);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
#pragma acc parallel loop present(a)
    for (int i = 0; i < 10; i++)
        a[i] = i;
#pragma acc exit data copyout(a)
    CHECK_EQ(a[9], 9);
    CHECK_EQ(doubled(5), 10);
    return pass();
}
