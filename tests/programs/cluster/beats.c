// Runs a region on each of its devices at the same time, and has each region record from when to when it ran, and on which device: PREFIX MILLISECONDS.
//
// The record of device D is the file PREFIX.PROCESS.D: the node and ordinal that the program was given, the host that the region ran on, and its first
// and last moment in nanoseconds of the monotonic clock, which all hosts of one machine share. The region itself writes the last moment again and
// again, so that the record is right even if program and region are killed.
#include "check.h"
#include <acc_prof.h>
#include "../../../libacc/include/accord_prof.h"
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES_MAX = 64, PAUSE_US = 10000 };

struct work {
    char file[256];
    char node[64];
    int ordinal;
    int milliseconds;
    int is_recorded;
};

static struct work works[DEVICES_MAX];
static accord_prof_place_func place_of_event;
static struct work *learns;

static void on_launch(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)prof, (void)event, (void)api;
    const accord_prof_place_t *place = place_of_event ? place_of_event() : NULL;
    if (place && place->node && learns) {
        snprintf(learns->node, sizeof learns->node, "%s", place->node);
        learns->ordinal = place->ordinal;
    }
}

void acc_register_library(acc_prof_reg reg, acc_prof_reg unreg, acc_prof_lookup_func lookup)
{
    (void)unreg;
    *(void **)&place_of_event = (void *)lookup("accord_prof_place");
    reg(acc_ev_enqueue_launch_start, on_launch, acc_reg);
}

#pragma acc routine seq
static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#pragma acc routine seq
static void record(struct work *work)
{
    char host[64] = "", line[256];
    long long begun = now_ns(), now = begun;
    int file = open(work->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    gethostname(host, sizeof host - 1);
    while (file >= 0) {
        now = now_ns();
        int length = snprintf(line, sizeof line, "%s %d %s %020lld %020lld\n", work->node, work->ordinal, host, begun, now);
        work->is_recorded = pwrite(file, line, length, 0) == length;
        if (!work->is_recorded || now - begun >= work->milliseconds * 1000000LL)
            break;
        usleep(PAUSE_US);
    }
    close(file);
}

int main(int argc, char **argv)
{
    CHECK_EQ(argc, 3);
    acc_device_t type = device_type();
    int devices = acc_get_num_devices(type);
    CHECK(devices <= DEVICES_MAX);
    for (int device = 0; device < devices; device++) {
        struct work *work = &works[device];
        int value = 0;
        snprintf(work->file, sizeof work->file, "%s.%d.%d", argv[1], (int)getpid(), device);
        work->milliseconds = atoi(argv[2]);
        learns = work;
        acc_set_device_num(device, type);
#pragma acc parallel copy(value)
        value = 7;
        CHECK_EQ(value, 7);
        CHECK(work->node[0]);
    }
    learns = NULL;
    printf("holds %d\n", devices);
    fflush(stdout);
    for (int device = 0; device < devices; device++) {
        acc_set_device_num(device, type);
#pragma acc enter data copyin(works[device:1]) async(1)
#pragma acc parallel num_gangs(1) present(works[device:1]) async(1)
        record(&works[device]);
#pragma acc exit data copyout(works[device:1]) async(1)
    }
    for (int device = 0; device < devices; device++) {
        acc_set_device_num(device, type);
#pragma acc wait
        CHECK(works[device].is_recorded);
    }
    return pass();
}
