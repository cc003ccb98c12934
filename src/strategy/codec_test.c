/* codec_test.c - every codec against what its format says, value by value, at every length; that
 * what is lost is carried; that both sides agree on the bits; and that lengths which do not fit
 * are refused. */
#include "strategy/codec.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 1024, MOST = 3 * BLOCK + 77 };
static const char *const NAME[] = {"bf16", "fp16", "int8", "topk:0.01", "topk:0.3"};
enum { NAMES = 5 };

static struct yk_codec codec(const char *name)
{
    struct yk_codec c;
    struct yk_error e = {0};
    if (yk_codec_parse(name, &c, &e) != YK_OK)
        fail_msg("%s", e.text);
    return c;
}

static void test_parse(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",        "int4",      "bf16 ",    "topk",      "topk:",    "topk:0",  "topk:0.6",
        "topk:-1", "topk:0.1x", "topk:nan", "topk:1e-9", "TOPK:0.1", "none:0.1"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct yk_codec c;
        struct yk_error e = {0};
        assert_int_equal(yk_codec_parse(BAD[i], &c, &e), YK_USAGE);
        assert_non_null(strstr(e.text, "--compress"));
        assert_non_null(strstr(e.hint, "topk:F"));
    }
    assert_int_equal(codec("none").kind, YK_CODEC_NONE);
    assert_int_equal(codec("int8").kind, YK_CODEC_INT8);
    assert_true(codec("topk:0.25").kind == YK_CODEC_TOPK && codec("topk:0.25").share == 0.25);
}

static void fill(float *x, size_t n, struct yk_rng *r)
{
    for (size_t i = 0; i < n; i++) /* of many sizes */
        x[i] = (float)((yk_rng_unit(r) - 0.5) * pow(10, yk_rng_unit(r) * 8 - 6));
}

static float bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The nearest bf16, found by looking at both neighbours. */
static float nearest_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    float down = bits(u & 0xffff0000), up = bits((u & 0xffff0000) + 0x10000);
    double below = fabs((double)x - (double)down), above = fabs((double)up - (double)x);
    return below < above || (below == above && !(u >> 16 & 1)) ? down : up;
}

/* Of a block: the value that comes out for x, if `most` is the largest size in it. */
static float expected(const struct yk_codec *c, float x, float most)
{
    int e;
    switch (c->kind) {
    case YK_CODEC_BF16:
        return nearest_bf16(x);
    case YK_CODEC_FP16:
        frexpf(most, &e);
        double unit = ldexp(1, e - 15), y = (double)x / unit; /* sizes up to 2^15 */
        int ex;
        frexp(y, &ex);
        double ulp = ldexp(1, ex - 11 < -24 ? -24 : ex - 11);
        return (float)(nearbyint(y / ulp) * ulp * unit);
    case YK_CODEC_INT8:
        return (most / 127) * (float)nearbyintf(x * (127 / most));
    default:
        return NAN;
    }
}

static void test_values(void **state)
{
    (void)state;
    static float x[MOST], packed[MOST], out[MOST], carry[MOST];
    static const size_t LENGTH[] = {5,    6,    7,    16,   17,   63,   1000,
                                    1023, 1024, 1025, 1040, 2048, 2049, MOST};
    struct yk_rng r;
    yk_rng_init(&r, 1, 0, 0, 0);
    for (unsigned k = 0; k < 3; k++)
        for (size_t l = 0; l < sizeof LENGTH / sizeof LENGTH[0]; l++) {
            const struct yk_codec c = codec(NAME[k]);
            size_t n = LENGTH[l], floats = 0;
            fill(x, n, &r);
            memset(carry, 0, sizeof carry);
            size_t bytes = yk_codec_pack(&c, x, carry, 1, n, packed);
            if (bytes == 0) { /* too short for it */
                assert_true(n < 7 && memcmp(packed, x, n * sizeof *x) == 0);
                continue;
            }
            assert_true(bytes == yk_codec_size(&c, n) && bytes <= n * sizeof(float));
            assert_true(yk_codec_count(&c, packed, bytes, n, &floats) && floats == n);
            yk_codec_add(&c, packed, NULL, out, n);
            for (size_t at = 0; at < n; at += BLOCK) {
                float most = 0;
                for (size_t i = at; i < n && i < at + BLOCK; i++)
                    most = fmaxf(most, fabsf(x[i]));
                for (size_t i = at; i < n && i < at + BLOCK; i++) {
                    if (out[i] != expected(&c, x[i], most))
                        fail_msg("%s: %a becomes %a, not %a (most %a)", NAME[k], (double)x[i],
                                 (double)out[i], (double)expected(&c, x[i], most), (double)most);
                    assert_true(carry[i] == x[i] - out[i]);
                }
            }
            yk_codec_unpack(&c, packed, n); /* in place, the same */
            assert_memory_equal(packed, out, n * sizeof *out);
        }
}

