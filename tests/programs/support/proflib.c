/* A profiling library: counts, and says so at the end. */
#include <acc_prof.h>
#include <stdio.h>

static int constructs, updates, registered;

static void count(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)event;
    (void)api;
    constructs += prof->event_type == acc_ev_compute_construct_start;
    updates += prof->event_type == acc_ev_update_start;
}

void acc_register_library(acc_prof_reg reg, acc_prof_reg unreg, acc_prof_lookup_func lookup)
{
    (void)unreg;
    (void)lookup;
    registered++;
    reg(acc_ev_compute_construct_start, count, acc_reg);
    reg(acc_ev_update_start, count, acc_reg);
}

__attribute__((destructor)) static void say(void)
{
    if (registered != 1)
        return;
    printf("proflib: %d compute constructs, %d updates\n", constructs, updates);
    fflush(stdout);
}
