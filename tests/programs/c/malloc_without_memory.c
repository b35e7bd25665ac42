// acc_malloc of more than there is gives NULL, and the program goes on (3.2.16).
// EXPECT device-memory
#include "check.h"

int main(void)
{
    size_t free_before = acc_get_property(0, device_type(), acc_property_free_memory);
    CHECK(acc_malloc((size_t)1 << 60) == NULL);
    CHECK(acc_malloc((size_t)-1) == NULL);
    CHECK(acc_malloc((size_t)1 << 47) == NULL);
    /* As much as there is, in pieces, and then no more: all of it comes back. */
    enum { PIECES = 1000 };
    void *piece[PIECES];
    size_t most = free_before / 4 + 1, count = 0;
    while (count < PIECES && (piece[count] = acc_malloc(most)))
        count++;
    CHECK(count >= 1 && count < PIECES);
    while (count)
        acc_free(piece[--count]);
    int a[4] = {1, 2, 3, 4};
    void *d = acc_malloc(sizeof a);
    CHECK(d != NULL);
    acc_memcpy_to_device(d, a, sizeof a);
    memset(a, 0, sizeof a);
    acc_memcpy_from_device(a, d, sizeof a);
    CHECK_EQ(a[3], 4);
    acc_free(d);
    return pass();
}
