// An `update` that names a pointer copies nothing of what it points to, where the pointer is attached or `if_present` is said: told
// once for each place, and not where the array is named as well (2.14.4).
// EXPECT device-memory
#include "check.h"
#include <unistd.h>

struct vector {
    int n;
    int *x;
    double d;
};

/* How many lines of what was written to `file` say so. */
static int lines(FILE *file, const char *what)
{
    char line[1000];
    int count = 0;
    rewind(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "accord: update (", 16) == 0 && strstr(line, what))
            count++;
    return count;
}

int main(void)
{
    FILE *said = tmpfile();
    CHECK(said && dup2(fileno(said), STDERR_FILENO) >= 0);
    struct vector v = {10, malloc(40), 1.5};
    int *p = malloc(40);
    for (int i = 0; i < 10; i++)
        v.x[i] = p[i] = i;
#pragma acc enter data copyin(v) copyin(p[0:10])
#pragma acc enter data copyin(v.x[0:10])
    /* Right ones. */
#pragma acc update self(v.x[0:10], p[0:10])
#pragma acc update device(v)
#pragma acc update self(v.d)
#pragma acc update device(v.n) if_present
    CHECK_EQ(lines(said, "is a pointer"), 0);

#pragma acc parallel loop present(v, p[0:10])
    for (int i = 0; i < 10; i++)
        v.x[i] = p[i] = 2 * i;
    for (int round = 0; round < 3; round++) {
#pragma acc update self(v.x)
#pragma acc update self(p) if_present
#pragma acc update device(v.x)
    }
    CHECK_EQ(v.x[9], 9);
    CHECK_EQ(p[9], 9);
    CHECK_EQ(lines(said, "is a pointer, and what it points to is not copied; write p[0:n] in place of p"), 3);

#pragma acc update self(v.x[0:10], p[0:10])
    CHECK_EQ(v.x[9], 18);
    CHECK_EQ(p[9], 18);
    CHECK_EQ(lines(said, "is a pointer"), 3);
    return pass();
}
