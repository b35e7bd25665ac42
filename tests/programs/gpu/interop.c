// OpenACC and CUDA in one process (A.2.1): the program's own kernel in a queue's stream, its own stream as a queue,
// its own context left alone. Needs a GPU: run by gpu-check.
#include "gpu_raw.h"
#include <openacc.h>

#define CHECK(condition)                                           \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("FAIL line %d: %s\n", __LINE__, #condition);    \
            return 1;                                              \
        }                                                          \
    } while (0)

static const char ptx[] = ".version 6.0\n.target sm_30\n.address_size 64\n"
                          ".visible .entry add_one (.param .u64 p)\n{\n.reg .u64 %a; .reg .f64 %x;\n"
                          "ld.param.u64 %a,[p];\nld.f64 %x,[%a];\nadd.f64 %x,%x,0d3ff0000000000000;\nst.f64 [%a],%x;\nret;\n}\n";

int main(void)
{
    enum { N = 1 << 20 };
    static double a[N];
    raw_handle context, module, function, own, current = NULL;
    int (*cuCtxGetCurrent)(raw_handle *);
    raw_load();
    *(void **)&cuCtxGetCurrent = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxGetCurrent");
#pragma acc enter data copyin(a)
    CHECK(cuCtxGetCurrent(&current) == 0 && current != NULL);
    context = acc_get_current_cuda_context();
    CHECK(context == current);
    CHECK(*(int *)acc_get_current_cuda_device() == 0);
    RAW(cuCtxPushCurrent_v2, context);
    RAW(cuModuleLoadData, &module, ptx);
    RAW(cuModuleGetFunction, &function, module, "add_one");
    RAW(cuStreamCreate, &own, 1);
    CHECK(acc_set_cuda_stream(7, own) == 1);
    CHECK(acc_get_cuda_stream(7) == own);
    int queues[] = { 3, 7 };
    for (int q = 0; q < 2; q++) {
        raw_handle stream = acc_get_cuda_stream(queues[q]);
        CHECK(stream != NULL);
        unsigned long long address;
#pragma acc host_data use_device(a)
        address = (unsigned long long)a;
        void *parameters[] = { &address };
        a[0] = 10;
#pragma acc update device(a) async(queues[q])
#pragma acc parallel loop present(a) async(queues[q])
        for (int i = 0; i < N; i++)
            a[i] *= 2;
        RAW(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
#pragma acc update self(a) async(queues[q])
        RAW(cuStreamSynchronize, stream);
        CHECK(a[0] == 21);
        /* acc_wait waits for the program's own work, too. */
        RAW(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
        acc_wait(queues[q]);
        acc_update_self(a, sizeof a[0]);
        CHECK(a[0] == 22);
        a[0] = 0;
    }
    current = NULL;
    CHECK(cuCtxGetCurrent(&current) == 0 && current == context);
    puts("PASS");
    return 0;
}
