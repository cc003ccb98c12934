/* server_pack.c - --compress at an owner: pushes are unpacked where they arrived, parameters go out packed; see strategy.h and codec.h.
 *
 * Where everybody goes in step (whole batches) the owner keeps what the workers *know* of its range, and sends the packed difference
 * between that and its weights. It is packed once a step, bucket by bucket as these are applied; all get the same bytes. What rounding
 * leaves is part of the next difference, so workers are behind by less than one rounding of one change: even in int8 that is far less
 * than bf16 of the values themselves would lose. Where workers come as they like each would need such a copy of the parameters of its
 * own. There they get values in bf16, as is usual where nets compute in bf16 and keep exact parameters aside. Values need no memory of
 * what was sent before, and may change while they are being sent, as unpacked ones may: each is whole.
 * THREADS: under the owner's lock. */
#include "strategy/server.h"

#include "param/param.h"
#include "strategy/server_parts.h"

#include <stdlib.h>
#include <string.h>

static size_t range(const struct yk_server *s)
{
    return s->owner.hi - s->owner.lo;
}

/* The range in pieces, as it is now. */
static void send_pieces(struct yk_server *s, unsigned w, const struct yk_note *last)
{
    const struct yk_codec *c = &s->pack.reply;
    char *out = s->pack.out;
    for (size_t at = 0, n; at < range(s); at += n) {
        n = range(s) - at < c->piece ? range(s) - at : c->piece;
        size_t bytes = yk_codec_size(c, n);
        struct yk_note note =
            at + n < range(s) ? (struct yk_note){.kind = YK_PIECE, .step = last->step} : *last;
        note.lo = s->owner.lo + at;
        note.flags |= YK_PACKED_FLAG;
        yk_codec_pack_change(c, s->owner.weights + note.lo, NULL, n, out);
        yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), &note, out, bytes);
        out += bytes;
    }
}

void yk_server_reply_packed(struct yk_server *s, unsigned w, struct yk_note *n)
{
    struct yk_server_pack *p = &s->pack;
    if (p->known == NULL) {
        send_pieces(s, w, n);
        return;
    }
    if (!p->knows)
        memcpy(p->known, s->owner.weights + s->owner.lo, range(s) * sizeof(float));
    p->knows = true;
    n->lo = s->owner.lo;
    yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), n, p->known, range(s) * sizeof(float));
}

/* Where in `out` a piece goes: they are as long as buckets. */
static char *packed_at(const struct yk_server *s, size_t lo)
{
    return s->pack.out + yk_codec_room(&s->pack.reply, lo - s->owner.lo);
}

void yk_server_pack_bucket(struct yk_server *s, size_t lo, size_t n)
{
    yk_codec_pack_change(&s->pack.reply, s->owner.weights + lo, s->pack.known + (lo - s->owner.lo),
                         n, packed_at(s, lo));
}

/* To the worker in this process as it has to have it. */
void yk_server_send_packed(struct yk_server *s, unsigned w, struct yk_note *note, size_t n)
{
    int to = yk_worker_endpoint(s->comm, (int)w);
    if (s->rule->mode == YK_MODE_allreduce && w == s->index) {
        yk_server_send(s, to, note, s->pack.known + (note->lo - s->owner.lo), n * sizeof(float));
        return;
    }
    note->flags = YK_PACKED_FLAG | YK_CHANGE_FLAG;
    yk_server_send(s, to, note, packed_at(s, note->lo), yk_codec_size(&s->pack.reply, n));
}

bool yk_server_unpack(struct yk_server *s, struct yk_push *p, struct yk_note *n)
{
    float *to = p->buffer + (n->lo - s->owner.lo);
    size_t floats;
    if (!yk_codec_count(&s->rule->codec, to, n->bytes, s->owner.hi - n->lo, &floats)) {
        yk_server_broken(s, "a packed push is not of its range");
        return false;
    }
    yk_codec_unpack(&s->rule->codec, to, floats);
    n->flags &= (uint16_t)~YK_PACKED_FLAG;
    n->bytes = floats * sizeof(float);
    return true;
}

yk_code yk_server_init_pack(struct yk_server *s, struct yk_error *e)
{
    struct yk_server_pack *p = &s->pack;
    bool in_step = yk_rule_buckets(s->rule);
    p->reply = yk_rule_reply(s->rule);
    size_t bytes = yk_codec_room(&p->reply, range(s));
    p->out = malloc(bytes > 0 ? bytes : 1);
    p->known = in_step ? yk_floats(range(s)) : NULL;
    if (p->out == NULL || (in_step && p->known == NULL))
        return yk_fail_memory(e, bytes + range(s) * sizeof(float));
    return YK_OK;
}

void yk_server_release_pack(struct yk_server *s)
{
    free(s->pack.out);
    yk_floats_free(s->pack.known);
}
