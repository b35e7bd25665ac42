// An array of 128 bytes in a clause raises the same data events as one of 128 KiB, in compute and in data constructs (5.2.2).
// EXPECT device-memory
#include "check.h"
#include <acc_prof.h>

enum { CREATE, DELETE, UP, DOWN, KINDS };
static int counts[KINDS];

static void count(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)event, (void)api;
    switch (prof->event_type) {
    case acc_ev_create: counts[CREATE]++; break;
    case acc_ev_delete: counts[DELETE]++; break;
    case acc_ev_enqueue_upload_start: counts[UP]++; break;
    case acc_ev_enqueue_download_start: counts[DOWN]++; break;
    default: break;
    }
}

static void expect(int create, int up, int down)
{
    CHECK_EQ(counts[CREATE], create);
    CHECK_EQ(counts[DELETE], create);
    CHECK_EQ(counts[UP], up);
    CHECK_EQ(counts[DOWN], down);
    memset(counts, 0, sizeof counts);
}

int main(void)
{
    acc_init(acc_get_device_type());
    acc_prof_register(acc_ev_create, count, acc_reg);
    acc_prof_register(acc_ev_delete, count, acc_reg);
    acc_prof_register(acc_ev_enqueue_upload_start, count, acc_reg);
    acc_prof_register(acc_ev_enqueue_download_start, count, acc_reg);
    for (int n = 16; n <= 16384; n *= 1024) {
        double *a = malloc(n * sizeof *a);
        for (int i = 0; i < n; i++)
            a[i] = i;
#pragma acc parallel loop copy(a[:n])
        for (int i = 0; i < n; i++)
            a[i] += 1;
        expect(1, 1, 1);
#pragma acc parallel loop copyin(a[:n])
        for (int i = 0; i < n; i++)
            a[i] += 1;
        expect(1, 1, 0);
#pragma acc parallel loop copyout(a[:n])
        for (int i = 0; i < n; i++)
            a[i] = 2 * i;
        expect(1, 0, 1);
#pragma acc data copy(a[:n])
        {
#pragma acc parallel loop present(a[:n])
            for (int i = 0; i < n; i++)
                a[i] += 1;
        }
        expect(1, 1, 1);
#pragma acc parallel loop copy(a[:n]) async(1)
        for (int i = 0; i < n; i++)
            a[i] += 1;
#pragma acc wait
        expect(1, 1, 1);
        CHECK_EQ(a[n - 1], 2 * (n - 1) + 2);
        free(a);
    }
    return pass();
}
