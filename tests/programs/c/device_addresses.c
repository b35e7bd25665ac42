// Addresses of two devices are never the same, so an address says whose it is.
// EXPECT device-memory
#include "check.h"

enum { N = 20000, BLOCKS = 40 };
static int a[N], b[N];

/* Whether two pieces of memory have a byte in common. */
static int meet(const void *one, const void *other, size_t bytes)
{
    const char *p = one, *q = other;
    return p < q + bytes && q < p + bytes;
}

int main(void)
{
    acc_device_t type = device_type();
    void *block[2][BLOCKS], *data[2];
    for (int i = 0; i < N; i++)
        a[i] = i * 3;
    for (int d = 0; d < 2; d++) {
        acc_set_device_num(d, type);
        for (int i = 0; i < BLOCKS; i++)
            block[d][i] = acc_malloc(sizeof a);
        data[d] = acc_copyin(b, sizeof b);
        CHECK(acc_deviceptr(b) == data[d]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(!meet(block[0][i], data[1], sizeof a));
        CHECK(!meet(block[1][i], data[0], sizeof a));
        for (int k = 0; k < BLOCKS; k++)
            CHECK(!meet(block[0][i], block[1][k], sizeof a));
    }
    for (int d = 0; d < 2; d++) {
        acc_set_device_num(d, type);
        CHECK(acc_hostptr(data[d]) == b);
        CHECK(acc_hostptr(data[1 - d]) == NULL);
        CHECK(!acc_is_present(data[1 - d], sizeof b));
    }
    /* Device addresses are not the program's. */
    CHECK(!meet(data[0], a, sizeof a) && !meet(data[1], b, sizeof b));
    return pass();
}
