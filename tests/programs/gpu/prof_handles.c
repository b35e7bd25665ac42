// What profiling tools get of a GPU that this process drives (5.2.3): device, context and stream are the driver's own, and can be used
// with it while an event is told. Needs a GPU in the process: run by gpu-check, and by the tests on the driver that they bring along.
#include "check.h"
#include <acc_prof.h>
#include <dlfcn.h>

typedef void *handle;

static int (*get_name)(char *, int, int), (*push)(handle), (*pop)(handle *), (*create)(handle *, unsigned), (*mark)(handle, handle);
static int (*query)(handle), (*await)(handle), (*context_of)(handle, handle *);
static handle marks[16];
static int events, launches, uploads;

static void look(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    char name[128];
    handle context = (handle)api->context_handle, stream = (handle)api->async_handle, known = NULL;
    CHECK_EQ(event->event_type, prof->event_type);
    CHECK_EQ(api->device_api, acc_device_api_cuda);
    CHECK_EQ(api->device_type, acc_device_nvidia);
    CHECK(api->device_handle && context && stream);
    CHECK_EQ(get_name(name, sizeof name, *(const int *)api->device_handle), 0);
    CHECK(strcmp(name, acc_get_property_string(prof->device_number, acc_device_nvidia, acc_property_name)) == 0);
    CHECK(context == acc_get_current_cuda_context());
    CHECK_EQ(push(context), 0);
    if (context_of) {
        CHECK_EQ(context_of(stream, &known), 0);
        CHECK(known == context);
    }
    int result = query(stream);
    CHECK(result == 0 || result == 600); /* CUDA_ERROR_NOT_READY */
    if (prof->event_type == acc_ev_enqueue_launch_end && events < 16) {
        CHECK_EQ(create(&marks[events], 0), 0);
        CHECK_EQ(mark(marks[events], stream), 0);
        events++;
    }
    CHECK_EQ(pop(&known), 0);
    CHECK(known == context);
    launches += prof->event_type == acc_ev_enqueue_launch_start;
    uploads += prof->event_type == acc_ev_enqueue_upload_start;
}

int main(void)
{
    enum { N = 100000 };
    static int a[N];
    handle driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver != NULL);
    *(void **)&get_name = dlsym(driver, "cuDeviceGetName");
    *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
    *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
    *(void **)&create = dlsym(driver, "cuEventCreate");
    *(void **)&mark = dlsym(driver, "cuEventRecord");
    *(void **)&await = dlsym(driver, "cuEventSynchronize");
    *(void **)&query = dlsym(driver, "cuStreamQuery");
    *(void **)&context_of = dlsym(driver, "cuStreamGetCtx");
    acc_init(acc_device_nvidia);
    acc_event_t wanted[] = {acc_ev_enqueue_launch_start, acc_ev_enqueue_launch_end, acc_ev_enqueue_upload_start,
                            acc_ev_enqueue_upload_end, acc_ev_compute_construct_end};
    for (int i = 0; i < (int)(sizeof wanted / sizeof *wanted); i++)
        acc_prof_register(wanted[i], look, acc_reg);
    /* Each queue has a stream of its own. */
    for (int queue = 0; queue < 3; queue++) {
#pragma acc parallel loop copy(a) async(queue)
        for (int i = 0; i < N; i++)
            a[i] += 1;
#pragma acc wait
    }
#pragma acc parallel loop copy(a)
    for (int i = 0; i < N; i++)
        a[i] += 1;
    CHECK_EQ(launches, 4);
    CHECK_EQ(events, 4);
    CHECK_EQ(uploads, 4);
    handle context = acc_get_current_cuda_context();
    CHECK_EQ(push(context), 0);
    for (int i = 0; i < events; i++)
        CHECK_EQ(await(marks[i]), 0);
    CHECK_EQ(pop(&context), 0);
    return pass();
}
