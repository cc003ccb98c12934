/* rows.h - the common code of the fuzz targets of all formats of sparse rows. */
#ifndef YK_TESTS_FUZZ_ROWS_H
#define YK_TESTS_FUZZ_ROWS_H

#include "tests/chunks.h"

static void must(bool promise)
{
    if (!promise)
        abort();
}

static void must_be_equal(const struct yk_chunk *a, const struct yk_chunk *b)
{
    must(a->rows == b->rows && a->entries == b->entries);
    must(a->rows == 0 || (memcmp(a->label, b->label, a->rows) == 0 &&
                          memcmp(a->end, b->end, a->rows * sizeof *a->end) == 0));
    must(a->entries == 0 || (memcmp(a->key, b->key, a->entries * sizeof *a->key) == 0 &&
                             memcmp(a->value, b->value, a->entries * sizeof *a->value) == 0));
}

/* Rows that are written are read as the same rows. */
static void write_and_read(const struct yk_rows_format *f, const struct yk_chunk *c)
{
    static const struct yk_reading PLAIN = {0};
    struct yk_buf out = {0};
    for (uint32_t r = 0; r < c->rows; r++) {
        struct yk_row row = chunk_row(c, r);
        f->write(&out, &row, &PLAIN);
    }
    if (!out.failed && out.len > 0) {
        struct parsed p = parse_bytes(f, &PLAIN, out.data, out.len, '0');
        must(p.rc == YK_OK && p.c.bad == 0);
        must_be_equal(&p.c, c);
        parsed_release(&p);
    }
    yk_buf_release(&out);
}

/* It makes no difference where lines are cut into pieces. */
static void parse_in_pieces(const struct yk_rows_format *f, const struct yk_reading *how,
                            const uint8_t *bytes, size_t n, const struct yk_chunk *whole)
{
    struct yk_chunk all = {0};
    for (size_t at = 0; at < n;) {
        size_t half = at + (n - at) / 2 + 1,
               k = f->cut((const char *)bytes + at, half - at, half == n);
        k = k > 0 ? k : n - at;
        struct parsed p = parse_bytes(f, how, bytes + at, k, '9');
        must(p.rc == YK_OK && yk_chunk_room(&all, p.c.rows, p.c.entries));
        for (uint32_t r = 0; r < p.c.rows; r++) {
            all.label[all.rows] = p.c.label[r];
            all.end[all.rows++] = all.entries + p.c.end[r];
        }
        for (uint32_t i = 0; i < p.c.entries; i++) {
            all.key[all.entries] = p.c.key[i];
            all.value[all.entries++] = p.c.value[i];
        }
        all.bad += p.c.bad;
        parsed_release(&p);
        at += k;
    }
    must_be_equal(&all, whole);
    must(all.bad == whole->bad);
    yk_chunk_release(&all);
}

/* `exact`: the format preserves keys. */
static int fuzz_rows(const struct yk_rows_format *f, const uint8_t *bytes, size_t n, bool exact)
{
    static const struct yk_reading HOW[] = {
        {0}, {.skip_bad = 3}, {.skip_bad = UINT64_MAX, .hash_bits = 7}};
    f->sniff(bytes, n < 4096 ? n : 4096);
    must(f->cut((const char *)bytes, n, true) == n);
    must(f->cut((const char *)bytes, n, false) <= n);
    for (size_t i = 0; i < sizeof HOW / sizeof *HOW; i++) {
        struct parsed p = parse_bytes(f, &HOW[i], bytes, n, i == 1 ? '9' : 0);
        must(p.c.bad <= HOW[i].skip_bad && chunk_is_sound(&p.c));
        must(p.rc == YK_OK || (p.rc == YK_DATA && p.e.code == YK_DATA && p.e.text[0] != '\0'));
        must(p.rc == YK_OK || i < 2);
        for (uint32_t k = 0; k < p.c.entries; k++)
            must(HOW[i].hash_bits == 0 || p.c.key[k] >> HOW[i].hash_bits == 0);
        if (exact && p.rc == YK_OK && HOW[i].hash_bits == 0)
            write_and_read(f, &p.c);
        if (i == 2 && f->cut == yk_cut_lines)
            parse_in_pieces(f, &HOW[i], bytes, n, &p.c);
        parsed_release(&p);
    }
    return 0;
}

#endif
