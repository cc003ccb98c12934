/* images.c - common code of sets that make their images when they are needed: buffers, closing, and
 * loading all images into memory.
 * THREADS: yk_dataset_load uses a team of its own; the rest has no state. */
#include "data/images/images.h"

#include "base/memory.h"
#include "base/team.h"
#include "base/text.h"
#include "data/images/jpeg.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *yk_room(struct yk_room *r, size_t bytes)
{
    if (bytes <= r->size && r->bytes != NULL)
        return r->bytes;
    size_t size = bytes + bytes / 4 + 64;
    free(r->bytes); /* its content is not needed any more */
    r->bytes = malloc(size);
    r->size = r->bytes != NULL ? size : 0;
    return r->bytes;
}

void yk_canvas_release(struct yk_canvas *c)
{
    yk_jpeg_release(c->decoder);
    free(c->file.bytes);
    free(c->picture.bytes);
    free(c->rows.bytes);
    free(c->sums.bytes);
    *c = (struct yk_canvas){0};
}

void yk_images_close(struct yk_images *im)
{
    if (im == NULL)
        return;
    yk_pool_close(atomic_load(&im->pool));
    im->ops->close(im);
}

struct loading {
    struct yk_dataset *set;
    uint8_t *pixels;
    atomic_uint next; /* the first row that no thread has taken */
    pthread_mutex_t lock;
    yk_code rc; /* of the first row that failed, in the order of the set */
    uint32_t failed;
    struct yk_error error;
};

static void load_rows(void *arg, unsigned member)
{
    enum { RUN = 16 };
    struct loading *l = arg;
    struct yk_canvas c = {0};
    const struct yk_variation none = {0};
    struct yk_error e;
    (void)member;
    for (uint32_t at; (at = atomic_fetch_add(&l->next, RUN)) < l->set->rows;)
        for (uint32_t r = at; r < at + RUN && r < l->set->rows; r++) {
            yk_code rc = l->set->images->ops->make(l->set->images, r, &none, &c,
                                                   l->pixels + (size_t)r * l->set->features, &e);
            if (rc == YK_OK)
                continue;
            pthread_mutex_lock(&l->lock);
            if (l->rc == YK_OK || r < l->failed) {
                l->rc = rc;
                l->failed = r;
                l->error = e;
            }
            pthread_mutex_unlock(&l->lock);
            goto out_canvas;
        }
out_canvas:
    yk_canvas_release(&c);
}

yk_code yk_dataset_load(struct yk_dataset *d, struct yk_error *e)
{
    struct loading l = {.set = d};
    uint64_t bytes = (uint64_t)d->rows * d->features, most = yk_memory_free() / 2;
    struct yk_team *team = NULL;
    void *room;
    char size[24], free_size[24];
    if (d->images == NULL)
        return YK_OK;
    if (bytes > most || d->rows > UINT32_MAX / 2) {
        yk_fail(e, YK_USAGE,
                "'%s' has %u images of %ux%ux%u, %s, and this model needs all of them in memory, "
                "of which %s are free",
                d->name, d->rows, d->shape[0], d->shape[1], d->shape[2], yk_size_text(bytes, size),
                yk_size_text(2 * most, free_size));
        yk_hint(e, "a net reads images when it needs them: name a .net file");
        return YK_USAGE;
    }
    if (posix_memalign(&room, 64, bytes + YK_ROW_SLACK) != 0)
        return yk_fail_memory(e, bytes);
    l.pixels = room;
    memset(l.pixels + bytes, 0, YK_ROW_SLACK);
    yk_code rc = yk_team_open(&team, yk_cpus(), e);
    if (rc == YK_OK) {
        pthread_mutex_init(&l.lock, NULL);
        yk_team_run(team, yk_team_size(team), load_rows, &l);
        yk_team_close(team);
        pthread_mutex_destroy(&l.lock);
        rc = l.rc;
        if (rc != YK_OK && e != NULL)
            *e = l.error;
    }
    if (rc != YK_OK) {
        free(l.pixels);
        return rc;
    }
    yk_images_close(d->images);
    d->images = NULL;
    d->pixels = l.pixels;
    return YK_OK;
}
