/* push.h - what has arrived at an owner for the open step: sums of gradients, each from one worker, range by range.
 * In threads a push is read where its worker keeps it; over MPI it has a buffer of the owner's range, into which it is received.
 * THREADS: under the owner's lock. */
#ifndef YK_STRATEGY_PUSH_H
#define YK_STRATEGY_PUSH_H

#include "base/error.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct yk_push {
    bool used;
    bool whole; /* all of the range is here */
    bool
        final; /* and nothing follows of its worker's: its sums leave in their order, but parts of the last one in any */
    unsigned worker;
    uint32_t first, last, incarnation, examples;
    uint64_t step, id, bytes;
    double loss;
    const float *sum; /* where the gradients are, flat index `origin` first */
    size_t origin;
    float *buffer; /* (hi - lo) over MPI, made when it is first needed; sparse: (room) */
    uint32_t *key; /* sparse: (keys) what the gradients are of, YK_NO_KEY behind them */
    size_t keys, key_room, room;
    unsigned
        receiving; /* messages that the engine is writing into it: it is not used again before they are done */
};

struct
    yk_set_entry { /* a push, told by its part; with backups the clock names a step by a list of them */
    uint64_t worker, id;
    uint64_t owners; /* of one that is in no list yet: how many other owners have it */
};

struct yk_pushes {
    struct yk_push *push; /* (n) */
    unsigned n;
    size_t lo, hi;    /* the owner's range */
    uint32_t covered; /* shards of the open step that are here */
    struct yk_set_entry
        *have; /* (haves, at most n) backups: which pushes of the open step other owners have */
    unsigned haves;
    float **abandoned; /* (abandons) buffers that the engine may still write into */
    unsigned abandons;
};

yk_code yk_pushes_init(struct yk_pushes *t, unsigned n, size_t lo, size_t hi, struct yk_error *e);
void yk_pushes_release(struct yk_pushes *t);

/* The push that this note of worker w belongs to; a new one if it is its first. NULL if the table is full. */
struct yk_push *yk_pushes_find(struct yk_pushes *t, unsigned w, const struct yk_note *n);
/* A buffer for the data of the note, inside the push's; NULL if they do not belong here or there is no memory. */
float *yk_pushes_place(struct yk_pushes *t, unsigned w, const struct yk_note *n);
/* The push whose buffer these data have arrived in; it may have been forgotten meanwhile. NULL if they are not in any. */
struct yk_push *yk_pushes_around(struct yk_pushes *t, const float *data);
/* The step is closed, or begins once more. */
void yk_pushes_forget(struct yk_pushes *t);
/* Worker w is lost: what it has pushed for the open step does not count. */
void yk_pushes_lose(struct yk_pushes *t, unsigned w);
/* ... and what the engine was still receiving from it never ends: such a push gets another buffer. */
void yk_pushes_abandon(struct yk_pushes *t, unsigned w);
/* Other owners that have the push (w, id) of the open step; `more` have just said so. */
uint64_t yk_pushes_have(struct yk_pushes *t, unsigned w, uint64_t id, unsigned more);

#endif
