// Constant numbers of gangs above 65535, of which GCC keeps 16 bits: the code shows the first one, and not the second.
// EXPECT exit=1
// EXPECT stderr=/constant number of gangs above 65535.*write a variable in num_gangs/
#include "check.h"
#include <acc_prof.h>

static int a[65536];
static long gangs;

static void launched(acc_prof_info *info, acc_event_info *event, acc_api_info *api)
{
    gangs = event->launch_event.num_gangs;
}

static void shown(int n)
{
#pragma acc parallel loop gang num_gangs(100000) present(a)
    for (int i = 0; i < n; i++)
        a[i]++;
}

static void lost(void)
{
#pragma acc parallel loop gang num_gangs(65536) present(a)
    for (int i = 0; i < 65536; i++)
        a[i] = i;
}

int main(void)
{
    acc_prof_register(acc_ev_enqueue_launch_start, launched, acc_reg);
#pragma acc enter data create(a)
    shown(65536);
    printf("all gangs: %ld\n", gangs);
    fflush(stdout);
    lost();
    return pass();
}
