// An error of an asynchronous region reaches callbacks at a later wait: with its queue, and the region that did it.
// EXPECT device-memory
// EXPECT exit=3
// EXPECT stderr=/^told\n$/
#include "error_callback.h"

static void told(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    const struct error_event *error = (const struct error_event *)event;
    CHECK_EQ(error->error_code, 3);
    CHECK_EQ(error->parent_construct, acc_construct_wait);
    CHECK_EQ(prof->async, 7);
    CHECK(strstr(error->error_message, "guilty") && strstr(error->error_message, "error_callback_async.c:23"));
    fprintf(stderr, "told\n");
    /* A callback that ends the program: its status, and no message but its own. */
    exit(3);
}

static void guilty(int *p)
{
#pragma acc parallel deviceptr(p) async(7)
    {
        *p = 1;
    }
}

int main(void)
{
    on_errors(told);
    guilty((int *)16);
#pragma acc wait(7)
    printf("FAIL: it came back\n");
    return 0;
}
