/* pack.c - --compress: pushes are packed at the worker and unpacked where they arrived, parameters
 * go back packed; see wire.h and codec.h.
 *
 * WORKER: what rounding takes away from a sum is carried to the worker's next push of the same
 * range. Packed data have buffers of their own: a model writes gradients into its sums, and may
 * rely on zeros that it found there.
 *
 * OWNER: in whole batches the owner keeps the parameters that all workers *know* of its range, and
 * sends the packed difference between those and its weights, packed once a step and bucket by
 * bucket; all workers get the same bytes. What rounding leaves is part of the next difference, so
 * workers are behind by less than one rounding of one change: even in int8 that is far less than
 * bf16 of the values themselves would lose. Where workers come at their own time each would need
 * such a copy. There they get values in bf16, as is usual where nets compute in bf16 and keep exact
 * parameters aside. Values need no memory of earlier messages, and may change while they are being
 * sent, as unpacked ones may.
 * THREADS: packing a push belongs to the worker's thread; the rest runs under the endpoint's lock.
 * LIMITS: when a push does not count (it was late, or its step is redone) the errors that it
 * carried are lost with it, and its own rounding errors are carried though they may be sent
 * twice; a resumed run begins with nothing carried. */
#include "strategy/exchange.h"

#include "param/param.h"

#include <stdlib.h>
#include <string.h>

/* --- an owner's end --- */

/* The range as it is now, in pieces. */
static void send_pieces(struct yk_server *s, unsigned w, const struct yk_note *last)
{
    const struct yk_codec *c = &s->pack.reply;
    char *out = s->pack.out;
    for (size_t at = 0, n; at < yk_server_floats(s); at += n) {
        n = yk_server_floats(s) - at < c->piece ? yk_server_floats(s) - at : c->piece;
        size_t bytes = yk_codec_size(c, n);
        struct yk_note note = at + n < yk_server_floats(s)
                                  ? (struct yk_note){.kind = YK_PIECE, .step = last->step}
                                  : *last;
        note.task.lo = s->owner.lo + at;
        note.flags |= YK_PACKED_FLAG;
        yk_codec_pack_change(c, s->owner.weights + note.task.lo, NULL, n, out);
        yk_server_send_worker(s, w, &note, out, bytes);
        out += bytes;
    }
}

void yk_pack_reply(struct yk_server *s, unsigned w, struct yk_note *n)
{
    struct yk_server_pack *p = &s->pack;
    if (p->known == NULL) {
        send_pieces(s, w, n);
        return;
    }
    if (!p->knows)
        memcpy(p->known, s->owner.weights + s->owner.lo, yk_server_floats(s) * sizeof(float));
    p->knows = true;
    n->task.lo = s->owner.lo;
    yk_server_send_worker(s, w, n, p->known, yk_server_floats(s) * sizeof(float));
}

/* Where in `out` a bucket is packed; pieces are as long as buckets. */
static char *packed_at(const struct yk_server *s, size_t lo)
{
    return s->pack.out + yk_codec_room(&s->pack.reply, lo - s->owner.lo);
}

void yk_pack_bucket(struct yk_server *s, size_t lo, size_t n)
{
    yk_codec_pack_change(&s->pack.reply, s->owner.weights + lo, s->pack.known + (lo - s->owner.lo),
                         n, packed_at(s, lo));
}

/* The worker in this process gets floats; the same ones that others unpack. */
void yk_pack_send_bucket(struct yk_server *s, unsigned w, struct yk_note *note, size_t n)
{
    if (yk_rule_pairs_ranks(s->rule) && w == s->index) {
        yk_server_send_worker(s, w, note, s->pack.known + (note->task.lo - s->owner.lo),
                              n * sizeof(float));
        return;
    }
    note->flags = YK_PACKED_FLAG | YK_CHANGE_FLAG;
    yk_server_send_worker(s, w, note, packed_at(s, note->task.lo),
                          yk_codec_size(&s->pack.reply, n));
}

bool yk_pack_unpack(struct yk_server *s, struct yk_push *p, struct yk_note *n)
{
    float *to = p->buffer + (n->push.lo - s->owner.lo);
    size_t floats;
    if (!yk_codec_count(&s->rule->codec, to, n->bytes, s->owner.hi - n->push.lo, &floats)) {
        yk_server_broken(s, "a packed push does not fit its range");
        return false;
    }
    yk_codec_unpack(&s->rule->codec, to, floats);
    n->flags &= (uint16_t)~YK_PACKED_FLAG;
    n->bytes = floats * sizeof(float);
    return true;
}

yk_code yk_pack_open_owner(struct yk_server *s, struct yk_error *e)
{
    struct yk_server_pack *p = &s->pack;
    bool batches = yk_rule_buckets(s->rule);
    if (s->rule->codec.kind == YK_CODEC_NONE || s->comm->shared)
        return YK_OK;
    p->reply = yk_rule_reply(s->rule);
    size_t bytes = yk_codec_room(&p->reply, yk_server_floats(s));
    p->out = malloc(bytes > 0 ? bytes : 1);
    p->known = batches ? yk_floats(yk_server_floats(s)) : NULL;
    if (p->out == NULL || (batches && p->known == NULL))
        return yk_fail_memory(e, bytes + yk_server_floats(s) * sizeof(float));
    return YK_OK;
}

