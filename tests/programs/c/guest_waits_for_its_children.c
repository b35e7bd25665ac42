// A program that waits for all its children must not find Accord's processes among them.
#include "check.h"
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int x = 1, ended = 0;
#pragma acc parallel copy(x)
    x = 2;
    CHECK_EQ(x, 2);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(7);
    int status;
    for (pid_t got; (got = wait(&status)) > 0; ended++)
        CHECK(got == child && WEXITSTATUS(status) == 7);
    CHECK(errno == ECHILD);
    CHECK_EQ(ended, 1);
#pragma acc parallel copy(x)
    x = 3;
    CHECK_EQ(x, 3);
    return pass();
}
