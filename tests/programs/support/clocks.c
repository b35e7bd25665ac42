/* Sets the real-time clock of single processes back by an hour: of each whose number names a file beside this object, from when the file is there
   until it goes. Other clocks stay. Programs that are started have this object, too, also where their environment leaves it out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { BACK = 3600, VARIABLES = 4096, PATH = 4096 };

static char own[PATH], folder[PATH];
static int (*next_clock_gettime)(clockid_t, struct timespec *);
static int (*next_execvp)(const char *, char *const[]);
static int (*next_execve)(const char *, char *const[], char *const[]);
typedef int spawn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[], char *const[]);
static spawn *next_spawn, *next_spawnp;

/* Here, as a child between fork and exec must not. */
__attribute__((constructor)) static void find(void)
{
    Dl_info found;
    if (!next_clock_gettime)
        next_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    next_execvp = (int (*)(const char *, char *const[]))dlsym(RTLD_NEXT, "execvp");
    next_execve = (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execve");
    next_spawn = (spawn *)dlsym(RTLD_NEXT, "posix_spawn");
    next_spawnp = (spawn *)dlsym(RTLD_NEXT, "posix_spawnp");
    if (!dladdr((void *)find, &found) || !realpath(found.dli_fname, own))
        abort();
    strcpy(folder, own);
    *strrchr(folder, '/') = 0;
}

/* By how much this process's clock is behind. */
static time_t behind(void)
{
    char file[PATH + 32];
    if (!*folder)
        return 0;
    snprintf(file, sizeof file, "%s/%d", folder, (int)getpid());
    return access(file, F_OK) == 0 ? BACK : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!next_clock_gettime)
        next_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next_clock_gettime(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec -= behind();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    *now = (struct timeval){.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *now)
{
    struct timespec precise;
    time_t seconds = clock_gettime(CLOCK_REALTIME, &precise) ? (time_t)-1 : precise.tv_sec;
    if (now)
        *now = seconds;
    return seconds;
}

/* The environment with this object in it. */
static char *const *with_own(char *const environment[], char *variables[VARIABLES], char preload[2 * PATH])
{
    static const char name[] = "LD_PRELOAD=";
    size_t count = 0;
    snprintf(preload, 2 * PATH, "%s%s", name, own);
    for (; environment && *environment; environment++) {
        int is_preload = !strncmp(*environment, name, sizeof name - 1);
        if (is_preload && strstr(*environment, own))
            return environment - count;
        if (is_preload)
            snprintf(preload, 2 * PATH, "%s:%s", *environment, own);
        else if (count + 2 < VARIABLES)
            variables[count++] = *environment;
        else
            abort();
    }
    variables[count++] = preload;
    variables[count] = NULL;
    return variables;
}

int execve(const char *path, char *const arguments[], char *const environment[])
{
    char *variables[VARIABLES], preload[2 * PATH];
    return next_execve(path, arguments, with_own(environment, variables, preload));
}

int execvp(const char *file, char *const arguments[])
{
    char *variables[VARIABLES], preload[2 * PATH], **before = environ;
    environ = (char **)with_own(environ, variables, preload);
    int failed = next_execvp(file, arguments);
    environ = before;
    return failed;
}

int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                char *const arguments[], char *const environment[])
{
    char *variables[VARIABLES], preload[2 * PATH];
    return next_spawn(child, path, actions, attributes, arguments, with_own(environment, variables, preload));
}

int posix_spawnp(pid_t *child, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                 char *const arguments[], char *const environment[])
{
    char *variables[VARIABLES], preload[2 * PATH];
    return next_spawnp(child, file, actions, attributes, arguments, with_own(environment, variables, preload));
}
