/* What update says of whole declare variables, which GCC leaves out: built by accord cc and accord c++ the bytes are moved (2.14.4). */
#include "declared_updates.h"
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) ((what) ? (void)0 : (printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #what), exit(1)))
#define BRING _Pragma("acc update device(scalar)") brought++;

enum { N = 1000 };
static double a[N], matrix[4][5];
static int scalar, brought, evaluated;
static struct {
    int x, y;
    float parts[3];
} s;
static const double table[3] = {1, 2, 3};
static int *pointer;
#pragma acc declare create(a, matrix, scalar, s, pointer) copyin(table)

#pragma acc routine seq
static double sum(int i)
{
    return a[i] + matrix[3][4] + scalar + s.x + s.y + s.parts[2] + in_header[i % 50];
}

#pragma acc routine seq
static void touch(void)
{
    a[1] = 11;
    s.y = 44;
    scalar = 88;
}

static int yes(void)
{
    evaluated++;
    return 1;
}

int main(void)
{
    static int counter;
#pragma acc declare create(counter)
    double got[N];
    int values[2] = {40, 50}, seen = 0;
    for (int i = 0; i < N; i++)
        a[i] = i;
    for (int i = 0; i < 50; i++)
        in_header[i] = 0.5;
    matrix[3][4] = 100;
    scalar = 7;
    s.x = 3;
    s.y = 4;
    s.parts[2] = 0.25f;
#pragma acc update device(a, matrix, s, \
                          in_header, table)
    CHECK(__LINE__ == 58);
    BRING
    CHECK(brought == 1);
#pragma acc parallel loop copyout(got)
    for (int i = 0; i < N; i++)
        got[i] = sum(i);
    for (int i = 0; i < N; i++)
        CHECK(got[i] == i + 100 + 7 + 3 + 4 + 0.25 + 0.5);

    scalar = 8;
    if (brought)
    {
#pragma acc update device(scalar) async(1) if (yes())
    }
    CHECK(evaluated == 1);
    a[5] = -1;
    scalar = -8;
#pragma acc update device(a) if (0)
#pragma acc wait(1)
#pragma acc parallel loop copyout(got)
    for (int i = 0; i < N; i++)
        got[i] = sum(i);
    CHECK(got[5] == 5 + 100 + 8 + 7 + 0.75);

    /* In a routine: a region's own scalar would be its alone. */
#pragma acc parallel
    touch();
#pragma acc update self(a, s) host(scalar) if_present async(2)
#pragma acc wait(2)
    CHECK(a[1] == 11 && a[5] == 5 && s.x == 3 && s.y == 44 && scalar == 88);

    /* What a pointer points to is what the device's points to. */
    pointer = values;
#pragma acc enter data copyin(pointer[0:2])
#pragma acc update device(pointer)
#pragma acc parallel copyout(seen)
    seen = pointer[1];
    CHECK(seen == 50);

    counter = 9;
#pragma acc update device(counter)
#pragma acc parallel copyout(seen)
    seen = counter;
    CHECK(seen == 9);
    puts("PASS");
    return 0;
}
