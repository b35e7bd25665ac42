// `stopped_beside GOES_ON STOPS`: one thread gives the device STOPS regions without end, as far as it takes them. For each line of its input the
// other one has the device GOES_ON work a hundred times and says "went on N"; at the input's end both are waited for, and the sums are right.
// BUILD flags=-pthread
#include "check.h"
#include <pthread.h>

static int ends, sums[2];
static long given;

static void *gives(void *device)
{
    int *sum = &sums[1];
    acc_set_device_num(*(int *)device, device_type());
#pragma acc enter data copyin(sum[0:1])
    while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
#pragma acc parallel present(sum[0:1]) async(1) num_gangs(1)
        sum[0] += 1;
        __atomic_store_n(&given, given + 1, __ATOMIC_RELEASE);
    }
#pragma acc wait(1)
#pragma acc exit data copyout(sum[0:1])
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int stops = atoi(argv[2]), rounds = 0;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, gives, &stops), 0);
    int *sum = &sums[0];
    acc_set_device_num(atoi(argv[1]), device_type());
#pragma acc enter data copyin(sum[0:1])
    while (__atomic_load_n(&given, __ATOMIC_ACQUIRE) < 100) {
    }
    printf("ready\n");
    fflush(stdout);
    char line[100];
    for (int n = 1; fgets(line, sizeof line, stdin); n++) {
        for (int i = 0; i < 100; i++, rounds++) {
#pragma acc parallel present(sum[0:1]) num_gangs(1)
            sum[0] += 1;
#pragma acc update self(sum[0:1])
            CHECK_EQ(sums[0], rounds + 1);
        }
        printf("went on %d, %ld given\n", n, __atomic_load_n(&given, __ATOMIC_ACQUIRE));
        fflush(stdout);
    }
    __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
#pragma acc exit data delete(sum[0:1])
    CHECK_EQ(sums[1], given);
    return pass();
}
