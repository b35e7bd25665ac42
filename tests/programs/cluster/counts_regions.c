// Keeps its device busy. Each line of its input asks for the number of regions that have ended so far.
#include "check.h"
#include <poll.h>

#define IN_FLIGHT 8

static int asked(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

int main(void)
{
    long ended = 0;
    double value = 1;
#pragma acc enter data copyin(value)
    for (;;) {
        if (asked()) {
            char line[16];
            if (fgets(line, sizeof line, stdin) == NULL)
                break;
            printf("ended %ld\n", ended);
            fflush(stdout);
        }
        for (int i = 0; i < IN_FLIGHT; i++) {
#pragma acc parallel loop seq present(value) async(i % 2)
            for (int k = 0; k < 100000; k++)
                value = value * 0.999999 + 1e-6;
        }
#pragma acc wait
        ended += IN_FLIGHT;
    }
#pragma acc exit data delete(value)
    return pass();
}
