// Arrays that are copied again and again are page-locked, and free to go when they are no longer present. With "off" they stay
// as they are.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 << 20, OFTEN = 20 };

/* Whether the driver knows the middle of an array, as pinned or locked. */
static int is_locked(char *array)
{
    static int (*ask)(unsigned *, int, unsigned long long), (*push)(void *), (*pop)(void **);
    unsigned kind = 0;
    void *context = acc_get_current_cuda_context(), *popped;
    if (!ask) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        CHECK(driver != NULL);
        *(void **)&ask = dlsym(driver, "cuPointerGetAttribute");
        *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
        *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
    }
    CHECK(push(context) == 0);
    int code = ask(&kind, 2, (unsigned long long)(size_t)(array + BYTES / 2));
    CHECK(pop(&popped) == 0);
    return code == 0 && kind != 0;
}

/* The device's bytes of present data. */
static char first_on_device(char *array)
{
    char bytes[BYTES / 1024];
    acc_memcpy_from_device(bytes, acc_deviceptr(array + BYTES / 2), sizeof bytes);
    for (size_t i = 1; i < sizeof bytes; i++)
        CHECK_EQ(bytes[i], bytes[0]);
    return bytes[0];
}

static void update_often(char *array)
{
    for (int i = 0; i < OFTEN; i++) {
        memset(array, i, BYTES);
#pragma acc update device(array[0:BYTES])
        /* It may be changed as soon as the call returns. */
        memset(array, 100, BYTES);
        CHECK_EQ(first_on_device(array), i);
        acc_update_self(array, BYTES);
        CHECK_EQ(array[0], i);
        CHECK_EQ(array[BYTES - 1], i);
    }
}

static int expected = 1;

static void lock(char *array)
{
    update_often(array);
    for (int i = 0; expected && !is_locked(array) && i < 10000; i++)
        usleep(1000);
    /* The driver knows it a moment before the runtime does. */
    usleep(20000);
    CHECK_EQ(is_locked(array), expected);
    update_often(array);
}

/* A new array, where the last one was if the system can. */
static char *new_array(void)
{
    char *array = mmap(NULL, BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(array != MAP_FAILED);
    memset(array, 7, BYTES + 4096);
    /* The ends are no pages'. */
    return array + 100;
}

static void end_array(char *array)
{
    CHECK_EQ(is_locked(array), 0);
    CHECK(munmap(array - 100, BYTES + 4096) == 0);
}

/* Other memory comes to where a locked array is present: the device has to see it. */
static void replace(int how)
{
    size_t bytes = BYTES + 4096;
    char *array = new_array(), *start = array - 100;
    acc_copyin(array, BYTES);
    lock(array);
    if (how == 0)
        CHECK(munmap(start, bytes) == 0);
    if (how < 2)
        CHECK(mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start);
    else {
        char *other = new_array() - 100;
        CHECK(mremap(other, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) == start);
    }
    for (int i = 0; i < 3; i++) {
        memset(array, 60 + i, BYTES);
        acc_update_device(array, BYTES);
        CHECK_EQ(first_on_device(array), 60 + i);
        memset(array, 70, BYTES);
#pragma acc update self(array[0:BYTES]) async(1)
#pragma acc wait(1)
        CHECK_EQ(array[0], 60 + i);
        CHECK_EQ(array[BYTES / 2], 60 + i);
    }
    update_often(array);
    acc_delete(array, BYTES);
    end_array(array);
}

/* The same with a block that the C library maps by itself. */
static void replace_block(void)
{
    enum { BLOCK = BYTES + 4096 };
    /* Also after one of that size was freed. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    char *block = malloc(BLOCK), *again;
    memset(block, 7, BLOCK);
    acc_copyin(block, BYTES);
    lock(block);
    free(block);
    again = malloc(BLOCK);
    memset(again, 80, BLOCK);
    if (again == block) {
        acc_update_device(block, BYTES);
        CHECK_EQ(first_on_device(block), 80);
    }
    acc_delete(block, BYTES);
    free(again);
}

int main(int argc, char **argv)
{
    expected = argc < 2 || strcmp(argv[1], "off");
    acc_init(acc_device_nvidia);
    char *array = new_array();
#pragma acc enter data copyin(array[0:BYTES])
    lock(array);
#pragma acc exit data delete(array[0:BYTES])
    end_array(array);

    array = new_array();
#pragma acc enter data create(array[0:BYTES])
    lock(array);
    memset(array, 50, BYTES);
#pragma acc update device(array[0:BYTES]) async(1)
#pragma acc wait(1)
    memset(array, 51, BYTES);
#pragma acc exit data copyout(array[0:BYTES]) async(1)
#pragma acc wait(1)
    CHECK_EQ(array[0], 50);
    CHECK_EQ(array[BYTES - 1], 50);
    end_array(array);

    array = new_array();
#pragma acc data copy(array[0:BYTES])
    {
        acc_copyin(array, BYTES);
        lock(array);
        acc_delete_finalize(array, BYTES);
        CHECK_EQ(is_locked(array), expected);
    }
    CHECK_EQ(array[BYTES / 2], OFTEN - 1);
    end_array(array);

    array = new_array();
    void *device = acc_malloc(BYTES);
    acc_map_data(array, device, BYTES);
    lock(array);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_EQ(is_locked(array), 0);
    update_often(array);
    acc_unmap_data(array);
    acc_free(device);
    end_array(array);

    array = new_array();
    acc_copyin(array, BYTES);
    lock(array);
    acc_shutdown(acc_device_nvidia);
    acc_init(acc_device_nvidia);
    end_array(array);

    for (int how = 0; how < 3; how++)
        replace(how);
    replace_block();

    /* Still locked when the program ends. */
    array = new_array();
    acc_copyin(array, BYTES);
    lock(array);
    printf("PASS\n");
    return 0;
}
