/* A profiling library that checks the grammar of events (OpenACC 3.3, 5.1 and 5.2): what may be in what and in which order, that an
   end is told as its start was, and that memory is taken before it is given back. The first event that is wrong ends the program. */
#include <acc_prof.h>
#include <openacc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = 8, LIVE_MAX = 4096 };

struct open {
    acc_prof_info prof;
    acc_event_info event;
    /* Events of each kind in it. */
    int seen[acc_ev_last];
};

/* Device memory that is taken, and data that is present. */
struct live {
    int used, device;
    acc_event_t kind;
    const void *host, *address;
    size_t bytes;
};

static __thread struct open stack[DEPTH_MAX];
static __thread int depth;
static struct live live[LIVE_MAX];
/* So many of them have ever been used. */
static int lives;
static long events, pairs;
static int ended;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void wrong(const acc_prof_info *prof, const char *what)
{
    char text[400];
    int length = snprintf(text, sizeof text, "prof_grammar: event %d, lines %d to %d: %s; around it:",
                          prof->event_type, prof->line_no, prof->end_line_no, what);
    for (int i = 0; i < depth; i++)
        length += snprintf(text + length, sizeof text - length, " %d", stack[i].prof.event_type);
    text[length++] = '\n';
    if (write(2, text, length) < 0)
        _exit(2);
    _exit(1);
}

