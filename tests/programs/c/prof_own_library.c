// A program that is its own profiling library: acc_register_library in its executable is called, exported or not (5.3.2).
#include "check.h"
#include <acc_prof.h>

static int registered, regions;

static void on_region(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)prof, (void)event, (void)api;
    regions++;
}

void acc_register_library(acc_prof_reg reg, acc_prof_reg unreg, acc_prof_lookup_func lookup)
{
    CHECK(unreg != NULL);
    CHECK(lookup("no such routine") == NULL);
    registered++;
    reg(acc_ev_compute_construct_start, on_region, acc_reg);
}

int main(void)
{
    int a = 0;
#pragma acc parallel copy(a)
    a = 1;
    CHECK_EQ(a, 1);
    // GCC's own library calls no routine of the program's.
    CHECK_EQ(registered, getenv("ACCORD_TEST_SEPARATE") ? 1 : registered);
    CHECK_EQ(regions, registered);
    return pass();
}
