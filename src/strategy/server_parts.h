/* server_parts.h - what the files of a server share; nobody else's business. All under the owner's lock. */
#ifndef YK_STRATEGY_SERVER_PARTS_H
#define YK_STRATEGY_SERVER_PARTS_H

#include "strategy/server.h"

/* server.c */
unsigned yk_server_worker(const struct yk_server *s,
                          int endpoint); /* number of the worker at an endpoint */
void yk_server_send(struct yk_server *s, int endpoint, struct yk_note *n, const void *data,
                    size_t bytes);
void yk_server_tell(struct yk_server *s, struct yk_note *n, const void *data,
                    size_t bytes); /* all other owners */
/* Whole batches: a new incarnation is one of everybody; what has come for the open step is forgotten and comes again. */
void yk_server_see(struct yk_server *s, uint32_t incarnation);
void yk_server_reply_owed(
    struct yk_server *s); /* another owner: parameters to all who wait for them */
/* Owner 0: everybody who waits and may go on gets its next task; at the end, the word that it is over. */
void yk_server_go_on(struct yk_server *s);
void yk_server_look(struct yk_server *s, enum yk_verdict verdict); /* act on the watcher's answer */
bool yk_server_elsewhere(const struct yk_server *s); /* does another process own a part? */
bool yk_server_counts(const struct yk_server *s,
                      const struct yk_note *n); /* is it a push for the open step? */
void yk_server_drop(struct yk_server *s,
                    const struct yk_note *n); /* a whole push that does not count */
void yk_server_applied(
    struct yk_server *s,
    const struct yk_note *n); /* all of one that is a step of its own has been applied */
void yk_server_whole(struct yk_server *s, struct yk_push *p,
                     const struct yk_note *n); /* all of one that is held is here */

/* server_step.c */
void yk_server_stepped(struct yk_server *s, uint32_t examples,
                       double loss);             /* owner 0: an update has been applied */
void yk_server_close_batch(struct yk_server *s); /* all shards are here */
void yk_server_close_set(struct yk_server *s, const struct yk_set_entry *set,
                         unsigned n); /* with backups: exactly these pushes */
void yk_server_try_set(
    struct yk_server *s); /* with backups: close the step if its set is complete */

/* server_job.c */
float *yk_server_state(const struct yk_server *s,
                       unsigned which);     /* 0: weights, 1..: the optimizer's */
void yk_server_gather(struct yk_server *s); /* owner 0: ask the others for their state */
bool yk_server_is_level(
    const struct yk_server *s,
    uint64_t step); /* another owner: has it applied what the clock has counted? */
void yk_server_answer(struct yk_server *s); /* another owner: give it, if the step has come */
void yk_server_take_state(struct yk_server *s, const struct yk_note *n);
void yk_server_take_count(struct yk_server *s,
                          const struct yk_note *n); /* what another owner has of a lost worker */
void yk_server_lost(void *arg, int endpoint, const char *why);

/* server_keys.c: sparse */
yk_code yk_server_init_keys(struct yk_server *s, unsigned rows, struct yk_error *e);
void yk_server_release_keys(struct yk_server *s);
void *yk_server_place_keys(struct yk_server *s, const struct yk_note *n);
void yk_server_arrive_keys(struct yk_server *s, const struct yk_note *n,
                           const void *data); /* a push or a pull */
void yk_server_reply_keys(struct yk_server *s, unsigned w, struct yk_note *n);
/* Closing a step: its sums, one push after the other, each with its subtrees of [first, last) of v; then apply them all. */
void yk_server_add_rows(struct yk_server *s, const struct yk_push *p, uint32_t first, uint32_t last,
                        uint32_t v);
void yk_server_apply_rows(struct yk_server *s, uint32_t v, uint32_t examples);
void yk_server_broken(struct yk_server *s,
                      const char *why); /* this owner cannot go on, and so the job cannot */

/* server_hold.c: sparse */
void yk_server_release_hold(struct yk_server *s);
void *yk_server_place_hold(struct yk_server *s, const struct yk_note *n);
void yk_server_arrive_hold(struct yk_server *s, const struct yk_note *n, const void *data);
void yk_server_try_still(
    struct yk_server *s); /* owner 0: ask whether everything stands still, if it may */
void yk_server_let_go(
    struct yk_server *s); /* of the copy of the range, as soon as nothing reads it */
void yk_server_be_still(struct yk_server *s); /* another owner: say so, if it has come so far */

/* server_bucket.c: whole batches */
yk_code yk_server_init_buckets(struct yk_server *s, struct yk_error *e);
void yk_server_release_buckets(struct yk_server *s);
void yk_server_open_buckets(struct yk_server *s,
                            bool again); /* a step begins, or its open part does so once more */
/* A part of a push is here: apply the buckets that are complete with it, and send them out. */
void yk_server_fill_buckets(struct yk_server *s, const struct yk_push *p, size_t lo, size_t hi);

/* server_pack.c: --compress */
yk_code yk_server_init_pack(struct yk_server *s, struct yk_error *e);
void yk_server_release_pack(struct yk_server *s);
void yk_server_reply_packed(struct yk_server *s, unsigned w,
                            struct yk_note *n); /* all of the range */
/* Whole batches: the change of a bucket, and to worker w what it needs of it; the note says where it begins. */
void yk_server_pack_bucket(struct yk_server *s, size_t lo, size_t n);
void yk_server_send_packed(struct yk_server *s, unsigned w, struct yk_note *note, size_t n);
/* The gradients that this note of a push brought, and that are in its buffer; then the note is that of floats. False: they are broken. */
bool yk_server_unpack(struct yk_server *s, struct yk_push *p, struct yk_note *n);

#endif
