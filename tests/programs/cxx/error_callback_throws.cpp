// An exception out of an error callback goes no further: it is said, the next callbacks are called, the message comes, and the program ends.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/^next\naccord: an error callback has thrown an exception.*\naccord: update .*acc_error_not_present.*\n$/
#include "error_callback.h"
#include <stdexcept>
#include <string>

static void throws(acc_prof_info *, acc_event_info *, acc_api_info *)
{
    std::string text(100, 'x');
    throw std::runtime_error(text);
}

static void next(acc_prof_info *, acc_event_info *, acc_api_info *)
{
    fprintf(stderr, "next\n");
}

int main()
{
    static double values[10];
    on_errors(throws);
    on_errors(next);
    try {
#pragma acc update self(values)
    } catch (...) {
        printf("FAIL: it came to the program\n");
    }
    printf("FAIL: it came back\n");
    return 0;
}
