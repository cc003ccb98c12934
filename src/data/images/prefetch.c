/* prefetch.c - see prefetch.h.
 *
 *     feed A   now [a0 a1 a2 a3]   coming [a4 a5 a6 a7]      each a *slot*: room for one image
 *     feed B   now [b0 b1 b2 b3]   coming [b4 b5 b6 b7]
 *                                            |
 *     pool     to do: a6 a7 b5 b6 b7 ...     in this order, by as many threads as there are cores
 *
 * A feed has two lines of slots: one is the batch being computed, the other is filled meanwhile.
 * When a batch is asked for, the lines change places; slots that are for other examples than
 * expected (in the first batch, or after an epoch) are filled now, and free slots get the rows
 * ahead. A thread that has to wait makes its own images, so that it never waits while the pool
 * works for other feeds.
 *
 * The pool's threads run at low priority: if every core computes, they take the time that is left.
 * The step then makes the missing images itself, on all cores, and its wait shows as phase 'input',
 * not as slower computing.
 *
 * An image depends on (seed, epoch, row) alone, so nothing here changes any result.
 * THREADS: the pool's lock guards its state, slots and list; no image is made while it is held. */
#include "data/images/prefetch.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/rng.h"
#include "base/team.h"
#include "data/images/images.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { AUGMENT_STREAM = 0x6175676d, MOST_THREADS = 64, NICE = 10 }; /* the stream is "augm" */

enum state { EMPTY, TO_DO, BEING_DONE, READY, FAILED };

struct slot {
    enum state state;
    uint32_t row;
    uint64_t epoch;
    uint8_t *pixels;
    struct yk_feed *feed;
    struct slot *before, *after; /* in the list of slots to do */
};

struct line { /* the slots of one batch */
    struct slot *slot;
    const uint8_t **image; /* (room) the slots' pixels, for yk_batch.image */
    uint8_t *pixels;       /* (room, stride) */
    uint32_t n;
};

struct yk_feed {
    const struct yk_dataset *set;
    struct yk_pool *pool;
    unsigned augment;
    uint64_t seed;
    size_t stride; /* bytes between images: a multiple of 64, with YK_ROW_SLACK after the pixels */
    struct line line[2];
    uint32_t room;           /* slots of each line */
    unsigned now;            /* the line of the batch being computed */
    struct yk_canvas canvas; /* for the images that the waiting thread makes */
    double waited;
    yk_code rc; /* of an image that could not be made; under the pool's lock, like `error` */
    struct yk_error error;
};

struct yk_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct slot to_do; /* head of a ring */
    bool ending;
    unsigned threads;
    pthread_t thread[MOST_THREADS];
};

static void put(struct yk_pool *p, struct slot *s)
{
    s->state = TO_DO;
    s->before = p->to_do.before;
    s->after = &p->to_do;
    s->before->after = s->after->before = s;
}

static void take_out(struct slot *s)
{
    s->before->after = s->after;
    s->after->before = s->before;
    s->before = s->after = NULL;
}

static struct yk_variation variation_of(const struct yk_feed *f, uint64_t epoch, uint32_t row)
{
    struct yk_rng r;
    struct yk_variation v = {0};
    if (f->augment == 0 || !f->set->images->varied)
        return v;
    yk_rng_init(&r, f->seed, epoch, row, AUGMENT_STREAM);
    /* Both are always drawn: one option does not change the numbers of the other. */
    uint64_t place = yk_rng_next(&r), flip = yk_rng_next(&r);
    v.crop = (f->augment & YK_AUGMENT_CROP) != 0;
    v.x = (uint32_t)place;
    v.y = (uint32_t)(place >> 32);
    v.flip = (f->augment & YK_AUGMENT_FLIP) != 0 && flip >> 63 != 0;
    return v;
}

