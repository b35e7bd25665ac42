// Work on devices of other hosts, without a word between the program and them but where it is said: what has to be waited for shows in how many
// messages follow upon each other.
// Usage: far nothing|launches|in-turn|devices|updates|after-regions|copies|copies-there|copies-here|data|waits COUNT
#include "check.h"

enum { CELLS = 512, LARGE = 64 << 10, DEPTH = 8, PIECE = LARGE / DEPTH };

static double cells[DEPTH][CELLS];
static char large[LARGE], other[LARGE];

static void launch(int row, int queue)
{
#pragma acc parallel loop present(cells) async(queue)
    for (int i = 0; i < CELLS; i++)
        cells[row][i] += 1;
}

/* All in one queue, and one wait. */
static void launches(int count)
{
    for (int i = 0; i < count; i++)
        launch(0, 1);
#pragma acc wait(1)
#pragma acc update self(cells)
    CHECK_EQ(cells[0][CELLS - 1], count);
}

/* Blocks come home by several queues; the oldest is waited for. */
static void in_turn(int count)
{
    for (int i = 0; i < count; i++) {
        int row = i % DEPTH;
        if (i >= DEPTH) {
            acc_wait(row);
            CHECK_EQ(cells[row][CELLS - 1], i / DEPTH);
        }
        launch(row, row);
#pragma acc update self(cells[row:1]) async(row)
    }
#pragma acc wait
}

/* Both hosts' devices work, and one is waited for after the other. */
static void devices_in_turn(int count, int near, int far)
{
    acc_set_device_num(far, acc_device_not_host);
#pragma acc enter data copyin(cells)
    for (int i = 0; i < count; i++) {
        for (int device = near; device <= far; device++) {
            acc_set_device_num(device, acc_device_not_host);
            launch(0, 1);
        }
        for (int device = near; device <= far; device++) {
            acc_set_device_num(device, acc_device_not_host);
#pragma acc wait(1)
        }
    }
    for (int device = near; device <= far; device++) {
        acc_set_device_num(device, acc_device_not_host);
        cells[0][0] = -1;
#pragma acc update self(cells)
        CHECK_EQ(cells[0][0], count);
    }
}

/* Small ones, in commands, and larger ones, by lanes of their own. */
static void updates(int count)
{
    for (int i = 0; i < count; i++) {
        cells[0][0] = i;
#pragma acc update device(cells[0:1])
        large[0] = i;
#pragma acc update device(large)
    }
    cells[0][0] = large[0] = -1;
#pragma acc update self(cells, large)
    CHECK_EQ(cells[0][0], count - 1);
    CHECK_EQ(large[0], (char)(count - 1));
}

/* Longer than what goes in commands, each after a region that uses what the one before brought: all in one queue, and one wait. */
static void after_regions(int count)
{
    for (int i = 0; i < count; i++) {
        int at = i % DEPTH * PIECE;
#pragma acc parallel loop present(cells, large) async(1)
        for (int j = 0; j < PIECE; j++) {
            if (j < CELLS)
                cells[0][j] += large[at + j];
            large[at + j]++;
        }
#pragma acc update device(large[at:PIECE]) async(1)
    }
#pragma acc wait(1)
#pragma acc update self(cells, large)
    CHECK_EQ(cells[0][0], 5 * count);
    CHECK_EQ(cells[0][CELLS - 1], 5 * count);
    CHECK_EQ(large[0], 5);
    CHECK_EQ(large[LARGE - 1], 5);
}

/* From one host to another; one of them may be the program's own. */
static void copies(int count, int from, int to)
{
    for (int i = 0; i < count; i++)
        acc_memcpy_d2d_async(other, large, LARGE, to, from, 1);
#pragma acc wait(1)
    acc_set_device_num(to, acc_device_not_host);
#pragma acc update self(other)
    CHECK_EQ(other[LARGE - 1], 5);
}

/* Memory comes and goes. */
static void data(int count)
{
    static int temporary[1000];
    for (int i = 0; i < count; i++) {
#pragma acc enter data copyin(temporary)
#pragma acc parallel present(temporary) async(1)
        {
            temporary[0]++;
        }
#pragma acc exit data delete(temporary) async(1)
    }
#pragma acc wait
}

/* Each is waited for. */
static void waits(int count)
{
    for (int i = 0; i < count; i++) {
        launch(0, 1);
#pragma acc wait(1)
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 0, devices = acc_get_num_devices(acc_device_not_host);
    CHECK_EQ(devices, 3);
    memset(large, 5, LARGE);
    int near = strcmp(what, "copies-there") ? 1 : 0, far = strcmp(what, "copies-here") ? 2 : 0;
    acc_set_device_num(far, acc_device_not_host);
#pragma acc enter data create(other)
    acc_set_device_num(near, acc_device_not_host);
#pragma acc enter data copyin(cells, large)
    if (!strcmp(what, "launches"))
        launches(count);
    else if (!strcmp(what, "in-turn"))
        in_turn(count);
    else if (!strcmp(what, "devices"))
        devices_in_turn(count, near, far);
    else if (!strcmp(what, "updates"))
        updates(count);
    else if (!strcmp(what, "after-regions"))
        after_regions(count);
    else if (!strncmp(what, "copies", 6))
        copies(count, near, far);
    else if (!strcmp(what, "data"))
        data(count);
    else if (!strcmp(what, "waits"))
        waits(count);
    else
        CHECK(!strcmp(what, "nothing"));
    return pass();
}
