/* background.c - one background thread that runs one job at a time; see background.h.
 *
 * The whole protocol is one word, `state`:
 *
 *     IDLE --post--> BUSY --job done--> IDLE --close--> STOP
 *
 * Each side waits for the word to leave a value, the thread for IDLE and the owner for BUSY, so the
 * two never wait at the same time. Changing the word releases and reading it acquires, which makes
 * the job visible to the thread and its results to the owner.
 * LIMITS: a job must not post to, wait for or close its own thread. */
#include "base/background.h"

#include "base/guard.h"
#include "base/wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { IDLE, BUSY, STOP };

struct yk_background {
    pthread_t thread;
    struct yk_wait state;
    void (*job)(void *arg); /* written by the owner while IDLE, read by the thread while BUSY */
    void *arg;
};

static void enter(struct yk_background *b, unsigned state)
{
    atomic_store(&b->state.value, state);
    yk_wait_wake(&b->state, 1);
}

static void *run(void *arg)
{
    struct yk_background *b = arg;
    while (yk_wait_leave(&b->state, IDLE) == BUSY) {
        b->job(b->arg);
        enter(b, IDLE);
    }
    return NULL;
}

yk_code yk_background_open(struct yk_background **out, const char *name, struct yk_error *e)
{
    struct yk_background *b = calloc(1, sizeof *b);
    if (b == NULL)
        return yk_fail_memory(e, sizeof *b);

    sigset_t before;
    yk_block_signals(&before); /* the new thread inherits the mask: Ctrl-C is for the main thread */
    int rc = pthread_create(&b->thread, NULL, run, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        errno = rc;
        yk_fail_errno(e, YK_FAILED, "cannot start the thread '%s'", name);
        free(b);
        return YK_FAILED;
    }
    char shown[16];
    snprintf(shown, sizeof shown, "%s", name);
    pthread_setname_np(b->thread, shown);
    *out = b;
    return YK_OK;
}

void yk_background_post(struct yk_background *b, void (*job)(void *arg), void *arg)
{
    yk_background_wait(b);
    b->job = job;
    b->arg = arg;
    enter(b, BUSY);
}

bool yk_background_busy(struct yk_background *b)
{
    return atomic_load_explicit(&b->state.value, memory_order_acquire) == BUSY;
}

void yk_background_wait(struct yk_background *b)
{
    yk_wait_leave(&b->state, BUSY);
}

void yk_background_close(struct yk_background *b)
{
    if (b == NULL)
        return;
    yk_background_wait(b);
    enter(b, STOP);
    pthread_join(b->thread, NULL);
    free(b);
}
