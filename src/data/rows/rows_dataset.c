/* rows_dataset.c - sparse rows as a dataset, or as a training and a test part.
 *
 * Which rows are held out follows from their numbers (yk_is_held): this needs no memory, and every
 * process finds the same rows.
 * THREADS: no state. */
#include "data/data.h"

#include "data/rows/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct yk_dataset part(struct yk_rows *rows, const char *what, double holdout, bool held)
{
    const char *slash = strrchr(what, '/');
    uint64_t test = yk_held_before(holdout, rows->rows);
    struct yk_dataset d = {
        .rows = (uint32_t)(held ? test : rows->rows - test),
        .features = (uint32_t)rows->features,
        .classes = 2,
        .shape = {1, (uint32_t)rows->features, 1},
        .scale = 1,
        .xxh3 = rows->xxh3,
        .sparse = rows,
        .holdout = holdout,
        .is_test = held,
        .borrowed = held,
    };
    snprintf(d.name, sizeof d.name, "%.*s", (int)sizeof d.name - 1,
             slash != NULL && slash[1] != '\0' ? slash + 1 : what);
    snprintf(d.split, sizeof d.split, "%s", held ? "test" : "train");
    return d;
}

yk_code yk_data_open_rows(const char *what, const struct yk_reading *how, double holdout,
                          struct yk_dataset *train, struct yk_dataset *test, struct yk_error *e)
{
    struct yk_rows *rows;
    *train = (struct yk_dataset){0};
    if (test != NULL)
        *test = (struct yk_dataset){0};
    yk_code rc = yk_rows_open(&rows, what, how, e);
    if (rc != YK_OK)
        return rc;
    if (holdout > 0 && yk_held_before(holdout, rows->rows) == 0) {
        rc = yk_fail(e, YK_USAGE, "--holdout %g of the %llu rows of '%s' is less than one", holdout,
                     (unsigned long long)rows->rows, what);
        yk_rows_close(rows);
        return rc;
    }
    *train = part(rows, what, holdout, false);
    if (test != NULL && holdout > 0)
        *test = part(rows, what, holdout, true);
    return YK_OK;
}

/* Adds the pixels of rows [from, to) of a dense set. */
static bool add_pixels(const struct yk_dataset *d, uint32_t from, uint32_t to, struct yk_chunk *c)
{
    yk_chunk_clear(c);
    for (uint32_t r = from; r < to; r++) {
        const uint8_t *pixel = d->pixels + (size_t)r * d->features;
        if (!yk_chunk_room(c, 1, d->features))
            return false;
        for (uint32_t i = 0; i < d->features; i++)
            if (pixel[i] != 0) {
                c->key[c->entries] = i;
                c->value[c->entries++] = (float)pixel[i] * d->scale;
            }
        c->label[c->rows] = (uint8_t)d->labels[r]; /* there are two classes */
        c->end[c->rows++] = c->entries;
    }
    return true;
}

yk_code yk_dataset_sparse(struct yk_dataset *d, struct yk_error *e)
{
    enum { SOME = 1024 };
    struct yk_builder *b = NULL;
    struct yk_chunk c = {0};
    struct yk_facts facts = {0};
    struct yk_rows *rows = NULL;
    yk_code rc = yk_dataset_load(d, e);
    if (rc == YK_OK)
        rc = yk_builder_open(&b, NULL, false, e);
    for (uint32_t at = 0; at < d->rows && rc == YK_OK; at += SOME) {
        if (!add_pixels(d, at, d->rows - at < SOME ? d->rows : at + SOME, &c) ||
            !yk_facts_find(&facts, &c))
            rc = yk_fail_memory(e, (size_t)SOME * d->features * 8);
        else
            rc = yk_builder_add(b, &c, &facts, e);
    }
    if (rc == YK_OK)
        rc = yk_builder_finish(b, NULL, 0, &rows, e);
    yk_builder_close(b);
    yk_chunk_release(&c);
    yk_facts_release(&facts);
    if (rc != YK_OK)
        return rc;
    free(d->pixels);
    free(d->labels);
    d->pixels = NULL;
    d->labels = NULL;
    d->sparse = rows;
    return YK_OK;
}

void yk_dataset_rows(const struct yk_dataset *d, uint32_t *row)
{
    if (d->holdout == 0) {
        for (uint32_t i = 0; i < d->rows; i++)
            row[i] = i;
        return;
    }
    for (uint32_t i = 0, r = 0; i < d->rows; r++)
        if (yk_is_held(d->holdout, r) == d->is_test)
            row[i++] = r;
}
