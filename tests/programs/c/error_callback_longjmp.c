// A callback that leaves by longjmp: the library holds nothing then, and what is on the devices can still be used. The next error
// ends the program at once, with both messages.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stdout=/^going on\n$/
// EXPECT stderr=/^accord: acc_update_self .*\naccord: acc_copyin .*acc_error_invalid_null_pointer.*\n$/
#include "error_callback.h"
#include <setjmp.h>

static jmp_buf away;
static double values[10], other[10];

static void leave(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    longjmp(away, 1);
}

int main(void)
{
    on_errors(leave);
#pragma acc enter data copyin(values)
    if (setjmp(away) == 0) {
        make_error(other);
        printf("FAIL: it came back\n");
    }
#pragma acc parallel loop present(values) async(2)
    for (int i = 0; i < 10; i++)
        values[i] = i;
#pragma acc exit data copyout(values) async(2)
#pragma acc wait
    CHECK_EQ(values[9], 9);
    printf("going on\n");
    fflush(stdout);
    acc_copyin(NULL, 8);
    printf("FAIL: the second came back\n");
    return 0;
}
