// What a program does while its job ends: `after_its_job endless|later`. It says "ready" once it has used a device. `endless` runs a region that
// does not end, `later` waits for the end of its input and runs a region then.
#include "check.h"

static void use(void)
{
    int value = 0;
#pragma acc parallel copy(value)
    value = 7;
    CHECK_EQ(value, 7);
}

int main(int argc, char **argv)
{
    use();
    printf("ready\n");
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "endless")) {
        volatile int goes_on = 1;
#pragma acc parallel copyin(goes_on)
        while (goes_on) {
        }
    }
    while (getchar() != EOF) {
    }
    use();
    return pass();
}