void yk_pack_close_owner(struct yk_server *s)
{
    free(s->pack.out);
    yk_floats_free(s->pack.known);
}

/* --- a worker's end --- */

enum { SLACK = 1 << 14 }; /* bytes of a chunk for the headers of pieces */

bool yk_pack_applies(const struct yk_worker *w, unsigned owner)
{
    return w->pack.carry != NULL && !(yk_rule_pairs_ranks(w->rule) && owner == w->index);
}

void yk_pack_begin(struct yk_worker *w)
{
    w->pack.now = w->pack.first;
    if (w->pack.now != NULL)
        w->pack.now->used = 0;
}

/* The next chunk, with room for `bytes`. It holds a whole sum, unless that leaves in very many
 * pieces. */
static struct yk_pack_chunk *next_chunk(struct yk_worker *w, size_t bytes)
{
    struct yk_pack_chunk **at = w->pack.now != NULL ? &w->pack.now->next : &w->pack.first;
    if (*at == NULL || (*at)->room < bytes) {
        size_t sum = yk_codec_size(&w->rule->codec, w->params.count) + SLACK,
               most = sum > bytes ? sum : bytes;
        struct yk_pack_chunk *c = malloc(sizeof *c + most);
        if (c == NULL)
            return NULL;
        *c = (struct yk_pack_chunk){.next = *at, .room = most};
        *at = c;
    }
    (*at)->used = 0;
    return *at;
}

static char *room(struct yk_worker *w, size_t bytes)
{
    struct yk_pack_chunk *c = w->pack.now;
    bytes = (bytes + 7) / 8 * 8;
    if (c == NULL || c->room - c->used < bytes)
        c = next_chunk(w, bytes);
    if (c == NULL)
        return NULL;
    w->pack.now = c;
    c->used += bytes;
    return c->data + c->used - bytes;
}

const void *yk_pack_sum(struct yk_worker *w, const float *sum, size_t at, size_t n, uint16_t *flags,
                        size_t *bytes)
{
    size_t packed = yk_codec_size(&w->rule->codec, n), floats = n * sizeof *sum;
    char *out = room(w, packed < floats ? packed : floats);
    if (out == NULL)
        return NULL;
    /* Less than 1 at the end of an epoch. */
    float part = (float)w->task.examples / (float)w->rule->batch;
    packed = yk_codec_pack(&w->rule->codec, sum + at, w->pack.carry + at, part, n, out);
    if (packed > 0)
        *flags |= YK_PACKED_FLAG;
    *bytes = packed > 0 ? packed : floats;
    return out;
}

/* Floats of the piece of an owner's parameters that this note brings; 0: there is no such piece. */
static size_t piece_at(const struct yk_worker *w, const struct yk_note *n)
{
    if (w->pack.carry == NULL || n->from >= w->rule->owners)
        return 0;
    size_t piece = w->pack.reply.piece, lo = yk_worker_owner_at(w, n->from),
           hi = yk_worker_owner_at(w, n->from + 1u);
    if (n->task.lo < lo || n->task.lo >= hi || (n->task.lo - lo) % piece != 0)
        return 0;
    return hi - n->task.lo < piece ? hi - n->task.lo : piece;
}

void *yk_pack_place(struct yk_worker *w, const struct yk_note *n)
{
    const struct yk_codec *c = &w->pack.reply;
    size_t floats = piece_at(w, n);
    if (floats == 0 || n->bytes != yk_codec_size(c, floats))
        return NULL;
    return w->pack.in + w->pack.at[n->from] +
           yk_codec_room(c, n->task.lo - yk_worker_owner_at(w, n->from));
}

size_t yk_pack_take(struct yk_worker *w, const struct yk_note *n, const void *data)
{
    size_t floats;
    if (!yk_codec_count(&w->pack.reply, data, n->bytes, piece_at(w, n), &floats))
        return 0;
    const float *last = w->buckets.task != YK_TASK_WHOLE ? w->buckets.old : w->params.flat,
                *base = n->flags & YK_CHANGE_FLAG ? last + n->task.lo : NULL;
    yk_codec_add(&w->pack.reply, data, base, w->fresh + n->task.lo, floats);
    return floats;
}

yk_code yk_pack_open_worker(struct yk_worker *w, struct yk_error *e)
{
    struct yk_worker_pack *p = &w->pack;
    size_t bytes = 0;
    if (w->rule->codec.kind == YK_CODEC_NONE || w->comm->shared)
        return YK_OK;
    p->reply = yk_rule_reply(w->rule);
    p->at = calloc(w->rule->owners, sizeof *p->at);
    for (unsigned k = 0; p->at != NULL && k < w->rule->owners; k++) {
        p->at[k] = bytes;
        bytes += yk_codec_room(&p->reply, yk_worker_owner_at(w, k + 1) - yk_worker_owner_at(w, k));
    }
    p->in = malloc(bytes > 0 ? bytes : 1);
    p->carry = yk_floats(w->params.count);
    if (p->at == NULL || p->in == NULL || p->carry == NULL)
        return yk_fail_memory(e, bytes + w->params.count * sizeof(float));
    return YK_OK;
}

void yk_pack_close_worker(struct yk_worker *w)
{
    yk_floats_free(w->pack.carry);
    for (struct yk_pack_chunk *c = w->pack.first, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    free(w->pack.in);
    free(w->pack.at);
}
