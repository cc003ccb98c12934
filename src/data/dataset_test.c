/* dataset_test.c - opening folders, single files and named sets; every mistake a folder of files
 * can hold. */
#include "data/data.h"

#include "base/file.h"
#include "tests/mnist.h"
#include "tests/skip.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <xxhash.h>
#include <zlib.h>

#include <cmocka.h>

/* Write an IDX file whose elements are seed, seed+1, ... modulo `mod`; a name that ends in .gz is
 * gzipped. */
static void put(const char *dir, const char *name, uint8_t type, const char *shape, unsigned seed,
                unsigned mod)
{
    char path[YK_PATH_MAX];
    uint8_t b[4096] = {0, 0, type, 0};
    size_t n = 4, elements = 1;
    for (const char *p = shape; *p != '\0'; p += *p == 'x') {
        uint32_t d = (uint32_t)strtoul(p, (char **)&p, 10);
        for (int shift = 24; shift >= 0; shift -= 8)
            b[n++] = (uint8_t)(d >> shift);
        b[3]++;
        elements *= d;
    }
    for (size_t i = 0; i < elements * (type == 0x0d ? 4 : 1); i++)
        b[n++] = (uint8_t)((seed + i) % mod);
    assert_int_equal(yk_path(path, NULL, "%s/%s", dir, name), YK_OK);
    gzFile f = gzopen(path, strstr(name, ".gz") ? "wb9" : "wbT");
    assert_int_equal(gzwrite(f, b, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
}

static void put_all(const char *dir)
{
    put(dir, "train-images-idx3-ubyte", 8, "6x2x3", 0, 256);
    put(dir, "train-labels-idx1-ubyte", 8, "6", 0, 3);
    put(dir, "t10k-images-idx3-ubyte", 8, "4x2x3", 7, 256);
    put(dir, "t10k-labels-idx1-ubyte", 8, "4", 1, 5);
}

static void assert_refused(const char *what, const char *text, const char *hint)
{
    struct yk_dataset train, test;
    struct yk_error e = {0};
    assert_int_equal(yk_data_open(what, NULL, &train, &test, &e), YK_DATA);
    if (strstr(e.text, text) == NULL || strstr(e.hint, hint) == NULL)
        fail_msg("expected '%s' and '%s' in: %s; %s", text, hint, e.text, e.hint);
    assert_null(train.pixels);
    assert_null(train.labels);
    assert_null(test.pixels);
    assert_int_equal(test.rows, 0);
}

static void test_folder(void **state)
{
    struct yk_dataset train, test, alone;
    struct yk_error e;
    char slashes[YK_PATH_MAX];
    put_all(*state);
    assert_int_equal(yk_path(slashes, NULL, "%s//", (char *)*state), YK_OK);
    assert_int_equal(yk_data_open(slashes, NULL, &train, &test, &e), YK_OK);
    assert_string_equal(train.name, strrchr(*state, '/') + 1);
    assert_string_equal(train.split, "train");
    assert_string_equal(test.split, "test");
    assert_int_equal(train.rows, 6);
    assert_int_equal(test.rows, 4);
    assert_int_equal(train.features, 6);
    assert_memory_equal(train.shape, ((uint32_t[]){2, 3, 1}), sizeof train.shape);
    assert_int_equal(train.classes, 5); /* only the test part has label 4 */
    assert_int_equal(test.classes, 5);
    assert_true(train.scale == 1.0f / 255);
    uint8_t all[42]; /* pixels, then labels */
    for (unsigned i = 0; i < 42; i++)
        all[i] = (uint8_t)(i < 36 ? i : (i - 36) % 3);
    assert_memory_equal(train.pixels, all, 36);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(train.labels[i], all[36 + i]);
    assert_int_equal((uintptr_t)train.pixels % 64, 0);
    for (int i = 0; i < YK_ROW_SLACK; i++)
        assert_int_equal(train.pixels[36 + i], 0);
    assert_true(train.xxh3 == XXH3_64bits(all, sizeof all));
    assert_true(train.xxh3 != test.xxh3);

    /* A part that is opened alone is the same, and has as many classes. */
    assert_int_equal(yk_data_open_test(*state, NULL, &alone, &e), YK_OK);
    assert_true(alone.xxh3 == test.xxh3 && alone.classes == 5 && strcmp(alone.split, "test") == 0);
    yk_dataset_release(&alone);
    assert_int_equal(yk_data_open(*state, NULL, &alone, NULL, &e), YK_OK);
    assert_true(alone.xxh3 == train.xxh3 && alone.classes == 5);
    yk_dataset_release(&alone);
    yk_dataset_release(&train);
    yk_dataset_release(&test);
    assert_null(test.pixels);
    yk_dataset_release(&test);
    yk_dataset_release(NULL);
}

static void test_spellings(void **state)
{
    struct yk_dataset train, test;
    put(*state, "train-images.idx3-ubyte", 8, "3x2x3", 0, 256);
    put(*state, "train-labels-idx1-ubyte.gz", 8, "3", 0, 1);
    assert_int_equal(yk_data_open(*state, NULL, &train, &test, NULL), YK_OK); /* no test part */
    assert_int_equal(train.rows, 3);
    assert_int_equal(train.classes, 2); /* at least */
    assert_int_equal(test.rows, 0);
    assert_null(test.pixels);
    yk_dataset_release(&train);
    put(*state, "t10k-images.idx3-ubyte.gz", 8, "2x2x3", 0, 256);
    put(*state, "t10k-labels.idx1-ubyte", 8, "2", 0, 9);
    assert_int_equal(yk_data_open(*state, NULL, &train, &test, NULL), YK_OK);
    assert_int_equal(test.rows, 2);
    yk_dataset_release(&train);
    yk_dataset_release(&test);
}

static void test_dimensions(void **state)
{
    struct yk_dataset d;
    put(*state, "t10k-labels-idx1-ubyte", 8, "2", 0, 9);
    put(*state, "t10k-images-idx2-ubyte", 8, "2x12", 0, 256);
    assert_int_equal(yk_data_open_test(*state, NULL, &d, NULL),
                     YK_OK); /* a folder with the test part alone */
    assert_memory_equal(d.shape, ((uint32_t[]){1, 12, 1}), sizeof d.shape);
    yk_dataset_release(&d);
    put(*state, "t10k-images-idx4-ubyte", 8, "2x2x3x2", 0, 256);
    assert_int_equal(yk_data_open_test(*state, NULL, &d, NULL), YK_OK);
    assert_memory_equal(d.shape, ((uint32_t[]){2, 3, 2}), sizeof d.shape);
    assert_int_equal(d.features, 12);
    yk_dataset_release(&d);
    assert_refused(*state, "cannot find 'train-images-idx3-ubyte' in '", "a folder of data holds");
}

static void test_single_file(void **state)
{
    struct yk_dataset d, none;
    char path[YK_PATH_MAX];
    put(*state, "my-images-2-idx3-ubyte.gz", 8, "5x2x3", 0, 256);
    assert_int_equal(yk_path(path, NULL, "%s/my-images-2-idx3-ubyte.gz", (char *)*state), YK_OK);
    assert_refused(path, "cannot find the labels of '", "my-labels-2-idx1-ubyte'");
    put(*state, "my-labels-2-idx1-ubyte", 8, "5", 0, 4);
    assert_int_equal(yk_data_open(path, NULL, &d, &none, NULL), YK_OK);
    assert_string_equal(d.name, "my-images-2-idx3-ubyte.gz");
    assert_string_equal(d.split, "train");
    assert_true(d.rows == 5 && d.classes == 4 && none.rows == 0);
    yk_dataset_release(&d);
    assert_int_equal(yk_data_open_test(path, NULL, &d, NULL), YK_OK);
    assert_string_equal(d.split, "test");
    yk_dataset_release(&d);
    assert_int_equal(yk_path(path, NULL, "%s/my-labels-2-idx1-ubyte", (char *)*state), YK_OK);
    assert_refused(path, "does not have 'images' in it", "some-labels-idx1-ubyte");
}

static void test_refuses(void **state)
{
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, NULL, "%s/none", (char *)*state), YK_OK);
    assert_refused(path, "none': no such file or directory", "mnist, fashion-mnist, a folder");
    assert_refused(*state, "cannot find 'train-images-idx3-ubyte' in '", "a folder of data holds");
    assert_refused(*state, "cannot find 'train-images-idx3-ubyte' in '",
                   "or a folder of JPEG files for each class");
    put_all(*state);
    put(*state, "train-labels-idx1-ubyte", 8, "5", 0, 3);
    assert_refused(*state, "train-images-idx3-ubyte' has 6 images but '", "");
    put(*state, "train-labels-idx1-ubyte", 0x0d, "6", 0, 3);
    assert_refused(
        *state,
        "train-labels-idx1-ubyte' holds f32 elements in 1 dimension; labels must be u8 in 1", "");
    put(*state, "train-labels-idx1-ubyte", 8, "6x1", 0, 3);
    assert_refused(*state, "holds u8 elements in 2 dimensions; labels must be u8 in 1", "");
    put(*state, "train-labels-idx1-ubyte", 8, "0", 0, 3);
    assert_refused(*state, "holds no elements: its shape is 0", "");
    put_all(*state);
    put(*state, "train-images-idx3-ubyte", 0x0d, "6x2x3", 0, 256);
    assert_refused(
        *state,
        "train-images-idx3-ubyte' holds f32 elements in 3 dimensions; images must be u8 in 2 to 4",
        "");
    put(*state, "train-images-idx3-ubyte", 8, "6", 0, 256);
    assert_refused(*state, "holds u8 elements in 1 dimension; images must be u8", "");
    put(*state, "train-images-idx3-ubyte", 8, "6x3x2", 0, 256);
    assert_refused(*state, "' are 3x2x1, but its test images are 2x3x1", "");
    put_all(*state);
    assert_int_equal(yk_path(path, NULL, "%s/t10k-labels-idx1-ubyte", (char *)*state), YK_OK);
    assert_int_equal(truncate(path, 9), 0);
    assert_refused(*state, "t10k-labels-idx1-ubyte' is 9 bytes long", "");
    assert_int_equal(unlink(path), 0);
    assert_refused(*state, "cannot find 't10k-labels-idx1-ubyte' in '", "a folder of data holds");
}

