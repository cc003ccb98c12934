/* example.c - see example.h. A tf.train.Example, where -> means "a nested message in field":
 *
 *     Example -> 1 Features -> 1 entry (repeated, a map): 1 key (text), -> 2 Feature, which is one of
 *         -> 1 bytes_list: 1 value (repeated bytes)
 *         -> 2 float_list: 1 value (repeated float, packed or not)
 *         -> 3 int64_list: 1 value (repeated varint, packed or not)
 *
 * What protocol buffers promise is kept: entries and fields come in any order, fields of other numbers or types are passed over, of two
 * entries with one key the later counts, of two lists of different types in one Feature as well, and a list in several parts is one list.
 * So lists go straight to where the row is made, keys and values independently, and a row is whole when the example is. */
#include "data/example.h"

#include "data/rows_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct span {
    const uint8_t *p,
        *end; /* a piece has 64 readable bytes behind it, so 8 may be loaded anywhere */
};

/* The varint of n <= 8 bytes at p: drop what follows, close the gaps of one bit pairwise. */
static inline uint64_t short_varint(const uint8_t *p, unsigned n)
{
    uint64_t w = yk_u64_at(p) & (0x7f7f7f7f7f7f7f7fu >> (64 - 8 * n));
    w = (w & 0x007f007f007f007fu) | (w & 0x7f007f007f007f00u) >> 1;
    w = (w & 0x00003fff00003fffu) | (w & 0x3fff00003fff0000u) >> 2;
    return (w & 0x000000000fffffffu) | (w & 0x0fffffff00000000u) >> 4;
}

static bool take_varint(struct span *s, uint64_t *v)
{
    uint64_t stop = ~yk_u64_at(s->p) & 0x8080808080808080u;
    unsigned n = 0;
    if (stop != 0) {
        n = ((unsigned)__builtin_ctzll(stop) >> 3) + 1;
        *v = short_varint(s->p, n);
    } else {
        *v = 0;
        do
            *v |= (uint64_t)(s->p[n] & 0x7f) << (7 * n);
        while (s->p[n++] >= 0x80 && n < 10);
        if (s->p[n - 1] >= 0x80)
            return false;
    }
    if (s->end - s->p < n)
        return false;
    s->p += n;
    return true;
}

struct field {
    uint64_t number;
    unsigned
        wire; /* 0: a varint in `v`; 1, 2, 5: bytes in `in`; 3: a group, which nothing here has, passed over */
    uint64_t v;
    struct span in;
};

static bool take_bytes(struct span *s, uint64_t n, struct span *out)
{
    if ((uint64_t)(s->end - s->p) < n)
        return false;
    *out = (struct span){s->p, s->p + n};
    s->p += n;
    return true;
}

/* The next field of a message, whatever it is; false: no protocol buffer has these bytes. */
static bool take_any_field(struct span *s, struct field *f)
{
    uint64_t depth = 0;
    do {
        uint64_t tag, n;
        if (!take_varint(s, &tag) || tag >> 3 == 0)
            return false;
        f->number = tag >> 3;
        f->wire = tag & 7;
        switch (f->wire) {
        case 0:
            if (!take_varint(s, &f->v))
                return false;
            break;
        case 1:
        case 5:
            if (!take_bytes(s, f->wire == 1 ? 8 : 4, &f->in))
                return false;
            break;
        case 2:
            if (!take_varint(s, &n) || !take_bytes(s, n, &f->in))
                return false;
            break;
        case 3:
            depth++;
            break;
        case 4:
            if (depth-- == 0)
                return false;
            f->wire = 3;
            break;
        default:
            return false;
        }
    } while (depth > 0);
    return true;
}

/* --- an example --- */

