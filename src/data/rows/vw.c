/* vw.c - Vowpal Wabbit's text: a label, and features with names instead of numbers.
 *
 *     [label [importance [base]]] [tag]|namespace[:scale] feature[:value] feature ... |... ...
 *
 * Names become keys as in Vowpal Wabbit, with the same collisions. The hash of a namespace is its
 * number if it is all digits, else its MurmurHash3 (32 bits); 0 for "| " without a name. The hash
 * of a feature is its number plus that hash if it is all digits, else its MurmurHash3 seeded with
 * that hash; a feature without a name (":0.5") counts those before it. The lowest `hash_bits` bits
 * are the key, 22 by default (Vowpal Wabbit's own default is 18). One thing differs: a number in
 * the namespace without a name is a key as in all other formats, unchanged unless `hash_bits` is
 * given. Rows are written that way, "1 | 3:0.5 17", so they read back as they were.
 *
 * Labels are 1, and -1 or 0. A missing value is 1; the scale of a namespace multiplies its values.
 * Values of 0 are kept. A word that begins with ' or touches the first | is a tag, and ignored.
 * Rows have no weights, so an importance other than 1 is malformed, and so is a base (an offset of
 * the prediction) other than 0. Empty lines are skipped.
 * THREADS: see rows_format.h.
 * LIMITS: no labels of other kinds (multiclass, cost-sensitive); values are numbers. */
#include "data/rows/decimal.h"
#include "data/rows/rows_format.h"

#include <math.h>
#include <string.h>

enum { USUAL_BITS = 22, LONGEST_NUMBER = 63 };

struct line {
    const char *p, *end;
    bool open;          /* no newline follows */
    const char *at;     /* where the line is malformed */
    const char *why;    /* what was expected there */
    uint64_t mask;      /* of hashes */
    unsigned hash_bits; /* 0 leaves numbers without a namespace as they are */
    uint8_t label;
    uint32_t *key; /* the place of the next entry; there is room for all that the line can have */
    float *value;
};

static bool wrong(struct line *l, const char *at, const char *expected)
{
    l->at = at;
    l->why = expected;
    return false;
}

