// acc_map_data and acc_unmap_data (3.2.21, 3.2.22): the program's own device memory in the present table.
#include "check.h"

int main(void)
{
    enum { N = 20 };
    static int a[N];
    if (!separate()) {
        printf("skipped: memory is shared\n");
        return pass();
    }
    int *d = acc_malloc(sizeof a);
    acc_map_data(a, d, sizeof a);
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
    CHECK(acc_deviceptr(a) == d);
    CHECK(acc_copyin(a, sizeof a) == d);
    acc_update_device(a, sizeof a);
#pragma acc parallel loop copy(a)
    for (int i = 0; i < N; i++)
        a[i] = i + 1;
    CHECK_ALL(a, N, 0); /* mapped data is never copied by a region's end */
    acc_delete(a, sizeof a);
    acc_delete(a, sizeof a);
    acc_delete_finalize(a, sizeof a);
    CHECK_EQ(acc_is_present(a, sizeof a), 1); /* only unmap removes it */
    acc_update_self(a, sizeof a);
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], i + 1);
    acc_unmap_data(a);
    CHECK_EQ(acc_is_present(a, sizeof a), 0);
    int back[N];
    acc_memcpy_from_device(back, d, sizeof back); /* the memory is still the program's */
    CHECK(memcmp(a, back, sizeof a) == 0);
    acc_free(d);
    return pass();
}
