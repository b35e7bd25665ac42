// Computes on every device each time that a line comes in, and says "step N".
#include "check.h"

int main(void)
{
    char line[100];
    acc_device_t type = device_type();
    for (int step = 1; fgets(line, sizeof line, stdin); step++) {
        for (int d = 0; d < acc_get_num_devices(type); d++) {
            int x = step;
            acc_set_device_num(d, type);
#pragma acc parallel copy(x)
            x += d;
            CHECK_EQ(x, step + d);
        }
        printf("step %d\n", step);
        fflush(stdout);
    }
    return pass();
}
