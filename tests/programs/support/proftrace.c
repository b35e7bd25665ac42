/* A profiling library that prints where regions and data come from, and on which device. */
#include "../../../libacc/include/accord_prof.h"
#include <acc_prof.h>
#include <stdio.h>
#include <string.h>

static accord_prof_place_func place;

static const char *base(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "-";
}

static void on_event(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)api;
    const accord_prof_place_t *here = place ? place() : NULL;
    if (prof->event_type == acc_ev_enqueue_launch_start)
        printf("launch %s %s:%d %s", event->launch_event.kernel_name, base(prof->src_file), prof->line_no,
               prof->func_name ? prof->func_name : "-");
    else
        printf("upload %s %s:%d", event->data_event.var_name ? event->data_event.var_name : "-", base(prof->src_file),
               prof->line_no);
    printf(" device %d of %s%s\n", here ? here->device : -1, here && here->node ? here->node : "-",
           here && here->remote ? ", remote" : "");
    fflush(stdout);
}

void acc_register_library(acc_prof_reg reg, acc_prof_reg unreg, acc_prof_lookup_func lookup)
{
    (void)unreg;
    *(void **)&place = (void *)lookup("accord_prof_place");
    reg(acc_ev_enqueue_launch_start, on_event, acc_reg);
    reg(acc_ev_enqueue_upload_start, on_event, acc_reg);
}
