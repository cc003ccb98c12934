/* lane.c - one background thread, one job at a time; see lane.h.
 *
 * The whole protocol is one word, `state`:
 *
 *     IDLE --post--> BUSY --job done--> IDLE --close--> STOP
 *
 * Each side waits for the word to leave a value: the lane for IDLE, the owner for BUSY; so they never both wait, and one
 * condition variable serves both. The word changes only under the mutex, which is what makes sleeping safe; a spinning
 * side reads it without, and the release/acquire pair on it is what makes the job and its results visible.
 * LIMITS: a job must not post to, wait for or close its own lane. */
#include "base/lane.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { IDLE, BUSY, STOP };
enum {
    YIELDS = 300
}; /* waking a sleeping core costs about 57 us; so many yields cost less on an idle machine */

struct yk_lane {
    pthread_t thread;
    pthread_mutex_t lock; /* held to change `state` and to sleep on `moved` */
    pthread_cond_t moved; /* `state` has changed */
    atomic_int state;
    void (*job)(void *arg); /* the owner's while IDLE, the lane's while BUSY */
    void *arg;
};

/* Wait until the state is no longer `from`; returns what it is then. */
static int leave(struct yk_lane *lane, int from)
{
    for (int i = 0; i < YIELDS; i++) {
        int state = atomic_load_explicit(&lane->state, memory_order_acquire);
        if (state != from)
            return state;
        sched_yield();
    }
    pthread_mutex_lock(&lane->lock);
    int state;
    while ((state = atomic_load_explicit(&lane->state, memory_order_acquire)) == from)
        pthread_cond_wait(&lane->moved, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
    return state;
}

static void enter(struct yk_lane *lane, int state)
{
    pthread_mutex_lock(&lane->lock);
    atomic_store_explicit(&lane->state, state, memory_order_release);
    pthread_cond_signal(&lane->moved);
    pthread_mutex_unlock(&lane->lock);
}

static void *run(void *arg)
{
    struct yk_lane *lane = arg;
    while (leave(lane, IDLE) == BUSY) {
        lane->job(lane->arg);
        enter(lane, IDLE);
    }
    return NULL;
}

yk_code yk_lane_open(struct yk_lane **out, const char *name, struct yk_error *e)
{
    struct yk_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return yk_fail_memory(e, sizeof *lane);
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->moved, NULL);
    atomic_init(&lane->state, IDLE);

    sigset_t all, before; /* Ctrl-C is the main thread's business: the lane inherits a full mask */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&lane->thread, NULL, run, lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        errno = rc;
        yk_fail_errno(e, YK_FAILED, "cannot start the thread '%s'", name);
        pthread_cond_destroy(&lane->moved);
        pthread_mutex_destroy(&lane->lock);
        free(lane);
        return YK_FAILED;
    }
    char shown[16];
    snprintf(shown, sizeof shown, "%s", name);
    pthread_setname_np(lane->thread, shown);
    *out = lane;
    return YK_OK;
}

void yk_lane_post(struct yk_lane *lane, void (*job)(void *arg), void *arg)
{
    leave(lane, BUSY);
    lane->job = job;
    lane->arg = arg;
    enter(lane, BUSY);
}

bool yk_lane_busy(struct yk_lane *lane)
{
    return atomic_load_explicit(&lane->state, memory_order_acquire) == BUSY;
}

void yk_lane_wait(struct yk_lane *lane)
{
    leave(lane, BUSY);
}

void yk_lane_close(struct yk_lane *lane)
{
    if (lane == NULL)
        return;
    leave(lane, BUSY);
    enter(lane, STOP);
    pthread_join(lane->thread, NULL);
    pthread_cond_destroy(&lane->moved);
    pthread_mutex_destroy(&lane->lock);
    free(lane);
}