/* Nearly all fields here are bytes with a tag of one byte and a length of one or two. */
static inline bool take_field(struct span *s, struct field *f)
{
    const uint8_t *p = s->p;
    if ((p[0] & 0x87) != 2 || p[0] < 8 || (p[1] >= 0x80 && p[2] >= 0x80))
        return take_any_field(s, f);
    unsigned n = p[1] < 0x80 ? p[1] : (p[1] & 0x7fu) | (unsigned)p[2] << 7,
             head = p[1] < 0x80 ? 2 : 3;
    if (s->end - p < (ptrdiff_t)(head + n))
        return false;
    f->number = p[0] >> 3;
    f->wire = 2;
    f->in = (struct span){p + head, p + head + n};
    s->p = p + head + n;
    return true;
}

static const char *const KIND_NAME[] = {"nothing", "bytes", "floats", "int64s"};

static bool broken(struct yk_example *x, const char *what)
{
    snprintf(x->why, sizeof x->why, "the record is no tf.train.Example: %s", what);
    return false;
}

static void add_index(struct yk_example *x, uint64_t v)
{
    x->beyond = v > x->beyond ? v : x->beyond;
    x->key[x->index.n++] = x->hash_bits == 0 ? (uint32_t)v : yk_key_hash(v, x->hash_bits);
}

/* Bit i: byte i of eight is a varint's last. */
static inline unsigned last_bytes(const uint8_t *p)
{
    return (unsigned)((~yk_u64_at(p) >> 7 & 0x0101010101010101u) * 0x0102040810204080u >> 56);
}

/* The packed case of nearly all indices. Where a varint starts is known only when the one before has been seen, and that chain is what
 * takes time; so the ends of all that are in 16 bytes are found first, and what they are worth is worked out beside it. */
static bool add_indices(struct yk_example *x, struct span in)
{
    uint64_t beyond = x->beyond, v;
    unsigned bits = x->hash_bits;
    uint32_t *key = x->key + x->index.n;
    while (in.end - in.p >= 16) {
        unsigned ends = last_bytes(in.p) | last_bytes(in.p + 8) << 8, from = 0;
        for (; ends != 0; ends &= ends - 1) {
            unsigned end = (unsigned)__builtin_ctz(ends) + 1;
            if (end - from > 5) /* larger than any key */
                break;
            v = short_varint(in.p + from, end - from);
            beyond = v > beyond ? v : beyond;
            *key++ = bits == 0 ? (uint32_t)v : yk_key_hash(v, bits);
            from = end;
        }
        in.p += from;
        if (from == 0)
            break;
    }
    x->beyond = beyond;
    x->index.n = (uint32_t)(key - x->key);
    while (in.p < in.end) {
        if (!take_varint(&in, &v))
            return broken(x, "an int64 is cut off");
        add_index(x, v);
    }
    return true;
}

static bool take_int64s(struct yk_example *x, struct yk_example_part *to, struct field *f)
{
    bool index = to == &x->index;
    if (f->wire == 2 && index)
        return add_indices(x, f->in);
    if (f->wire == 0 && index)
        add_index(x, f->v);
    if (f->wire == 0 && !index) {
        x->y = (double)(int64_t)f->v;
        to->n++;
    }
    for (uint64_t v; f->wire == 2 && f->in.p < f->in.end; to->n++) {
        if (!take_varint(&f->in, &v))
            return broken(x, "an int64 is cut off");
        x->y = (double)(int64_t)v;
    }
    return true;
}

static bool take_floats(struct yk_example *x, struct yk_example_part *to, const struct field *f)
{
    size_t n = f->wire == 2 || f->wire == 5 ? (size_t)(f->in.end - f->in.p) / 4 : 0;
    if (f->wire == 2 && (f->in.end - f->in.p) % 4 != 0)
        return broken(x, "a float is cut off");
    for (size_t i = 0; i < n && to == &x->value; i++) {
        uint32_t bits = yk_u32_at(f->in.p + 4 * i);
        memcpy(&x->to[to->n + i], &bits, sizeof bits);
    }
    if (n > 0 && to != &x->value) {
        uint32_t bits = yk_u32_at(f->in.end - 4);
        float y;
        memcpy(&y, &bits, sizeof y);
        x->y = (double)y;
    }
    to->n += (uint32_t)n;
    return true;
}

