/* clock.h - clocks in seconds. All of them but yk_wall only go forward. */
#ifndef YK_BASE_CLOCK_H
#define YK_BASE_CLOCK_H

#include <time.h>

static inline double yk_clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double yk_now(void)
{
    return yk_clock_seconds(CLOCK_MONOTONIC);
}

/* CPU time of the calling thread, which other load on the machine does not change. */
static inline double yk_thread_seconds(void)
{
    return yk_clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

/* Seconds since 1970, for event files and logs. */
static inline double yk_wall(void)
{
    return yk_clock_seconds(CLOCK_REALTIME);
}

#endif
