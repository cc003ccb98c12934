/* decimal_test.c - decimal text against strtof, and every kind of float through text and back. */
#include "data/rows/decimal.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* As a parser sees it: something ends the number, and there are bytes behind that. */
static const char *padded(const char *text)
{
    static char line[256];
    snprintf(line, sizeof line, "%s |12345678", text);
    return line;
}

static uint32_t bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static void check_read(const char *text)
{
    float want = strtof(text, NULL), got;
    const char *line = padded(text), *end = yk_decimal_read(line, &got);
    if (end == NULL || bits_of(got) != bits_of(want) || *end != ' ')
        fail_msg("'%s' is %a, read as %a", text, (double)want, end ? (double)got : 0.0);
}

static void reads_as_strtof_does(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "1",
                                        "-1",
                                        "+1",
                                        "-0",
                                        "0.0",
                                        "-0.0",
                                        "1.",
                                        ".5",
                                        "-.5e1",
                                        "12345678",
                                        "123456789",
                                        "1234567890123456789012345",
                                        "0.1",
                                        "0.6931472",
                                        "16777216",
                                        "16777217",
                                        "16777219",
                                        "33554433.0",
                                        "0.00000000000000000000000000000000000000000000001",
                                        "1e-45",
                                        "7e-46",
                                        "8e-46",
                                        "1.17549435e-38",
                                        "3.4028235e38",
                                        "3.40282356e38",
                                        "1e38",
                                        "1E+10",
                                        "1e-10",
                                        "00000000001",
                                        "0.000000000000000000000000000001e30",
                                        "9007199254740993",
                                        "9007199254740993.0000000000000001",
                                        "1.00000005960464477539062",
                                        "1.000000059604644775390625",
                                        "1.00000005960464477539063",
                                        "0.30000001192092896",
                                        "0.69314718055994530941",
                                        "2.30258509299404568402",
                                        "1e22",
                                        "1e23",
                                        "123456.789e-12"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_read(texts[i]);
    struct yk_rng rng;
    yk_rng_init(&rng, 1, 2, 3, 4);
    for (int i = 0; i < 100000; i++) {
        char text[64];
        uint32_t bits = (uint32_t)yk_rng_next(&rng);
        float v;
        memcpy(&v, &bits, sizeof v);
        if (v - v != 0)
            continue;
        snprintf(text, sizeof text, "%.*g", (int)(1 + yk_rng_below(&rng, 20)), (double)v);
        if (strtof(text, NULL) - strtof(text, NULL) ==
            0) /* rounding up may have made it infinite */
            check_read(text);
        snprintf(text, sizeof text, "%.*f", (int)yk_rng_below(&rng, 18),
                 (double)(yk_rng_unit(&rng) * 1000));
        check_read(text);
        /* around half-way between two floats: a double often cannot tell on which side */
        float low = 0.5f + (float)yk_rng_below(&rng, 1 << 23) / (1 << 24);
        snprintf(text, sizeof text, "%.*f", (int)(14 + yk_rng_below(&rng, 8)),
                 (double)low + 0x1p-25);
        check_read(text);
        double half = (double)(1 + yk_rng_below(&rng, 1 << 24)) + 0.5;
        snprintf(text, sizeof text, "%.*f", (int)yk_rng_below(&rng, 3), half * 16777216);
        check_read(text);
    }
}

static void refuses_what_is_no_number(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",  "x", "nan", "inf", "-inf", "NaN", "1e39", "-3.5e38", "1e999999999999",
        ".", "-", "+",   "-.",  "e5",   "1e",  "1e+",  "0x"};
    float v;
    for (size_t i = 0; i + 1 < sizeof texts / sizeof *texts; i++)
        if (yk_decimal_read(padded(texts[i]), &v) != NULL)
            fail_msg("'%s' was taken for a number", texts[i]);
    const char *line = padded("0x10"), *end = yk_decimal_read(line, &v); /* only the 0 is one */
    assert_ptr_equal(end, line + 1);
}