#define MUST(condition)                 \
    do {                                \
        if (!(condition))               \
            wrong(prof, #condition);    \
    } while (0)

static int starts(int event)
{
    return event == acc_ev_device_init_start || event == acc_ev_device_shutdown_start ||
           (event >= acc_ev_enter_data_start && event % 2 == 0);
}

static int ends(int event)
{
    return event == acc_ev_device_init_end || event == acc_ev_device_shutdown_end ||
           (event >= acc_ev_enter_data_start && event % 2 != 0);
}

static int is_data(int event)
{
    return (event >= acc_ev_create && event <= acc_ev_free) ||
           (event >= acc_ev_enqueue_upload_start && event <= acc_ev_enqueue_download_end);
}

/* Whether `event` may be in `outer`, the start of a pair. */
static int may_be_in(int outer, int event)
{
    /* A device may start, and a thread wait, in whatever construct. */
    int anywhere = event == acc_ev_device_init_start || event == acc_ev_wait_start;
    int copy = event == acc_ev_enqueue_upload_start || event == acc_ev_enqueue_download_start;
    switch (outer) {
    case acc_ev_compute_construct_start:
        return anywhere || event == acc_ev_enter_data_start || event == acc_ev_exit_data_start ||
               event == acc_ev_enqueue_launch_start;
    case acc_ev_enter_data_start:
        return anywhere || event == acc_ev_alloc || event == acc_ev_create || event == acc_ev_enqueue_upload_start;
    case acc_ev_exit_data_start:
        /* Detached pointers are written. */
        return anywhere || event == acc_ev_delete || event == acc_ev_free || copy;
    case acc_ev_update_start: return anywhere || copy;
    case acc_ev_device_shutdown_start: return event == acc_ev_device_shutdown_start;
    default: return 0;
    }
}

static void check_order(const acc_prof_info *prof, const struct open *outer)
{
    const int *seen = outer->seen;
    switch ((int)prof->event_type) {
    case acc_ev_enter_data_start: MUST(!seen[acc_ev_enter_data_start]); break;
    case acc_ev_enqueue_launch_start:
        MUST(seen[acc_ev_enter_data_start] == 1 && !seen[acc_ev_enqueue_launch_start]);
        break;
    case acc_ev_exit_data_start: MUST(seen[acc_ev_enqueue_launch_start] == 1 && !seen[acc_ev_exit_data_start]); break;
    case acc_ev_delete:
        /* What is copied out is so before it is gone. */
        MUST(seen[acc_ev_enqueue_download_start] == seen[acc_ev_enqueue_download_end]);
        break;
    }
}

static struct live *find(int device, acc_event_t kind, const acc_data_event_info *data)
{
    for (int i = 0; i < lives; i++) {
        struct live *one = &live[i];
        int same = kind == acc_ev_alloc ? one->address == data->device_ptr : one->host == data->host_ptr;
        if (one->used && one->device == device && one->kind == kind && same)
            return one;
    }
    return NULL;
}

static void check_memory(const acc_prof_info *prof, const acc_data_event_info *data)
{
    int device = prof->device_number;
    pthread_mutex_lock(&lock);
    struct live *taken = find(device, acc_ev_alloc, data), *present = find(device, acc_ev_create, data);
    if (prof->event_type == acc_ev_alloc || prof->event_type == acc_ev_create) {
        MUST(data->bytes > 0 && data->device_ptr != NULL);
        if (prof->event_type == acc_ev_alloc)
            MUST(taken == NULL);
        else
            MUST(present == NULL && data->host_ptr != NULL);
        int i = 0;
        while (i < lives && live[i].used)
            i++;
        MUST(i < LIVE_MAX);
        lives += i == lives;
        live[i] = (struct live){1, device, prof->event_type, data->host_ptr, data->device_ptr, data->bytes};
    } else {
        struct live *gone = prof->event_type == acc_ev_free ? taken : present;
        MUST(gone != NULL);
        MUST(gone->host == data->host_ptr && gone->address == data->device_ptr && gone->bytes == data->bytes);
        gone->used = 0;
    }
    pthread_mutex_unlock(&lock);
}

static void check(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    int type = prof->event_type;
    struct open *outer = depth > 0 ? &stack[depth - 1] : NULL;
    __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
    MUST(!ended && type > acc_ev_none && type < acc_ev_last && event->event_type == prof->event_type);
    MUST(prof->valid_bytes == sizeof *prof && api->valid_bytes == sizeof *api);
    MUST(prof->device_type == api->device_type && prof->thread_id != 0);
    MUST((prof->async == acc_async_sync) == (prof->async_queue == acc_async_sync));
    MUST(prof->end_line_no == -1 || prof->end_line_no >= prof->line_no);
    if (type == acc_ev_runtime_shutdown) {
        MUST(depth == 0);
        ended = 1;
        printf("prof_grammar: %ld events, %ld pairs\n", events, pairs);
        fflush(stdout);
        return;
    }
    if (ends(type)) {
        MUST(depth > 0 && outer->prof.event_type == type - 1);
        acc_prof_info as_started = outer->prof;
        as_started.event_type = prof->event_type;
        MUST(memcmp(&as_started, prof, sizeof *prof) == 0);
        acc_event_info info = outer->event;
        info.event_type = prof->event_type;
        MUST(memcmp(&info, event, event->other_event.valid_bytes) == 0);
        MUST(event->other_event.tool_info == outer);
        /* A region that runs on the host has none of this. */
        if (type == acc_ev_compute_construct_end && prof->device_type != acc_device_host)
            MUST(outer->seen[acc_ev_enqueue_launch_end] == 1 && outer->seen[acc_ev_exit_data_end] == 1);
        depth--;
        if (depth > 0)
            stack[depth - 1].seen[type]++;
        __atomic_add_fetch(&pairs, 1, __ATOMIC_RELAXED);
        return;
    }
    MUST(event->other_event.tool_info == NULL);
    if (outer) {
        MUST(may_be_in(outer->prof.event_type, type));
        check_order(prof, outer);
        outer->seen[type]++;
        MUST(event->other_event.parent_construct == outer->event.other_event.parent_construct);
        MUST(prof->line_no == outer->prof.line_no && prof->end_line_no == outer->prof.end_line_no);
        int own_data = type == acc_ev_enter_data_start || type == acc_ev_exit_data_start;
        if (own_data)
            MUST(event->other_event.implicit == 1);
    } else {
        int construct = type >= acc_ev_enter_data_start && type <= acc_ev_compute_construct_end;
        if (construct)
            MUST(event->other_event.implicit == 0 && event->other_event.parent_construct != acc_construct_runtime_api);
        MUST(type != acc_ev_enqueue_launch_start);
    }
    if (is_data(type) && type <= acc_ev_free)
        check_memory(prof, &event->data_event);
    if (starts(type)) {
        MUST(depth < DEPTH_MAX);
        struct open *now = &stack[depth++];
        memset(now, 0, sizeof *now);
        event->other_event.tool_info = now;
        now->prof = *prof;
        memcpy(&now->event, event, event->other_event.valid_bytes);
    }
}

void acc_register_library(acc_prof_reg reg, acc_prof_reg unreg, acc_prof_lookup_func lookup)
{
    (void)unreg;
    (void)lookup;
    for (int event = acc_ev_none + 1; event < acc_ev_last; event++)
        reg((acc_event_t)event, check, acc_reg);
}
