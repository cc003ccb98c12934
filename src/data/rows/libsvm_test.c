/* libsvm_test.c - lines of libsvm text as rows, the messages about malformed ones, and rows as text
 * again. */
#include "data/rows/rows_format.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct yk_rows_format *const f = &yk_rows_format_libsvm;

/* The text in memory of its own, so that a sanitizer sees reads beyond the 64 bytes behind it,
 * which are digits to mislead the parser. */
static yk_code parse(const char *text, size_t n, const struct yk_reading *how, struct yk_chunk *c,
                     struct yk_error *e)
{
    static const struct yk_reading plain;
    char *bytes = malloc(n + 64);
    assert_non_null(bytes);
    memcpy(bytes, text, n);
    memset(bytes + n, '7', 64);
    struct yk_piece p = {.bytes = bytes, .n = n, .path = "t.libsvm", .line = 100};
    *c = (struct yk_chunk){0};
    yk_code rc = f->parse(how ? how : &plain, &p, c, e);
    free(bytes);
    return rc;
}

/* A row as "label key:value ...", bit for bit. */
static void expect_row(const struct yk_chunk *c, uint32_t r, const char *want)
{
    char got[512];
    uint32_t from = r == 0 ? 0 : c->end[r - 1];
    int n = snprintf(got, sizeof got, "%u", c->label[r]);
    for (uint32_t i = from; i < c->end[r]; i++)
        n += snprintf(got + n, sizeof got - (size_t)n, " %u:%.9g", c->key[i], (double)c->value[i]);
    assert_string_equal(got, want);
}

static void reads_what_people_write(void **state)
{
    (void)state;
    static const char text[] = "+1 1:1 7:0.5 12:-3e2\n"
                               "-1 0:1\t3:2.25   9:1 \r\n"
                               "\n"
                               "   \t\n"
                               "# a comment\n"
                               "0\n"
                               "1.0\r\n"
                               "  1 5:1 # 6:1 is not there\n"
                               "-1.0 4294967000:.5 00000000012:1 3:1 3:1\n"
                               "0 123456789:1.00000001 12345678:1#\n"
                               "\r\n"
                               "1e0 8:0";
    static const char *const rows[] = {
        "1 1:1 7:0.5 12:-300",           "0 0:1 3:2.25 9:1",         "0",    "1", "1 5:1",
        "0 4294967000:0.5 12:1 3:1 3:1", "0 123456789:1 12345678:1", "1 8:0"};
    struct yk_chunk c;
    struct yk_error e;
    assert_int_equal(parse(text, sizeof text - 1, NULL, &c, &e), YK_OK);
    assert_int_equal(c.rows, sizeof rows / sizeof *rows);
    for (uint32_t r = 0; r < c.rows; r++)
        expect_row(&c, r, rows[r]);
    assert_int_equal(c.bad, 0);
    yk_chunk_release(&c);
}

static void every_prefix_is_read_or_refused(void **state)
{
    (void)state;
    static const char text[] = "1 12345678:1 123456789:0.125\n-1 1:1 2:-1e-5\r\n# c\n0 7:1";
    for (size_t n = 0; n <= sizeof text - 1; n++) {
        struct yk_chunk c;
        struct yk_error e = {0};
        yk_code rc = parse(text, n, NULL, &c, &e);
        assert_true(rc == YK_OK || (rc == YK_DATA && strstr(e.text, "expected") != NULL));
        assert_in_range(c.rows, 0, 3);
        yk_chunk_release(&c);
    }
}