static bool take_list(struct yk_example *x, struct yk_example_part *to, enum yk_example_kind kind,
                      struct span list)
{
    struct field f;
    if (to->kind != kind) { /* a Feature is one of its lists: the last one */
        to->n = 0;
        x->beyond = to == &x->index ? 0 : x->beyond;
    }
    to->kind = kind;
    while (list.p < list.end) {
        if (!take_field(&list, &f))
            return broken(x, "a list is cut off");
        if (f.number != 1)
            continue;
        if (kind == YK_EXAMPLE_INT64S && !take_int64s(x, to, &f))
            return false;
        if (kind == YK_EXAMPLE_FLOATS && !take_floats(x, to, &f))
            return false;
    }
    return true;
}

static bool take_feature(struct yk_example *x, struct yk_example_part *to, struct span feature)
{
    struct field f;
    while (feature.p < feature.end) {
        if (!take_field(&feature, &f))
            return broken(x, "a feature is cut off");
        if (f.wire == 2 && f.number >= YK_EXAMPLE_BYTES && f.number <= YK_EXAMPLE_INT64S &&
            !take_list(x, to, (enum yk_example_kind)f.number, f.in))
            return false;
    }
    return true;
}

/* The name in an entry of the map; the last one, should there be several. */
static bool entry_name(struct span entry, struct span *name)
{
    struct field f;
    *name = (struct span){entry.p, entry.p};
    while (entry.p < entry.end) {
        if (!take_field(&entry, &f))
            return false;
        if (f.number == 1 && f.wire == 2)
            *name = f.in;
    }
    return true;
}

static struct yk_example_part *part_named(struct yk_example *x, struct span name)
{
    struct yk_example_part *all[] = {&x->index, &x->label, &x->value};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((size_t)(name.end - name.p) == all[i]->len &&
            memcmp(name.p, all[i]->name, all[i]->len) == 0)
            return all[i];
    return NULL;
}

static bool take_entry(struct yk_example *x, struct span entry)
{
    struct span name;
    struct field f;
    if (!entry_name(entry, &name))
        return broken(x, "an entry of its features is cut off");
    struct yk_example_part *to = part_named(x, name);
    if (to == NULL)
        return true;
    to->kind = YK_EXAMPLE_ABSENT; /* the later of two entries counts */
    to->n = 0;
    while (entry.p < entry.end) /* entry_name has seen that these are fields */
        if (take_field(&entry, &f) && f.number == 2 && f.wire == 2 && !take_feature(x, to, f.in))
            return false;
    return true;
}

/* Every entry of an example goes to `entry`, until that says no. */
static bool each_entry(struct yk_example *x, struct span data,
                       bool (*entry)(struct yk_example *, struct span))
{
    struct field f, g;
    while (data.p < data.end) {
        if (!take_field(&data, &f))
            return broken(x, "a field is cut off or of an unknown type");
        if (f.number != 1 || f.wire != 2)
            continue;
        while (f.in.p < f.in.end) {
            if (!take_field(&f.in, &g))
                return broken(x, "its features are cut off");
            if (g.number == 1 && g.wire == 2 && !entry(x, g.in))
                return false;
        }
    }
    return true;
}

static bool list_entry(struct yk_example *x, struct span entry)
{
    struct span name;
    char text[41];
    size_t at = strlen(x->why), n = 0;
    if (!entry_name(entry, &name))
        return true;
    for (; name.p < name.end && n < sizeof text - 1; name.p++)
        text[n++] = (char)(*name.p < ' ' || *name.p == 127
                               ? '?'
                               : *name.p); /* whatever a hostile file says to the terminal */
    text[n] = '\0';
    snprintf(x->why + at, sizeof x->why - at, "%s '%s'", x->why[at - 1] == '\'' ? "," : "", text);
    return true;
}

