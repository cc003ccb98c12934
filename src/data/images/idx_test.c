/* idx_test.c - right and wrong IDX files; the reference is the byte string itself. */
#include "data/images/idx.h"

#include "base/file.h"
#include "data/images/sets.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cmocka.h>

struct bytes {
    uint8_t at[4096];
    size_t n;
};

/* A header, then `elements` bytes 1, 2, 3 ... */
static struct bytes make_idx(uint8_t type, uint8_t ndim, const uint32_t *dim, size_t elements)
{
    struct bytes b = {.at = {0, 0, type, ndim}, .n = 4};
    for (int i = 0; i < ndim; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            b.at[b.n++] = (uint8_t)(dim[i] >> shift);
    for (size_t i = 0; i < elements; i++)
        b.at[b.n++] = (uint8_t)(i + 1);
    return b;
}

static struct bytes gzip(const uint8_t *from, size_t n)
{
    struct bytes b = {.n = 0};
    z_stream z = {.next_in = (uint8_t *)from,
                  .avail_in = (uInt)n,
                  .next_out = b.at,
                  .avail_out = sizeof b.at};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    b.n = z.total_out;
    deflateEnd(&z);
    return b;
}

static void append(struct bytes *b, const struct bytes *more)
{
    memcpy(b->at + b->n, more->at, more->n);
    b->n += more->n;
}

static const char *save(const char *dir, const struct bytes *b)
{
    static char path[YK_PATH_MAX];
    snprintf(path, sizeof path, "%s/file", dir);
    assert_int_equal(yk_file_write(path, b->at, b->n, NULL), YK_OK);
    return path;
}

static void assert_slack(const struct yk_idx *x)
{
    assert_int_equal((uintptr_t)x->data % 64, 0);
    for (int i = 0; i < YK_ROW_SLACK; i++)
        assert_int_equal(x->data[x->bytes + (uint64_t)i], 0);
}

/* The file, and the same bytes in memory, are refused with a message that names the file and
 * contains `what`. */
static void assert_refused(const char *dir, const struct bytes *b, const char *what)
{
    struct yk_idx x;
    struct yk_error e = {0};
    const char *path = save(dir, b);
    assert_int_equal(yk_idx_read(path, &x, &e), YK_DATA);
    if (strstr(e.text, what) == NULL || strstr(e.text, path) == NULL)
        fail_msg("expected '%s' in: %s", what, e.text);
    assert_null(x.data);
    assert_int_equal(yk_idx_parse(b->at, b->n, &x, &e), YK_DATA);
    assert_non_null(strstr(e.text, what));
    assert_null(x.data);
    assert_int_equal(yk_idx_read(path, &x, NULL), YK_DATA);
}

static void test_reads_all_types(void **state)
{
    static const struct {
        const char *name;
        unsigned size;
        uint8_t type;
    } kinds[] = {{"u8", 1, 0x08},  {"i8", 1, 0x09},  {"i16", 2, 0x0b},
                 {"i32", 4, 0x0c}, {"f32", 4, 0x0d}, {"f64", 8, 0x0e}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        assert_string_equal(yk_idx_type_name(kinds[k].type), kinds[k].name);
        for (int ndim = 1; ndim <= YK_IDX_DIMS; ndim++) {
            uint32_t dim[YK_IDX_DIMS] = {3, 2, 5, 4};
            size_t n = kinds[k].size;
            for (int i = 0; i < ndim; i++)
                n *= dim[i];
            struct bytes plain = make_idx(kinds[k].type, (uint8_t)ndim, dim, n),
                         packed = gzip(plain.at, plain.n);
            for (int gz = 0; gz < 2; gz++) {
                struct yk_idx x;
                struct yk_error e;
                const char *path = save(*state, gz ? &packed : &plain);
                assert_int_equal(yk_idx_head(path, &x, &e), YK_OK);
                assert_null(x.data);
                assert_int_equal(x.bytes, n);
                assert_int_equal(yk_idx_read(path, &x, &e), YK_OK);
                assert_int_equal(x.type, kinds[k].type);
                assert_int_equal(x.ndim, ndim);
                assert_memory_equal(x.dim, dim, (size_t)ndim * sizeof *dim);
                assert_int_equal(x.gzip, gz);
                assert_int_equal(x.bytes, n);
                assert_memory_equal(x.data, plain.at + 4 + 4 * ndim, n);
                assert_slack(&x);
                yk_idx_release(&x);
                assert_null(x.data);
            }
        }
    }
    for (int t = 0; t < 256; t++)
        if (t < 0x08 || t > 0x0e || t == 0x0a)
            assert_null(yk_idx_type_name((uint8_t)t));
}

/* Past 4 MB the buffer is placed for huge pages; a .gz of that size crosses many chunks of input
 * and output. */
static void test_reads_large(void **state)
{
    size_t n = 9000001;
    uint8_t *all = malloc(8 + n);
    char path[YK_PATH_MAX];
    assert_non_null(all);
    memcpy(all, (uint8_t[]){0, 0, 8, 1, 0, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}, 8);
    uint32_t v = 1;
    for (size_t i = 0; i < n; i++)
        all[8 + i] = (uint8_t)((v = v * 1664525 + 1013904223) >> 24);
    for (int gz = 0; gz < 2; gz++) {
        struct yk_idx x;
        snprintf(path, sizeof path, "%s/large", (char *)*state);
        gzFile f = gzopen(path, gz ? "wb1" : "wbT");
        assert_int_equal(gzwrite(f, all, (unsigned)(8 + n)), 8 + n);
        assert_int_equal(gzclose(f), Z_OK);
        assert_int_equal(yk_idx_read(path, &x, NULL), YK_OK);
        assert_int_equal(x.bytes, n);
        assert_int_equal(x.gzip, gz);
        assert_int_equal((uintptr_t)x.data % (2 << 20), 0);
        assert_memory_equal(x.data, all + 8, n);
        assert_slack(&x);
        yk_idx_release(&x);
    }
    free(all);
}

static void test_refuses_bad_headers(void **state)
{
    const uint32_t small[] = {2, 3}, huge[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
                   zero[] = {2, 0, 2}, wraps[] = {65536, 65536, 65536, 65536};
    struct bytes b = {.n = 0};
    assert_refused(*state, &b, "is empty; expected an IDX file");
    b.n = 1;
    assert_refused(*state, &b, "ends after 1 byte; expected");
    b = make_idx(8, 2, small, 6);
    b.at[1] = 1;
    assert_refused(*state, &b, "starts with 00 01, expected 00 00");
    b = make_idx(0x0a, 2, small, 6);
    assert_refused(*state, &b, "element type 0a; expected 08");
    b = make_idx(8, 0, small, 6);
    assert_refused(*state, &b, "has 0 dimensions; expected 1 to 4");
    b = make_idx(8, 2, small, 6);
    b.at[3] = 5;
    assert_refused(*state, &b, "has 5 dimensions; expected 1 to 4");
    b = make_idx(8, 2, small, 0);
    b.n--;
    assert_refused(*state, &b,
                   "ends after 11 bytes; expected an IDX header of 12 for 2 dimensions");
    b = make_idx(8, 3, zero, 0);
    assert_refused(*state, &b, "its shape is 2x0x2; expected every dimension to be at least 1");
    b = make_idx(8, 4, wraps, 0); /* 2^64 elements: in 64 bits a file with none */
    assert_refused(*state, &b, "65536x65536x65536x65536, more than any file can hold");
    for (uint8_t type = 8; type <= 14; type++)
        for (uint8_t ndim = 1; ndim <= 4 && type != 10; ndim++) {
            b = make_idx(type, ndim, huge, 20);
            assert_refused(*state, &b, "4294967295");
            b = gzip(b.at, b.n);
            assert_refused(*state, &b, "4294967295");
        }
}

static void test_refuses_wrong_lengths(void **state)
{
    const uint32_t dim[] = {4, 5};
    struct bytes good = make_idx(8, 2, dim, 20), b = good, packed = gzip(good.at, good.n);
    for (b.n = 12; b.n < good.n; b.n++)
        assert_refused(*state, &b, "header says u8 4x5; expected 32 bytes");
    b.n = good.n + 1;
    assert_refused(*state, &b, "is 33 bytes long, but its header says u8 4x5; expected 32 bytes");

    b = gzip(good.at, good.n - 1);
    assert_refused(*state, &b,
                   "ends after 19 bytes of elements, but its header says u8 4x5; expected 20");
    b = gzip(good.at, good.n + 1);
    assert_refused(*state, &b,
                   "goes on after its elements; expected the end after the 20 bytes of u8 4x5");
    b = gzip(good.at, 0);
    assert_refused(*state, &b, "is empty");
    for (b = packed, b.n--; b.n >= 2; b.n--)
        assert_refused(*state, &b, "is cut off");
    b = packed;
    b.at[b.n++] = 'x'; /* garbage behind the end mark */
    assert_refused(*state, &b, "");
    b = packed;
    b.at[b.n - 6] ^= 1; /* the checksum of the content */
    assert_refused(*state, &b, "damaged compressed data: incorrect data check");
}

/* gzip files may be glued together; so may the parts of one IDX file. */
static void test_reads_several_members(void **state)
{
    (void)state;
    const uint32_t dim[] = {20};
    struct bytes good = make_idx(8, 1, dim, 20), b = gzip(good.at, 3),
                 middle = gzip(good.at + 3, 0), end = gzip(good.at + 3, 25);
    struct yk_idx x;
    append(&b, &middle);
    append(&b, &end);
    assert_int_equal(yk_idx_parse(b.at, b.n, &x, NULL), YK_OK);
    assert_memory_equal(x.data, good.at + 8, 20);
    yk_idx_release(&x);
}

static void test_refuses_what_is_no_file(void **state)
{
    struct yk_idx x;
    struct yk_error e;
    char path[YK_PATH_MAX];
    snprintf(path, sizeof path, "%s/none", (char *)*state);
    assert_int_equal(yk_idx_read(path, &x, &e), YK_DATA);
    assert_non_null(strstr(e.text, "cannot open '"));
    assert_int_equal(yk_idx_head(*state, &x, &e), YK_DATA);
    assert_non_null(strstr(e.text, "is not a file but a folder"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(yk_idx_read(path, &x, &e), YK_DATA); /* and does not wait for a writer */
    assert_non_null(strstr(e.text, "pipe"));
    yk_idx_release(&x);
    yk_idx_release(NULL);
}

/* A file is recognised by its element type and its number of dimensions, damaged or not. */
static void test_recognises(void **state)
{
    static const uint8_t TYPE[] = {0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e};
    struct bytes b = {.n = 4};
    for (unsigned type = 0; type < 32; type++)
        for (unsigned dims = 0; dims < 8; dims++) {
            b.at[2] = (uint8_t)type;
            b.at[3] = (uint8_t)dims;
            bool known = memchr(TYPE, (int)type, sizeof TYPE) != NULL && dims >= 1 && dims <= 4;
            assert_int_equal(yk_set_idx.is(save(*state, &b)), known);
        }
    b.at[2] = 8, b.at[3] = 1;
    assert_true(yk_set_idx.is(save(*state, &b)));
    struct bytes packed = gzip(b.at, b.n);
    assert_true(yk_set_idx.is(save(*state, &packed)));
    b.n = 3;
    assert_false(yk_set_idx.is(save(*state, &b)));
    b.n = 4;
    b.at[0] = 1;
    assert_false(yk_set_idx.is(save(*state, &b)));
    b.at[0] = 0, b.at[1] = 1;
    assert_false(yk_set_idx.is(save(*state, &b)));
}

static void test_describe(void **state)
{
    static const uint8_t LABELS[] = {0, 0, 8, 1, 0, 0, 0, 8, 3, 3, 3, 9, 9, 3, 3, 3};
    static const uint8_t BYTES_2D[] = {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 4, 255, 255, 0, 0};
    struct yk_buf out = {0};
    struct yk_error e;
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, &e, "%s/labels", (char *)*state), YK_OK);
    assert_int_equal(yk_file_write(path, LABELS, sizeof LABELS, &e), YK_OK);
    assert_int_equal(yk_set_idx.describe_file(path, &out, &e), YK_OK);
    assert_string_equal(out.data,
                        "labels: IDX, u8, 8, 8 B of elements\n"
                        "  values 3 .. 9, mean 4.500, 0.0 % zeros\n"
                        "  class       count   share\n"
                        "      3           6  75.0 %\n" /* classes that do not occur have no line */
                        "      9           2  25.0 %\n");
    yk_buf_clear(&out);
    assert_int_equal(yk_file_write(path, BYTES_2D, sizeof BYTES_2D, &e), YK_OK);
    assert_int_equal(yk_set_idx.describe_file(path, &out, &e), YK_OK);
    assert_string_equal(out.data, "labels: IDX, u8, 1x4, 4 B of elements\n"
                                  "  values 0 .. 255, mean 127.500, 50.0 % zeros\n");
    yk_buf_clear(&out);
    assert_int_equal(yk_file_write(path, BYTES_2D, sizeof BYTES_2D - 1, &e), YK_OK);
    assert_int_equal(yk_set_idx.describe_file(path, &out, &e), YK_DATA);
    assert_int_equal(out.len, 0); /* no half description */
    yk_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads_all_types, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_reads_large, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_refuses_bad_headers, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_refuses_wrong_lengths, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test(test_reads_several_members),
        cmocka_unit_test_setup_teardown(test_recognises, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_describe, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_refuses_what_is_no_file, testdir_setup,
                                        testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
