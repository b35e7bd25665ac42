// Updates over attached pointers: the program never sees a device's address, the device's pointers stay attached
// (2.7.2). By routine and directive, whole objects, the pointer alone, arrays of objects, queues.
// EXPECT device-memory
#include "check.h"

struct item {
    int before;
    int *values;
    int after;
};

static int first(struct item *items, int which)
{
    int got = -1;
#pragma acc parallel present(items[0:3]) copyout(got)
    got = items[which].values[0] + items[which].before + items[which].after;
    return got;
}

static void change(struct item *items)
{
#pragma acc parallel loop present(items[0:3])
    for (int i = 0; i < 3; i++) {
        items[i].before++;
        items[i].after++;
    }
}

int main(void)
{
    static int x[3][4] = {{10}, {20}, {30}}, room[8];
    static struct item items[3];
    CHECK(room[0] == 0);
    acc_copyin(x, sizeof x);
    for (int i = 0; i < 3; i++)
        items[i].values = x[i];
    acc_copyin(items, sizeof items);
    for (int i = 0; i < 3; i++)
        acc_attach((void **)&items[i].values);
    for (int way = 0; way < 6; way++) {
        int want = way + 1;
        change(items);
        if (way == 0)
            acc_update_self(items, sizeof items);
        if (way == 1) {
#pragma acc update self(items[0:3])
        }
        if (way == 2) {
            acc_update_self_async(items, sizeof items, 2);
            acc_wait(2);
        }
        if (way == 3) {
#pragma acc update self(items[0:3]) async(1)
#pragma acc wait(1)
        }
        if (way == 4) {
            acc_update_self(&items[0], sizeof items[0]);
            acc_update_self(&items[1].values, sizeof items[1].values);   /* the pointer alone: nothing */
            acc_update_self((char *)&items[1] + 4, sizeof items[1] - 4); /* from the padding before it */
            acc_update_self((char *)&items[1], 12);                      /* up to the middle of the pointer */
            acc_update_self(&items[2], sizeof items[2]);
        }
        if (way == 5) {
#pragma acc update self(items[0:1])
#pragma acc update self(items[1:2]) async
#pragma acc wait
        }
        for (int i = 0; i < 3; i++) {
            CHECK(items[i].values == x[i]);
            CHECK_EQ(items[i].before, want);
            CHECK_EQ(items[i].after, want);
            acc_update_device(&items[i], sizeof items[i]);
            CHECK_EQ(first(items, i), 10 * (i + 1) + 2 * want);
        }
    }
    for (int i = 0; i < 3; i++)
        acc_detach((void **)&items[i].values);
    acc_copyout(items, sizeof items);
    for (int i = 0; i < 3; i++)
        CHECK(items[i].values == x[i]);
    acc_delete(x, sizeof x);
    return pass();
}
