/* libsvm.c - text in the form that LIBSVM made common: a row is a line
 *
 *     LABEL [KEY:VALUE]... [# COMMENT]
 *
 * LABEL is +1 or 1, -1 or 0 (also as 1.0 and the like); KEY an integer from 0 to 4294967000; VALUE
 * a finite decimal number, rounded to float32 exactly. They are separated by spaces or tabs, and a
 * line ends in LF or CR LF; the last one may end in nothing. A line with a label alone is a row
 * without entries; a blank line or a comment is no row. Keys may come in any order, and more than
 * once.
 *
 * Nearly all time goes into `read_row`, about 9 bytes an entry: digits are read eight at a time
 * (decimal.h), and the value 1, the most common one, is recognised by its two characters.
 * THREADS: no state.
 * LIMITS: ranking data (qid:) are refused. */
#include "data/rows/decimal.h"
#include "data/rows/rows_format.h"

#include <string.h>

enum { SNIFF_LINES = 32 };

struct malformed {
    const char *at;
    const char *why; /* "expected index:value" */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* May the character follow a number? */
static bool is_end(char c)
{
    return is_blank(c) || c == '\n' || c == '\r' || c == '#';
}

static const char *skip_blanks(const char *p)
{
    while (is_blank(*p))
        p++;
    return p;
}

/* Is p at the end of a row's entries, with nothing but a comment behind? */
static bool at_end(const char *p)
{
    return *p == '\n' || *p == '#' || (p[0] == '\r' && p[1] == '\n');
}

/* Reads a key of more than eight digits. NULL: too many digits, or too large. */
static const char *long_key(const char *p, uint32_t *key)
{
    uint64_t k = 0;
    const char *start = p;
    while (*p == '0')
        p++;
    for (const char *digits = p; yk_is_digit(*p); p++) {
        if (p - digits == 10)
            return NULL;
        k = k * 10 + (uint64_t)(*p - '0');
    }
    *key = (uint32_t)k;
    return k <= YK_KEY_MAX && p > start ? p : NULL;
}

static const char *read_label(const char *p, uint8_t *label)
{
    float v;
    p = yk_decimal_read(p, &v);
    if (p == NULL || !is_end(*p) || (v != 1 && v != 0 && v != -1))
        return NULL;
    *label = v == 1;
    return p;
}

/* Reads the entries of one row, from behind its label to the newline. The chunk has room for all of
 * them. Returns where the rest of the line begins, or NULL and *bad. */
static const char *read_row(const char *p, struct yk_chunk *c, struct malformed *bad)
{
    uint32_t n = c->entries;
    uint32_t *key = c->key;
    float *value = c->value;
    p += *p == ' ';
    for (;; n++) {
        unsigned digits = yk_digits8(p, &key[n]);
        const char *q = p + digits;
        if (*q != ':' || digits == 0) {
            p = skip_blanks(p);
            if (at_end(p))
                break;
            *bad = (struct malformed){.at = p, .why = "expected index:value"};
            q = long_key(p, &key[n]);
            if (strncmp(p, "qid:", 4) == 0) {
                bad->why = "expected index:value (ranking data with qid: are not supported)";
                return NULL;
            }
            if (q == NULL && yk_is_digit(*p))
                bad->why = "expected an index up to 4294967000";
            if (q == NULL || *q != ':')
                return NULL;
        }
        q++;
        /* The processor predicts where the next entry begins, and need not wait for the digits. */
        if (q[0] == '1' && q[1] == ' ') {
            value[n] = 1;
            p = q + 2;
            continue;
        }
        const char *after = yk_decimal_read(q, &value[n]);
        if (after == NULL || !is_end(*after)) {
            *bad = (struct malformed){.at = p,
                                      .why = "expected index:value with a finite number as value"};
            return NULL;
        }
        p = *after == ' ' ? after + 1 : after;
    }
    c->entries = n;
    return p;
}

/* Parses the lines in [p, end); the byte before `end` is a newline. */
static yk_code parse_lines(const struct yk_reading *how, const struct yk_piece *piece,
                           const char *p, const char *end, struct yk_chunk *c, struct yk_error *e)
{
    while (p < end) {
        struct malformed bad = {0};
        p = skip_blanks(p);
        if (!at_end(p)) {
            const char *q = read_label(p, &c->label[c->rows]);
            if (q == NULL)
                bad = (struct malformed){.at = p, .why = "expected a label of -1, 0 or 1"};
            else
                q = read_row(q, c, &bad);
            if (q == NULL) {
                char token[24];
                if (!yk_chunk_bad(c, how, piece, bad.at, true, e, "%s, found '%s'", bad.why,
                                  yk_chunk_token(token, bad.at, end)))
                    return YK_DATA;
                q = bad.at;
            } else {
                c->end[c->rows++] = c->entries;
            }
            p = q;
        }
        p = *p == '\n' ? p : memchr(p, '\n', (size_t)(end - p));
        p++;
    }
    return YK_OK;
}

/* Parses the last line of a file, which lacks its newline, from a copy that has one. */
static yk_code parse_tail(const struct yk_reading *how, const struct yk_piece *piece,
                          const char *tail, struct yk_chunk *c, struct yk_error *e)
{
    size_t n = (size_t)(piece->bytes + piece->n - tail);
    struct yk_buf line = {0};
    static const char behind[64] = "\n";
    yk_buf_add(&line, tail, n);
    yk_buf_add(&line, behind, sizeof behind);
    struct yk_piece copy = {.bytes = line.data,
                            .n = n + 1,
                            .path = piece->path,
                            .offset = piece->offset + (uint64_t)(tail - piece->bytes)};
    copy.line = piece->line;
    for (const char *p = piece->bytes; (p = memchr(p, '\n', (size_t)(tail - p))) != NULL; p++)
        copy.line++;
    yk_code rc = line.failed ? yk_fail_memory(e, n)
                             : parse_lines(how, &copy, line.data, line.data + n + 1, c, e);
    yk_buf_release(&line);
    return rc;
}

static yk_code parse(const struct yk_reading *how, const struct yk_piece *piece,
                     struct yk_chunk *out, struct yk_error *e)
{
    /* "1\n" is a row and " 1:1" an entry, and one more may be begun in vain */
    if (!yk_chunk_room(out, piece->n / 2 + 2, piece->n / 4 + 2))
        return yk_fail_memory(e, piece->n * 4);
    const char *end = piece->n == 0 ? NULL : memrchr(piece->bytes, '\n', piece->n);
    const char *tail = end == NULL ? piece->bytes : end + 1;
    uint32_t first = out->entries;
    yk_code rc = parse_lines(how, piece, piece->bytes, tail, out, e);
    if (rc == YK_OK && tail < piece->bytes + piece->n)
        rc = parse_tail(how, piece, tail, out, e);
    yk_chunk_hash(out, first, how->hash_bits);
    return rc;
}

/* Rates a line: 0: not a row, 1: no entries, 2: a row with entries. The line is a copy with a
 * newline and room behind it. */
static int rate_line(const char *p)
{
    uint8_t label;
    p = skip_blanks(p);
    if (at_end(p))
        return 1;
    p = read_label(p, &label);
    if (p == NULL)
        return 0;
    p = skip_blanks(p);
    if (at_end(p))
        return 1;
    if (strncmp(p, "qid:", 4) == 0)
        return 2;
    uint32_t key;
    float value;
    p = long_key(p, &key);
    if (p == NULL || *p != ':')
        return 0;
    p = yk_decimal_read(p + 1, &value);
    return p != NULL && is_end(*p) ? 2 : 0;
}

/* One line with a right label and first entry is enough: the parser then reports what is wrong with
 * the others. Without such a line, all lines must be labels alone. */
static bool sniff(const uint8_t *head, size_t n)
{
    char copy[4096 + 65] = {0};
    n = n < 4096 ? n : 4096;
    memcpy(copy, head, n);
    copy[n] = '\n';
    const char *p = copy, *end = copy + n;
    if (n == 4096) { /* the last line is incomplete */
        end = memrchr(copy, '\n', n);
        end = end == NULL ? copy + n : end;
    }
    int labels = 0;
    bool only_labels = true;
    for (int i = 0; i < SNIFF_LINES && p < end; i++) {
        int rating = rate_line(p);
        if (rating == 2)
            return true;
        only_labels &= rating == 1;
        labels += rating == 1 && !at_end(skip_blanks(p));
        p = (const char *)memchr(p, '\n', (size_t)(copy + n + 1 - p)) + 1;
    }
    return only_labels && labels > 0;
}

/* Writes labels as -1 and 1, which every program takes that reads this format. */
static void write_row(struct yk_buf *out, const struct yk_row *row, const struct yk_reading *how)
{
    (void)how;
    char text[2048];
    size_t n = 0;
    text[n++] = row->label ? '1' : '-';
    if (!row->label)
        text[n++] = '1';
    for (uint32_t i = 0; i < row->n; i++) {
        if (n > sizeof text - 2 - 2 * YK_DECIMAL_MAX - 1) {
            yk_buf_add(out, text, n);
            n = 0;
        }
        text[n++] = ' ';
        n += yk_decimal_write_u32(text + n, row->key[i]);
        text[n++] = ':';
        n += yk_decimal_write(text + n, row->value == NULL ? 1 : row->value[i]);
    }
    text[n++] = '\n';
    yk_buf_add(out, text, n);
}

const struct yk_rows_format yk_rows_format_libsvm = {.name = "libsvm",
                                                     .what = "libsvm text (label index:value ...)",
                                                     .sniff = sniff,
                                                     .cut = yk_cut_lines,
                                                     .parse = parse,
                                                     .write = write_row};
