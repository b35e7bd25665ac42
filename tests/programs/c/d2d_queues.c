// acc_memcpy_d2d_async of many lengths on many queues at once, both ways between every two devices (3.2.30); then acc_shutdown ends devices while copies are
// under way (3.2.8), and they are started again.
// EXPECT device-memory
#include "check.h"

enum { QUEUES = 6, ROUNDS = 8, LEN = 100000, BLOCKS = QUEUES * ROUNDS };
static int src[BLOCKS][LEN], dst[BLOCKS][LEN];
/* Some go by the host, some as they are; of these some as one message, and some find no room for that. */
static const int lengths[] = { 3, 4000, 4097, 20000, 33000, LEN, 16385 };

static int length(int block) { return lengths[block % 7]; }
static int value(int device, int block, int i) { return (device + 1) * 100000000 + block * 1000000 + i; }

static void start(int n, acc_device_t type)
{
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
        for (int b = 0; b < BLOCKS; b++)
            for (int i = 0; i < LEN; i++)
                src[b][i] = value(d, b, i), dst[b][i] = -1;
        acc_copyin(src, sizeof src);
        acc_copyin(dst, sizeof dst);
    }
}

static void copy(int to, int from)
{
    for (int b = 0; b < BLOCKS; b++)
        acc_memcpy_d2d_async(dst[b], src[b], length(b) * sizeof(int), to, from, b % QUEUES);
}

int main(void)
{
    acc_device_t type = device_type();
    int n = device_count() < 4 ? device_count() : 4;
    start(n, type);
    /* A ring, and then the other way round: all copies of a turn at once. */
    for (int turn = 1; turn < n || turn == 1; turn += n > 2 ? n - 2 : 1) {
        for (int d = 0; d < n; d++)
            copy((d + turn) % n, d);
        for (int d = 0; d < n; d++) {
            acc_set_device_num(d, type);
            acc_wait_all();
        }
        for (int d = 0; d < n; d++) {
            int from = (d - turn % n + n) % n;
            acc_set_device_num(d, type);
            acc_update_self(dst, sizeof dst);
            for (int b = 0; b < BLOCKS; b++)
                for (int i = 0; i < LEN; i++)
                    CHECK_EQ(dst[b][i], i < length(b) ? value(from, b, i) : -1);
            memset(dst, 0xff, sizeof dst);
            acc_update_device(dst, sizeof dst);
        }
    }
    /* Whatever becomes of these, the next start is a new one. */
    for (int d = 0; d < n; d++)
        copy((d + 1) % n, d);
    acc_shutdown(type);
    start(n, type);
    for (int d = 0; d < n; d++)
        copy((d + 1) % n, d);
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
        acc_wait_all();
    }
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
        acc_update_self(dst, sizeof dst);
        for (int b = 0; b < BLOCKS; b++)
            for (int i = 0; i < LEN; i++)
                CHECK_EQ(dst[b][i], i < length(b) ? value((d - 1 + n) % n, b, i) : -1);
        acc_delete(src, sizeof src);
        acc_delete(dst, sizeof dst);
    }
    return pass();
}
