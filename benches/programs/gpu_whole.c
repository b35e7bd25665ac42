/* A program with one tiny region, or the same by the CUDA driver (argument "raw"). gpu-check takes the time of whole processes.
   With "hold" it only has a context until its input ends.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_whole.c -ldl */
#include "gpu_raw.h"
#include <string.h>

static const char store_ptx[] = ".version 6.0\n.target sm_30\n.address_size 64\n"
                                ".visible .entry store (.param .u64 p)\n{\n.reg .u64 %x;\nld.param.u64 %x, [p];\n"
                                "st.u32 [%x], 2;\nret;\n}\n";

static int by_hand(void)
{
    raw_handle module, function, stream;
    raw_ptr x;
    int value = 1;
    void *parameters[] = { &x };
    raw_load();
    if (!raw_context(0))
        return 1;
    RAW(cuModuleLoadData, &module, store_ptx);
    RAW(cuModuleGetFunction, &function, module, "store");
    RAW(cuStreamCreate, &stream, 1);
    RAW(cuMemAlloc_v2, &x, sizeof value);
    RAW(cuMemcpyHtoD_v2, x, &value, sizeof value);
    RAW(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
    RAW(cuStreamSynchronize, stream);
    RAW(cuMemcpyDtoH_v2, &value, x, sizeof value);
    RAW(cuMemFree_v2, x);
    return value != 2;
}

int main(int argc, char **argv)
{
    int x = 1;
    if (argc > 1 && !strcmp(argv[1], "raw"))
        return by_hand();
    if (argc > 1 && !strcmp(argv[1], "hold")) {
        raw_load();
        raw_context(0);
        puts("held");
        fflush(stdout);
        return getchar() == EOF ? 0 : 1;
    }
#pragma acc parallel copy(x)
    x = 2;
    return x != 2;
}
