// A callback may use OpenACC: nothing is locked. Here it brings a result home before the program ends.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/^saved 42\naccord: /
#include "error_callback.h"

static double values[10], lost[10];

static void save(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    CHECK(acc_is_present(values, sizeof values));
    acc_copyout(values, sizeof values);
#pragma acc parallel copyout(lost)
    lost[1] = 2;
    acc_wait_all();
    CHECK_EQ(lost[1], 2);
    fprintf(stderr, "saved %g\n", values[3]);
}

int main(void)
{
    on_errors(save);
#pragma acc enter data create(values)
#pragma acc parallel present(values)
    values[3] = 42;
    make_error(lost);
    printf("FAIL: it came back\n");
    return 0;
}
