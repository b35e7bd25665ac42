// `update` of whole declare variables arrives without any from GCC: told once for each place, and not where another form is used.
// EXPECT device-memory
// RUN env=ACCORD_DROPPED_UPDATES=warn
#include "check.h"
#include <unistd.h>

int g[40], k;
#pragma acc declare create(g, k)

/* How many lines of what was written to `file` begin so. */
static int lines(FILE *file, const char *start)
{
    char line[1000];
    int count = 0;
    rewind(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, start, strlen(start)) == 0)
            count++;
    return count;
}

int main(void)
{
    FILE *said = tmpfile();
    int other = 1;
    CHECK(said && dup2(fileno(said), STDERR_FILENO) >= 0);
    for (int i = 0; i < 40; i++)
        g[i] = i;
    k = 5;
    for (int round = 0; round < 3; round++) {
#pragma acc update device(g)
    }
#pragma acc update device(k, g) async(1)
#pragma acc wait(1)
#pragma acc update self(g) if(other == 2)
#pragma acc enter data copyin(other)
#pragma acc update self(other)
#pragma acc update self(other, g) if_present
#pragma acc exit data delete(other)
    int whole = -1;
#pragma acc parallel copyout(whole)
    whole = g[39];
    /* A compiler that passes them needs no message. */
    if (whole == 39) {
        CHECK_EQ(lines(said, "accord: update"), 0);
        return pass();
    }
    CHECK_EQ(lines(said, "accord: update (declare_update_whole.c:"), 2);
    CHECK_EQ(lines(said, "accord"), 2);
    /* What the message says works. */
#pragma acc update device(g[0:40])
    acc_update_device(&k, sizeof k);
    int sum = 0;
#pragma acc parallel loop reduction(+:sum)
    for (int i = 0; i < 40; i++)
        sum += g[i] + k;
    CHECK_EQ(sum, 780 + 200);
    CHECK_EQ(lines(said, "accord"), 2);
    return pass();
}
