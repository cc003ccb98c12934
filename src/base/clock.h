/* clock.h - clocks in seconds. All of them but yk_wall only go forward. */
#ifndef YK_BASE_CLOCK_H
#define YK_BASE_CLOCK_H

#include <time.h>

static inline double yk_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* CPU time of the calling thread, which other load on the machine does not change. */
static inline double yk_thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds since 1970, for event files and logs. */
static inline double yk_wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