static void test_mnist(void **state)
{
    (void)state;
    char folder[YK_PATH_MAX];
    struct yk_dataset train, test;
    struct yk_error e;
    if (!mnist_folder(folder)) {
        skip_because("MNIST is not in the cache");
    }
    assert_int_equal(yk_data_open("mnist", NULL, &train, &test, &e), YK_OK);
    assert_string_equal(train.name, "mnist");
    assert_true(train.rows == 60000 && test.rows == 10000);
    assert_true(train.features == 784 && train.classes == 10 && test.classes == 10);
    assert_memory_equal(train.shape, ((uint32_t[]){28, 28, 1}), sizeof train.shape);
    assert_memory_equal(train.labels, ((uint16_t[]){5, 0, 4, 1, 9, 2, 1, 3, 1, 4}), 20);
    assert_memory_equal(test.labels, ((uint16_t[]){7, 2, 1, 0, 4, 1, 4, 9, 5, 9}), 20);
    yk_dataset_release(&train);
    yk_dataset_release(&test);
}

#if !defined(__SANITIZE_ADDRESS__) &&                                                              \
    !defined(__SANITIZE_THREAD__) /* sanitizers' shadow memory would drown the measure */
#define MEASURES_MEMORY
/* The bytes of the data set once, plus at most 25 %. */
static void test_memory(void **state)
{
    (void)state;
    char folder[YK_PATH_MAX];
    if (!mnist_folder(folder)) {
        skip_because("MNIST is not in the cache");
    }
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct yk_dataset train, test;
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        if (yk_data_open("mnist", NULL, &train, &test, NULL) != YK_OK)
            _exit(1);
        getrusage(RUSAGE_SELF, &after);
        double bytes = (double)(train.rows + test.rows) * (train.features + 1);
        _exit((double)(after.ru_maxrss - before.ru_maxrss) * 1024 <= 1.25 * bytes ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_folder, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_spellings, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_dimensions, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_single_file, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_refuses, testdir_setup, testdir_teardown),
        cmocka_unit_test(test_mnist),
#ifdef MEASURES_MEMORY
        cmocka_unit_test(test_memory),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
