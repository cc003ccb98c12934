/* crc32c_test.c - published vectors, and both ways against a reference that takes one bit at a
 * time. The source is included, not linked, because a CPU with SSE4.2 never takes the portable way,
 * which would stay untested. */
#include "base/crc32c.c" /* NOLINT(bugprone-suspicious-include) */

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static uint32_t slow(const uint8_t *p, size_t n)
{
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    }
    return ~c;
}

static void test_published_vectors(void **state)
{
    (void)state;
    uint8_t v[32];
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c("", 0), 0);
    memset(v, 0, sizeof v); /* RFC 3720, B.4 */
    assert_int_equal(crc32c(v, 32), 0x8a9136aa);
    memset(v, 255, sizeof v);
    assert_int_equal(crc32c(v, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        v[i] = (uint8_t)i;
    assert_int_equal(crc32c(v, 32), 0x46dd794e);
}

static void test_every_length_and_alignment(void **state)
{
    (void)state;
    uint8_t v[300];
    for (size_t i = 0; i < sizeof v; i++)
        v[i] = (uint8_t)(i * 131 + i / 7);
    for (size_t at = 0; at < 8; at++)
        for (size_t n = 0; n + at <= sizeof v; n++) {
            uint32_t want = slow(v + at, n);
            assert_int_equal(crc32c(v + at, n), want);
            assert_int_equal(~crc_portable(~0u, v + at, n), want);
        }
}

static void test_mask(void **state)
{
    (void)state;
    uint32_t c = 0xe3069283u;
    assert_int_equal(yk_crc32c_masked("123456789", 9), (c >> 15 | c << 17) + 0xa282ead8u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors),
        cmocka_unit_test(test_every_length_and_alignment),
        cmocka_unit_test(test_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
