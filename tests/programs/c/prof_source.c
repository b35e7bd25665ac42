// Profiling events name source file, function, lines and variables (5.2.1, 5.2.2).
// BUILD flags=-g
#include "prof_record.h"

enum { N = 1000 };
static float table[N];
float *volatile kept;

__attribute__((noinline)) static int scale(float *rows, float *heap)
{
    int first = __LINE__ + 1;
#pragma acc parallel loop copy(rows[0:N]) copyin(table, heap[0:N])
    for (int i = 0; i < N; i++)
        rows[i] = heap[i] + table[i];
    return first;
}

int main(void)
{
    float local[N];
    /* Else GCC 15 knows that no event can have its address. */
    kept = local;
    float *from = malloc(N * sizeof *from);
    for (int i = 0; i < N; i++)
        local[i] = 0, from[i] = i, table[i] = 1;
    int is_separate = separate();
    record_all();
    int line = scale(local, from);
    record_no_more();
    CHECK_EQ(local[10], 11);
    free(from);
    if (!is_separate)
        return pass();
    int rows = 0, heap = 0, tables = 0;
    for (int i = 0; i < told; i++) {
        acc_prof_info *prof = &story[i].prof;
        CHECK(prof->src_file != NULL && strstr(prof->src_file, "prof_source.c"));
        CHECK(prof->func_name != NULL && strcmp(prof->func_name, "scale") == 0);
        CHECK(prof->line_no >= line && prof->line_no <= line + 2);
        CHECK(prof->func_line_no >= line - 4 && prof->func_line_no < line);
        CHECK(prof->func_end_line_no >= prof->line_no && prof->func_end_line_no <= line + 4);
        if (prof->event_type == acc_ev_compute_construct_start || prof->event_type == acc_ev_enqueue_launch_end)
            CHECK(prof->end_line_no >= prof->line_no && prof->end_line_no <= line + 3);
        if (!is_data(prof->event_type))
            continue;
        acc_data_event_info *data = &story[i].event.data_event;
        if (data->host_ptr == local)
            rows += data->var_name && (!strcmp(data->var_name, "rows") || !strcmp(data->var_name, "local"));
        if (data->host_ptr == from)
            heap += data->var_name && (!strcmp(data->var_name, "heap") || !strcmp(data->var_name, "from"));
        if (data->host_ptr == table)
            tables += data->var_name && !strcmp(data->var_name, "table");
    }
    // alloc, create, upload, download, delete, free: with their ends 8, and 6 without download.
    CHECK_EQ(rows, 8);
#ifndef __OPTIMIZE__ /* else the pointer may be nowhere */
    CHECK_EQ(heap, 6);
#endif
    CHECK_EQ(tables, 6);
    return pass();
}
