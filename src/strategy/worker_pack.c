/* worker_pack.c - --compress at a worker: what it pushes is packed, what it gets is unpacked; see strategy.h and codec.h.
 *
 * What rounding takes away from a sum is carried to the worker's next push of the same range. Packed, it is not where the sum was: a model writes
 * its gradients there, and may leave zeros that it found.
 * THREADS: packing belongs to the worker's thread; what arrives is taken under the endpoint's lock.
 * LIMITS: when a push does not count (it was late, or its step is done again) what it carried from before goes with it, and what it left is
 * carried though it may be sent twice; a resumed run begins with nothing carried. */
#include "strategy/owner.h"
#include "strategy/worker_parts.h"

#include <stdlib.h>

enum { SLACK = 1 << 14 }; /* bytes of a chunk for the headers of pieces */

static size_t begins(const struct yk_worker *w, unsigned owner)
{
    return yk_owner_at(owner, w->rule->owners, w->params.count);
}

bool yk_worker_packs(const struct yk_worker *w, unsigned owner)
{
    return w->pack.carry != NULL && !w->comm->shared &&
           !(w->rule->mode == YK_MODE_allreduce && owner == w->index);
}

void yk_worker_begin_pack(struct yk_worker *w)
{
    w->pack.now = w->pack.first;
    if (w->pack.now != NULL)
        w->pack.now->used = 0;
}

/* The next chunk, with room for `bytes`. It takes a whole sum, unless that leaves in very many pieces. */
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

const void *yk_worker_pack(struct yk_worker *w, const float *sum, size_t at, size_t n,
                           uint16_t *flags, size_t *bytes)
{
    size_t packed = yk_codec_size(&w->rule->codec, n), floats = n * sizeof *sum;
    char *out = room(w, packed < floats ? packed : floats);
    if (out == NULL)
        return NULL;
    float part =
        (float)w->task.examples / (float)w->rule->batch; /* less than 1 at the end of an epoch */
    packed = yk_codec_pack(&w->rule->codec, sum + at, w->pack.carry + at, part, n, out);
    if (packed > 0)
        *flags |= YK_PACKED_FLAG;
    *bytes = packed > 0 ? packed : floats;
    return out;
}

/* The floats of a piece of an owner's parameters that begins at this one; 0 if there is none. */
static size_t piece_at(const struct yk_worker *w, const struct yk_note *n)
{
    if (w->pack.carry == NULL || n->from >= w->rule->owners)
        return 0;
    size_t piece = w->pack.reply.piece, lo = begins(w, n->from), hi = begins(w, n->from + 1u);
    if (n->lo < lo || n->lo >= hi || (n->lo - lo) % piece != 0)
        return 0;
    return hi - n->lo < piece ? hi - n->lo : piece;
}

void *yk_worker_place_packed(struct yk_worker *w, const struct yk_note *n)
{
    const struct yk_codec *c = &w->pack.reply;
    size_t floats = piece_at(w, n);
    if (floats == 0 || n->bytes != yk_codec_size(c, floats))
        return NULL;
    return w->pack.in + w->pack.at[n->from] + yk_codec_room(c, n->lo - begins(w, n->from));
}

size_t yk_worker_take_packed(struct yk_worker *w, const struct yk_note *n, const void *data)
{
    size_t floats;
    if (!yk_codec_count(&w->pack.reply, data, n->bytes, piece_at(w, n), &floats))
        return 0;
    const float *last = w->early ? w->old : w->params.flat,
                *base = n->flags & YK_CHANGE_FLAG ? last + n->lo : NULL;
    yk_codec_add(&w->pack.reply, data, base, w->fresh + n->lo, floats);
    return floats;
}

yk_code yk_worker_init_pack(struct yk_worker *w, struct yk_error *e)
{
    struct yk_worker_pack *p = &w->pack;
    size_t bytes = 0;
    p->reply = yk_rule_reply(w->rule);
    p->at = calloc(w->rule->owners, sizeof *p->at);
    for (unsigned k = 0; p->at != NULL && k < w->rule->owners; k++) {
        p->at[k] = bytes;
        bytes += yk_codec_room(&p->reply, begins(w, k + 1) - begins(w, k));
    }
    p->in = malloc(bytes > 0 ? bytes : 1);
    p->carry = yk_floats(w->params.count);
    if (p->at == NULL || p->in == NULL || p->carry == NULL)
        return yk_fail_memory(e, bytes + w->params.count * sizeof(float));
    return YK_OK;
}

void yk_worker_release_pack(struct yk_worker *w)
{
    yk_floats_free(w->pack.carry);
    for (struct yk_pack_chunk *c = w->pack.first, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    free(w->pack.in);
    free(w->pack.at);
}