static uint32_t rotate(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

/* MurmurHash3, the 32-bit one for little-endian machines. */
static uint32_t murmur3(const char *bytes, size_t n, uint32_t seed)
{
    const uint32_t c1 = 0xcc9e2d51, c2 = 0x1b873593;
    uint32_t h = seed, k;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        memcpy(&k, bytes + i, sizeof k);
        h ^= rotate(le32toh(k) * c1, 15) * c2;
        h = rotate(h, 13) * 5 + 0xe6546b64;
    }
    k = 0;
    for (size_t j = n; j > i; j--)
        k = k << 8 | (uint8_t)bytes[j - 1];
    h ^= rotate(k * c1, 15) * c2;
    h ^= (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6b;
    h = (h ^ h >> 13) * 0xc2b2ae35;
    return h ^ h >> 16;
}

static bool ends_name(char c)
{
    return c == ' ' || c == ':' || c == '|' || c == '\t';
}

/* Hashes the name at *p with `seed`; moves *p behind it. *number: it was all digits, or empty. */
static uint64_t take_name(const char **p, const char *end, uint64_t seed, bool *number)
{
    const char *start = *p, *q = start;
    uint32_t first;
    /* reads 8 bytes; a piece has 64 readable bytes behind it */
    unsigned digits = yk_digits8(q, &first);
    if (digits < 8 && digits <= end - q && (q + digits == end || ends_name(q[digits]))) {
        *p = q + digits;
        *number = true;
        return first + seed;
    }
    uint64_t v = 0;
    bool all = true;
    for (; q < end && !ends_name(*q); q++) {
        all &= yk_is_digit(*q);
        v = v * 10 + (uint64_t)(*q - '0');
    }
    *p = q;
    *number = all;
    return all ? v + seed : murmur3(start, (size_t)(q - start), (uint32_t)seed);
}

/* Reads a number that ends at a space, a tab, '|' or the end of the line. */
static bool take_number(struct line *l, float *v)
{
    const char *q;
    if (!l->open) {
        q = yk_decimal_read(l->p, v);
    } else { /* The bytes behind the last line are unknown: the copy ends the number. */
        char copy[LONGEST_NUMBER + 9] = "";
        size_t n = (size_t)(l->end - l->p);
        memcpy(copy, l->p, n < LONGEST_NUMBER ? n : LONGEST_NUMBER);
        q = yk_decimal_read(copy, v);
        q = q == NULL ? NULL : l->p + (q - copy);
    }
    if (q == NULL || (q < l->end && *q != ' ' && *q != '\t' && *q != '|'))
        return false;
    l->p = q;
    return true;
}

/* Reads the features of a namespace, up to the next '|' or the end. */
static bool take_features(struct line *l, uint64_t space, bool named, float scale)
{
    uint64_t nameless = 0;
    for (;;) {
        while (l->p < l->end && (*l->p == ' ' || *l->p == '\t'))
            l->p++;
        if (l->p == l->end || *l->p == '|')
            return true;
        const char *start = l->p;
        float value = 1;
        bool number;
        uint64_t hash = take_name(&l->p, l->end, space, &number);
        size_t len = (size_t)(l->p - start);
        if (len == 0) {
            hash = space + nameless++;
            number = false;
        }
        if (l->p < l->end && *l->p == ':') {
            l->p++;
            if (!take_number(l, &value))
                return wrong(l, start, "feature or feature:number");
        }
        if (named || !number)
            hash &= l->mask;
        else if (l->hash_bits > 0)
            hash = yk_key_hash(hash, l->hash_bits);
        else if (hash > YK_KEY_MAX || len > 19) /* 20 digits may have wrapped around */
            return wrong(l, start, "a key up to 4294967000 (--hash-bits folds them)");
        value *= scale;
        if (!isfinite(value))
            return wrong(l, start, "a finite value");
        *l->key++ = (uint32_t)hash;
        *l->value++ = value;
    }
}

/* Reads label, importance, base and tag, before the first '|' at `bar`. */
static bool take_label(struct line *l, const char *bar)
{
    float number[3] = {0, 1, 0};
    const char *at[3] = {bar, bar, bar};
    int n = 0;
    while (l->p < bar) {
        const char *word = l->p;
        while (l->p < bar && *l->p != ' ' && *l->p != '\t')
            l->p++;
        if (l->p == word) {
            l->p++;
            continue;
        }
        if (*word == '\'' || l->p == bar) /* a tag */
            continue;
        l->p = word;
        if (n == 3)
            return wrong(l, word, "'|' after label, importance and base");
        at[n] = word;
        if (!take_number(l, &number[n]))
            return wrong(l, word, n == 0 ? "a label" : n == 1 ? "an importance" : "a base");
        n++;
    }
    if (n == 0)
        return wrong(l, bar, "a label and a space before '|'");
    if (number[0] != 0 && number[0] != 1 && number[0] != -1)
        return wrong(l, at[0], "a label of 1, -1 or 0");
    if (number[1] != 1)
        return wrong(l, at[1], "an importance of 1 (rows are not weighted)");
    if (number[2] != 0)
        return wrong(l, at[2], "a base of 0 (predictions have no offsets)");
    l->label = number[0] > 0;
    return true;
}

static bool take_line(struct line *l)
{
    const char *bar = memchr(l->p, '|', (size_t)(l->end - l->p));
    if (bar == NULL)
        return wrong(l, l->p, "label | feature:value ...");
    if (!take_label(l, bar))
        return false;
    for (l->p = bar; l->p < l->end;) {
        bool number, named;
        const char *start = ++l->p; /* behind the '|' */
        float scale = 1;
        uint64_t space = take_name(&l->p, l->end, 0, &number);
        named = l->p > start;
        if (l->p < l->end && *l->p == ':') {
            l->p++;
            if (!take_number(l, &scale))
                return wrong(l, start, "namespace:scale");
        }
        if (!take_features(l, space, named, scale))
            return false;
    }
    return true;
}

static yk_code parse(const struct yk_reading *how, const struct yk_piece *piece,
                     struct yk_chunk *out, struct yk_error *e)
{
    const char *p = piece->bytes, *stop = p + piece->n, *next;
    unsigned bits = how->hash_bits == 0 ? USUAL_BITS : how->hash_bits;
    struct line l = {.mask = (UINT64_C(1) << bits) - 1, .hash_bits = how->hash_bits};
    for (; p < stop; p = next) {
        const char *end = memchr(p, '\n', (size_t)(stop - p));
        next = end == NULL ? stop : end + 1;
        l.open = end == NULL;
        end = end == NULL ? stop : end;
        while (end > p && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
            end--;
        if (end == p)
            continue;
        size_t most = (size_t)(end - p) / 2 + 1; /* a feature has at least a byte and a space */
        if (!yk_chunk_room(out, 1, most))
            return yk_fail_memory(e, most * 8);
        l.p = p;
        l.end = end;
        l.key = out->key + out->entries;
        l.value = out->value + out->entries;
        if (!take_line(&l)) {
            char found[24];
            if (!yk_chunk_bad(out, how, piece, p, true, e, "expected %s, found '%s'", l.why,
                              yk_chunk_token(found, l.at, end)))
                return YK_DATA;
            continue;
        }
        out->entries = (uint32_t)(l.key - out->key);
        out->label[out->rows] = l.label;
        out->end[out->rows++] = out->entries;
    }
    return YK_OK;
}

/* Is the first line that is not empty a label and a '|'? It is parsed in a copy, as the parser
 * reads a little past the end of a line. */
static bool sniff(const uint8_t *head, size_t n)
{
    char copy[256 + 64] = "";
    while (n > 0 && (*head == '\n' || *head == '\r'))
        head++, n--;
    const uint8_t *newline = memchr(head, '\n', n);
    size_t len = newline == NULL ? n : (size_t)(newline - head);
    const uint8_t *bar = memchr(head, '|', len < 256 ? len : 256);
    if (bar == NULL || memchr(head, '\0', len) != NULL)
        return false;
    len = (size_t)(bar - head);
    memcpy(copy, head, len + 1);
    struct line l = {.p = copy, .end = copy + len + 1};
    return take_label(&l, copy + len);
}

static void write_row(struct yk_buf *out, const struct yk_row *row, const struct yk_reading *how)
{
    char some[64 * (2 + 2 * YK_DECIMAL_MAX)];
    (void)how;
    yk_buf_text(out, row->label ? "1 |" : "-1 |");
    for (uint32_t i = 0; i < row->n;) {
        char *p = some;
        for (int k = 0; k < 64 && i < row->n; k++, i++) {
            *p++ = ' ';
            p += yk_decimal_write_u32(p, row->key[i]);
            if (row->value != NULL && row->value[i] != 1) {
                *p++ = ':';
                p += yk_decimal_write(p, row->value[i]);
            }
        }
        yk_buf_add(out, some, (size_t)(p - some));
    }
    yk_buf_add(out, "\n", 1);
}

const struct yk_rows_format yk_rows_format_vw = {
    .name = "vw",
    .what = "Vowpal Wabbit text (label | feature:value ...)",
    .sniff = sniff,
    .cut = yk_cut_lines,
    .parse = parse,
    .write = write_row,
};
