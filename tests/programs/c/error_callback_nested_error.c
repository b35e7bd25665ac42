// An error inside of a callback ends the program with both messages and without further callbacks.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/^once\naccord: acc_update_self .*\naccord: acc_wait .*acc_error_invalid_async.*\n$/
#include "error_callback.h"

static void fails(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    fprintf(stderr, "once\n");
    acc_wait(-77);
    printf("FAIL: the wait came back\n");
}

int main(void)
{
    static double values[10];
    on_errors(fails);
    make_error(values);
    printf("FAIL: it came back\n");
    return 0;
}
