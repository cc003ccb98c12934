/* tfrecord.c - TFRecord files of tf.train.Example: labelled sparse rows as TensorFlow's tools write them.
 *
 * A file is records, one after the other, little endian:
 *
 *     8  length n of the data        4  masked crc32c of those 8 bytes
 *     n  data                        4  masked crc32c of the data
 *
 * and a record's data is a tf.train.Example (example.c draws it). A row is made of three of its features, by default "label" (one int64 or
 * float: 0 or 1, or -1 or 1), "index" (int64s, the keys) and "value" (floats, as many; if there is no such feature all values are 1).
 *
 * Both checksums are checked. Where a length's is wrong nothing says where the next record starts; with `skip_bad` the next 12 bytes that
 * are a length and its checksum do (by chance once in 4 billion bytes), and all between counts as one bad record. What is written: the
 * three features in the order index, label, value; int64 label 0 or 1; packed lists; always with values.
 * LIMITS: records of at most 64 MB, so that a hostile length does not make anyone read a file into memory. */
#include "base/crc32c.h"
#include "data/example.h"
#include "data/rows_format.h"

#include <endian.h>
#include <string.h>

enum { HEAD = 12, FOOT = 4 };
static const uint64_t MOST_BYTES =
    (64u << 20) - HEAD - FOOT; /* what the reader takes for a record */

/* Do 12 bytes at `p` say how long a record is? */
static bool head_at(const char *p, uint64_t *n)
{
    *n = yk_u64_at(p);
    return yk_crc32c_masked(p, 8) == yk_u32_at(p + 8);
}

static bool sniff(const uint8_t *head, size_t n)
{
    uint64_t length;
    return n >= HEAD && head_at((const char *)head, &length);
}

/* The first place in [p, end) where a record may start, looked for byte by byte; if there is none, where 12 bytes are no longer left. */
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
            p = next_head(p + 1, end); /* damage is a piece's own: its parser says so, */
            if (end - p < HEAD &&
                damage >
                    bytes) { /* and once: it goes whole into the next piece, unless it is as long as one */
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

/* Where the record after the one at p starts; *why: what is wrong with the one at p, NULL if its frame is whole. */
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
        if (yk_crc32c_masked(data, *length) != yk_u32_at(data + *length))
            *why = "the checksum of a record's data is wrong";
        return data + *length + FOOT;
    }
    p = next_head(p + 1, end);
    return end - p < HEAD ? end : p;
}

static yk_code parse(const struct yk_reading *how, const struct yk_piece *piece,
                     struct yk_chunk *out, struct yk_error *e)
{
    struct yk_example x;
    const char *p = piece->bytes, *end = p + piece->n, *next, *why;
    yk_example_init(&x, how);
    for (; p < end; p = next) {
        uint64_t n = 0;
        next = next_record(p, end, &n, &why);
        if (why == NULL) {
            if ((out->row_room == out->rows || out->entry_room - out->entries <= n) &&
                !yk_chunk_room(out, 1, n + 1))
                return yk_fail_memory(e, n * 8);
            x.key = out->key + out->entries;
            x.to = out->value + out->entries;
            why = yk_example_take(&x, p + HEAD, n) ? NULL : x.why;
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

/* How long a nested message of n bytes is with its tag and length. */
static uint64_t nested(uint64_t n)
{
    return 1 + varint_size(n) + n;
}

/* An entry of the map up to its values, of which there will be n bytes: name, Feature, list, packed values. */
static void put_entry(struct yk_buf *out, const char *name, enum yk_example_kind kind, uint64_t n)
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
    put_entry(out, index, YK_EXAMPLE_INT64S, keys);
    put_keys(out, row);
    put_entry(out, label, YK_EXAMPLE_INT64S, 1);
    yk_buf_add(out, &row->label, 1);
    put_entry(out, value, YK_EXAMPLE_FLOATS, floats);
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
