/* A region behind a copy from device 0 to device 1 in the same queue: the middle of what they took until both were waited for, us, of 1,000 of each
   length, and of the copy and the region alone, by turns.
   accord run --local-cluster 2x1gpu --remote-only --loopback --fabric mpi -- d2d_behind
   gcc -O2 -fopenacc -foffload=nvptx-none d2d_behind.c */
#include "d2d.h"

enum { TIMES = 1000, LONGEST = 1 << 20, QUEUE = 1, STEPS = 2000 };

static char from[LONGEST], to[LONGEST];
static double took[3][TIMES];
static float x[32];

static void region(void)
{
    #pragma acc parallel loop gang vector num_gangs(1) vector_length(32) present(x) async(QUEUE)
    for (int i = 0; i < 32; i++)
        for (int n = 0; n < STEPS; n++)
            x[i] = x[i] * 0.5f + 1;
}

int main(void)
{
    static const int lengths[] = { 8, 16 << 10, 128 << 10, LONGEST };
    acc_device_t type = two_devices();
    for (int d = 0; d < 2; d++) {
        acc_set_device_num(d, type);
        acc_copyin(from, sizeof from);
        acc_copyin(to, sizeof to);
        acc_copyin(x, sizeof x);
    }
    acc_set_device_num(0, type);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int n = -50; n < TIMES; n++) {
            for (int what = 0; what < 3; what++) {
                double begun = now();
                if (what != 1)
                    acc_memcpy_d2d_async(to, from, lengths[i], 1, 0, QUEUE);
                if (what != 0)
                    region();
                acc_wait(QUEUE);
                if (n >= 0)
                    took[what][n] = now() - begun;
            }
        }
        for (int what = 0; what < 3; what++)
            qsort(took[what], TIMES, sizeof **took, order);
        printf("%7d: copy %.1f, region %.1f, region behind copy %.1f\n", lengths[i], took[0][TIMES / 2], took[1][TIMES / 2],
               took[2][TIMES / 2]);
    }
    return 0;
}
