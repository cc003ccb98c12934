/* tfrecord.c - TFRecord files of tf.train.Example: labelled sparse rows as TensorFlow's tools write
 * them. A file is records, one after the other, little endian:
 *
 *     8  length n of the data        4  masked crc32c of those 8 bytes
 *     n  data                        4  masked crc32c of the data
 *
 * The data is a tf.train.Example, a protocol buffer; -> means "a nested message in field":
 *
 *     Example -> 1 Features -> 1 entry (repeated, a map): 1 key (text), -> 2 Feature, one of
 *         -> 1 bytes_list: 1 value (repeated bytes)
 *         -> 2 float_list: 1 value (repeated float, packed or not)
 *         -> 3 int64_list: 1 value (repeated varint, packed or not)
 *
 * A row is made of three features, by default "label" (one int64 or float: 0 or 1, or -1 or 1),
 * "index" (int64s, the keys) and "value" (as many floats; if there is no such feature all values
 * are 1). Entries and fields come in any order, unknown ones are passed over, and of two entries
 * with one key, or two lists in one Feature, the later counts. Keys and values are therefore
 * written straight to where the row is made, independently of each other.
 *
 * Both checksums are checked. Behind a wrong length the next record is the next 12 bytes that are a
 * length and its checksum (by chance once in 4 billion bytes), and all between counts as one bad
 * record. Written are the features index, label and value, in this order, as packed lists.
 * THREADS: no state.
 * LIMITS: records of at most 64 MB, so that a wrong length does not fill the memory. */
#include "base/crc32c.h"
#include "data/rows/decimal.h"
#include "data/rows/rows_format.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEAD = 12, FOOT = 4 };
/* Bytes of data in the longest record that the reader takes. */
static const uint64_t MOST_BYTES = (64u << 20) - HEAD - FOOT;

/* The little-endian number at p, at any address. */
static inline uint32_t u32_at(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

/* The field numbers of the lists in a Feature. */
enum list_kind { LIST_ABSENT, LIST_BYTES, LIST_FLOATS, LIST_INT64S };

struct feature { /* one of the three features that make a row */
    const char *name;
    size_t len;
    enum list_kind kind;
    uint32_t n; /* values so far */
};

struct example {
    struct feature label, index, value;
    double y; /* the label: 0, 1 or -1 */
    unsigned hash_bits;
    uint64_t beyond; /* the largest key before hashing; a negative one is very large */
    uint32_t *key;   /* (as many as the example has bytes) the row's keys, index.n of them */
    float *values;   /* (as many) the row's values */
    char why[320];   /* what is wrong with the example: "expected one label, found 2" */
};

/* Bytes of a piece, which has 64 readable bytes behind it: 8 bytes may be loaded anywhere. */
struct span {
    const uint8_t *p, *end;
};

/* The varint of n <= 8 bytes at p. Drops the bytes that follow, and closes gaps of one bit
 * pairwise. */
static inline uint64_t short_varint(const uint8_t *p, unsigned n)
{
    uint64_t w = yk_load8(p) & (0x7f7f7f7f7f7f7f7fu >> (64 - 8 * n));
    w = (w & 0x007f007f007f007fu) | (w & 0x7f007f007f007f00u) >> 1;
    w = (w & 0x00003fff00003fffu) | (w & 0x3fff00003fff0000u) >> 2;
    return (w & 0x000000000fffffffu) | (w & 0x0fffffff00000000u) >> 4;
}

static bool take_varint(struct span *s, uint64_t *v)
{
    uint64_t stop = ~yk_load8(s->p) & 0x8080808080808080u;
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
    /* 0: a varint in `v`; 1, 2, 5: bytes in `in`; 3: a group, which is passed over */
    unsigned wire;
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

/* Reads the next field of a message, of any type; false: these bytes are no protocol buffer. */
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

/* Reads the next field. Nearly all are bytes with a tag of one byte and a length of one or two. */
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

static bool broken(struct example *x, const char *what)
{
    snprintf(x->why, sizeof x->why, "the record is no tf.train.Example: %s", what);
    return false;
}

static void add_index(struct example *x, uint64_t v)
{
    x->beyond = v > x->beyond ? v : x->beyond;
    x->key[x->index.n++] = x->hash_bits == 0 ? (uint32_t)v : yk_key_hash(v, x->hash_bits);
}

/* Bit i is set if byte i of eight is the last one of a varint. */
static inline unsigned last_bytes(const uint8_t *p)
{
    return (unsigned)((~yk_load8(p) >> 7 & 0x0101010101010101u) * 0x0102040810204080u >> 56);
}

/* Reads packed indices, the common case. A varint starts where the one before ends, and that chain
 * takes the time; so all ends in 16 bytes are found first, and then their values in parallel. */
static bool add_indices(struct example *x, struct span in)
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

static bool take_int64s(struct example *x, struct feature *to, struct field *f)
{
    if (to == &x->index) {
        if (f->wire == 2)
            return add_indices(x, f->in);
        if (f->wire == 0)
            add_index(x, f->v);
        return true;
    }
    if (f->wire == 0) {
        x->y = (double)(int64_t)f->v;
        to->n++;
    }
    if (f->wire != 2)
        return true;
    for (uint64_t v; f->in.p < f->in.end; to->n++) {
        if (!take_varint(&f->in, &v))
            return broken(x, "an int64 is cut off");
        x->y = (double)(int64_t)v;
    }
    return true;
}

static bool take_floats(struct example *x, struct feature *to, const struct field *f)
{
    size_t n = f->wire == 2 || f->wire == 5 ? (size_t)(f->in.end - f->in.p) / 4 : 0;
    if (f->wire == 2 && (f->in.end - f->in.p) % 4 != 0)
        return broken(x, "a float is cut off");
    if (to == &x->value) {
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = u32_at(f->in.p + 4 * i);
            memcpy(&x->values[to->n + i], &bits, sizeof bits);
        }
    } else if (n > 0) {
        uint32_t bits = u32_at(f->in.end - 4);
        float y;
        memcpy(&y, &bits, sizeof y);
        x->y = (double)y;
    }
    to->n += (uint32_t)n;
    return true;
}

static bool take_list(struct example *x, struct feature *to, enum list_kind kind, struct span list)
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
        if (kind == LIST_INT64S && !take_int64s(x, to, &f))
            return false;
        if (kind == LIST_FLOATS && !take_floats(x, to, &f))
            return false;
    }
    return true;
}