static void says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"1 1:1\n1 2:1\n1 x3\n1 4:1\n", "'t.libsvm' line 103: expected index:value, found 'x3'"},
        {"2 1:1\n", "'t.libsvm' line 101: expected a label of -1, 0 or 1, found '2'"},
        {"\n\nyes 1:1", "'t.libsvm' line 103: expected a label of -1, 0 or 1, found 'yes'"},
        {"1 2:1\n1 3:",
         "'t.libsvm' line 102: expected index:value with a finite number as value, found '3:'"},
        {"1 3:nan",
         "'t.libsvm' line 101: expected index:value with a finite number as value, found '3:nan'"},
        {"1 3:-inf\n",
         "'t.libsvm' line 101: expected index:value with a finite number as value, found '3:-inf'"},
        {"1 3:1e99\n",
         "'t.libsvm' line 101: expected index:value with a finite number as value, found '3:1e99'"},
        {"1 3:1x\n",
         "'t.libsvm' line 101: expected index:value with a finite number as value, found '3:1x'"},
        {"1 3:0x1\n",
         "'t.libsvm' line 101: expected index:value with a finite number as value, found '3:0x1'"},
        {"1 3 4:1\n", "'t.libsvm' line 101: expected index:value, found '3'"},
        {"1 -3:1\n", "'t.libsvm' line 101: expected index:value, found '-3:1'"},
        {"1 4294967001:1\n",
         "'t.libsvm' line 101: expected an index up to 4294967000, found '4294967001:1'"},
        {"1 99999999999999999999999:1\n", "'t.libsvm' line 101: expected an index up to "
                                          "4294967000, found '99999999999999999999...'"},
        {"1 qid:3 1:1\n", "'t.libsvm' line 101: expected index:value (ranking data with qid: are "
                          "not supported), found 'qid:3'"},
        {"1 3:1\r4:1\n", "'t.libsvm' line 101: expected index:value, found ''"},
        {"\x01\xff\n", "'t.libsvm' line 101: expected a label of -1, 0 or 1, found '?"
                       "?'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct yk_chunk c;
        struct yk_error e = {0};
        assert_int_equal(parse(cases[i].text, strlen(cases[i].text), NULL, &c, &e), YK_DATA);
        assert_string_equal(e.text, cases[i].said);
        assert_non_null(strstr(e.hint, "--skip-bad"));
        yk_chunk_release(&c);
    }
    struct yk_chunk c;
    struct yk_error e = {0};
    assert_int_equal(parse("1 1:\0001\n", 8, NULL, &c, &e), YK_DATA);
    assert_non_null(strstr(e.text, "found '1:?1'"));
    yk_chunk_release(&c);
}

static void skips_as_many_as_it_may(void **state)
{
    (void)state;
    static const char text[] = "1 1:1\n1 2:1 x\n0 3:1 4:1\nx\n1 5:1 6:y";
    struct yk_chunk c;
    struct yk_error e = {0};
    struct yk_reading how = {.skip_bad = 3};
    assert_int_equal(parse(text, sizeof text - 1, &how, &c, &e), YK_OK);
    assert_int_equal(c.rows, 2);
    assert_int_equal(c.bad, 3);
    expect_row(&c, 0, "1 1:1");
    expect_row(&c, 1, "0 3:1 4:1");
    assert_non_null(strstr(c.worst.text, "line 105"));
    yk_chunk_release(&c);
    how.skip_bad = 2;
    assert_int_equal(parse(text, sizeof text - 1, &how, &c, &e), YK_DATA);
    assert_non_null(strstr(e.text, "line 105"));
    yk_chunk_release(&c);
}

static void hashes_keys_if_asked(void **state)
{
    (void)state;
    char text[20000];
    int n = sprintf(text, "1");
    for (int i = 0; i < 1000; i++)
        n += sprintf(text + n, " %d:1", i);
    struct yk_chunk c;
    struct yk_error e = {0};
    struct yk_reading how = {.hash_bits = 16};
    unsigned used[16] = {0};
    assert_int_equal(parse(text, (size_t)n, &how, &c, &e), YK_OK);
    assert_int_equal(c.entries, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_in_range(c.key[i], 0, 65535);
        assert_int_equal(c.key[i], yk_key_hash(i, 16));
        used[c.key[i] >> 12]++;
    }
    for (int i = 0; i < 16; i++) /* spread: 62.5 expected, 8 the deviation */
        assert_in_range(used[i], 25, 100);
    yk_chunk_release(&c);
}

