/* Copies from device 0 to device 1: the tenth and the middle of what they took, us, of 3,000 of each length that are each waited for, and of 300 waits
   for eight in a queue, for each of the eight. Without the driver, so that the one that the tests bring along will do.
   accord run --local-cluster 2x1gpu --remote-only --loopback --fabric mpi -- d2d_waited
   gcc -O2 -fopenacc d2d_waited.c */
#include "d2d.h"

enum { EACH = 3000, WAITS = 300, IN_QUEUE = 8, LONGEST = 1 << 20 };

static char from[IN_QUEUE][LONGEST], to[IN_QUEUE][LONGEST];
static double took[EACH];

static void print(int count)
{
    qsort(took, count, sizeof *took, order);
    printf(" p10 %.1f median %.1f ", took[count / 10], took[count / 2]);
}

int main(void)
{
    static const int lengths[] = { 8, 32 << 10, 128 << 10, LONGEST };
    acc_device_t type = two_devices();
    for (int d = 0; d < 2; d++) {
        acc_set_device_num(d, type);
        acc_copyin(from, sizeof from);
        acc_copyin(to, sizeof to);
    }
    acc_set_device_num(0, type);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int n = 0; n < EACH; n++) {
            double begun = now();
            acc_memcpy_d2d(to[0], from[0], lengths[i], 1, 0);
            took[n] = now() - begun;
        }
        printf("%7d: each", lengths[i]);
        print(EACH);
        for (int n = 0; n < WAITS; n++) {
            double begun = now();
            for (int a = 0; a < IN_QUEUE; a++)
                acc_memcpy_d2d_async(to[a], from[a], lengths[i], 1, 0, 1);
            acc_wait(1);
            took[n] = (now() - begun) / IN_QUEUE;
        }
        printf(" in a queue");
        print(WAITS);
        printf("\n");
    }
    return 0;
}