static bool take_feature(struct example *x, struct feature *to, struct span feature)
{
    struct field f;
    while (feature.p < feature.end) {
        if (!take_field(&feature, &f))
            return broken(x, "a feature is cut off");
        if (f.wire == 2 && f.number >= LIST_BYTES && f.number <= LIST_INT64S &&
            !take_list(x, to, (enum list_kind)f.number, f.in))
            return false;
    }
    return true;
}

/* The name in an entry of the map; the last one if there are several. */
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

static struct feature *feature_named(struct example *x, struct span name)
{
    struct feature *all[] = {&x->index, &x->label, &x->value};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((size_t)(name.end - name.p) == all[i]->len &&
            memcmp(name.p, all[i]->name, all[i]->len) == 0)
            return all[i];
    return NULL;
}

static bool take_entry(struct example *x, struct span entry)
{
    struct span name;
    struct field f;
    if (!entry_name(entry, &name))
        return broken(x, "an entry of its features is cut off");
    struct feature *to = feature_named(x, name);
    if (to == NULL)
        return true;
    to->kind = LIST_ABSENT; /* the later of two entries counts */
    to->n = 0;
    while (entry.p < entry.end) /* entry_name has seen that these are fields */
        if (take_field(&entry, &f) && f.number == 2 && f.wire == 2 && !take_feature(x, to, f.in))
            return false;
    return true;
}

/* Calls `entry` for every entry of an example, until it returns false. */
static bool each_entry(struct example *x, struct span data,
                       bool (*entry)(struct example *, struct span))
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

static bool list_entry(struct example *x, struct span entry)
{
    struct span name;
    char text[41];
    size_t at = strlen(x->why), n = 0;
    if (!entry_name(entry, &name))
        return true;
    /* A hostile file must not send control characters to the terminal. */
    for (; name.p < name.end && n < sizeof text - 1; name.p++)
        text[n++] = (char)(*name.p < ' ' || *name.p == 127 ? '?' : *name.p);
    text[n] = '\0';
    snprintf(x->why + at, sizeof x->why - at, "%s '%s'", x->why[at - 1] == '\'' ? "," : "", text);
    return true;
}

/* Reports a missing feature. Most likely it has another name, so the message lists the names. */
static bool missing(struct example *x, const struct feature *feature, struct span data)
{
    snprintf(x->why, sizeof x->why, "expected a feature '%.60s', found only", feature->name);
    size_t none = strlen(x->why);
    each_entry(x, data, list_entry);
    if (strlen(x->why) == none)
        snprintf(x->why, sizeof x->why,
                 "expected a feature '%.60s', found an example without features", feature->name);
    return false;
}

