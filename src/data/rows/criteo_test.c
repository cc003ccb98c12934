/* criteo_test.c - Criteo's text: the entries of each column, keys that depend on column and content
 * alone, and the message for every mistake. */
#include "data/rows/criteo.c" /* NOLINT(bugprone-suspicious-include) */

#include "tests/chunks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct yk_reading PLAIN = {0};
static const char FULL[] =
    "1\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t600\t0\t-2\t"
    "68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t25c83c98\t7e0ccccf\tde7995b8\t1f89b562\ta73ee510\t"
    "a8cd5504\tb2cb9c98\t37c9c164\t2824a5f6\t1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9\t"
    "21ddcdc9\tb1252a9d\t07b5194c\t3a171ecb\tc5c50484\te8b83407\t9727dd16\t68fd1e64";
static const char EMPTY[] =
    "0\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t";

static struct parsed parse_text(const char *text, const struct yk_reading *how)
{
    return parse_bytes(&yk_rows_format_criteo, how, text, strlen(text), 'a');
}

static void test_columns(void **state)
{
    (void)state;
    char text[2048];
    struct tables t;
    make_tables(&t, &PLAIN);
    snprintf(text, sizeof text, "%s\r\n\n%s\n%s", FULL, EMPTY, FULL);
    struct parsed p = parse_text(text, &PLAIN);
    assert_int_equal(p.rc, YK_OK);
    assert_true(chunk_is_sound(&p.c));
    assert_int_equal(p.c.rows, 3);
    struct yk_row a = chunk_row(&p.c, 0), none = chunk_row(&p.c, 1), b = chunk_row(&p.c, 2);
    assert_int_equal(a.n, 39);
    assert_int_equal(a.label, 1);
    assert_int_equal(none.n, 0);
    assert_int_equal(none.label, 0);
    assert_int_equal(b.n, 39);
    assert_memory_equal(a.key, b.key, 39 * sizeof *a.key);
    assert_memory_equal(a.value, b.value, 39 * sizeof *a.value);
    for (uint32_t i = 0; i < 11; i++) {
        assert_int_equal(a.key[i], t.amount_key[i + 1]);
        assert_true(a.value[i] == (float)log1p(i == 10 ? 600 : i + 1));
    }
    assert_true(a.value[11] == 1 && a.value[12] == 1); /* 0 and -2 are codes */
    assert_int_equal(a.key[11], key_of(&t, 12, 0));
    assert_int_equal(a.key[12], key_of(&t, 13, (uint64_t)-2));
    assert_int_not_equal(a.key[11], t.amount_key[12]);
    for (uint32_t i = 13; i < 39; i++)
        assert_true(a.value[i] == 1);
    assert_int_equal(a.key[13], key_of(&t, 14, 0x68fd1e64));
    assert_int_equal(a.key[38], key_of(&t, 39, 0x68fd1e64));
    assert_int_not_equal(a.key[13], a.key[38]); /* one content, two columns */
    for (uint32_t i = 0; i < p.c.entries; i++)
        assert_true(p.c.key[i] < 1u << 22);
    parsed_release(&p);

    struct yk_reading bits = {.hash_bits = 5};
    p = parse_text(FULL, &bits);
    assert_int_equal(p.rc, YK_OK);
    for (uint32_t i = 0; i < p.c.entries; i++)
        assert_true(p.c.key[i] < 32);
    parsed_release(&p);
}

/* The column-th (from 0) of FULL replaced by `with`. */
static void replaced(char out[1024], unsigned column, const char *with)
{
    const char *from = FULL;
    for (unsigned i = 0; i < column; i++)
        from = strchr(from, '\t') + 1;
    const char *rest = strchr(from, '\t');
    snprintf(out, 1024, "%.*s%s%s", (int)(from - FULL), FULL, with, rest == NULL ? "" : rest);
}

static void test_hexadecimal(void **state)
{
    (void)state;
    struct tables t;
    make_tables(&t, &PLAIN);
    static const struct {
        const char *text;
        uint64_t number;
    } CASE[] = {{"0", 0},
                {"f", 15},
                {"ABCDEF09", 0xabcdef09},
                {"abcdef0", 0xabcdef0},
                {"0123456789abcdef", 0x0123456789abcdef},
                {"00000001", 1},
                {"1", 1},
                {"99999999", 0x99999999},
                {"aFfA0990", 0xaffa0990}};
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++)
        for (unsigned column = 14; column < 40; column += 5) {
            char text[1024];
            replaced(text, column, CASE[i].text);
            struct parsed p = parse_text(text, &PLAIN);
            assert_int_equal(p.rc, YK_OK);
            assert_int_equal(p.c.key[column - 1], key_of(&t, column, CASE[i].number));
            parsed_release(&p);
        }
    for (int c = 0; c < 256; c++) /* each character in each of the eight places */
        for (int place = 0; place < 8; place++) {
            char text[72] = "00000000";
            uint64_t v;
            text[place] = (char)c;
            bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            assert_int_equal(hex8(text, &v), good);
            if (good)
                assert_true(v == (uint64_t)hex_digit((char)c) << (28 - 4 * place));
        }
}

