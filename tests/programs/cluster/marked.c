// Sends marked bytes to device 1, from there to the last device and back, and marked arguments: `marked WORDS`. The test that looks on knows them.
#include "check.h"

enum { N = 8 << 20, MARK = 32 };
struct words {
    char text[MARK];
};
static const char DATA[MARK + 1] = "these bytes are the program's ow";
static char a[N];

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    struct words words = {{0}};
    strncpy(words.text, argv[1], MARK - 1);
    for (int i = 0; i < N; i++)
        a[i] = DATA[i % MARK];
    acc_device_t type = device_type();
    acc_set_device_num(1, type);
#pragma acc enter data copyin(a)
    for (int round = 0; round < 20; round++) {
#pragma acc parallel loop present(a) firstprivate(words)
        for (int i = 0; i < N; i++)
            a[i] ^= words.text[MARK - 1];
    }
    int last = device_count() - 1;
    if (last > 1) {
        acc_set_device_num(last, type);
#pragma acc enter data create(a)
        acc_memcpy_d2d(a, a, N, last, 1);
    }
    memset(a, 0, N);
#pragma acc update self(a)
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], DATA[i % MARK]);
    return pass();
}
