/* criteo.c - Criteo's click logs: tab-separated text of 40 columns.
 *
 *     label \t I1 \t ... \t I13 \t C1 \t ... \t C26 \n
 *
 * The label is 0 or 1, I an integer, C a hexadecimal number; an empty column is missing. A key is
 * the hash of (column, content) to `hash_bits` bits, 22 by default.
 *
 *     category        key of (column, number), value 1
 *     integer > 0     an amount: one key for the column, value log1p(v), which dampens large ones
 *     integer <= 0    a code, not an amount: key of (column, number), value 1
 *     missing         no entry, so that it differs from 0
 *
 * Two columns with the same content have different keys. Two keys may collide, and the row then has
 * the key twice.
 *
 * A row can be written if it looks like these (yk_criteo_fits): values become amounts again, and
 * keys of categories become their numbers. Such a row reads back with the same label and values,
 * but with hashed keys: unlike the other formats, this one does not preserve keys.
 * THREADS: see rows_format.h.
 * LIMITS: categories of up to 16 digits, integers of up to 18. */
#include "data/rows/rows_format.h"

#include "data/rows/decimal.h"

#include <math.h>
#include <string.h>

enum {
    INTEGERS = 13,
    CATEGORIES = 26,
    COLUMNS = 1 + INTEGERS + CATEGORIES,
    USUAL_BITS = 22,
    AMOUNTS = 512,
    LONGEST_LINE = 2048
};

/* Tables that a parser computes once a piece. */
struct tables {
    uint64_t salt[COLUMNS];
    uint32_t amount_key[1 + INTEGERS];
    float amount[AMOUNTS]; /* log1p(i) */
    unsigned hash_bits;
};

static uint32_t key_of(const struct tables *t, unsigned column, uint64_t content)
{
    return yk_key_hash(t->salt[column] ^ content, t->hash_bits);
}

static void make_tables(struct tables *t, const struct yk_reading *how)
{
    t->hash_bits = how->hash_bits == 0 ? USUAL_BITS : how->hash_bits;
    for (unsigned i = 0; i < COLUMNS; i++)
        t->salt[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15); /* far apart: no two columns meet */
    for (unsigned i = 1; i <= INTEGERS; i++)
        t->amount_key[i] = key_of(t, i, UINT64_C(1) << 63); /* no integer of 18 digits */
    for (int i = 0; i < AMOUNTS; i++)
        t->amount[i] = (float)log1p(i);
}

/* Reads eight hexadecimal digits at once. */
static bool hex8(const char *p, uint64_t *v)
{
    static const uint64_t ONES = UINT64_C(0x0101010101010101), TOPS = ONES * 0x80;
    uint64_t x = yk_load8(p), low = x | ONES * 0x20; /* upper case becomes lower */
    uint64_t from_0 = x + ONES * 0x50, past_9 = low + ONES * 0x46, from_a = low + ONES * 0x1f,
             past_f = low + ONES * 0x19;
    if ((x & TOPS) != 0 || (from_0 & ~past_f & (~past_9 | from_a) & TOPS) != TOPS)
        return false;
    x = (low & ONES * 0x0f) + (from_a >> 7 & ONES) * 9;
    /* The first digit is the lowest byte and the highest digit. */
    x = (x << 4 | x >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x << 8 | x >> 16) & UINT64_C(0x0000ffff0000ffff);
    *v = (x << 16 | x >> 32) & UINT32_MAX;
    return true;
}

