/* npy_test.c - headers as NumPy writes them and as nobody should, and blocks of both orders and
 * types against arithmetic. */
#include "matmul/npy.h"

#include "tests/testdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HUGE_FILE = 1 << 20 };

/* A header of some version around `dict`; returns its length. */
static size_t wrap(unsigned char *out, unsigned major, const char *dict)
{
    size_t n = strlen(dict), start = major == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)major;
    out[7] = 0;
    out[8] = (unsigned char)n;
    out[9] = (unsigned char)(n >> 8);
    out[10] = out[11] = 0;
    memcpy(out + start, dict, n);
    return start + n;
}

static void good_headers(void **state)
{
    (void)state;
    static const struct {
        const char *dict;
        enum yk_float type;
        bool fortran;
        uint64_t rows, cols;
    } CASES[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }    \n", YK_F32, false, 3, 4},
        {"{\"shape\":(7,1),\"fortran_order\":True,\"descr\":\"<f8\"}", YK_F64, true, 7, 1},
        {" { 'fortran_order' : False , 'shape' : ( 2L , 5L , ) , 'descr' : '<f4' , } ", YK_F32,
         false, 2, 5},
    };
    unsigned char bytes[512];
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        for (unsigned major = 1; major <= 3; major++) {
            struct yk_npy f;
            size_t n = wrap(bytes, major, CASES[i].dict);
            assert_int_equal(yk_npy_parse(&f, bytes, n, HUGE_FILE, "a.npy", NULL), YK_OK);
            assert_true(f.type == CASES[i].type && f.fortran == CASES[i].fortran);
            assert_true(f.rows == CASES[i].rows && f.cols == CASES[i].cols && f.offset == n);
            uint64_t whole = n + f.rows * f.cols * f.type;
            assert_int_equal(yk_npy_parse(&f, bytes, n, whole, "a.npy", NULL), YK_OK);
            assert_int_equal(yk_npy_parse(&f, bytes, n, whole - 1, "a.npy", NULL), YK_DATA);
            for (size_t cut = 0; cut < n; cut++) /* no part of a header is one */
                assert_int_equal(yk_npy_parse(&f, bytes, cut, HUGE_FILE, "a.npy", NULL), YK_DATA);
        }
}

static void bad_headers(void **state)
{
    (void)state;
    static const struct {
        const char *dict, *why;
    } CASES[] = {
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }", "'<i4'"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }", "big-endian"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }", "'<f2'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3, 4), }", "records"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "1 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "0 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }", "3 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", "without elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         "too short"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
         "too short"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 4), }",
         "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, -4), }", "malformed"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3, 4), }", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, }", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'more': 1}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } x", "malformed"},
        {"{'descr: '<f4', 'fortran_order': False, 'shape': (3, 4), }", "malformed"},
        {"", "malformed"},
    };
    unsigned char bytes[512];
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct yk_npy f;
        struct yk_error e;
        size_t n = wrap(bytes, 1, CASES[i].dict);
        assert_int_equal(yk_npy_parse(&f, bytes, n, HUGE_FILE, "a.npy", &e), YK_DATA);
        assert_non_null(strstr(e.text, CASES[i].why));
        assert_int_equal(f.fd, -1);
    }
    struct yk_npy f;
    wrap(bytes, 4, "{}");
    assert_int_equal(yk_npy_parse(&f, bytes, 14, HUGE_FILE, "a.npy", NULL), YK_DATA);
    wrap(bytes, 1, "{}");
    bytes[0] = 'x';
    assert_int_equal(yk_npy_parse(&f, bytes, 14, HUGE_FILE, "a.npy", NULL), YK_DATA);
}

static double value(uint64_t r, uint64_t c)
{
    return (double)r * 1000 + (double)c + 0.25;
}

static void put_file(const char *path, uint64_t rows, uint64_t cols, enum yk_float type,
                     bool fortran)
{
    unsigned char head[512];
    char dict[200];
    snprintf(dict, sizeof dict, "{'descr': '<f%d', 'fortran_order': %s, 'shape': (%d, %d), }\n",
             type, fortran ? "True" : "False", (int)rows, (int)cols);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    size_t n = wrap(head, 1, dict);
    assert_int_equal(fwrite(head, 1, n, f), n);
    for (uint64_t i = 0; i < rows * cols; i++) {
        double d = fortran ? value(i % rows, i / rows) : value(i / cols, i % cols);
        float s = (float)d;
        assert_int_equal(type == YK_F64 ? fwrite(&d, sizeof d, 1, f) : fwrite(&s, sizeof s, 1, f),
                         1);
    }
    fclose(f);
}

