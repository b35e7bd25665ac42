/* Error callbacks (OpenACC 3.3, 5.1), for compilers whose acc_prof.h has none. */
#ifndef ERROR_CALLBACK_H
#define ERROR_CALLBACK_H
#include <acc_prof.h>
#include "check.h"

#define EVENT_ERROR 100

struct error_event {
    int event_type;
    int valid_bytes;
    int parent_construct;
    int implicit;
    void *tool_info;
    int error_code;
    const char *error_message;
    size_t runtime_info;
};

static inline void on_errors(void (*callback)(acc_prof_info *, acc_event_info *, acc_api_info *))
{
    acc_prof_register((acc_event_t)EVENT_ERROR, callback, acc_reg);
}

/* An error: data that is not present. */
static inline void make_error(double *data)
{
    acc_update_self(data, 8 * sizeof *data);
}
#endif
