// host_data gives device addresses to host code, with and without if_present and if (2.8).
#include "check.h"

int main(void)
{
    int a[16], *p = malloc(16 * sizeof *p), absent[4], back[16], no = 0;
    for (int i = 0; i < 16; i++)
        a[i] = i, p[i] = 10 * i;
    void *host_a = a, *host_p = p, *host_absent = absent;
#pragma acc data copyin(a, p[0:16])
    {
#pragma acc host_data use_device(a, p)
        {
            CHECK((void *)a == acc_deviceptr(host_a));
            CHECK((void *)p == acc_deviceptr(host_p));
            if (separate())
                acc_memcpy_from_device(back, p, sizeof back);
            else
                memcpy(back, p, sizeof back);
        }
        CHECK((void *)a == host_a && (void *)p == host_p);
        for (int i = 0; i < 16; i++)
            CHECK_EQ(back[i], 10 * i);
#pragma acc host_data use_device(absent) if_present
        CHECK((void *)absent == host_absent);
#pragma acc host_data use_device(a) if (no)
        CHECK((void *)a == host_a);
    }
    return pass();
}
