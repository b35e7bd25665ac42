// Memory that a GPU's driver puts where it likes, or at addresses of the runtime's choice: the argument says which.
#include "check.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* This GCC has no library with it. */
extern void acc_memcpy_device(void *dst, void *src, size_t bytes) __attribute__((weak));

enum { MIB = 1 << 20, LARGE = 150 * MIB, END = 2 * MIB, ROUNDS = 4 };

static int is_in_window(const void *p)
{
    return (uintptr_t)p >= 0x110000000000 && (uintptr_t)p < 0x110000000000 + 0x430000000000;
}

int main(int argc, char **argv)
{
    CHECK_EQ(argc, 2);
    int mapped = strcmp(argv[1], "map") == 0;
    acc_device_t type = device_type();
    char *data = malloc(LARGE), *back = malloc(LARGE);
    CHECK_EQ(acc_get_num_devices(type), 2);
    /* More than a device has, one after the other: what is freed goes back. */
    for (int round = 0; round < ROUNDS; round++) {
        for (int d = 0; d < 2; d++) {
            acc_set_device_num(d, type);
            memset(data, 10 * round + d + 1, END);
            char *large[4];
            for (int i = 0; i < 4; i++) {
                /* Of another length each round, so that nothing fits but by chance. */
                large[i] = acc_malloc(LARGE + round * 10 * MIB);
                CHECK(large[i] != NULL);
                CHECK_EQ(is_in_window(large[i]), mapped);
                acc_memcpy_to_device(large[i], data, END);
                acc_memcpy_to_device(large[i] + LARGE - END, data, END);
            }
            memset(back, 0, 2 * END);
            acc_memcpy_from_device(back, large[3], END);
            acc_memcpy_from_device(back + END, large[3] + LARGE - END, END);
            CHECK(memcmp(back, data, END) == 0 && memcmp(back + END, data, END) == 0);
            for (int i = 0; i < 4; i++)
                acc_free(large[i]);
        }
    }
    /* From one device to the other, found by their addresses. */
    char *at[2];
    for (int d = 0; d < 2; d++) {
        acc_set_device_num(d, type);
        at[d] = acc_malloc(LARGE);
    }
    memset(data, 77, LARGE);
    acc_memcpy_to_device(at[1], data, LARGE);
    acc_memcpy_device(at[0] + 5, at[1] + 3, LARGE - 5);
    acc_set_device_num(0, type);
    memset(back, 0, LARGE);
    acc_memcpy_from_device(back, at[0] + 5, LARGE - 5);
    CHECK(memcmp(back, data, LARGE - 5) == 0);
    /* Present data, small and large. */
    static int small[100];
    #pragma acc enter data copyin(small, data[0:LARGE])
    void *given;
    #pragma acc host_data use_device(data)
    given = data;
    CHECK_EQ(is_in_window(given), mapped);
    CHECK(acc_hostptr(given) == data && acc_deviceptr(data) == given);
    data[LARGE - 1] = 1;
    #pragma acc update device(data[LARGE - 1:1])
    data[LARGE - 1] = 2;
    #pragma acc exit data copyout(data[0:LARGE]) delete(small)
    CHECK_EQ(data[LARGE - 1], 1);
    /* Starting again forgets all of it. */
    acc_shutdown(type);
    acc_init(type);
    acc_free(acc_malloc(LARGE));
    return pass();
}
