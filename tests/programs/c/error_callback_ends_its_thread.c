// A callback that ends its thread does not: the program ends, as after any error.
// BUILD flags=-pthread
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/^accord: an error callback has thrown an exception.*\naccord: acc_update_self .*\n$/
#include "error_callback.h"
#include <pthread.h>

static double values[10];

static void leave(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    pthread_exit(NULL);
}

static void *fail(void *unused)
{
    make_error(values);
    printf("FAIL: it came back\n");
    return NULL;
}

int main(void)
{
    pthread_t other;
    on_errors(leave);
    pthread_create(&other, NULL, fail, NULL);
    pthread_join(other, NULL);
    printf("FAIL: the thread ended, the program did not\n");
    return 0;
}
