/* rows_info.c - see rows_info.h.
 *
 * Keys have 32 bits, so the keys in use are counted exactly, with one bit each. If m features are
 * hashed to 2^b keys, a feature has a key of its own with probability exp(-m/2^b). For hashed data
 * m is unknown, but the number d of keys in use is expected to be 2^b (1 - exp(-m/2^b)), so the
 * expected share of features that collide, 1 - exp(-m/2^b), is d/2^b.
 * THREADS: the set is only read. */
#include "data/rows/rows_info.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_BITS = 22 }; /* the default of formats with names */
static const unsigned WHAT_IF[] = {18, 20, 22, 24, 26, 28};
enum { WHAT_IFS = sizeof WHAT_IF / sizeof *WHAT_IF };

double yk_expected_collisions(double m, unsigned bits)
{
    return -expm1(-m / ldexp(1, (int)bits));
}

static void look_at_block(const struct yk_rows_block *b, uint32_t rows, uint64_t *used,
                          struct yk_rows_info *x)
{
    uint32_t entries = b->first[rows];
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t n = b->first[r + 1] - b->first[r];
        x->least = n < x->least ? n : x->least;
        x->most = n > x->most ? n : x->most;
        x->empty += n == 0;
        x->twice += b->twice != NULL && (b->twice[r / 64] >> r % 64 & 1);
    }
    for (uint32_t i = 0; i < entries; i++)
        used[b->key[i] / 64] |= UINT64_C(1) << b->key[i] % 64;
    if (b->value == NULL && entries > 0) {
        x->low = x->low < 1 ? x->low : 1;
        x->high = x->high > 1 ? x->high : 1;
    }
    if (b->value != NULL)
        for (uint32_t i = 0; i < entries; i++) {
            x->low = b->value[i] < x->low ? b->value[i] : x->low;
            x->high = b->value[i] > x->high ? b->value[i] : x->high;
        }
    x->bytes += (rows + 1) * sizeof *b->first + rows * sizeof *b->label;
    x->bytes += (uint64_t)entries * (sizeof *b->key + (b->value != NULL ? sizeof *b->value : 0));
    x->bytes += b->twice != NULL ? (rows + 63) / 64 * sizeof *b->twice : 0;
}

/* The bits that keys were hashed to; 0: not hashed. Names always are hashed. Numbers without a
 * namespace in Vowpal Wabbit's text are not by default, so there the largest key decides. */
static unsigned bits_of(const char *format, const struct yk_reading *how, uint64_t features)
{
    if (format == NULL || strcmp(format, "cache") == 0 || strcmp(format, "synthetic") == 0)
        return 0;
    if (how != NULL && how->hash_bits > 0)
        return how->hash_bits;
    if (strcmp(format, "criteo") == 0)
        return NAMES_BITS;
    bool fits = features > UINT64_C(1) << (NAMES_BITS - 1) && features <= UINT64_C(1) << NAMES_BITS;
    return strcmp(format, "vw") == 0 && fits ? NAMES_BITS : 0;
}

yk_code yk_rows_info(const struct yk_rows *r, const char *format, const struct yk_reading *how,
                     struct yk_rows_info *out, struct yk_error *e)
{
    size_t words = (size_t)(r->features / 64 + 1);
    uint64_t *used = calloc(words, sizeof *used);
    if (used == NULL)
        return yk_fail_memory(e, words * sizeof *used);
    *out = (struct yk_rows_info){.rows = r->rows,
                                 .bad = r->bad,
                                 .positives = r->positives,
                                 .entries = r->entries,
                                 .least = UINT32_MAX,
                                 .features = r->features,
                                 .low = INFINITY,
                                 .high = -INFINITY,
                                 .xxh3 = r->xxh3,
                                 .format = format,
                                 .hash_bits = bits_of(format, how, r->features)};
    for (uint32_t i = 0; i < r->blocks; i++) {
        uint64_t left = r->rows - (uint64_t)i * YK_BLOCK_ROWS;
        look_at_block(&r->block[i], left < YK_BLOCK_ROWS ? (uint32_t)left : YK_BLOCK_ROWS, used,
                      out);
    }
    yk_code rc = yk_rows_intact(r, e);
    for (size_t i = 0; i < words; i++)
        out->distinct += (uint64_t)__builtin_popcountll(used[i]);
    free(used);
    if (out->hash_bits > 0) {
        out->collisions = (double)out->distinct / ldexp(1, (int)out->hash_bits);
        out->before = -ldexp(1, (int)out->hash_bits) * log1p(-out->collisions);
    }
    return rc;
}