/* A feature is not there: most likely it has another name, so say which there are. */
static bool missing(struct yk_example *x, const struct yk_example_part *part, struct span data)
{
    snprintf(x->why, sizeof x->why, "expected a feature '%.60s', found only", part->name);
    size_t none = strlen(x->why);
    each_entry(x, data, list_entry);
    if (strlen(x->why) == none)
        snprintf(x->why, sizeof x->why,
                 "expected a feature '%.60s', found an example without features", part->name);
    return false;
}

static bool wrong_kind(struct yk_example *x, const struct yk_example_part *part,
                       const char *expected)
{
    snprintf(x->why, sizeof x->why, "expected %s in feature '%.60s', found %s", expected,
             part->name, KIND_NAME[part->kind]);
    return false;
}

static bool finite_all(const float *v, uint32_t n)
{
    uint32_t worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        bits &= 0x7f800000u;
        worst = bits > worst ? bits : worst;
    }
    return worst < 0x7f800000u;
}

bool yk_example_take(struct yk_example *x, const char *bytes, size_t n)
{
    struct span data = {(const uint8_t *)bytes, (const uint8_t *)bytes + n};
    struct yk_example_part *parts[] = {&x->label, &x->index, &x->value};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        parts[i]->kind = YK_EXAMPLE_ABSENT;
        parts[i]->n = 0;
    }
    x->beyond = 0;
    if (!each_entry(x, data, take_entry))
        return false;
    if (x->label.kind == YK_EXAMPLE_ABSENT)
        return missing(x, &x->label, data);
    if (x->index.kind == YK_EXAMPLE_ABSENT)
        return missing(x, &x->index, data);
    if (x->label.kind == YK_EXAMPLE_BYTES)
        return wrong_kind(x, &x->label, "an int64 or a float");
    if (x->index.kind != YK_EXAMPLE_INT64S)
        return wrong_kind(x, &x->index, "int64s");
    if (x->value.kind != YK_EXAMPLE_ABSENT && x->value.kind != YK_EXAMPLE_FLOATS)
        return wrong_kind(x, &x->value, "floats");
    if (x->label.n != 1 || !(x->y == 0 || x->y == 1 || x->y == -1)) {
        if (x->label.n == 1)
            snprintf(x->why, sizeof x->why, "expected a label of 0, 1 or -1, found %g", x->y);
        else
            snprintf(x->why, sizeof x->why, "expected one label, found %" PRIu32, x->label.n);
        return false;
    }
    if (x->beyond > YK_KEY_MAX && x->hash_bits == 0) {
        snprintf(x->why, sizeof x->why,
                 "expected indices from 0 to %u, found %" PRId64 " (--hash-bits folds them)",
                 YK_KEY_MAX, (int64_t)x->beyond);
        return false;
    }
    if (x->value.kind == YK_EXAMPLE_ABSENT) {
        for (uint32_t i = 0; i < x->index.n; i++)
            x->to[i] = 1;
        return true;
    }
    if (x->value.n != x->index.n) {
        snprintf(x->why, sizeof x->why,
                 "expected as many values as indices, found %" PRIu32 " and %" PRIu32, x->value.n,
                 x->index.n);
        return false;
    }
    if (!finite_all(x->to, x->value.n)) {
        snprintf(x->why, sizeof x->why,
                 "expected finite values, found one that is infinite or no number");
        return false;
    }
    return true;
}

static struct yk_example_part part_of(const char *name, const char *usual)
{
    const char *is = name == NULL ? usual : name;
    return (struct yk_example_part){.name = is, .len = strlen(is)};
}

void yk_example_init(struct yk_example *x, const struct yk_reading *how)
{
    *x = (struct yk_example){.label = part_of(how->label, "label"),
                             .index = part_of(how->index, "index"),
                             .value = part_of(how->value, "value"),
                             .hash_bits = how->hash_bits};
}