static int by_size(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Exactly the largest, as many as the share says; the others are carried whole. */
static void test_topk(void **state)
{
    (void)state;
    static float x[MOST], packed[MOST], out[MOST], carry[MOST], sorted[BLOCK];
    struct yk_rng r;
    yk_rng_init(&r, 2, 0, 0, 0);
    for (unsigned round = 0; round < 60; round++) {
        const struct yk_codec c = codec(NAME[3 + round % 2]);
        size_t n = 12 + yk_rng_below(&r, MOST - 12);
        fill(x, n, &r);
        if (round % 3 == 0) /* many alike, zeros among them */
            for (size_t i = 0; i < n; i++)
                x[i] = (float)((int)yk_rng_below(&r, 5) - 2);
        memset(carry, 0, sizeof carry);
        assert_int_equal(yk_codec_pack(&c, x, carry, 1, n, packed), yk_codec_size(&c, n));
        yk_codec_add(&c, packed, NULL, out, n);
        for (size_t at = 0; at < n; at += BLOCK) {
            size_t m = n - at < BLOCK ? n - at : BLOCK, k = (size_t)(c.share * (double)m + 0.5),
                   sent = 0;
            k = k > 0 ? k : 1;
            memcpy(sorted, x + at, m * sizeof *x);
            qsort(sorted, m, sizeof *sorted, by_size);
            for (size_t i = at; i < at + m; i++) {
                if (fabsf(x[i]) > fabsf(sorted[k - 1]))
                    assert_true(out[i] == nearest_bf16(x[i]));
                if (fabsf(x[i]) < fabsf(sorted[k - 1]))
                    assert_true(out[i] == 0);
                assert_true(out[i] == 0 || out[i] == nearest_bf16(x[i]));
                assert_true(carry[i] == x[i] - out[i]);
                sent += out[i] != 0;
            }
            assert_true(sorted[k - 1] == 0 ? sent <= k : sent == k);
        }
        yk_codec_unpack(&c, packed, n);
        assert_memory_equal(packed, out, n * sizeof *out);
    }
}

/* All that was sent, and what is carried, add up to all that was meant, however often. */
static void test_feedback(void **state)
{
    (void)state;
    enum { N = 1500, ROUNDS = 300 };
    static float x[N], packed[N], carry[N], out[N];
    static double meant[N], sent[N];
    for (unsigned k = 0; k < NAMES; k++) {
        const struct yk_codec c = codec(NAME[k]);
        struct yk_rng r;
        yk_rng_init(&r, 3, k, 0, 0);
        memset(carry, 0, sizeof carry);
        memset(meant, 0, sizeof meant);
        memset(sent, 0, sizeof sent);
        for (unsigned round = 0; round < ROUNDS; round++) {
            for (size_t i = 0; i < N; i++) {
                x[i] = (float)yk_rng_unit(&r) * (i == 7 ? 1000 : 1); /* with a drift */
                meant[i] += (double)x[i];
            }
            yk_codec_pack(&c, x, carry, 1, N, packed);
            yk_codec_add(&c, packed, NULL, out, N);
            for (size_t i = 0; i < N; i++)
                sent[i] += (double)out[i];
        }
        for (size_t i = 0; i < N; i++)
            assert_true(fabs(meant[i] - sent[i] - (double)carry[i]) < 1e-4 * fabs(meant[i]));
        for (size_t i = 0; k < 3 && i < N; i++)
            assert_true(fabsf(carry[i]) <= 1000.0f / 127);
        for (size_t i = 0; i < N;
             i++) { /* half of a batch takes half of the carried errors; its own count twice */
            x[i] = 0;
            sent[i] = (double)carry[i];
        }
        yk_codec_pack(&c, x, carry, 0.5f, N, packed);
        yk_codec_add(&c, packed, NULL, out, N);
        for (size_t i = 0; i < N; i++)
            assert_true(fabs((double)(2 * out[i] + carry[i]) - sent[i]) <
                        1e-6 * fabs(sent[i]) + 1e-9);
    }
}

/* What the packer believes that the other side has is what it has, bit by bit, and stays close
 * to the truth. */
static void test_change(void **state)
{
    (void)state;
    enum { N = 2500 };
    static float now[N], known[N], theirs[N], two[N], packed[N];
    for (unsigned k = 0; k < NAMES; k++) {
        const struct yk_codec c = codec(NAME[k]);
        struct yk_rng r;
        yk_rng_init(&r, 4, k, 0, 0);
        fill(now, N, &r);
        memcpy(known, now, sizeof now);
        memcpy(theirs, now, sizeof now);
        for (unsigned round = 0; round < 200; round++) {
            for (size_t i = 0; i < N; i++)
                now[i] += ((float)yk_rng_unit(&r) - 0.3f) * 0.01f;
            yk_codec_pack_change(&c, now, known, N, packed);
            if (round % 2) {
                yk_codec_add(&c, packed, theirs, theirs, N); /* in place, */
            } else {
                yk_codec_add(&c, packed, theirs, two, N); /* or from one buffer to another */
                memcpy(theirs, two, sizeof two);
            }
            assert_memory_equal(theirs, known, sizeof known);
        }
        for (size_t i = 0; k < 3 && i < N; i++)
            assert_true(fabsf(now[i] - known[i]) < 0.0002f);
        yk_codec_pack_change(&c, now, NULL, N, packed); /* the values themselves */
        yk_codec_add(&c, packed, NULL, two, N);
        for (size_t i = 0; k == 0 && i < N; i++)
            assert_true(two[i] == nearest_bf16(now[i]));
    }
}

/* What is no number comes out as no number, and the next round is clean. */
static void test_not_numbers(void **state)
{
    (void)state;
    enum { N = 1100 };
    static float x[N], packed[N], carry[N], out[N];
    static const float BAD[] = {NAN, -NAN, INFINITY, -INFINITY, 3.4e38f};
    for (unsigned k = 0; k < NAMES; k++)
        for (size_t b = 0; b < sizeof BAD / sizeof BAD[0]; b++) {
            const struct yk_codec c = codec(NAME[k]);
            for (size_t i = 0; i < N; i++)
                x[i] = 1;
            memset(carry, 0, sizeof carry);
            x[3] = BAD[b];
            yk_codec_pack(&c, x, carry, 1, N, packed);
            yk_codec_add(&c, packed, NULL, out, N);
            assert_true(b < 4 ? !isfinite(out[3]) : fabsf(out[3]) > 3e38f);
            for (size_t i = 0; i < N; i++)
                assert_true(isfinite(carry[i]));
            assert_true(isfinite(out[1050])); /* another block */
            x[3] = 1;
            yk_codec_pack(&c, x, carry, 1, N, packed);
            yk_codec_add(&c, packed, NULL, out, N);
            for (size_t i = 0; i < N; i++)
                assert_true(isfinite(out[i]) && isfinite(carry[i]));
        }
}

/* Zeros, and numbers so small that their inverse is none. */
static void test_tiny(void **state)
{
    (void)state;
    enum { N = 40 };
    float x[N], packed[N], carry[N], out[N];
    for (unsigned k = 0; k < NAMES; k++)
        for (unsigned round = 0; round < 3; round++) {
            const struct yk_codec c = codec(NAME[k]);
            for (size_t i = 0; i < N; i++)
                x[i] = round == 0 ? 0 : round == 1 ? 1e-44f : 2e-38f;
            memset(carry, 0, sizeof carry);
            yk_codec_pack(&c, x, carry, 1, N, packed);
            yk_codec_add(&c, packed, NULL, out, N);
            for (size_t i = 0; i < N; i++)
                assert_true(out[i] + carry[i] == x[i] && fabsf(out[i]) <= 3e-38f);
        }
}

static void test_lengths(void **state)
{
    (void)state;
    static float x[MOST], carry[MOST], packed[MOST];
    for (unsigned k = 0; k < NAMES; k++) {
        struct yk_codec c = codec(NAME[k]);
        size_t n, bytes = yk_codec_pack(&c, x, carry, 1, MOST, packed);
        assert_true(yk_codec_count(&c, packed, bytes, MOST, &n));
        assert_false(yk_codec_count(&c, packed, bytes - 1, MOST, &n) ||
                     yk_codec_count(&c, packed, bytes + 1, MOST, &n));
        assert_false(yk_codec_count(&c, packed, bytes, MOST - 1, &n) ||
                     yk_codec_count(&c, packed, 7, MOST, &n));
        memset(packed, 0, 8);
        assert_false(yk_codec_count(&c, packed, 8, MOST, &n));
        c.piece = 1000;
        assert_int_equal(yk_codec_room(&c, 2500),
                         2 * yk_codec_size(&c, 1000) + yk_codec_size(&c, 500));
        assert_int_equal(yk_codec_room(&c, 2000), 2 * yk_codec_size(&c, 1000));
        assert_int_equal(yk_codec_room(&c, 0), 0);
    }
    const struct yk_codec half = codec("bf16"), quarter = codec("int8");
    assert_true(yk_codec_size(&half, 1 << 20) <= (2 << 20) + 8 &&
                yk_codec_size(&quarter, 1 << 20) < (1 << 20) * 1.005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),  cmocka_unit_test(test_values),
        cmocka_unit_test(test_topk),   cmocka_unit_test(test_feedback),
        cmocka_unit_test(test_change), cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_tiny),   cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