static int hex_digit(char c)
{
    int low = c | 0x20;
    return yk_is_digit(c) ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* Reads up to 16 digits; returns what follows them. */
static const char *take_hex(const char *p, const char *end, uint64_t *v)
{
    int digits = 0;
    *v = 0;
    for (int d; p < end && digits < 16 && (d = hex_digit(*p)) >= 0; p++, digits++)
        *v = *v << 4 | (uint64_t)d;
    return p;
}

/* Reads a number such as "-12"; returns p if there is none. */
static const char *take_integer(const char *p, const char *end, int64_t *v)
{
    bool negative = p < end && *p == '-';
    const char *digits = p + negative, *q = digits;
    int64_t m = 0;
    for (; q < end && q - digits < 18 && yk_is_digit(*q); q++)
        m = m * 10 + (*q - '0');
    *v = negative ? -m : m;
    return q == digits ? p : q;
}

static uint32_t *put_integer(const struct tables *t, unsigned column, int64_t v, uint32_t *key,
                             float **value)
{
    *key++ = v > 0 ? t->amount_key[column] : key_of(t, column, (uint64_t)v);
    *(*value)++ = v <= 0 ? 1.0f : v < AMOUNTS ? t->amount[v] : (float)log1p((double)v);
    return key;
}

static const char *column_name(unsigned column)
{
    return column == 0          ? "a label 0 or 1"
           : column <= INTEGERS ? "an integer or nothing"
                                : "a hexadecimal category or nothing";
}

/* Reads one line, [p, end), into `key` and `value`, at most 39 entries. Returns the number of the
 * malformed column (*at is its start), COLUMNS if there is none, and COLUMNS + 1 if more follow. */
static unsigned take_line(const struct tables *t, const char **at, const char *end, uint32_t **keys,
                          float *value)
{
    uint32_t *key = *keys;
    const char *p = *at + 1;
    if ((**at != '0' && **at != '1') || p >= end || *p != '\t')
        return 0;
    for (unsigned column = 1; column < COLUMNS; column++) {
        const char *start = *at = ++p; /* behind the tab */
        uint64_t number;
        int64_t integer;
        if (column <= INTEGERS) {
            p = take_integer(p, end, &integer);
            if (p > start)
                key = put_integer(t, column, integer, key, &value);
        } else {
            if (end - p >= 8 && hex8(p, &number) && (p + 8 == end || p[8] == '\t'))
                p += 8;
            else
                p = take_hex(p, end, &number);
            if (p > start) {
                *key++ = key_of(t, column, number);
                *value++ = 1;
            }
        }
        if (column < COLUMNS - 1 && (p == end || *p != '\t'))
            return column;
    }
    *keys = key;
    *at = p;
    return p == end ? COLUMNS : COLUMNS + 1;
}

static unsigned columns_of(const char *p, const char *end)
{
    unsigned n = 1;
    for (; p < end; p++)
        n += *p == '\t';
    return n;
}

static bool bad_line(unsigned column, const char *line, const char *at, const char *end,
                     const struct yk_reading *how, const struct yk_piece *piece,
                     struct yk_chunk *out, struct yk_error *e)
{
    char found[24];
    unsigned columns = columns_of(line, end);
    if (columns != COLUMNS)
        return yk_chunk_bad(out, how, piece, line, true, e,
                            "expected %d columns (label, 13 integers, 26 categories), found %u",
                            COLUMNS, columns);
    return yk_chunk_bad(out, how, piece, line, true, e, "expected %s in column %u, found '%s'",
                        column_name(column < COLUMNS ? column : COLUMNS - 1),
                        column < COLUMNS ? column + 1 : COLUMNS, yk_chunk_token(found, at, end));
}

static yk_code parse(const struct yk_reading *how, const struct yk_piece *piece,
                     struct yk_chunk *out, struct yk_error *e)
{
    struct tables t;
    const char *p = piece->bytes, *stop = p + piece->n, *next;
    make_tables(&t, how);
    for (; p < stop; p = next) {
        const char *end = memchr(p, '\n', (size_t)(stop - p)), *at = p;
        next = end == NULL ? stop : end + 1;
        end = end == NULL ? stop : end;
        end -= end > p && end[-1] == '\r';
        if (end == p)
            continue;
        if (!yk_chunk_room(out, 1, COLUMNS))
            return yk_fail_memory(e, sizeof(float) * COLUMNS);
        uint32_t *start = out->key + out->entries, *key = start;
        unsigned wrong = take_line(&t, &at, end, &key, out->value + out->entries);
        if (wrong != COLUMNS) {
            if (!bad_line(wrong, p, at, end, how, piece, out, e))
                return YK_DATA;
            continue;
        }
        out->entries += (uint32_t)(key - start);
        out->label[out->rows] = *p == '1';
        out->end[out->rows++] = out->entries;
    }
    return YK_OK;
}

/* Is the first line that is not empty a row? It is parsed in a copy, as the parser reads a little
 * past the end of a line. */
static bool sniff(const uint8_t *head, size_t n)
{
    static const struct yk_reading HOW = {0};
    char line[LONGEST_LINE + 64] = "";
    struct tables t;
    uint32_t key[COLUMNS], *keys = key;
    float value[COLUMNS];
    const char *at = line;
    while (n > 0 && (*head == '\n' || *head == '\r'))
        head++, n--;
    const uint8_t *newline = memchr(head, '\n', n);
    size_t len = newline == NULL ? n : (size_t)(newline - head);
    if (len == 0 || len > LONGEST_LINE)
        return false;
    memcpy(line, head, len);
    len -= line[len - 1] == '\r';
    make_tables(&t, &HOW);
    return take_line(&t, &at, line + len, &keys, value) == COLUMNS;
}

/* --- writing --- */

/* The integer whose log1p is v, 0 if there is none. */
static int64_t integer_of(float v)
{
    double n = v > 0 && v < 40 ? rint(expm1((double)v)) : 0;
    return n > 0 && (float)log1p(n) == v ? (int64_t)n : 0;
}

bool yk_criteo_fits(const struct yk_row *row)
{
    if (row->n != INTEGERS + CATEGORIES || row->value == NULL)
        return false;
    for (int i = 0; i < INTEGERS; i++)
        if (integer_of(row->value[i]) == 0)
            return false;
    for (int i = INTEGERS; i < INTEGERS + CATEGORIES; i++)
        if (row->value[i] != 1)
            return false;
    return true;
}

static char *put_decimal(char *p, uint64_t v)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    while (n > 0)
        *p++ = digits[--n];
    return p;
}

static void write_row(struct yk_buf *out, const struct yk_row *row, const struct yk_reading *how)
{
    char line[1 + INTEGERS * 21 + CATEGORIES * 9 + 1], *p = line;
    (void)how;
    *p++ = (char)('0' + row->label);
    for (uint32_t i = 0; i < INTEGERS + CATEGORIES; i++) {
        *p++ = '\t';
        if (i < INTEGERS && i < row->n && row->value != NULL)
            p = put_decimal(p, (uint64_t)integer_of(row->value[i]));
        else if (i >= INTEGERS && i < row->n)
            for (int shift = 28; shift >= 0; shift -= 4)
                *p++ = "0123456789abcdef"[row->key[i] >> shift & 15];
    }
    *p++ = '\n';
    yk_buf_add(out, line, (size_t)(p - line));
}

const struct yk_rows_format yk_rows_format_criteo = {
    .name = "criteo",
    .what = "Criteo text (label, 13 integers, 26 categories, tabs)",
    .sniff = sniff,
    .cut = yk_cut_lines,
    .parse = parse,
    .write = write_row,
};
