// A constructor that uses OpenACC and prints, before main does.
// EXPECT exit=3
// EXPECT stdout=/main has run: 45/
#include <openacc.h>
#include <stdio.h>

static int from_constructor;

static void add(int *sum, int n)
{
    int total = 0;
#pragma acc parallel loop reduction(+ : total) num_gangs(7) vector_length(64)
    for (int i = 0; i < n; i++)
        total += i;
    *sum = total;
}

__attribute__((constructor)) static void before_main(void)
{
    acc_init(acc_device_default);
    printf("the constructor has printed\n");
    fprintf(stderr, "the constructor has complained\n");
    fflush(stdout);
    add(&from_constructor, 10);
}

int main(void)
{
    printf("main has run: %d\n", from_constructor);
    return 3;
}
