/* pending.h - the pushes that have arrived at an owner for the open step: sums of gradients, each
 * from one worker, range by range. In threads a push is read where its worker keeps it; over MPI it
 * has a buffer of the owner's range, into which it is received.
 * THREADS: under the owner's lock. */
#ifndef YK_STRATEGY_PENDING_H
#define YK_STRATEGY_PENDING_H

#include "base/error.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct yk_push {
    bool used;
    bool whole; /* all of the range is here */
    bool final; /* its worker sends nothing more for this step; parts may still be under way */
    unsigned worker;
    uint32_t first, last, incarnation, examples;
    uint64_t step, id, bytes;
    double loss;
    const float *sum; /* the gradients, flat index `origin` first */
    size_t origin;
    float *buffer; /* (hi - lo) over MPI, made when it is first needed; sparse: (room) */
    uint32_t *key; /* sparse: (keys) the keys of the gradients, with YK_NO_KEY behind them */
    size_t keys, key_room, room;
    unsigned receiving; /* messages that the engine is writing into the buffer */
};

/* Backups: the clock names a step by a list of pushes, each known by its worker and part. */
struct yk_set_entry {
    uint64_t worker, id;
    uint64_t owners; /* in `have`: how many other owners have the push */
};

struct yk_pending {
    struct yk_push *push; /* (n) */
    unsigned n;
    size_t lo, hi;             /* the owner's range */
    uint32_t covered;          /* shards of the open step that are here */
    struct yk_set_entry *have; /* (haves, at most n) backups: pushes that other owners have */
    unsigned haves;
    float **abandoned; /* (abandons) buffers that the engine may still write into */
    unsigned abandons;
};

yk_code yk_pending_init(struct yk_pending *t, unsigned n, size_t lo, size_t hi, struct yk_error *e);
void yk_pending_release(struct yk_pending *t);

/* The push that this note of worker w belongs to; a new one if the note is its first. NULL: the
 * table is full. */
struct yk_push *yk_pending_find(struct yk_pending *t, unsigned w, const struct yk_note *n);
/* A buffer for the data of the note, inside the push's. NULL: they do not fit the range, or
 * there is no memory. */
float *yk_pending_place(struct yk_pending *t, unsigned w, const struct yk_note *n);
/* The push whose buffer holds these data, also if it has been forgotten meanwhile; or NULL. */
struct yk_push *yk_pending_around(struct yk_pending *t, const float *data);
/* The step is closed, or begins once more. */
void yk_pending_forget(struct yk_pending *t);
/* Worker w is lost: its pushes for the open step do not count. */
void yk_pending_lose(struct yk_pending *t, unsigned w);
/* Worker w is lost, so its messages that the engine was receiving never end: their pushes get other
 * buffers. */
void yk_pending_abandon(struct yk_pending *t, unsigned w);
/* Other owners that have the push (w, id) of the open step; `more` have just said so. */
uint64_t yk_pending_have(struct yk_pending *t, unsigned w, uint64_t id, unsigned more);

#endif
