/* vw_test.c - Vowpal Wabbit's text: its grammar, its keys (with known values of MurmurHash3), its
 * refusals, and rows that are written are read again bit for bit. */
#include "data/rows/vw.c" /* NOLINT(bugprone-suspicious-include) */

#include "tests/chunks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct yk_reading PLAIN = {0};

static struct parsed parse_text(const char *text, const struct yk_reading *how)
{
    return parse_bytes(&yk_rows_format_vw, how, text, strlen(text), '7');
}

static void test_murmur_known_values(void **state)
{
    (void)state;
    assert_int_equal(murmur3("", 0, 0), 0);
    assert_int_equal(murmur3("", 0, 1), 0x514e28b7);
    assert_int_equal(murmur3("", 0, 0xffffffff), 0x81f16f39);
    assert_int_equal(murmur3("\xff\xff\xff\xff", 4, 0), 0x76293b50);
    assert_int_equal(murmur3("\x21\x43\x65\x87", 4, 0), 0xf55b516b);
    assert_int_equal(murmur3("\x21\x43\x65\x87", 4, 0x5082edee), 0x2362f9de);
    assert_int_equal(murmur3("\x21\x43\x65", 3, 0), 0x7e4a8634);
    assert_int_equal(murmur3("\x21\x43", 2, 0), 0xa0f7b07a);
    assert_int_equal(murmur3("\x21", 1, 0), 0x72661cf4);
    assert_int_equal(murmur3("Hello, world!", 13, 1234), 0xfaf6cdb3);
}

static void test_numbers_are_keys(void **state)
{
    (void)state;
    const char *text =
        "1 | 3:0.5 17 4294967000:-2e1\r\n\n-1 |\n0 'tag| 12345678:1 123456789:.25 0:0\n+1 tag| 5";
    struct parsed p = parse_text(text, &PLAIN);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.rows, 4);
    assert_true(chunk_is_sound(&p.c));
    assert_true(
        chunk_has_row(&p.c, 0, 1, 3, (uint32_t[]){3, 17, 4294967000}, (float[]){.5f, 1, -20}));
    assert_true(chunk_has_row(&p.c, 1, 0, 0, (uint32_t[]){0}, (float[]){0}));
    assert_true(
        chunk_has_row(&p.c, 2, 0, 3, (uint32_t[]){12345678, 123456789, 0}, (float[]){1, .25f, 0}));
    assert_true(chunk_has_row(&p.c, 3, 1, 1, (uint32_t[]){5}, (float[]){1}));
    parsed_release(&p);

    struct yk_reading bits = {.hash_bits = 4}; /* then they are folded as in other formats */
    p = parse_text("1 | 3 17 4294967295 99999999999999999999999 |n 17", &bits);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(chunk_row(&p.c, 0).n, 5);
    assert_int_equal(p.c.key[0], yk_key_hash(3, 4));
    assert_int_equal(p.c.key[1], yk_key_hash(17, 4));
    assert_int_equal(p.c.key[2], yk_key_hash(4294967295, 4));
    assert_true(p.c.key[3] < 16);
    assert_int_equal(p.c.key[4],
                     (murmur3("n", 1, 0) + 17) & 15); /* and there as Vowpal Wabbit does */
    parsed_release(&p);
}

static void test_names_and_namespaces(void **state)
{
    (void)state;
    struct parsed p = parse_text("1 1 0 'x|a b c:2 7 |n:0.5 b c:2\t:3 :4 |9 2 x| y\n", &PLAIN);
    uint32_t mask = (1u << 22) - 1, a = murmur3("a", 1, 0), n = murmur3("n", 1, 0);
    assert_int_equal(p.rc, YK_OK);
    const uint32_t key[] = {murmur3("b", 1, a) & mask,
                            murmur3("c", 1, a) & mask,
                            (a + 7) & mask,
                            murmur3("b", 1, n) & mask,
                            murmur3("c", 1, n) & mask,
                            n & mask,
                            (n + 1) & mask,
                            11,
                            murmur3("x", 1, 9) & mask,
                            murmur3("y", 1, 0) & mask};
    const float value[] = {1, 2, 1, .5f, 1, 1.5f, 2, 1, 1, 1};
    assert_true(chunk_has_row(&p.c, 0, 1, 10, key, value));
    assert_int_not_equal(key[0], key[3]);
    parsed_release(&p);
}

static void expect_bad(const char *text, const char *why)
{
    struct parsed p = parse_text(text, &PLAIN);
    if (p.rc != YK_DATA || strstr(p.e.text, why) == NULL)
        fail_msg("'%s' gave %d '%s', not '%s'", text, p.rc, p.e.text, why);
    parsed_release(&p);
    struct yk_reading lenient = {.skip_bad = 1};
    char both[256];
    snprintf(both, sizeof both, "%s\n1 | 4\n", text);
    p = parse_text(both, &lenient);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.bad, 1);
    assert_int_equal(p.c.rows, 1);
    assert_int_equal(p.c.entries, 1);
    assert_int_equal(p.c.key[0], 4);
    parsed_release(&p);
}

