// Error callbacks are called in order, with the error and where it is, before the message and the end; exit handlers run after that.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/^first\nsecond\nthird\naccord: acc_update_self \(error_callback\.h:28, make_error\): values \(error_callback\.c:9\) is not present on dev\d.*\nhandler\n$/
#include "error_callback.h"

#define SAY(text) fprintf(stderr, text "\n")

static double values[10];
static int calls;

static void third(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    SAY("third");
    CHECK_EQ(++calls, 3);
}

static void removed(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    printf("FAIL: this one was unregistered\n");
}

static void first(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    const struct error_event *error = (const struct error_event *)event;
    SAY("first");
    CHECK_EQ(++calls, 1);
    CHECK_EQ(prof->event_type, EVENT_ERROR);
    CHECK_EQ(error->event_type, EVENT_ERROR);
    CHECK(error->valid_bytes >= (int)sizeof *error && api->valid_bytes >= (int)sizeof *api);
    CHECK_EQ(error->parent_construct, acc_construct_runtime_api);
    CHECK_EQ(error->error_code, 10);
    CHECK(strstr(error->error_message, "values") && strstr(error->error_message, "acc_error_not_present"));
    CHECK(strstr(error->error_message, "accord:") == NULL);
    CHECK_EQ(prof->device_number, acc_get_device_num(acc_get_device_type()));
    CHECK(prof->src_file && strstr(prof->src_file, "error_callback.h"));
    CHECK(strcmp(prof->func_name, "make_error") == 0);
    CHECK(prof->line_no == 28 && prof->func_line_no == 26);
    /* What is registered now is called for this error, too. */
    on_errors(third);
}

static void second(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    SAY("second");
    CHECK_EQ(++calls, 2);
}

static void handler(void)
{
    SAY("handler");
}

int main(void)
{
    atexit(handler);
    on_errors(first);
    on_errors(removed);
    on_errors(second);
    acc_prof_unregister((acc_event_t)EVENT_ERROR, removed, acc_reg);
    make_error(values);
    printf("FAIL: it came back\n");
    return 0;
}
