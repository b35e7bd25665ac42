/* Tables of calls and the error that each must raise. An error ends its program, so every case runs in a child of its own, where an error
   callback tells the code. */
#ifndef ERROR_CASE_H
#define ERROR_CASE_H
#include <sys/wait.h>
#include <unistd.h>
#include "error_callback.h"

/* acc_error_t */
enum {
    NO_ERROR = 0,
    EXECUTION = 3,
    DEVICE_UNAVAILABLE = 6,
    DEVICE_TYPE_UNAVAILABLE = 7,
    OUT_OF_MEMORY = 9,
    NOT_PRESENT = 10,
    PARTLY_PRESENT = 11,
    PRESENT = 12,
    INVALID_ARGUMENT = 13,
    INVALID_ASYNC = 14,
    INVALID_NULL_POINTER = 15,
    INVALID_DATA_SECTION = 16,
};

struct error_case {
    const char *name;
    int code;
    void (*run)(void);
};

static int error_case_pipe;

static inline void error_case_tell(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)prof, (void)api;
    int code = ((const struct error_event *)event)->error_code;
    if (write(error_case_pipe, &code, sizeof code) != sizeof code)
        abort();
    exit(0);
}

/* The code that one case raises; -1 if its child ends otherwise. */
static inline int error_case_run(const struct error_case *one)
{
    int ends[2], code = -1, status;
    fflush(stdout);
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        error_case_pipe = ends[1];
        on_errors(error_case_tell);
        one->run();
        code = NO_ERROR;
        if (write(ends[1], &code, sizeof code) != sizeof code)
            abort();
        exit(0);
    }
    close(ends[1]);
    if (read(ends[0], &code, sizeof code) != sizeof code)
        code = -1;
    close(ends[0]);
    if (waitpid(child, &status, 0) != child || status != 0)
        code = -1;
    return code;
}

static inline int error_cases(const struct error_case *cases, int count)
{
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        int code = error_case_run(&cases[i]);
        if (code != cases[i].code) {
            printf("FAIL %s: error %d, expected %d\n", cases[i].name, code, cases[i].code);
            wrong++;
        }
    }
    return wrong ? 1 : pass();
}

/* CASES(X) lists X(name, code, statements). */
#define ERROR_CASE_FUNCTION(name, code, ...) static void case_##name(void) { __VA_ARGS__; }
#define ERROR_CASE_ROW(name, code, ...) {#name, code, case_##name},
#define ERROR_CASES(list)                                      \
    list(ERROR_CASE_FUNCTION)                                  \
    static const struct error_case all_cases[] = {list(ERROR_CASE_ROW)}; \
    int main(void)                                             \
    {                                                          \
        return error_cases(all_cases, sizeof all_cases / sizeof *all_cases); \
    }
#endif
