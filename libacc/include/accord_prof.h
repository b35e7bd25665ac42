/* What Accord adds to the profiling interface of OpenACC 3.3, chapter 5 (acc_prof.h).

   A program or tool that is not linked with libacc asks for the routine by name:
   acc_prof_lookup("accord_prof_place"), which is NULL elsewhere. */

#ifndef ACCORD_PROF_H
#define ACCORD_PROF_H 1

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where an event happens. Fields are added at the end only: look at valid_bytes first. */
typedef struct accord_prof_place_t {
    int valid_bytes;
    int device;       /* its number over all types and nodes, as `accord info` shows it; -1: the host */
    int ordinal;      /* its number on its node; -1: the host */
    int remote;       /* 1 if another process drives it */
    int rank;         /* this process's rank; -1 without MPI */
    int cuda_device;  /* the CUDA driver's number of a GPU of this process; else -1 */
    int64_t queue;    /* the queue; acc_async_sync and acc_async_noval are queues of their own */
    const char *node; /* name of the device's node; NULL: the host. Stays valid. */
    const char *name; /* the device's product name; NULL: the host. Stays valid. */
} accord_prof_place_t;

/* The place of the event whose callback this thread is in, until that returns; NULL outside of callbacks. */
extern const accord_prof_place_t *accord_prof_place(void);

typedef const accord_prof_place_t *(*accord_prof_place_func)(void);

#ifdef __cplusplus
}
#endif

#endif
