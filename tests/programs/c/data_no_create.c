// `no_create`: uses data that is present, and does nothing for absent data (2.7.10).
#include "check.h"

int main(void)
{
    int here[10] = {0}, absent[10] = {0}, flag = 1;
#pragma acc data copy(here)
    {
#pragma acc data no_create(here, absent)
        {
            CHECK_EQ(acc_is_present(here, sizeof here), 1);
            CHECK_EQ(acc_is_present(absent, sizeof absent), WANT(0, 1));
        }
#pragma acc parallel no_create(here, absent) copyin(flag)
        {
            for (int i = 0; i < 10; i++)
                if (flag)
                    here[i] = i;
                else
                    absent[i] = i;
        }
    }
    for (int i = 0; i < 10; i++)
        CHECK_EQ(here[i], i);
    CHECK_ALL(absent, 10, 0);
    return pass();
}
