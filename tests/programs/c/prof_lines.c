// Profiling events know the lines of what they belong to, also where it ends (5.2.1).
// BUILD flags=-g
#include "prof_record.h"

/* Optimized by GCC 15, the end of a data construct has the line of the next statement. */
#if __GNUC__ >= 15 && defined __OPTIMIZE__
enum { LATE = 2 };
#else
enum { LATE = 0 };
#endif
enum { N = 1000 };
static int a[N], b[N];

/* All events since `from` have these lines. */
static void lines(int from, int first, int last)
{
    CHECK(told > from);
    for (int i = from; i < told; i++) {
        CHECK_EQ(story[i].prof.line_no, first);
        CHECK_EQ(story[i].prof.end_line_no, last);
    }
}

int main(void)
{
    int here, from, *device = NULL;
    acc_init(acc_get_device_type());
    /* libgomp knows no lines. */
    if (!separate())
        return pass();
    record_all();
    from = told, here = __LINE__ + 1;
#pragma acc enter data copyin(a)
    lines(from, here, here);
    from = told, here = __LINE__ + 1;
#pragma acc update device(a[0:10])
    lines(from, here, here);
    from = told, here = __LINE__ + 1;
#pragma acc exit data copyout(a)
    lines(from, here, here);
    from = told;
    int start = __LINE__ + 1;
#pragma acc data copy(a) create(b)
    {
        lines(from, start, -1);
        from = told, here = __LINE__ + 1;
#pragma acc host_data use_device(a)
        {
            lines(from, here, -1);
            from = told;
            device = a;
        }
        /* Its last line with code. */
        CHECK_EQ(story[from].prof.line_no, here);
        CHECK(story[from].prof.end_line_no >= here + 4 && story[from].prof.end_line_no <= here + 5 + LATE);
        from = told, here = __LINE__ + 1;
#pragma acc parallel loop async
        for (int i = 0; i < N; i++)
            b[i] = a[i];
        /* All that happens in it has its lines. */
        for (int i = from; i < told; i++) {
            CHECK_EQ(story[i].prof.line_no, here);
            CHECK(story[i].prof.end_line_no >= here + 1 && story[i].prof.end_line_no <= here + 2);
            /* And its async-argument, with the queue that this means. */
            CHECK_EQ(story[i].prof.async, acc_async_noval);
        }
        from = told, here = __LINE__ + 1;
#pragma acc wait
        lines(from, here, here);
        from = told;
    }
    int end = __LINE__ - 1;
    CHECK(device != NULL);
    for (int i = from; i < told; i++) {
        CHECK_EQ(story[i].prof.line_no, start);
        CHECK(story[i].prof.end_line_no >= end - 1 && story[i].prof.end_line_no <= end);
    }
    record_no_more();
    CHECK_EQ(depth, 0);
    CHECK_EQ(count(acc_ev_exit_data_start), count(acc_ev_enter_data_start));
    /* Routines. */
    int *heap = malloc(N * sizeof *heap);
    record_all();
    from = told, here = __LINE__ + 1;
    acc_copyin(heap, N * sizeof *heap);
    lines(from, here, here);
    from = told, here = __LINE__ + 1;
    acc_update_self_async(heap, N * sizeof *heap, 1);
    lines(from, here, here);
    from = told, here = __LINE__ + 1;
    acc_wait(1);
    lines(from, here, here);
    record_no_more();
    acc_delete(heap, N * sizeof *heap);
    free(heap);
    return pass();
}
