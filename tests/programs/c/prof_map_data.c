// Memory that acc_map_data makes present is created, and deleted by acc_unmap_data; nothing is allocated (5.1.4).
#include "prof_record.h"

int main(void)
{
    enum { N = 100 };
    int *host = calloc(N, sizeof *host);
    if (!separate())
        return pass();
    void *device = acc_malloc(N * sizeof *host);
    record_all();
    acc_map_data(host, device, N * sizeof *host);
    CHECK_EQ(told, 1);
    acc_unmap_data(host);
    CHECK_EQ(told, 2);
    record_no_more();
    for (int i = 0; i < told; i++) {
        acc_data_event_info *data = &story[i].event.data_event;
        CHECK_EQ(story[i].prof.event_type, i == 0 ? acc_ev_create : acc_ev_delete);
        CHECK(data->host_ptr == host && data->device_ptr == device);
        CHECK_EQ(data->bytes, N * sizeof *host);
        CHECK_EQ(data->parent_construct, acc_construct_runtime_api);
    }
    acc_free(device);
    free(host);
    return pass();
}
