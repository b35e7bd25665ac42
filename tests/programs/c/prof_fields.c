// Every profiling event of a program with data, compute, update, host_data and wait: order, nesting, fields (5.1, 5.2).
// BUILD core
#include "prof_record.h"

static void check_launch(struct told *launch, const char *function)
{
    CHECK(launch != NULL);
    CHECK(launch->event.launch_event.kernel_name && strstr(launch->event.launch_event.kernel_name, function));
    /* How many a GPU elsewhere gets is chosen there. */
    if (!launch->has_place || launch->place.remote == 0 || acc_get_device_type() != acc_device_nvidia)
        CHECK(launch->event.launch_event.num_gangs >= 1);
    CHECK(launch->event.launch_event.num_workers >= 1);
    CHECK(launch->event.launch_event.vector_length >= 1);
    CHECK_EQ(launch->event.launch_event.parent_construct, acc_construct_parallel);
}

int main(void)
{
    enum { N = 1000 };
    static int a[N], b[N];
    int *p = a;
    int is_separate = separate();
    record_all();
#pragma acc data copyin(a) copyout(b)
    {
#pragma acc parallel loop async(3)
        for (int i = 0; i < N; i++)
            b[i] = a[i] + i;
#pragma acc wait(3)
#pragma acc host_data use_device(p)
        CHECK(p != NULL);
#pragma acc update self(b[10:20])
    }
    void *block = acc_malloc(100);
    acc_free(block);
    record_no_more();
    CHECK_EQ(depth, 0);
    CHECK(told > 0);
    CHECK_EQ(count(acc_ev_compute_construct_start), 1);
    CHECK_EQ(count(acc_ev_compute_construct_end), 1);
    CHECK_EQ(find(acc_ev_enter_data_start, 0)->event.other_event.parent_construct, acc_construct_data);
    CHECK_EQ(count(acc_ev_update_start), 1);
    if (!is_separate)
        return pass();

    for (int i = 0; i < told; i++) {
        CHECK(story[i].prof.thread_id == story[0].prof.thread_id);
        CHECK(story[i].prof.thread_id > 0);
        CHECK(story[i].prof.device_number == acc_get_device_num(acc_get_device_type()));
        CHECK(story[i].prof.device_type == acc_get_device_type());
        CHECK(story[i].has_place && story[i].place.node && *story[i].place.node && story[i].place.name);
        CHECK_EQ(story[i].place.device, acc_get_device_num(acc_get_device_type()));
        CHECK_EQ(story[i].place.queue, story[i].prof.async_queue);
        CHECK_EQ(story[i].place.rank, -1);
    }
    // The data construct: two blocks, one upload, at its end one download.
    CHECK_EQ(count(acc_ev_create), 2);
    CHECK_EQ(count(acc_ev_delete), 2);
    struct told *upload = find(acc_ev_enqueue_upload_start, 0), *download = find(acc_ev_enqueue_download_start, 0);
    CHECK_EQ(upload->event.data_event.bytes, sizeof a);
    CHECK(upload->event.data_event.host_ptr == a && upload->event.data_event.device_ptr != NULL);
    CHECK_EQ(upload->event.data_event.parent_construct, acc_construct_data);
    CHECK_EQ(download->event.data_event.bytes, 20 * sizeof *b);
    CHECK(download->event.data_event.host_ptr == b + 10);
    CHECK_EQ(download->event.data_event.parent_construct, acc_construct_update);
    // What is freed is what was allocated: bytes, device and host address.
    CHECK_EQ(count(acc_ev_alloc), count(acc_ev_free));
    for (int n = 0; n < count(acc_ev_free); n++) {
        acc_data_event_info *freed = &find(acc_ev_free, n)->event.data_event;
        int found = 0;
        for (int k = 0; k < count(acc_ev_alloc); k++) {
            acc_data_event_info *taken = &find(acc_ev_alloc, k)->event.data_event;
            found += taken->device_ptr == freed->device_ptr && taken->bytes == freed->bytes &&
                     taken->host_ptr == freed->host_ptr;
        }
        CHECK(found);
    }
    struct told *last = find(acc_ev_free, count(acc_ev_free) - 1);
    CHECK_EQ(last->event.data_event.bytes, 100);
    CHECK_EQ(last->event.data_event.parent_construct, acc_construct_runtime_api);
    // The region, its queue, and the wait for it.
    struct told *compute = find(acc_ev_compute_construct_start, 0), *launch = find(acc_ev_enqueue_launch_start, 0);
    CHECK_EQ(count(acc_ev_enqueue_launch_start), 1);
    check_launch(launch, "main");
    check_launch(find(acc_ev_enqueue_launch_end, 0), "main");
    CHECK_EQ(compute->prof.async, 3);
    CHECK_EQ(launch->prof.async_queue, 3);
    struct told *wait = find(acc_ev_wait_start, 0);
    CHECK_EQ(wait->prof.async, 3);
    CHECK_EQ(wait->event.other_event.parent_construct, acc_construct_wait);
    CHECK_EQ(wait->event.other_event.implicit, 0);
    struct told *copied = find(acc_ev_wait_start, 1);
    CHECK_EQ(copied->prof.async, acc_async_sync);
    CHECK_EQ(copied->event.other_event.parent_construct, acc_construct_update);
    CHECK_EQ(copied->event.other_event.implicit, 1);
    // Implicit data of the region lies between its start and its launch.
    struct told *implicit = find(acc_ev_enter_data_start, 1);
    CHECK(compute < implicit && implicit < launch);
    CHECK_EQ(implicit->event.other_event.implicit, 1);
    CHECK_EQ(implicit->event.other_event.parent_construct, acc_construct_parallel);
    CHECK_EQ(find(acc_ev_enter_data_start, 2)->event.other_event.parent_construct, acc_construct_host_data);
    CHECK_EQ(find(acc_ev_exit_data_start, 1)->event.other_event.parent_construct, acc_construct_host_data);
    CHECK_EQ(find(acc_ev_exit_data_start, 2)->event.other_event.parent_construct, acc_construct_data);
    return pass();
}
