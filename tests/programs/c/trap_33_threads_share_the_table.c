// Host threads: each has its own regions and device number, all share a device's present table.
// BUILD flags=-pthread
// BUILD core
#include "check.h"
#include <pthread.h>

enum { THREADS = 6, ROUNDS = 30, N = 500 };
static int shared_data[N];
static int results[THREADS][N];
static int devices;
static acc_device_t type;

static void *work(void *arg)
{
    int me = (int)(size_t)arg, device = me % devices;
    acc_set_device_num(device, type);
    int *mine = results[me];
    for (int round = 0; round < ROUNDS; round++) {
#pragma acc data copyin(shared_data) copy(mine[0:N])
        {
#pragma acc parallel loop present(shared_data, mine[0:N]) async(me)
            for (int i = 0; i < N; i++)
                mine[i] += shared_data[i];
#pragma acc wait(me)
        }
        CHECK_EQ(acc_get_device_num(type), device);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    type = device_type();
    devices = device_count();
    for (int i = 0; i < N; i++)
        shared_data[i] = i;
    for (int t = 0; t < THREADS; t++)
        CHECK_EQ(pthread_create(&threads[t], NULL, work, (void *)(size_t)t), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < N; i++)
            CHECK_EQ(results[t][i], ROUNDS * i);
    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, type);
        CHECK_EQ(acc_is_present(shared_data, sizeof shared_data), WANT(0, 1));
    }
    return pass();
}
