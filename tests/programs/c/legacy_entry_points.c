// What GCC 5 to 11 call: one entry point for enter and exit data, which infers the direction.
#include "check.h"

extern void GOACC_enter_exit_data(int flags, size_t n, void **host, size_t *sizes, unsigned short *kinds, int queue,
                                  int waits, ...);
extern void GOACC_parallel(int flags, void (*fn)(void *), size_t n, void **host, size_t *sizes, unsigned short *kinds,
                           int gangs, int workers, int lanes, int queue, int waits, ...);
extern int GOACC_get_num_threads(void);
extern int GOACC_get_thread_num(void);

enum { TO = 1, ALLOC = 0, FROM = 2, TOFROM = 3, RELEASE = 0x17, POINTER = 4, ALIGNED_4 = 2 << 8, SYNC = -2 };

static void region(void *slots)
{
    ++**(int **)slots;
}

int main(void)
{
    int a[10] = {0}, b[10] = {0};
    void *host[] = {a, b};
    size_t sizes[] = {sizeof a, sizeof b};
    unsigned short enter[] = {TO | ALIGNED_4, ALLOC | ALIGNED_4}, leave[] = {FROM | ALIGNED_4, RELEASE | ALIGNED_4};
    GOACC_enter_exit_data(-1, 2, host, sizes, enter, SYNC, 0);
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
    CHECK_EQ(acc_is_present(b, sizeof b), 1);
#pragma acc parallel loop present(a, b)
    for (int i = 0; i < 10; i++)
        a[i] = b[i] = 3;
    GOACC_enter_exit_data(-1, 2, host, sizes, leave, 4, 2, 1, 2); /* in queue 4, after queues 1 and 2 */
#pragma acc wait(4)
    CHECK_ALL(a, 10, 3);
    CHECK_ALL(b, 10, WANT(0, 3));
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    CHECK_EQ(GOACC_get_num_threads(), 1);
    CHECK_EQ(GOACC_get_thread_num(), 0);
    int ran = 0;
    void *counter[] = {&ran};
    size_t size[] = {sizeof ran};
    unsigned short copy[] = {TOFROM | ALIGNED_4};
    GOACC_parallel(-1, region, 1, counter, size, copy, 1, 1, 1, SYNC, 0);
    CHECK_EQ(ran, 1);
    return pass();
}