static void collision_text(const struct yk_rows_info *x, struct yk_buf *out)
{
    char number[32];
    if (x->hash_bits > 0 && isfinite(x->before)) {
        yk_buf_format(out, "  hashed     to %u bits, from about %s: %.2f %% of them share a key\n",
                      x->hash_bits, yk_count_text((uint64_t)x->before, number),
                      100 * x->collisions);
    } else if (x->hash_bits > 0) {
        yk_buf_format(out, "  hashed     to %u bits, and all keys are in use: raise --hash-bits\n",
                      x->hash_bits);
    } else {
        yk_buf_text(out, "  hashing    would make features share keys:");
        for (int i = 0; i < WHAT_IFS; i++)
            yk_buf_format(out, "%s %.2f %% at %u", i > 0 ? "," : "",
                          100 * yk_expected_collisions((double)x->distinct, WHAT_IF[i]),
                          WHAT_IF[i]);
        yk_buf_text(out, " bits\n");
    }
}

void yk_rows_info_text(const struct yk_rows_info *x, const char *name, struct yk_buf *out)
{
    char number[32], size[24];
    const char *slash = strrchr(name, '/');
    yk_buf_format(out, "%s: %s%ssparse rows, %s in memory, xxh3 %016llx\n",
                  slash != NULL && slash[1] != '\0' ? slash + 1 : name,
                  x->format != NULL ? x->format : "", x->format != NULL ? ", " : "",
                  yk_size_text(x->bytes, size), (unsigned long long)x->xxh3);
    yk_buf_format(out, "  rows       %s", yk_count_text(x->rows, number));
    if (x->bad > 0)
        yk_buf_format(out, ", and %s malformed ones left out", yk_count_text(x->bad, number));
    yk_buf_format(out, "\n  non-zeros  %s", yk_count_text(x->entries, number));
    yk_buf_format(out, ", %u to %u a row, %.1f on average\n", x->least, x->most,
                  (double)x->entries / (double)x->rows);
    if (x->empty > 0)
        yk_buf_format(out, "  empty      %s rows\n", yk_count_text(x->empty, number));
    if (x->twice > 0)
        yk_buf_format(out, "  repeated   %s rows have a key more than once\n",
                      yk_count_text(x->twice, number));
    if (x->entries > 0)
        yk_buf_format(out,
                      x->low == x->high ? "  values     all %.6g\n" : "  values     %.6g to %.6g\n",
                      (double)x->low, (double)x->high);
    yk_buf_format(out, "  features   %s", yk_count_text(x->features, number));
    yk_buf_format(out, " (largest key + 1), %s of them occur\n",
                  yk_count_text(x->distinct, number));
    collision_text(x, out);
    yk_buf_format(out, "  labels     %s are 1", yk_count_text(x->positives, number));
    yk_buf_format(out, " (%.2f %%), ", 100 * (double)x->positives / (double)x->rows);
    yk_buf_format(out, "%s are 0\n", yk_count_text(x->rows - x->positives, number));
}

json_t *yk_rows_info_json(const struct yk_rows_info *x, const char *name)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)x->xxh3);
    json_t *what_if = json_object();
    if (x->hash_bits == 0)
        for (int i = 0; i < WHAT_IFS; i++) {
            char bits[12];
            snprintf(bits, sizeof bits, "%u", WHAT_IF[i]);
            json_object_set_new(what_if, bits,
                                json_real(yk_expected_collisions((double)x->distinct, WHAT_IF[i])));
        }
    return json_pack(
        "{s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:o, "
        "s:o, s:o, s:I, s:s}",
        "data", name, "format", x->format, "rows", (json_int_t)x->rows, "bad", (json_int_t)x->bad,
        "positives", (json_int_t)x->positives, "non_zeros", (json_int_t)x->entries, "least_per_row",
        (json_int_t)x->least, "most_per_row", (json_int_t)x->most, "mean_per_row",
        yk_json_real((double)x->entries / (double)x->rows), "empty_rows", (json_int_t)x->empty,
        "repeated_rows", (json_int_t)x->twice, "features", (json_int_t)x->features,
        "distinct_features", (json_int_t)x->distinct, "least_value", yk_json_real((double)x->low),
        "most_value", yk_json_real((double)x->high), "hash_bits", (json_int_t)x->hash_bits,
        "features_before_hashing", yk_json_real(x->hash_bits > 0 ? x->before : (double)x->distinct),
        "expected_collisions", yk_json_real(x->collisions), "expected_collisions_at", what_if,
        "bytes", (json_int_t)x->bytes, "xxh3", hash);
}