static bool wrong_kind(struct example *x, const struct feature *feature, const char *expected)
{
    snprintf(x->why, sizeof x->why, "expected %s in feature '%.60s', found %s", expected,
             feature->name, KIND_NAME[feature->kind]);
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

/* Reads the n bytes of an example into x->key, x->values and x->y. False: x->why says what is
 * wrong. 64 bytes behind the example must be readable. */
static bool take_example(struct example *x, const char *bytes, size_t n)
{
    struct span data = {(const uint8_t *)bytes, (const uint8_t *)bytes + n};
    struct feature *features[] = {&x->label, &x->index, &x->value};
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        features[i]->kind = LIST_ABSENT;
        features[i]->n = 0;
    }
    x->beyond = 0;
    if (!each_entry(x, data, take_entry))
        return false;
    if (x->label.kind == LIST_ABSENT)
        return missing(x, &x->label, data);
    if (x->index.kind == LIST_ABSENT)
        return missing(x, &x->index, data);
    if (x->label.kind == LIST_BYTES)
        return wrong_kind(x, &x->label, "an int64 or a float");
    if (x->index.kind != LIST_INT64S)
        return wrong_kind(x, &x->index, "int64s");
    if (x->value.kind != LIST_ABSENT && x->value.kind != LIST_FLOATS)
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
    if (x->value.kind == LIST_ABSENT) {
        for (uint32_t i = 0; i < x->index.n; i++)
            x->values[i] = 1;
        return true;
    }
    if (x->value.n != x->index.n) {
        snprintf(x->why, sizeof x->why,
                 "expected as many values as indices, found %" PRIu32 " and %" PRIu32, x->value.n,
                 x->index.n);
        return false;
    }
    if (!finite_all(x->values, x->value.n)) {
        snprintf(x->why, sizeof x->why,
                 "expected finite values, found one that is infinite or no number");
        return false;
    }
    return true;
}

static struct feature feature_of(const char *name, const char *usual)
{
    const char *is = name == NULL ? usual : name;
    return (struct feature){.name = is, .len = strlen(is)};
}

static void init_example(struct example *x, const struct yk_reading *how)
{
    *x = (struct example){.label = feature_of(how->label, "label"),
                          .index = feature_of(how->index, "index"),
                          .value = feature_of(how->value, "value"),
                          .hash_bits = how->hash_bits};
}

/* --- records --- */

/* Are the 12 bytes at `p` a length and its checksum? */
static bool head_at(const char *p, uint64_t *n)
{
    *n = yk_load8(p);
    return yk_crc32c_masked(p, 8) == u32_at(p + 8);
}

static bool sniff(const uint8_t *head, size_t n)
{
    uint64_t length;
    return n >= HEAD && head_at((const char *)head, &length);
}

/* The first place in [p, end) where a record may start; if there is none, the last 11 bytes. */
static const char *next_head(const char *p, const char *end)
{
    uint64_t n;
    while (end - p >= HEAD && !(head_at(p, &n) && n <= MOST_BYTES))
        p++;
    return p;
}

static size_t cut(const char *bytes, size_t n, bool last)
{
    const char *p = bytes, *end = bytes + n;
    uint64_t length;
    while (end - p >= HEAD) {
        if (!head_at(p, &length) || length > MOST_BYTES) {
            const char *damage = p;
            /* Damage goes whole into one piece, so that its parser reports it once; if it fills
             * the piece it stays here. */
            p = next_head(p + 1, end);
            if (end - p < HEAD && damage > bytes) {
                p = damage;
                break;
            }
            continue;
        }
        if ((uint64_t)(end - p) < HEAD + length + FOOT)
            break;
        p += HEAD + length + FOOT;
    }
    return last ? n : (size_t)(p - bytes);
}

/* Returns where the record after the one at p starts. *why is what is wrong with the frame of the
 * one at p; NULL: nothing. */
static const char *next_record(const char *p, const char *end, uint64_t *length, const char **why)
{
    *why = NULL;
    if (end - p < HEAD) {
        *why = "expected a record, found the end of the file in its length";
        return end;
    }
    if (!head_at(p, length)) {
        *why = "the checksum of a record's length is wrong";
    } else if (*length > MOST_BYTES) {
        *why = "a record is longer than 64 MB";
    } else if ((uint64_t)(end - p) < HEAD + *length + FOOT) {
        *why = "expected a record, found the end of the file in its data";
        return end;
    } else {
        const char *data = p + HEAD;
        if (yk_crc32c_masked(data, *length) != u32_at(data + *length))
            *why = "the checksum of a record's data is wrong";
        return data + *length + FOOT;
    }
    p = next_head(p + 1, end);
    return end - p < HEAD ? end : p;
}

