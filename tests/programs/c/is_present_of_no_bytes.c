// acc_is_present of no bytes: whether the address is present at all (3.2.25).
// EXPECT device-memory
#include "check.h"

int main(void)
{
    static char a[100], b[100], room[100];
    acc_copyin(a + 10, 50);
    acc_create(room, sizeof room);
    CHECK_EQ(acc_is_present(a + 10, 0), 1);
    CHECK_EQ(acc_is_present(a + 59, 0), 1);
    CHECK_EQ(acc_is_present(a + 9, 0), 0);
    CHECK_EQ(acc_is_present(a, 0), 0);
    CHECK_EQ(acc_is_present(b + 50, 0), 0);
    CHECK_EQ(acc_is_present(NULL, 0), 0);
    CHECK_EQ(acc_is_present(NULL, 10), 0);
    CHECK_EQ(acc_is_present(a + 10, 50), 1);
    CHECK_EQ(acc_is_present(a + 10, 51), 0);
    acc_delete(a + 10, 50);
    CHECK_EQ(acc_is_present(a + 10, 0), 0);
    acc_delete(room, sizeof room);
    return pass();
}
