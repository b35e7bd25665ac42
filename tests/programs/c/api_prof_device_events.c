// Profiling events of what a construct does on its device: create, upload, launch, download, delete (5.1).
#include "check.h"
#include <acc_prof.h>

static acc_event_t story[64];
static int told;
static size_t uploaded, downloaded;
static void *tool_info;

static void on_event(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)api;
    CHECK(prof->event_type == event->event_type);
    if (told < 64)
        story[told++] = prof->event_type;
    if (prof->event_type == acc_ev_enqueue_upload_start) {
        uploaded += event->data_event.bytes;
        CHECK(event->data_event.device_ptr != NULL);
    }
    if (prof->event_type == acc_ev_enqueue_download_start)
        downloaded += event->data_event.bytes;
    if (prof->event_type == acc_ev_enqueue_launch_start) {
        CHECK_EQ(event->launch_event.parent_construct, acc_construct_parallel);
        event->launch_event.tool_info = &tool_info;
    }
    if (prof->event_type == acc_ev_enqueue_launch_end)
        CHECK(event->launch_event.tool_info == &tool_info);
}

int main(void)
{
    static const acc_event_t expected[] = {
        acc_ev_create, acc_ev_enqueue_upload_start, acc_ev_enqueue_upload_end, acc_ev_enqueue_launch_start,
        acc_ev_enqueue_launch_end, acc_ev_enqueue_download_start, acc_ev_enqueue_download_end, acc_ev_delete,
    };
    enum { EVENTS = sizeof expected / sizeof *expected };
    static int a[1000];
    acc_init(acc_device_default);
    for (int i = 0; i < EVENTS; i++)
        acc_prof_register(expected[i], on_event, acc_reg);
#pragma acc parallel loop copy(a)
    for (int i = 0; i < 1000; i++)
        a[i] = i;
    for (int i = 0; i < EVENTS; i++)
        acc_prof_unregister(expected[i], on_event, acc_reg);
    CHECK_EQ(told, WANT(EVENTS, 0));
    for (int i = 0; i < told; i++)
        CHECK_EQ(story[i], expected[i]);
    CHECK_EQ(uploaded, WANT(sizeof a, 0));
    CHECK_EQ(downloaded, WANT(sizeof a, 0));
    CHECK_EQ(a[999], 999);
    return pass();
}