static void test_malformed(void **state)
{
    (void)state;
    expect_bad("1 3:4", "'rows.txt' line 11: expected label | feature:value ..., found '1'");
    expect_bad("2 | a", "expected a label of 1, -1 or 0, found '2'");
    expect_bad("x | a", "expected a label, found 'x'");
    expect_bad("| a", "expected a label and a space before '|', found '|'");
    expect_bad("1| a", "expected a label and a space before '|'"); /* touches the bar: a tag */
    expect_bad("1 2.5 | a", "expected an importance of 1 (rows are not weighted), found '2.5'");
    expect_bad("1 1 0.5 | a", "expected a base of 0 (predictions have no offsets), found '0.5'");
    expect_bad("1 1 0 4 | a", "expected '|' after label, importance and base, found '4'");
    expect_bad("1 | a:b", "expected feature or feature:number, found 'a:b'");
    expect_bad("1 | a:", "expected feature or feature:number, found 'a:'");
    expect_bad("1 | a:1:2", "expected feature or feature:number");
    expect_bad("1 | a:nan", "expected feature or feature:number");
    expect_bad("1 |a:1e30 b:1e30", "expected a finite value, found 'b:1e30'");
    expect_bad("1 |a:x b", "expected namespace:scale, found 'a:x'");
    expect_bad("1 | 4294967001",
               "expected a key up to 4294967000 (--hash-bits folds them), found '4294967001'");
    expect_bad("1 | 18446744073709551617", "expected a key up to 4294967000");
}

/* Digits behind the last line, where the reader's memory ends, do not belong to it. */
static void test_no_newline_at_the_end(void **state)
{
    (void)state;
    static const char *const TEXT[] = {"1 | 3:0.5", "1 | 3", "1 | 3:", "1"};
    for (size_t i = 0; i < 4; i++) {
        struct parsed p = parse_text(TEXT[i], &PLAIN);
        assert_int_equal(p.rc, i < 2 ? YK_OK : YK_DATA);
        if (i < 2) {
            assert_int_equal(p.c.key[0], 3);
            assert_true(p.c.value[0] == (i == 0 ? .5f : 1));
        }
        parsed_release(&p);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    enum { N = 300 };
    uint32_t key[N], bits;
    float value[N];
    struct yk_buf text = {0};
    for (uint32_t i = 0; i < N; i++) {
        key[i] = i * 2654435761u % 4294967000u;
        bits = (i * 40503u << 13 ^ i * 2654435761u) & 0xbf7fffff;
        memcpy(&value[i], &bits, sizeof bits);
    }
    value[7] = 0, value[8] = 1;
    struct yk_row row = {.key = key, .value = value, .n = N, .label = 1},
                  ones = {.key = key, .n = 70}, none = {.label = 1};
    yk_rows_format_vw.write(&text, &row, &PLAIN);
    yk_rows_format_vw.write(&text, &ones, &PLAIN);
    yk_rows_format_vw.write(&text, &none, &PLAIN);
    assert_false(text.failed);
    assert_true(sniff((const uint8_t *)text.data, text.len));
    struct parsed p = parse_text(text.data, &PLAIN);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.rows, 3);
    assert_true(chunk_has_row(&p.c, 0, 1, N, key, value));
    for (uint32_t i = 0; i < N; i++)
        value[i] = 1;
    assert_true(chunk_has_row(&p.c, 1, 0, 70, key, value));
    assert_true(chunk_has_row(&p.c, 2, 1, 0, key, value));
    parsed_release(&p);
    yk_buf_clear(&text);
    row =
        (struct yk_row){.key = (uint32_t[]){3, 17}, .value = (float[]){.5f, 1}, .n = 2, .label = 1};
    yk_rows_format_vw.write(&text, &row, &PLAIN);
    assert_string_equal(text.data, "1 | 3:0.5 17\n");
    yk_buf_release(&text);
}

static void test_sniff(void **state)
{
    (void)state;
    static const char *const YES[] = {"1 | a", "\n-1 1 0 'tag| a b\n", "0 |n x:1\n", "1.0 t|"};
    static const char *const NO[] = {"",          "1 3:4\n",    "a | b\n", "| a", "1 3:1 # a|b\n",
                                     "0\t1\t2\n", "1\n1 | a\n", "2 | a\n"};
    for (size_t i = 0; i < sizeof YES / sizeof *YES; i++)
        assert_true(sniff((const uint8_t *)YES[i], strlen(YES[i])));
    for (size_t i = 0; i < sizeof NO / sizeof *NO; i++)
        assert_false(sniff((const uint8_t *)NO[i], strlen(NO[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_murmur_known_values),
        cmocka_unit_test(test_numbers_are_keys),
        cmocka_unit_test(test_names_and_namespaces),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_no_newline_at_the_end),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_sniff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