static yk_code parse(const struct yk_reading *how, const struct yk_piece *piece,
                     struct yk_chunk *out, struct yk_error *e)
{
    struct example x;
    const char *p = piece->bytes, *end = p + piece->n, *next, *why;
    init_example(&x, how);
    for (; p < end; p = next) {
        uint64_t n = 0;
        next = next_record(p, end, &n, &why);
        if (why == NULL) {
            if (!yk_chunk_room(out, 1, n + 1))
                return yk_fail_memory(e, n * 8);
            x.key = out->key + out->entries;
            x.values = out->value + out->entries;
            why = take_example(&x, p + HEAD, n) ? NULL : x.why;
        }
        if (why != NULL) {
            if (!yk_chunk_bad(out, how, piece, p, false, e, "%s", why))
                return YK_DATA;
            continue;
        }
        out->entries += x.index.n;
        out->label[out->rows] = x.y > 0;
        out->end[out->rows++] = out->entries;
    }
    return YK_OK;
}

/* --- writing --- */

static size_t varint_size(uint64_t v)
{
    return (size_t)(63 - __builtin_clzll(v | 1)) / 7 + 1;
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

static uint8_t *put_length(uint8_t *p, unsigned field, uint64_t n)
{
    *p++ = (uint8_t)(field << 3 | 2);
    return put_varint(p, n);
}

/* The length of a nested message of n bytes with its tag and length. */
static uint64_t nested(uint64_t n)
{
    return 1 + varint_size(n) + n;
}

/* Writes an entry of the map up to its n bytes of values: name, Feature, list. */
static void put_entry(struct yk_buf *out, const char *name, enum list_kind kind, uint64_t n)
{
    uint8_t head[64];
    size_t len = strlen(name);
    uint64_t list = nested(n), feature = nested(list);
    uint8_t *p = put_length(head, 1, nested(len) + nested(feature));
    yk_buf_add(out, head, (size_t)(put_length(p, 1, len) - head));
    yk_buf_add(out, name, len);
    p = put_length(head, 2, feature);
    p = put_length(p, kind, list);
    yk_buf_add(out, head, (size_t)(put_length(p, 1, n) - head));
}

static uint64_t entry_size(const char *name, uint64_t n)
{
    return nested(nested(strlen(name)) + nested(nested(nested(n))));
}

static void put_keys(struct yk_buf *out, const struct yk_row *row)
{
    uint8_t some[64 * 5];
    for (uint32_t i = 0; i < row->n;) {
        uint8_t *p = some;
        for (uint32_t k = 0; k < 64 && i < row->n; k++)
            p = put_varint(p, row->key[i++]);
        yk_buf_add(out, some, (size_t)(p - some));
    }
}

static void put_values(struct yk_buf *out, const struct yk_row *row)
{
    uint8_t some[64 * 4];
    for (uint32_t i = 0; i < row->n;) {
        uint32_t k = 0;
        for (; k < 64 && i < row->n; k++, i++) {
            float v = row->value == NULL ? 1 : row->value[i];
            uint32_t bits;
            memcpy(&bits, &v, sizeof bits);
            bits = htole32(bits);
            memcpy(some + 4 * k, &bits, sizeof bits);
        }
        yk_buf_add(out, some, 4 * (size_t)k);
    }
}

static void write_row(struct yk_buf *out, const struct yk_row *row, const struct yk_reading *how)
{
    const char *label = how->label == NULL ? "label" : how->label,
               *index = how->index == NULL ? "index" : how->index;
    const char *value = how->value == NULL ? "value" : how->value;
    uint64_t keys = 0, floats = 4 * (uint64_t)row->n;
    uint8_t head[HEAD] = {0};
    for (uint32_t i = 0; i < row->n; i++)
        keys += varint_size(row->key[i]);
    size_t at = out->len;
    uint64_t features = entry_size(index, keys) + entry_size(label, 1) + entry_size(value, floats);
    uint64_t n = htole64(nested(features));
    memcpy(head, &n, sizeof n);
    uint32_t crc = htole32(yk_crc32c_masked(head, sizeof n));
    memcpy(head + sizeof n, &crc, sizeof crc);
    yk_buf_add(out, head, HEAD);
    yk_buf_add(out, head, (size_t)(put_length(head, 1, features) - head));
    put_entry(out, index, LIST_INT64S, keys);
    put_keys(out, row);
    put_entry(out, label, LIST_INT64S, 1);
    yk_buf_add(out, &row->label, 1);
    put_entry(out, value, LIST_FLOATS, floats);
    put_values(out, row);
    if (out->failed)
        return;
    crc = htole32(yk_crc32c_masked(out->data + at + HEAD, out->len - at - HEAD));
    yk_buf_add(out, &crc, sizeof crc);
}

const struct yk_rows_format yk_rows_format_tfrecord = {
    .name = "tfrecord",
    .what = "TFRecord of tf.train.Example (label, index, value)",
    .sniff = sniff,
    .cut = cut,
    .parse = parse,
    .write = write_row,
};
