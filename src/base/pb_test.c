/* pb_test.c - the bytes of every wire type, as the encoding's definition gives them. */
#include "base/pb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define ASSERT_BYTES(b, ...)                                                                       \
    do {                                                                                           \
        const uint8_t want_[] = {__VA_ARGS__};                                                     \
        assert_int_equal((b).len, sizeof want_);                                                   \
        assert_memory_equal((b).data, want_, sizeof want_);                                        \
        yk_buf_clear(&(b));                                                                        \
    } while (0)

static void test_varint(void **state)
{
    (void)state;
    struct yk_buf b = {0};
    yk_pb_varint(&b, 1, 0);
    ASSERT_BYTES(b, 0x08, 0x00);
    yk_pb_varint(&b, 1, 127);
    ASSERT_BYTES(b, 0x08, 0x7f);
    yk_pb_varint(&b, 1, 150); /* the example of the format's own description */
    ASSERT_BYTES(b, 0x08, 0x96, 0x01);
    yk_pb_varint(&b, 16, 128); /* a field number that needs a second byte */
    ASSERT_BYTES(b, 0x80, 0x01, 0x80, 0x01);
    yk_pb_varint(&b, 2, (uint64_t)-1);
    ASSERT_BYTES(b, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
    yk_buf_release(&b);
}

static void test_fixed(void **state)
{
    (void)state;
    struct yk_buf b = {0};
    yk_pb_double(&b, 1, -2.0);
    ASSERT_BYTES(b, 0x09, 0, 0, 0, 0, 0, 0, 0, 0xc0);
    yk_pb_float(&b, 2, 1.5f);
    ASSERT_BYTES(b, 0x15, 0, 0, 0xc0, 0x3f);
    yk_buf_release(&b);
}

static void test_bytes(void **state)
{
    (void)state;
    struct yk_buf b = {0}, inner = {0};
    yk_pb_text(&b, 2, "testing");
    ASSERT_BYTES(b, 0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g');
    yk_pb_bytes(&b, 3, "\0\xff", 2);
    ASSERT_BYTES(b, 0x1a, 0x02, 0x00, 0xff);
    yk_pb_varint(&inner, 1, 150);
    yk_pb_message(&b, 3, &inner);
    ASSERT_BYTES(b, 0x1a, 0x03, 0x08, 0x96, 0x01);
    yk_buf_clear(&inner);
    yk_pb_message(&b, 3, &inner);
    ASSERT_BYTES(b, 0x1a, 0x00);
    inner.failed = true;
    yk_pb_message(&b, 3, &inner);
    assert_true(b.failed);
    yk_buf_release(&inner);
    yk_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varint),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
