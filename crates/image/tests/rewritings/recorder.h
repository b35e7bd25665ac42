/* Takes the place of libgomp's entry point for compute constructs: writes down what a region gets and, after its version for the host has run, what
   it leaves. All numbers are of the host's order: entries, gangs, workers and vector length of the launch, then for each entry its kind,
   its bytes, the bytes before, and the bytes after. */
#include <stdarg.h>
#include <stdint.h>

void GOMP_offload_register_ver(unsigned version, const void *host, int target, const void *data) {}
void GOMP_offload_unregister_ver(unsigned version, const void *host, int target, const void *data) {}

enum { LAUNCH_DIM = 1, LAUNCH_ASYNC = 2, LAUNCH_WAIT = 3, KIND_FIRSTPRIVATE = 12, KIND_FIRSTPRIVATE_INT = 13, IN_CALL = 0xffff };

void GOACC_parallel_keyed(int device, void (*region)(void *), size_t count, void **addresses, size_t *sizes, unsigned short *kinds, ...)
{
    static FILE *file;
    uint64_t head[4] = { count, 0, 0, 0 };
    va_list tags;
    unsigned tag;
    if (!file && !(file = fopen(getenv("RECORD_TO"), "wb")))
        abort();
    va_start(tags, kinds);
    while ((tag = va_arg(tags, unsigned))) {
        unsigned code = tag >> 28, operand = tag & 0xffff;
        if (code == LAUNCH_DIM) {
            for (int dim = 0; dim < 3; dim++)
                if (operand >> dim & 1)
                    head[1 + dim] = va_arg(tags, unsigned);
        } else if (code == LAUNCH_ASYNC && operand == IN_CALL) {
            va_arg(tags, int);
        } else if (code == LAUNCH_WAIT) {
            while (operand--)
                va_arg(tags, int);
        }
    }
    va_end(tags);
    fwrite(head, sizeof head, 1, file);
    for (size_t i = 0; i < count; i++) {
        uint64_t entry[2] = { kinds[i] & 0xff, (kinds[i] & 0xff) == KIND_FIRSTPRIVATE_INT ? 8 : sizes[i] };
        fwrite(entry, sizeof entry, 1, file);
        fwrite(entry[0] == KIND_FIRSTPRIVATE_INT ? (void *)&addresses[i] : addresses[i], 1, entry[1], file);
    }
    region(addresses);
    for (size_t i = 0; i < count; i++)
        if ((kinds[i] & 0xff) != KIND_FIRSTPRIVATE_INT)
            fwrite(addresses[i], 1, sizes[i], file);
    fflush(file);
}
