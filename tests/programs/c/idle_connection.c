// A program that does nothing costs nothing: Accord's threads sleep without waking up (OpenACC 3.3, 2.16: after a wait nothing is left
// to do). A device of another node takes three threads at most until bytes of large copies travel, and none has a timer then either.
#include "check.h"
#include <dirent.h>
#include <unistd.h>

enum { N = 1000, LARGE = 1 << 22, THREADS_MAX = 64 };

struct thread {
    int id;
    char name[32];
    long switches;
};

/* The first number behind a word of a file of /proc; -1 without. */
static long number(const char *path, const char *word)
{
    char line[256];
    long found = -1;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, word, strlen(word)))
            found = strtol(line + strlen(word), NULL, 10);
    if (file)
        fclose(file);
    return found;
}

/* The threads of this process that are Accord's, by their names. */
static int threads(struct thread *found)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300];
        struct thread *now = &found[n];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file || !fgets(now->name, sizeof now->name, file))
            now->name[0] = 0;
        if (file)
            fclose(file);
        now->name[strcspn(now->name, "\n")] = 0;
        if (strncmp(now->name, "accord-", 7))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        now->id = atoi(task->d_name);
        now->switches = number(path, "voluntary_ctxt_switches:");
        CHECK(now->switches >= 0);
        CHECK(++n < THREADS_MAX);
    }
    closedir(tasks);
    return n;
}

/* How many have this name. */
static int named(const struct thread *all, int n, const char *name)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        found += !strcmp(all[i].name, name);
    return found;
}

/* Sleeps a second, in which none of them may wake up; how many are for devices of other nodes. The connection to such a device, of
   which there is one then, has its watcher, its control thread, and one that sends what no other thread does. Where there are GPUs, those of
   this node have threads of their own. */
static int idle(void)
{
    struct thread before[THREADS_MAX], after[THREADS_MAX];
    /* What was under way comes to an end. */
    usleep(300000);
    int n = threads(before);
    sleep(1);
    CHECK_EQ(threads(after), n);
    for (int i = 0; i < n; i++)
        printf("%s: %ld switches, %ld new\n", before[i].name, before[i].switches, after[i].switches - before[i].switches);
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(after[i].id, before[i].id);
        CHECK_EQ(after[i].switches, before[i].switches);
    }
    int is_remote = getenv("ACCORD_COORDINATOR") != NULL;
    CHECK_EQ(named(after, n, "accord-events"), is_remote);
    CHECK_EQ(named(after, n, "accord-control"), is_remote);
    CHECK(named(after, n, "accord-flush") <= is_remote);
    /* That of the session with the coordinator. */
    CHECK_EQ(named(after, n, "accord-session"), is_remote);
    if (acc_get_device_type() != acc_device_nvidia)
        return n;
    static const char *const names[] = {"accord-events", "accord-control", "accord-flush", "accord-session", "accord-bulk"};
    int count = 0;
    for (int i = 0; i < 5; i++)
        count += named(after, n, names[i]);
    return count;
}

static void work(int *a, int n)
{
#pragma acc enter data copyin(a[0:n])
    for (int q = 1; q <= 2; q++) {
#pragma acc parallel loop present(a[0:n]) async(q)
        for (int i = 0; i < n; i++)
            a[i] += 1;
#pragma acc wait(q)
    }
#pragma acc exit data copyout(a[0:n])
#pragma acc wait
}

int main(void)
{
    int *a = calloc(LARGE, sizeof *a);
    work(a, N);
    CHECK_EQ(a[N - 1], WANT(2, 2));
    /* So many that they are sent by another thread. */
    for (int i = 0; i < 200; i++) {
#pragma acc parallel async(1)
        ;
    }
    usleep(20000);
#pragma acc wait(1)
    int few = idle();
    CHECK(few <= 4);
    work(a, LARGE);
    CHECK_EQ(a[LARGE - 1], 2);
    int more = idle();
    CHECK(more >= few);
    free(a);
    return pass();
}
