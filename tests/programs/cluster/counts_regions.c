// Keeps its device busy, as some regions are always in flight. Each line of its input asks for the number of regions that
// have ended so far.
#include "check.h"
#include <poll.h>

#define QUEUES 4
#define IN_FLIGHT 8

static int asked(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

void count_up(double *values, int queue)
{
#pragma acc parallel loop seq present(values[0 : QUEUES]) async(queue)
    for (int k = 0; k < 1000000; k++)
        values[queue] = values[queue] * 0.999999 + 1e-6;
}

int main(void)
{
    long launched = 0;
    double values[QUEUES] = {1, 1, 1, 1};
#pragma acc enter data copyin(values)
    for (int queue = 0;; queue = (queue + 1) % QUEUES) {
        if (asked()) {
            char line[16];
            if (fgets(line, sizeof line, stdin) == NULL)
                break;
            printf("ended %ld\n", launched > QUEUES * IN_FLIGHT ? launched - QUEUES * IN_FLIGHT : 0);
            fflush(stdout);
        }
#pragma acc wait(queue)
        for (int i = 0; i < IN_FLIGHT; i++)
            count_up(values, queue);
        launched += IN_FLIGHT;
    }
#pragma acc wait
#pragma acc exit data delete(values)
    return pass();
}
