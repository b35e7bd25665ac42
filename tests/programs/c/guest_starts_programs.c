// system and popen while devices are in use: what they start is no worker and has nothing to do with devices.
#include "check.h"

int main(void)
{
    int a[100] = {0};
    char text[32] = "";
#pragma acc enter data copyin(a)
    for (int k = 0; k < 5; k++) {
#pragma acc parallel loop present(a) async(1)
        for (int i = 0; i < 100; i++)
            a[i]++;
        CHECK_EQ(system("exit 3") >> 8, 3);
    }
    FILE *pipe = popen("echo hello", "r");
    CHECK(pipe != NULL);
    CHECK(fgets(text, sizeof text, pipe) != NULL);
    CHECK(strcmp(text, "hello\n") == 0);
    CHECK_EQ(pclose(pipe), 0);
#pragma acc wait
#pragma acc exit data copyout(a)
    CHECK_ALL(a, 100, 5);
    return pass();
}
