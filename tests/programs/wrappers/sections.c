/* Several sections of one array in a directive, which GCC refuses: accord cc and accord c++ split it, or put them together. */
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) ((what) ? (void)0 : (printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #what), exit(1)))
#define BOTH(list) _Pragma("acc update self(heap[0:1], heap[9:1])") list++;

enum { N = 100 };
static int a[N], calls;

static int counted(int n)
{
    calls++;
    return n;
}

int main(void)
{
    int *heap = (int *)malloc(N * sizeof *heap), updates = 0, half = N / 2;
    struct {
        int *p;
        int fixed[8];
    } s;
    for (int i = 0; i < N; i++)
        a[i] = heap[i] = i;

    /* data: a device has the two sections, and nothing between. */
#pragma acc data copy(a[0:10], heap[0:N]) \
    copy(a[50:10])
    {
        CHECK(acc_is_present(&a[9], 4) && acc_is_present(&a[50], 4) && !acc_is_present(&a[30], 4));
#pragma acc parallel loop present(a[50:10])
        for (int i = 50; i < 60; i++)
            a[i] += 1000;
#pragma acc parallel loop present(heap[0:N])
        for (int i = 0; i < N; i++)
            heap[i] = -i;
        a[55] = -1;
#pragma acc update self(heap[1:2]) self(heap[5:half - 5], heap[80:1]) if (counted(1)) async(1)
#pragma acc wait(1)
        CHECK(calls == 1);
        CHECK(heap[1] == -1 && heap[3] == 3 && heap[5] == -5 && heap[49] == -49 && heap[50] == 50 && heap[80] == -80);
        heap[3] = 33;
        heap[4] = 44;
#pragma acc update device(heap[3:1]) self(heap[7:1]) device(heap[4:1]) if (calls)
        BOTH(updates)
        CHECK(updates == 1 && heap[9] == -9);
    }
    CHECK(heap[3] == 33 && heap[4] == 44 && a[55] == 1055 && a[9] == 9);

    /* enter data and exit data */
#pragma acc enter data copyin(heap[0:10], heap[20:10]) create(a)
    CHECK(acc_is_present(&heap[29], 4) && !acc_is_present(&heap[15], 4));
#pragma acc parallel loop present(heap[20:10])
    for (int i = 20; i < 30; i++)
        heap[i] = 1;
#pragma acc exit data copyout(heap[20:10]) delete(heap[0:10], a) finalize
    CHECK(heap[29] == 1 && heap[0] == 0 && heap[30] == -30 && !acc_is_present(heap, 4) && !acc_is_present(a, 4));
    CHECK(__LINE__ == 60);

    /* Compute constructs have one place for an array: what lies between comes along. */
#pragma acc parallel loop copyin(heap[0:half]) copyout(heap[half:half])
    for (int i = 0; i < half; i++)
        heap[half + i] = heap[i] + 1;
    CHECK(heap[half + 3] == 34 && heap[3] == 33);
#pragma acc enter data copyin(heap[0:N])
#pragma acc parallel present(heap[0:1], heap[90:2])
    heap[0] = heap[91] + 5;
#pragma acc exit data copyout(heap[0:N])
    CHECK(heap[0] == heap[91] + 5);

    /* Members */
    s.p = heap;
    for (int i = 0; i < 8; i++)
        s.fixed[i] = i;
#pragma acc enter data copyin(s, s.p[0:N])
#pragma acc parallel present(s)
    {
        s.p[2] = s.p[7] = 70;
        s.fixed[1] = s.fixed[6] = 60;
    }
#pragma acc update self(s.p[2:1], s.p[7:1], s.fixed[1:1], s.fixed[6:1])
    CHECK(s.p[2] == 70 && s.p[7] == 70 && s.fixed[1] == 60 && s.fixed[6] == 60);
#pragma acc exit data delete(s.p[0:N])
#pragma acc exit data delete(s)
    puts("PASS");
    return 0;
}