static void check_write(float v)
{
    char text[YK_DECIMAL_MAX + 1];
    float back;
    size_t n = yk_decimal_write(text, v);
    assert_in_range(n, 1, YK_DECIMAL_MAX);
    text[n] = '\0';
    const char *line = padded(text), *end = yk_decimal_read(line, &back);
    if (end != line + n || bits_of(back) != bits_of(v))
        fail_msg("%a was written as '%s'", (double)v, text);
    /* no shorter one: its significant digits are as few as printf needs */
    int digits = 0, fewest = 1;
    for (const char *p = text; *p != '\0' && *p != 'e'; p++)
        digits += *p >= (digits > 0 ? '0' : '1') && *p <= '9';
    for (; fewest < 9; fewest++) {
        char other[32];
        snprintf(other, sizeof other, "%.*e", fewest - 1, (double)v);
        if (bits_of(strtof(other, NULL)) == bits_of(v))
            break;
    }
    bool whole = strchr(text, '.') == NULL &&
                 strchr(text, 'e') == NULL; /* 100 has three digits, though one would tell */
    if (v != 0 && !whole && digits > fewest)
        fail_msg("%a was written as '%s', though %d digits tell", (double)v, text, fewest);
}

static void writes_the_shortest(void **state)
{
    (void)state;
    static const struct {
        float v;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0f, "-0"},
                 {1, "1"},
                 {-1, "-1"},
                 {0.5f, "0.5"},
                 {0.1f, "0.1"},
                 {100, "100"},
                 {0.6931472f, "0.6931472"},
                 {1e-7f, "1e-7"},
                 {0.001f, "0.001"},
                 {16777216, "16777216"},
                 {1e20f, "1e20"},
                 {-2.5e-10f, "-2.5e-10"},
                 {3.4028235e38f, "3.4028235e38"},
                 {1e-45f, "1e-45"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[YK_DECIMAL_MAX + 1];
        text[yk_decimal_write(text, cases[i].v)] = '\0';
        assert_string_equal(text, cases[i].text);
        check_write(cases[i].v);
    }
    struct yk_rng rng;
    yk_rng_init(&rng, 5, 6, 7, 8);
    for (int i = 0; i < 60000; i++) {
        uint32_t bits = (uint32_t)yk_rng_next(&rng);
        float v;
        memcpy(&v, &bits, sizeof v);
        if (v - v == 0)
            check_write(v);
        check_write((float)yk_rng_unit(&rng) * 10);
        check_write((float)yk_rng_below(&rng, 1 << 30) / 100);
    }
    for (float v = 1e-38f; v < 1e38f; v *= 10) { /* where the logarithm may be one off */
        check_write(v);
        check_write(__builtin_nextafterf(v, 0));
        check_write(__builtin_nextafterf(v, 3e38f));
    }
}

static void reads_digits_eight_at_a_time(void **state)
{
    (void)state;
    struct yk_rng rng;
    yk_rng_init(&rng, 9, 9, 9, 9);
    for (int i = 0; i < 100000; i++) {
        char text[17];
        unsigned want = 0, digits = yk_rng_below(&rng, 9);
        for (unsigned k = 0; k < 16; k++)
            text[k] = (char)yk_rng_below(&rng, 256);
        if (digits < 8 && text[digits] >= '0' && text[digits] <= '9')
            text[digits] = ':';
        for (unsigned k = 0; k < digits; k++) {
            text[k] = (char)('0' + yk_rng_below(&rng, 10));
            want = want * 10 + (unsigned)(text[k] - '0');
        }
        uint32_t got;
        assert_int_equal(yk_digits8(text, &got), digits);
        assert_int_equal(got, want);
        char back[YK_DECIMAL_MAX + 1] = {0}, other[16];
        yk_decimal_write_u32(back, want);
        snprintf(other, sizeof other, "%u", want);
        assert_string_equal(back, other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_as_strtof_does),
        cmocka_unit_test(refuses_what_is_no_number),
        cmocka_unit_test(writes_the_shortest),
        cmocka_unit_test(reads_digits_eight_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
