/* Directives that GCC doesn't know, in C and C++: built by accord cc and accord c++ they have their effect. */
#include "directives.h"
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) ((what) ? (void)0 : (printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #what), exit(1)))
#define USE_DEVICE_0 _Pragma("acc set device_num(0)") used++;

enum { N = 1000 };
static int a[N], used, evaluated;

static int once(int n)
{
    evaluated++;
    return n;
}

/*
#pragma acc set device_num(99)
*/
static const char *text = "\
#pragma acc set device_num(99)\
";

int main(void)
{
    acc_device_t type = acc_get_device_type();
    CHECK(acc_get_num_devices(type) == 2 && text != NULL);
#pragma acc init
#pragma acc set device_num(once(1)) /* with
                                       a comment */
    CHECK(evaluated == 1);
    CHECK(acc_get_device_num(type) == 1);
    USE_DEVICE_0
    CHECK(used == 1 && acc_get_device_num(type) == 0);
#pragma acc set device_num(1) if (used == 0)
    CHECK(acc_get_device_num(type) == 0);
#pragma acc set \
    device_num(1) \
    default_async(QUEUE)
    CHECK(__LINE__ == 43);
    CHECK(strstr(__FILE__, "accord-cc") == NULL);
    CHECK(acc_get_device_num(type) == 1 && acc_get_default_async() == QUEUE);

#pragma acc enter data create(a)
#pragma acc parallel loop present(a) async(2)
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc update self(a) async(2)
#pragma acc set device_num(0)
#pragma acc wait(devnum:1:queues:2)
    CHECK(acc_async_test_device(2, 1));
    CHECK(a[N - 1] == N - 1);
#pragma acc wait(devnum:1) async(4) if (used == 1)
#pragma acc wait(devnum : 1)
#pragma acc wait(queues : 2, 3) async(1)
#pragma acc wait if (1)
    if (used)
        CHECK(acc_async_test_all_device(1));

#pragma acc init device_num(1)
    CHECK(acc_get_device_num(type) == 1 && acc_is_present(a, sizeof a));
#pragma acc shutdown device_num(1)
#pragma acc set device_num(1)
    CHECK(!acc_is_present(a, sizeof a));
#pragma acc enter data create(a)
#pragma acc shutdown
#pragma acc set device_num(1)
    CHECK(!acc_is_present(a, sizeof a));
    int on_host = 1;
#pragma acc parallel copy(on_host)
    on_host = acc_on_device(acc_device_host);
    CHECK(!on_host);
    printf("PASS\n");
    return 0;
}
