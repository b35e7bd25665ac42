/* Records the events of the profiling interface, and checks what holds for all of them. */
#ifndef PROF_RECORD_H
#define PROF_RECORD_H
#include "check.h"
#include <acc_prof.h>
#include "../../../libacc/include/accord_prof.h"

enum { STORY_MAX = 512, DEPTH_MAX = 16 };

struct told {
    acc_prof_info prof;
    acc_event_info event;
    acc_api_info api;
    accord_prof_place_t place;
    int has_place;
    int depth;
};

static struct told story[STORY_MAX];
static int told;
static int open_events[DEPTH_MAX], depth;
static void *marks[DEPTH_MAX];
static accord_prof_place_func place_of_event;

static inline int starts(int event)
{
    return event == acc_ev_device_init_start || event == acc_ev_device_shutdown_start || event == acc_ev_enter_data_start ||
           event == acc_ev_exit_data_start || event == acc_ev_update_start || event == acc_ev_compute_construct_start ||
           event == acc_ev_enqueue_launch_start || event == acc_ev_enqueue_upload_start ||
           event == acc_ev_enqueue_download_start || event == acc_ev_wait_start;
}

static inline int ends(int event)
{
    return event > 1 && starts(event - 1);
}

static inline int is_data(int event)
{
    return (event >= acc_ev_create && event <= acc_ev_free) ||
           (event >= acc_ev_enqueue_upload_start && event <= acc_ev_enqueue_download_end);
}

static void record(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    CHECK(prof->event_type == event->event_type);
    CHECK(prof->event_type > acc_ev_none && prof->event_type < acc_ev_last);
    CHECK(prof->valid_bytes >= (int)sizeof *prof && api->valid_bytes >= (int)sizeof *api);
    CHECK(prof->device_type == api->device_type);
    CHECK(prof->version >= 201711);
    if (is_data(prof->event_type))
        CHECK(event->data_event.valid_bytes >= (int)sizeof event->data_event);
    if (starts(prof->event_type)) {
        CHECK(depth < DEPTH_MAX);
        marks[depth] = &story[told];
        event->other_event.tool_info = marks[depth];
        open_events[depth++] = prof->event_type;
    } else if (ends(prof->event_type)) {
        CHECK(depth > 0);
        depth--;
        CHECK_EQ(prof->event_type, open_events[depth] + 1);
        CHECK(event->other_event.tool_info == marks[depth]);
    } else {
        CHECK(event->other_event.tool_info == NULL);
    }
    CHECK(told < STORY_MAX);
    struct told *now = &story[told++];
    now->prof = *prof;
    memcpy(&now->event, event, event->other_event.valid_bytes);
    now->api = *api;
    now->depth = depth;
    now->has_place = place_of_event != NULL;
    if (place_of_event) {
        const accord_prof_place_t *place = place_of_event();
        CHECK(place != NULL && place->valid_bytes >= (int)sizeof *place);
        now->place = *place;
    }
}

static inline void record_all(void)
{
    *(void **)&place_of_event = (void *)acc_prof_lookup("accord_prof_place");
    for (int event = acc_ev_none + 1; event < acc_ev_last; event++)
        acc_prof_register((acc_event_t)event, record, acc_reg);
}

static inline void record_no_more(void)
{
    for (int event = acc_ev_none + 1; event < acc_ev_last; event++)
        acc_prof_unregister((acc_event_t)event, record, acc_reg);
}

/* The n-th event (from 0) of a kind that was told. */
static inline struct told *find(int event, int n)
{
    for (int i = 0; i < told; i++)
        if (story[i].prof.event_type == event && n-- == 0)
            return &story[i];
    return NULL;
}

static inline int count(int event)
{
    int n = 0;
    for (int i = 0; i < told; i++)
        n += story[i].prof.event_type == event;
    return n;
}
#endif