static void sniffs(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "1 1:1\n",       "+1 3:0.5 4:1",     "# c\n\n-1 2:1\n",      "1\n0\n",
        "1 qid:1 2:3\n", "garbage\n1 2:1\n", "0 4294967000:1e-5\r\n"};
    static const char *const no[] = {"",           "\n\n",        "# only a comment\n",
                                     "1 |f a b\n", "0\t1\t\t5\n", "1 a:1\n",
                                     "2 1:1\n",    "PNG\x1a",     "1,2,3\n",
                                     "1\nx\n"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!f->sniff((const uint8_t *)yes[i], strlen(yes[i])))
            fail_msg("'%s' is libsvm", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (f->sniff((const uint8_t *)no[i], strlen(no[i])))
            fail_msg("'%s' is not libsvm", no[i]);
    uint8_t head[4096];
    for (size_t i = 0; i < sizeof head; i++) /* one line that never ends, cut within an entry */
        head[i] = (uint8_t)(i == 0 ? '1' : " 7:0.25"[(i - 1) % 7]);
    assert_true(f->sniff(head, sizeof head));
    memset(head, 0, sizeof head);
    assert_false(f->sniff(head, sizeof head));
}

static void cuts_at_lines(void **state)
{
    (void)state;
    assert_int_equal(f->cut("1 2:3\n1 2", 9, false), 6);
    assert_int_equal(f->cut("1 2:3\n1 2", 9, true), 9);
    assert_int_equal(f->cut("1 2:3", 5, false), 0);
}

/* Rows of random shape become text and rows again, bit for bit. */
static void round_trip(void **state)
{
    (void)state;
    struct yk_rng rng;
    yk_rng_init(&rng, 11, 0, 0, 0);
    enum { ROWS = 2000, MOST = 400 };
    uint32_t *key = calloc(ROWS, MOST * sizeof *key), n[ROWS];
    float *value = calloc(ROWS, MOST * sizeof *value);
    uint8_t label[ROWS];
    struct yk_buf text = {0};
    assert_true(key != NULL && value != NULL);
    for (int r = 0; r < ROWS; r++) {
        n[r] = r % 50 == 0 ? yk_rng_below(&rng, MOST) : yk_rng_below(&rng, 40);
        label[r] = (uint8_t)yk_rng_below(&rng, 2);
        for (uint32_t i = 0; i < n[r]; i++) {
            uint32_t bits;
            float *v = &value[r * MOST + i];
            key[r * MOST + i] =
                (uint32_t)(yk_rng_next(&rng) >> (32 + yk_rng_below(&rng, 32))) % YK_KEY_MAX;
            do {
                bits = (uint32_t)yk_rng_next(&rng);
                memcpy(v, &bits, sizeof bits);
            } while (*v - *v != 0);
            if (yk_rng_below(&rng, 2) == 0)
                *v = 1;
        }
        struct yk_row row = {
            .key = key + r * MOST, .value = value + r * MOST, .n = n[r], .label = label[r]};
        f->write(&text, &row, NULL);
    }
    struct yk_chunk c;
    struct yk_error e = {0};
    assert_false(text.failed);
    assert_int_equal(parse(text.data, text.len, NULL, &c, &e), YK_OK);
    assert_int_equal(c.rows, ROWS);
    for (uint32_t r = 0, from = 0; r < ROWS; from = c.end[r++]) {
        assert_int_equal(c.label[r], label[r]);
        assert_int_equal(c.end[r] - from, n[r]);
        if (n[r] > 0) {
            assert_memory_equal(c.key + from, key + r * MOST, n[r] * sizeof *key);
            assert_memory_equal(c.value + from, value + r * MOST, n[r] * sizeof *value);
        }
    }
    yk_chunk_release(&c);
    yk_buf_release(&text);
    free(key);
    free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_people_write),
        cmocka_unit_test(every_prefix_is_read_or_refused),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(skips_as_many_as_it_may),
        cmocka_unit_test(hashes_keys_if_asked),
        cmocka_unit_test(sniffs),
        cmocka_unit_test(cuts_at_lines),
        cmocka_unit_test(round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
