// Rows of acc_memcpy_d2d_async in one queue, whose places overlap or do not, with copies within the source in between: they come in their order, and
// those that may be under way at once do not get in each other's way (3.2.30).
// EXPECT device-memory
#include "check.h"

enum { N = 1 << 19, ROUNDS = 40, QUEUE = 3 };
static int array[N], model[2][N];
static unsigned long long state = 88172645463325252ull;

static unsigned below(unsigned n)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)((state >> 33) % n);
}

/* A range of the array, most of some KiB, few of a MiB. */
static int length(void)
{
    static const int longest[] = { 40, 5000, 20000, 70000, 300000 };
    return 1 + (int)below(longest[below(5)]);
}

/* Beside each other, wherever, or all at one place. */
static int place(int round, int turn, int len)
{
    return round % 3 == 0 ? turn * (N / 16) % (N - len) : round % 3 == 1 ? (int)below(N - len) : 777 % (N - len);
}

static void compare(int device, int which, acc_device_t type)
{
    acc_set_device_num(device, type);
    acc_wait_all();
    acc_update_self(array, sizeof array);
    for (int i = 0; i < N; i++)
        CHECK_EQ(array[i], model[which][i]);
}

int main(void)
{
    acc_device_t type = device_type();
    int n = device_count(), devices[2] = { 0, n - 1 };
    for (int which = 0; which < (n > 1 ? 2 : 1); which++) {
        acc_set_device_num(devices[which], type);
        for (int i = 0; i < N; i++)
            array[i] = model[which][i] = which * 1000000 + i;
        acc_copyin(array, sizeof array);
    }
    for (int round = 0; n > 1 && round < ROUNDS; round++) {
        int from = (int)below(2), to = 1 - from, copies = 4 + (int)below(12);
        acc_set_device_num(devices[from], type);
        for (int turn = 0; turn < copies; turn++) {
            int len = length(), src = (int)below(N - len), dst = place(round, turn, len);
            acc_memcpy_d2d_async(array + dst, array + src, len * sizeof(int), devices[to], devices[from], QUEUE);
            memcpy(model[to] + dst, model[from] + src, len * sizeof(int));
            if (below(6) == 0) {
                /* What goes next is of another half. */
                int half = 1 + (int)below(N / 2 - 1), to_here = below(2) ? N / 2 : 0;
                acc_memcpy_d2d_async(array + to_here, array + N / 2 - to_here, half * sizeof(int), devices[from], devices[from], QUEUE);
                memcpy(model[from] + to_here, model[from] + N / 2 - to_here, half * sizeof(int));
            }
        }
        /* What is copied back comes after. */
        acc_wait(QUEUE);
        if (round % 8 == 7)
            compare(devices[0], 0, type), compare(devices[1], 1, type);
    }
    compare(devices[0], 0, type);
    if (n > 1)
        compare(devices[1], 1, type);
    return pass();
}