static void check_block(const struct yk_npy *f, struct yk_rect b, enum yk_float type)
{
    void *out = malloc(b.rows * b.cols * type);
    assert_non_null(out);
    assert_int_equal(yk_npy_read(f, &b, type, out, NULL), YK_OK);
    for (uint64_t r = 0; r < b.rows; r++)
        for (uint64_t c = 0; c < b.cols; c++) {
            uint64_t i = r * b.cols + c;
            double v = type == YK_F64 ? ((double *)out)[i] : (double)((float *)out)[i];
            assert_true(v == value(b.row + r, b.col + c));
        }
    free(out);
}

static void blocks_are_read(void **state)
{
    char path[YK_PATH_MAX];
    yk_path(path, NULL, "%s/x.npy", (char *)*state);
    for (int kind = 0; kind < 4; kind++) {
        struct yk_npy f;
        put_file(path, 2100, 70, kind & 1 ? YK_F64 : YK_F32, kind & 2);
        assert_int_equal(yk_npy_open(&f, path, NULL), YK_OK);
        for (enum yk_float type = YK_F32; type <= YK_F64;
             type = type == YK_F32 ? YK_F64 : YK_F64 + 1) {
            check_block(&f, (struct yk_rect){0, 0, 2100, 70}, type);
            check_block(&f, (struct yk_rect){5, 0, 7, 70}, type);
            check_block(&f, (struct yk_rect){2040, 3, 60, 66}, type);
            check_block(&f, (struct yk_rect){2099, 69, 1, 1}, type);
            check_block(&f, (struct yk_rect){1, 1, 2055, 1}, type);
        }
        yk_npy_close(&f);
        yk_npy_close(&f);
    }
}

static void a_file_that_shrinks_is_told(void **state)
{
    char path[YK_PATH_MAX];
    struct yk_npy f;
    struct yk_error e;
    float out[64];
    yk_path(path, NULL, "%s/x.npy", (char *)*state);
    put_file(path, 8, 8, YK_F32, false);
    assert_int_equal(yk_npy_open(&f, path, &e), YK_OK);
    assert_int_equal(truncate(path, 200), 0);
    assert_int_equal(yk_npy_read(&f, &(struct yk_rect){0, 0, 8, 8}, YK_F32, out, &e), YK_DATA);
    assert_non_null(strstr(e.text, "shorter"));
    yk_npy_close(&f);
    assert_int_equal(yk_npy_open(&f, path, &e), YK_DATA);
    assert_int_equal(yk_npy_open(&f, *state, &e), YK_DATA);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(yk_npy_open(&f, path, &e), YK_DATA);
    assert_non_null(strstr(e.text, "no such file"));
}

static void what_is_written_is_read(void **state)
{
    char path[YK_PATH_MAX];
    unsigned char header[YK_NPY_HEADER];
    struct yk_npy f;
    float block[3 * 5], back[4 * 7];
    yk_path(path, NULL, "%s/out.npy", (char *)*state);
    FILE *file = fopen(path, "w+b");
    assert_non_null(file);
    yk_npy_header(header, 4, 7);
    assert_int_equal(fwrite(header, 1, sizeof header, file), sizeof header);
    fflush(file);
    for (uint64_t r = 0; r < 4; r++) /* one row whole, the others in two blocks */
        for (uint64_t c = 0; c < 7; c += r == 2 ? 7 : 4) {
            uint64_t cols = r == 2 ? 7 : c == 0 ? 4 : 3;
            for (uint64_t i = 0; i < cols; i++)
                block[i] = (float)value(r, c + i);
            assert_int_equal(yk_npy_write(fileno(file), path, 7, &(struct yk_rect){r, c, 1, cols},
                                          block, 15, NULL),
                             YK_OK);
        }
    fclose(file);
    assert_int_equal(yk_npy_open(&f, path, NULL), YK_OK);
    assert_true(f.rows == 4 && f.cols == 7 && f.offset == YK_NPY_HEADER && !f.fortran &&
                f.type == YK_F32);
    assert_int_equal(yk_npy_read(&f, &(struct yk_rect){0, 0, 4, 7}, YK_F32, back, NULL), YK_OK);
    for (uint64_t i = 0; i < 28; i++)
        assert_true((double)back[i] == value(i / 7, i % 7));
    yk_npy_close(&f);
    yk_npy_header(header, UINT64_MAX / 2, UINT64_MAX / 2); /* the longest there is */
    assert_int_equal(header[YK_NPY_HEADER - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_headers),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test_setup_teardown(blocks_are_read, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_shrinks_is_told, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
