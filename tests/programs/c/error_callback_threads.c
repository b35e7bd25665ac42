// Two threads fail at once: one of them is told and ends the program, the other waits for that.
// BUILD flags=-pthread
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/^told\naccord: acc_update_self [^\n]*\n$/
#include "error_callback.h"
#include <pthread.h>
#include <unistd.h>

static pthread_barrier_t both;
static double values[10];

static void told(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    fprintf(stderr, "told\n");
    usleep(300000);
}

static void *fail(void *unused)
{
    acc_init(acc_device_default);
    pthread_barrier_wait(&both);
    make_error(values);
    printf("FAIL: it came back\n");
    return NULL;
}

int main(void)
{
    pthread_t other;
    on_errors(told);
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&other, NULL, fail, NULL);
    fail(NULL);
    return 0;
}