/* Makes the image of a slot. Called with the lock held; releases it meanwhile. */
static void do_slot(struct yk_pool *p, struct slot *s, struct yk_canvas *c)
{
    struct yk_feed *f = s->feed;
    struct yk_images *im = f->set->images;
    struct yk_error e;
    take_out(s);
    s->state = BEING_DONE;
    pthread_mutex_unlock(&p->lock);
    const struct yk_variation v = variation_of(f, s->epoch, s->row);
    yk_code rc = im->ops->make(im, s->row, &v, c, s->pixels, &e);
    pthread_mutex_lock(&p->lock);
    s->state = rc == YK_OK ? READY : FAILED;
    if (rc != YK_OK && f->rc == YK_OK) {
        f->rc = rc;
        f->error = e;
    }
    pthread_cond_broadcast(&p->done);
}

static void *serve(void *arg)
{
    struct yk_pool *p = arg;
    struct yk_canvas c = {0};
    setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone, on Linux */
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->to_do.after == &p->to_do && !p->ending)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->ending)
            break;
        do_slot(p, p->to_do.after, &c);
    }
    pthread_mutex_unlock(&p->lock);
    yk_canvas_release(&c);
    return NULL;
}

static yk_code pool_open(struct yk_pool **out, struct yk_error *e)
{
    struct yk_pool *p = calloc(1, sizeof *p);
    unsigned want = yk_cpus() < MOST_THREADS ? yk_cpus() : MOST_THREADS;
    sigset_t before;
    if (p == NULL)
        return yk_fail_memory(e, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->to_do.before = p->to_do.after = &p->to_do;
    yk_block_signals(&before); /* signals go to the main thread */
    while (p->threads < want && pthread_create(&p->thread[p->threads], NULL, serve, p) == 0) {
        char name[16];
        snprintf(name, sizeof name, "yoke-image-%u", p->threads);
        pthread_setname_np(p->thread[p->threads++], name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (p->threads == 0) {
        yk_pool_close(p);
        return yk_fail(e, YK_FAILED, "cannot start a thread that decodes images");
    }
    *out = p;
    return YK_OK;
}

void yk_pool_close(struct yk_pool *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->threads; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* The set's pool, which the first caller starts. */
static yk_code pool_of(struct yk_images *im, struct yk_pool **out, struct yk_error *e)
{
    struct yk_pool *none = NULL;
    *out = atomic_load(&im->pool);
    if (*out != NULL)
        return YK_OK;
    yk_code rc = pool_open(out, e);
    if (rc == YK_OK && !atomic_compare_exchange_strong(&im->pool, &none, *out)) {
        yk_pool_close(*out);
        *out = none; /* another thread was faster */
    }
    return rc;
}

yk_code yk_feed_open(struct yk_feed **out, const struct yk_dataset *set, unsigned augment,
                     uint64_t seed, struct yk_error *e)
{
    *out = NULL;
    if (set->images == NULL)
        return YK_OK;
    struct yk_feed *f = calloc(1, sizeof *f);
    if (f == NULL)
        return yk_fail_memory(e, sizeof *f);
    f->set = set;
    f->augment = augment;
    f->seed = seed;
    f->stride = ((size_t)set->features + YK_ROW_SLACK + 63) / 64 * 64;
    yk_code rc = pool_of(set->images, &f->pool, e);
    if (rc == YK_OK)
        *out = f;
    else
        free(f);
    return rc;
}

/* Makes sure that no thread works on the slot or will begin to. With the lock held. */
static void settle(struct yk_pool *p, struct slot *s)
{
    if (s->state == TO_DO)
        take_out(s);
    while (s->state == BEING_DONE)
        pthread_cond_wait(&p->done, &p->lock);
}

/* Takes all slots of both lines back from the pool. */
static void recall(struct yk_feed *f)
{
    pthread_mutex_lock(&f->pool->lock);
    for (struct line *l = f->line; l < f->line + 2; l++) {
        for (uint32_t i = 0; i < l->n; i++) {
            settle(f->pool, &l->slot[i]);
            l->slot[i].state = EMPTY;
        }
        l->n = 0;
    }
    pthread_mutex_unlock(&f->pool->lock);
}

static void line_release(struct line *l)
{
    free(l->slot);
    free(l->image);
    free(l->pixels);
    *l = (struct line){0};
}

void yk_feed_close(struct yk_feed *f)
{
    if (f == NULL)
        return;
    recall(f);
    line_release(&f->line[0]);
    line_release(&f->line[1]);
    yk_canvas_release(&f->canvas);
    free(f);
}

/* Gives both lines room for n slots, and empties them. False: no memory. */
static bool grow(struct yk_feed *f, uint32_t n)
{
    recall(f);
    f->room = 0; /* until both are there */
    for (int k = 0; k < 2; k++) {
        struct line *l = &f->line[k];
        line_release(l);
        l->slot = calloc(n, sizeof *l->slot);
        l->image = malloc(n * sizeof *l->image);
        l->pixels = aligned_alloc(64, n * f->stride);
        if (l->slot == NULL || l->image == NULL || l->pixels == NULL)
            return false;
        for (uint32_t i = 0; i < n; i++) {
            l->slot[i].feed = f;
            l->slot[i].pixels = l->pixels + i * f->stride;
            l->image[i] = l->slot[i].pixels;
            memset(l->slot[i].pixels + f->set->features, 0, f->stride - f->set->features);
        }
    }
    f->room = n;
    return true;
}

/* Makes slot i of a line the one for row[i]; keeps images that fit. Lock held. True: there is
 * work. */
static bool assign(struct yk_feed *f, struct line *l, const uint32_t *row, uint32_t n,
                   uint64_t epoch)
{
    bool work = false;
    for (uint32_t i = 0; i < n; i++) {
        struct slot *s = &l->slot[i];
        if (i < l->n && s->state != EMPTY && s->state != FAILED && s->row == row[i] &&
            s->epoch == epoch)
            continue;
        settle(f->pool, s);
        s->row = row[i];
        s->epoch = epoch;
        put(f->pool, s);
        work = true;
    }
    for (uint32_t i = n; i < l->n; i++) /* not needed after all */
        if (l->slot[i].state == TO_DO) {
            take_out(&l->slot[i]);
            l->slot[i].state = EMPTY;
        }
    l->n = l->n > n ? l->n : n;
    return work;
}

/* Waits until the first n slots are done, and makes images that no thread has begun. With the lock
 * held. False: one failed. */
static bool finish(struct yk_feed *f, struct line *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (l->slot[i].state == TO_DO)
            do_slot(f->pool, &l->slot[i], &f->canvas);
    bool fine = true;
    for (uint32_t i = 0; i < n; i++) {
        while (l->slot[i].state == BEING_DONE)
            pthread_cond_wait(&f->pool->done, &f->pool->lock);
        fine = fine && l->slot[i].state == READY;
    }
    return fine;
}

yk_code yk_feed_take(struct yk_feed *f, struct yk_batch *b, struct yk_error *e)
{
    if (f == NULL)
        return YK_OK;
    double start = yk_now();
    uint32_t most = b->n > b->n_ahead ? b->n : b->n_ahead;
    yk_code rc = YK_OK;
    if (most > f->room && !grow(f, most))
        return yk_fail_memory(e, 2 * most * f->stride);
    f->now = !f->now;
    struct line *now = &f->line[f->now], *coming = &f->line[!f->now];
    pthread_mutex_lock(&f->pool->lock);
    f->rc = YK_OK; /* an image that failed ahead of time is tried again when it is wanted */
    if (assign(f, now, b->row, b->n, b->epoch))
        pthread_cond_broadcast(&f->pool->work);
    if (!finish(f, now, b->n)) {
        rc = f->rc;
        if (e != NULL)
            *e = f->error;
    } else if (assign(f, coming, b->ahead, b->n_ahead, b->epoch)) {
        pthread_cond_broadcast(&f->pool->work);
    }
    pthread_mutex_unlock(&f->pool->lock);
    b->image = now->image;
    f->waited += yk_now() - start;
    return rc;
}

double yk_feed_waited(const struct yk_feed *f)
{
    return f != NULL ? f->waited : 0;
}
