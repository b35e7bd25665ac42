// Constant tables of functions, strings and addresses work on a CPU device, however they are mapped: it has them itself, with its own addresses.
// BUILD offload=no
#include "check.h"

static double one(double x)
{
    return x + 1;
}

static double two(double x)
{
    return x * 2;
}

static const int numbers[3] = {7, 8, 9};
static double (*const functions[2])(double) = {one, two};
static const char *const names[3] = {"ab", "cd", "ef"};
static const struct {
    const int *at;
    const char *name;
} records[2] = {{&numbers[1], "x"}, {&numbers[2], "yz"}};

static const struct {
    double (*function)(double);
    const char *name;
} later[2] = {{two, "gh"}, {one, "ij"}};

static double call(int i)
{
    double r = 0;
#pragma acc parallel copy(r) present(later)
    r = later[i].function(10) + (later[i].name[1] == (i ? 'j' : 'h'));
    return r;
}

/* Mapped before any region names it, and copied again while it is present. */
static void mapped(void)
{
#pragma acc enter data copyin(later)
    CHECK_EQ(call(0), 21);
#pragma acc update device(later)
#pragma acc update self(later)
    CHECK_EQ(call(1), 12);
    acc_update_device((void *)later, sizeof later);
    acc_update_self((void *)later, sizeof later);
    CHECK_EQ(call(0), 21);
#pragma acc exit data copyout(later)
#pragma acc data copy(later)
    CHECK_EQ(call(1), 12);
    acc_copyin((void *)&later[1], sizeof later[1]);
    acc_copyout((void *)&later[1], sizeof later[1]);
    acc_copyin((void *)later, sizeof later);
    CHECK_EQ(call(0), 21);
    acc_delete((void *)later, sizeof later);
    CHECK_EQ(later[0].function(1) + later[1].function(1), 4);
}

static double look(int i, int queue)
{
    double r[4];
#pragma acc parallel copyout(r) async(queue)
    {
        r[0] = functions[i](10);
        r[1] = names[i][1];
        r[2] = *records[i].at;
        r[3] = records[i].name[0];
    }
#pragma acc wait
    CHECK_EQ(r[1], names[i][1]);
    CHECK_EQ(r[2], *records[i].at);
    CHECK_EQ(r[3], records[i].name[0]);
    return r[0];
}

int main(void)
{
    mapped();
    for (int queue = acc_async_sync; queue < 2; queue++) {
        CHECK_EQ(look(0, queue), 11);
        CHECK_EQ(look(1, queue), 20);
    }
    acc_shutdown(acc_get_device_type());
    CHECK_EQ(look(1, acc_async_sync), 20);
    return pass();
}
