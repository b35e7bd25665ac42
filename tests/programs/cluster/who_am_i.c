/* Whose process a region runs in, and what it may read. */
#include <openacc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char path[4096], status[4096], read_[256];
    int uid = -1, euid = -1, opened = -1;

    if (argc > 1)
        strncpy(path, argv[1], sizeof path - 1);
    acc_set_device_num(acc_get_num_devices(acc_device_default) - 1, acc_device_default);
#pragma acc parallel num_gangs(1) copyin(path) copyout(status, read_) copy(uid, euid, opened)
    {
        uid = getuid();
        euid = geteuid();
        FILE *own = fopen("/proc/self/status", "r");
        size_t got = own ? fread(status, 1, sizeof status - 1, own) : 0;
        status[got] = 0;
        if (own)
            fclose(own);
        FILE *file = fopen(path, "r");
        opened = file != 0;
        read_[0] = 0;
        if (file && fgets(read_, sizeof read_, file) == 0)
            read_[0] = 0;
        if (file)
            fclose(file);
    }
    printf("uid=%d euid=%d opened=%d read=%s\n%s", uid, euid, opened, read_, status);
    return 0;
}
