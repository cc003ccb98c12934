/* npz_test.c - reads archives back with an independent reader that follows the published formats:
 * the end of the archive, its directory, both descriptions of each entry, CRC-32 computed one bit
 * at a time, and NumPy's header. */
#include "param/npz.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static uint32_t u16(const uint8_t *p)
{
    return (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const uint8_t *p)
{
    return u16(p) | u16(p + 2) << 16;
}

static uint32_t crc32_slow(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return ~crc;
}

/* Does the directory's line at `d` describe a whole .npy of this view? Returns where the line
 * ends. */
static const uint8_t *check_entry(const uint8_t *file, size_t n, const uint8_t *d,
                                  const struct yk_params *p, const struct yk_view *v,
                                  const char *shape)
{
    char name[YK_NAME + 8], dict[256];
    assert_int_equal(u32(d), 0x02014b50);
    assert_int_equal(u16(d + 10), 0); /* stored */
    uint32_t crc = u32(d + 16), size = u32(d + 20), length = u16(d + 28), at = u32(d + 42);
    assert_int_equal(u32(d + 24), size);
    assert_int_equal(u16(d + 30), 0);
    assert_int_equal(u16(d + 32), 0);
    snprintf(name, sizeof name, "%s.npy", v->name);
    assert_int_equal(length, strlen(name));
    assert_memory_equal(d + 46, name, length);

    const uint8_t *local = file + at;
    assert_true(at + 30 + length + size <= n);
    assert_int_equal(u32(local), 0x04034b50);
    assert_memory_equal(
        local + 4, d + 6,
        26); /* version, flags, method, time, date, crc, sizes, lengths: the same twice */
    assert_memory_equal(local + 30, name, length);

    const uint8_t *npy = local + 30 + length;
    assert_int_equal(crc32_slow(npy, size), crc);
    assert_memory_equal(npy, "\x93NUMPY\x01\x00", 8);
    uint32_t header = u16(npy + 8);
    assert_int_equal((10 + header) % 64, 0);
    assert_int_equal(npy[10 + header - 1], '\n');
    snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    assert_memory_equal(npy + 10, dict, strlen(dict));
    for (uint32_t i = 10 + (uint32_t)strlen(dict); i < 10 + header - 1; i++)
        assert_int_equal(npy[i], ' ');
    assert_int_equal(size, 10 + header + v->count * sizeof(float));
    assert_memory_equal(npy + 10 + header, p->flat + v->at, v->count * sizeof(float));
    return d + 46 + length;
}

static void test_archive(void **state)
{
    const struct yk_view spec[] = {{.name = "softmax.weight", .ndim = 2, .shape = {3, 5}},
                                   {.name = "softmax.bias", .ndim = 1, .shape = {3}},
                                   {.name = "conv", .ndim = 4, .shape = {2, 1, 3, 7}}};
    static const char *const SHAPE[] = {"(2, 1, 3, 7,)", "(3,)",
                                        "(3, 5,)"}; /* in the order of the names */
    struct yk_params p;
    struct yk_error e;
    char path[YK_PATH_MAX], *bytes, *again;
    size_t n, m;
    assert_int_equal(yk_params_init(&p, spec, 3, &e), YK_OK);
    for (size_t v = 0; v < p.views; v++)
        for (size_t i = 0; i < p.view[v].count; i++)
            p.flat[p.view[v].at + i] = (float)i * 1.1f - (float)v;
    assert_int_equal(yk_path(path, &e, "%s/model.npz", (char *)*state), YK_OK);
    assert_int_equal(yk_npz_write(path, &p, &e), YK_OK);
    assert_int_equal(yk_file_read(path, 1 << 20, &bytes, &n, &e), YK_OK);

    const uint8_t *file = (const uint8_t *)bytes, *end = file + n - 22;
    assert_true(n > 22);
    assert_int_equal(u32(end), 0x06054b50);
    assert_int_equal(u32(end + 4), 0); /* one disk */
    assert_int_equal(u16(end + 8), 3);
    assert_int_equal(u16(end + 10), 3);
    assert_int_equal(u16(end + 20), 0);
    const uint8_t *directory = file + u32(end + 16), *d = directory;
    assert_ptr_equal(directory + u32(end + 12), end);
    for (size_t v = 0; v < 3; v++)
        d = check_entry(file, n, d, &p, &p.view[v], SHAPE[v]);
    assert_ptr_equal(d, end);
    assert_int_equal(u32(directory + 42), 0); /* no hole before the first entry */

    assert_int_equal(yk_npz_write(path, &p, &e),
                     YK_OK); /* over itself; equal models give equal files */
    assert_int_equal(yk_file_read(path, 1 << 20, &again, &m, &e), YK_OK);
    assert_int_equal(n, m);
    assert_memory_equal(bytes, again, n);
    free(bytes);
    free(again);
    yk_params_release(&p);
}

static void test_refuses(void **state)
{
    const struct yk_view spec = {.name = "w", .ndim = 1, .shape = {4}};
    struct yk_params p;
    struct yk_error e;
    char path[YK_PATH_MAX];
    assert_int_equal(yk_params_init(&p, &spec, 1, &e), YK_OK);
    assert_int_equal(yk_path(path, &e, "%s/no/such/folder.npz", (char *)*state), YK_OK);
    assert_int_not_equal(yk_npz_write(path, &p, &e), YK_OK);
    assert_non_null(strstr(e.text, "folder.npz"));
    struct yk_params big = p;
    big.weights = (size_t)1 << 30; /* 4 GB; must be refused before a byte is read */
    assert_int_equal(yk_path(path, &e, "%s/big.npz", (char *)*state), YK_OK);
    assert_int_equal(yk_npz_write(path, &big, &e), YK_USAGE);
    assert_false(yk_exists(path));
    yk_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_archive, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_refuses, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