static void expect_bad(const char *text, const char *why)
{
    struct parsed p = parse_text(text, &PLAIN);
    if (p.rc != YK_DATA || strstr(p.e.text, why) == NULL)
        fail_msg("'%s' gave %d '%s', not '%s'", text, p.rc, p.e.text, why);
    parsed_release(&p);
    struct yk_reading lenient = {.skip_bad = 1};
    char both[2048];
    snprintf(both, sizeof both, "%s\n%s\n%s", FULL, text, EMPTY);
    p = parse_text(both, &lenient);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.bad, 1);
    assert_int_equal(p.c.rows, 2);
    assert_int_equal(p.c.entries, 39);
    assert_non_null(strstr(p.c.worst.text, "line 12: "));
    parsed_release(&p);
}

static void test_malformed(void **state)
{
    (void)state;
    char text[1024];
    expect_bad(
        "1\t2\t3",
        "'rows.txt' line 11: expected 40 columns (label, 13 integers, 26 categories), found 3");
    expect_bad("1 3:4", "expected 40 columns (label, 13 integers, 26 categories), found 1");
    expect_bad(FULL + 2, "found 39"); /* a test set, without labels */
    snprintf(text, sizeof text, "%s\t", FULL);
    expect_bad(text, "found 41");
    replaced(text, 0, "2");
    expect_bad(text, "expected a label 0 or 1 in column 1, found '2'");
    replaced(text, 0, "");
    expect_bad(text, "expected a label 0 or 1 in column 1, found ''");
    replaced(text, 0, "10");
    expect_bad(text, "expected a label 0 or 1 in column 1, found '10'");
    replaced(text, 3, "1.5");
    expect_bad(text, "expected an integer or nothing in column 4, found '1.5'");
    replaced(text, 13, "-");
    expect_bad(text, "expected an integer or nothing in column 14, found '-'");
    replaced(text, 5, "1234567890123456789");
    expect_bad(text, "expected an integer or nothing in column 6, found '1234567890123456789'");
    replaced(text, 14, "68fd1e6g");
    expect_bad(text, "expected a hexadecimal category or nothing in column 15, found '68fd1e6g'");
    replaced(text, 39, "xyz");
    expect_bad(text, "expected a hexadecimal category or nothing in column 40, found 'xyz'");
    replaced(text, 20, "0123456789abcdef0");
    expect_bad(text, "expected a hexadecimal category or nothing in column 21");
}

static void test_written_rows_have_their_values_again(void **state)
{
    (void)state;
    uint32_t key[39];
    float value[39];
    struct yk_buf text = {0};
    struct tables t;
    make_tables(&t, &PLAIN);
    for (uint32_t i = 0; i < 39; i++) {
        key[i] = i * 110000000u + 5;
        value[i] = i < 13 ? (float)log1p(1 + i * i * 997) : 1;
    }
    struct yk_row row = {.key = key, .value = value, .n = 39, .label = 1};
    assert_true(yk_criteo_fits(&row));
    yk_rows_format_criteo.write(&text, &row, &PLAIN);
    struct parsed p = parse_text(text.data, &PLAIN);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.entries, 39);
    assert_int_equal(p.c.label[0], 1);
    assert_memory_equal(p.c.value, value, sizeof value);
    for (unsigned i = 13; i < 39; i++)
        assert_int_equal(p.c.key[i], key_of(&t, i + 1, key[i]));
    parsed_release(&p);
    yk_buf_release(&text);
    value[3] = 1.5f;
    assert_false(yk_criteo_fits(&row));
    value[3] = value[4], value[20] = 2;
    assert_false(yk_criteo_fits(&row));
    value[20] = 1, row.n = 38;
    assert_false(yk_criteo_fits(&row));
    row.n = 39, row.value = NULL;
    assert_false(yk_criteo_fits(&row));
}

static void test_sniff(void **state)
{
    (void)state;
    char text[1024];
    snprintf(text, sizeof text, "\n%s\r\n1\t", FULL);
    assert_true(sniff((const uint8_t *)text, strlen(text)));
    assert_true(sniff((const uint8_t *)FULL, strlen(FULL)));
    assert_true(sniff((const uint8_t *)EMPTY, strlen(EMPTY)));
    assert_false(sniff((const uint8_t *)FULL, strlen(FULL) - 9));
    assert_false(sniff((const uint8_t *)"", 0));
    assert_false(sniff((const uint8_t *)"1 3:4\n", 6));
    replaced(text, 20, "oh");
    assert_false(sniff((const uint8_t *)text, strlen(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_hexadecimal),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_written_rows_have_their_values_again),
        cmocka_unit_test(test_sniff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
