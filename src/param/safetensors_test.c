/* safetensors_test.c - the bytes of a file against the definition of the format, files that other
 * programs may write, and files that must be refused. */
#include "param/safetensors.h"

#include "base/file.h"
#include "base/guard.h"
#include "tests/testdir.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

static const float weight[6] = {1, 2, 3, 4, 5, 6}, bias[2] = {-1, 0.5f};
static const struct yk_tensor tensors[] = {
    {.name = "w", .ndim = 2, .shape = {3, 2}, .count = 6, .data = weight},
    {.name = "b", .ndim = 1, .shape = {2}, .count = 2, .data = bias},
};
static const struct yk_meta metas[] = {
    {"step", "100"}, {"seed", "a \"quoted\" seed"}, {"xxh3", "stale"}};

static char path[YK_PATH_MAX];

static const char *in(void **state, const char *name)
{
    yk_path(path, NULL, "%s/%s", (char *)*state, name);
    return path;
}

static void test_bytes(void **state)
{
    struct yk_error e;
    char *file, want[512] = {0};
    size_t n;
    const float data[] = {-1, 0.5f, 1, 2, 3, 4, 5, 6};
    assert_int_equal(yk_tensors_write(in(state, "a"), tensors, 2, metas, 3, &e), YK_OK);
    assert_int_equal(yk_file_read(path, 10000, &file, &n, &e), YK_OK);

    int len = snprintf(
        want, sizeof want,
        "{\"__metadata__\":{\"seed\":\"a \\\"quoted\\\" "
        "seed\",\"step\":\"100\",\"xxh3\":\"%016llx\",\"xxh3_header\":\"0000000000000000\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[8,32]}}",
        (unsigned long long)XXH3_64bits(data, sizeof data));
    size_t padded = ((size_t)len + 7) & ~(size_t)7;
    assert_int_equal(n, 8 + padded + sizeof data);
    for (int i = 0; i < 8; i++)
        assert_int_equal((uint8_t)file[i], (uint8_t)(padded >> (8 * i)));
    memset(want + len, ' ', padded - (size_t)len);
    char sum[17];
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(want, padded));
    memcpy(strstr(want, "0000000000000000"), sum, 16);
    assert_memory_equal(file + 8, want, padded);
    assert_memory_equal(file + 8 + padded, data, sizeof data);
    free(file);
}

static void assert_ours(const struct yk_tensors *t)
{
    assert_int_equal(t->n, 2);
    assert_string_equal(t->tensor[0].name, "b");
    const struct yk_tensor *w = yk_tensors_find(t, "w");
    assert_non_null(w);
    assert_int_equal(w->ndim, 2);
    assert_int_equal(w->shape[0], 3);
    assert_int_equal(w->shape[1], 2);
    assert_int_equal(w->count, 6);
    assert_memory_equal(w->data, weight, sizeof weight);
    assert_memory_equal(yk_tensors_find(t, "b")->data, bias, sizeof bias);
    assert_null(yk_tensors_find(t, "c"));
}

static void test_read_back(void **state)
{
    struct yk_tensors t;
    struct yk_error e;
    assert_int_equal(yk_tensors_write(in(state, "a"), tensors, 2, metas, 3, &e), YK_OK);
    assert_int_equal(yk_tensors_read(path, &t, &e), YK_OK);
    assert_ours(&t);
    assert_int_equal(t.metas, 4);
    assert_string_equal(yk_tensors_meta(&t, "step"), "100");
    assert_string_equal(yk_tensors_meta(&t, "seed"), "a \"quoted\" seed");
    assert_null(yk_tensors_meta(&t, "none"));
    yk_tensors_release(&t);
    yk_tensors_release(&t);
    yk_tensors_release(NULL);

    assert_int_equal(yk_tensors_write(in(state, "empty"), NULL, 0, NULL, 0, &e), YK_OK);
    assert_int_equal(yk_tensors_read(path, &t, &e), YK_OK);
    assert_int_equal(t.n, 0);
    yk_tensors_release(&t);
}

static void test_write_refuses(void **state)
{
    struct yk_error e;
    struct yk_tensor t[2] = {tensors[0], tensors[0]};
    in(state, "a");
    assert_int_equal(yk_tensors_write(path, t, 2, NULL, 0, &e), YK_USAGE); /* one name twice */
    t[0].count = 5;
    assert_int_equal(yk_tensors_write(path, t, 1, NULL, 0, &e), YK_USAGE);
    t[0] = tensors[0];
    strcpy(t[0].name, "__metadata__");
    assert_int_equal(yk_tensors_write(path, t, 1, NULL, 0, &e), YK_USAGE);
    strcpy(t[0].name, "\xff");
    assert_int_equal(yk_tensors_write(path, t, 1, NULL, 0, &e), YK_FAILED);
    assert_false(yk_exists(path));
    assert_int_equal(yk_tensors_write(in(state, "no/folder"), tensors, 2, NULL, 0, &e), YK_FAILED);
    assert_int_equal(yk_tensors_read(path, &(struct yk_tensors){0}, &e), YK_DATA);
}

static int entries(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Infinite and NaN values: no file is left under the name or beside it, and an older file stays,
 * unless any bits may be written. */
static void test_broken(void **state)
{
    enum { MANY = (1 << 18) + 5 }; /* more than a piece */
    static const size_t AT[] = {0, 1000, (1 << 18) - 1, 1 << 18, MANY - 1};
    static const float BAD[] = {INFINITY, -INFINITY, NAN};
    float *data = calloc(MANY, sizeof *data);
    bool broken = false;
    struct yk_error e;
    struct yk_tensors t;
    struct yk_tensor one = {.name = "w", .ndim = 1, .shape = {MANY}, .count = MANY, .data = data};
    one.broken = &broken;
    assert_non_null(data);
    assert_int_equal(yk_tensors_write(in(state, "a"), &one, 1, metas, 2, &e), YK_OK);
    assert_false(broken);
    for (size_t i = 0; i < sizeof AT / sizeof AT[0]; i++) {
        data[AT[i]] = BAD[i % 3];
        broken = false;
        assert_int_equal(yk_tensors_write(in(state, "b"), &one, 1, metas, 2, &e), YK_FAILED);
        assert_true(broken);
        assert_non_null(strstr(e.text, "'w' has values that are infinite or NaN"));
        assert_int_equal(yk_tensors_write(in(state, "a"), &one, 1, metas, 2, &e), YK_FAILED);
        data[AT[i]] = 0;
    }
    assert_int_equal(entries(*state), 1); /* no "b", nothing temporary */
    assert_int_equal(yk_tensors_read(path, &t, &e), YK_OK);
    assert_true(yk_floats_finite(t.tensor[0].data, MANY));
    yk_tensors_release(&t);
    data[7] = NAN;
    one.broken = NULL;
    assert_int_equal(yk_tensors_write(in(state, "b"), &one, 1, metas, 2, &e), YK_OK);
    free(data);
}

/* A file of a header (length put before it) and `size` bytes of data that are 0, 1, 2, ... */
static size_t make(uint8_t *out, const char *header, size_t size)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)((uint64_t)n >> (8 * i));
    strcpy((char *)out + 8, header);
    for (size_t i = 0; i < size; i++)
        out[8 + n + i] = (uint8_t)i;
    return 8 + n + size;
}

static yk_code parse(const char *header, size_t size, struct yk_tensors *t, struct yk_error *e)
{
    uint8_t file[16384];
    return yk_tensors_parse(file, make(file, header, size), "it", t, e);
}

#define T(range, shape) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" range "}"

/* What the format allows and we do not write: no metadata, data in another order than names, any
 * padding, scalars, empties. */
static void test_accepts_others(void **state)
{
    (void)state;
    struct yk_tensors t;
    struct yk_error e;
    for (int pad = 0; pad < 8; pad++) {
        char header[256];
        snprintf(header, sizeof header,
                 "{\"a\":" T("[8,16]", "[2]") ",\"z\":" T("[0,8]", "[1,2]") "}%*s", pad, "");
        assert_int_equal(parse(header, 16, &t, &e), YK_OK);
        uint8_t want[16];
        for (int i = 0; i < 16; i++)
            want[i] = (uint8_t)i;
        assert_memory_equal(yk_tensors_find(&t, "z")->data, want, 8);
        assert_memory_equal(yk_tensors_find(&t, "a")->data, want + 8, 8);
        assert_int_equal((uintptr_t)yk_tensors_find(&t, "a")->data % sizeof(float), 0);
        yk_tensors_release(&t);
    }
    assert_int_equal(parse("{\"s\":" T("[0,4]", "[]") ",\"e\":" T("[0,0]", "[0,5]") "}", 4, &t, &e),
                     YK_OK);
    assert_int_equal(yk_tensors_find(&t, "s")->count, 1);
    assert_int_equal(yk_tensors_find(&t, "e")->count, 0);
    yk_tensors_release(&t);
    assert_int_equal(
        parse("{\"__metadata__\":{\"format\":\"pt\"},\"a\":" T("[0,8]", "[2]") "}", 8, &t, &e),
        YK_OK);
    assert_string_equal(yk_tensors_meta(&t, "format"), "pt");
    yk_tensors_release(&t);
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t size;
    } bad[] = {
        {"", 0},
        {"[]", 0},
        {"not json", 8},
        {"{}", 4}, /* data of no tensor */
        {"{\"a\":" T("[0,8]", "[2]") ",\"a\":" T("[0,8]", "[2]") "}", 8},
        {"{\"a\":" T("[8,0]", "[2]") "}", 8},                                /* reversed */
        {"{\"a\":" T("[0,8]", "[2]") "}", 7},                                /* past the end */
        {"{\"a\":" T("[0,8]", "[2]") "}", 12},                               /* bytes left over */
        {"{\"a\":" T("[4,12]", "[2]") "}", 12},                              /* a hole in front */
        {"{\"a\":" T("[0,8]", "[2]") ",\"b\":" T("[12,16]", "[1]") "}", 16}, /* a hole between */
        {"{\"a\":" T("[0,8]", "[2]") ",\"b\":" T("[4,12]", "[2]") "}", 12},  /* an overlap */
        {"{\"a\":" T("[0,8]", "[2]") ",\"b\":" T("[0,8]", "[2]") "}", 8},    /* the same twice */
        {"{\"a\":" T("[0,8]", "[2]") ",\"b\":" T("[0,8]", "[2]") "}",
         16}, /* and a hole that makes up for it */
        {"{\"a\":" T("[0,8]", "[3]") "}", 8},
        {"{\"a\":" T("[0,6]", "[2]") "}", 6},
        {"{\"a\":" T("[-8,0]", "[2]") "}", 8},
        {"{\"a\":" T("[0,8]", "[-2]") "}", 8},
        {"{\"a\":" T("[0,8]", "[2.0]") "}", 8},
        {"{\"a\":" T("[0,8]", "[1,1,1,1,2]") "}", 8},
        {"{\"a\":" T("[0,8]", "2") "}", 8},
        {"{\"a\":" T("[0]", "[2]") "}", 8},
        {"{\"a\":" T("[0,8,8]", "[2]") "}", 8},
        {"{\"a\":" T("[0,8]", "[4611686018427387905,2]") "}",
         8}, /* times 2, times 4 bytes: wraps to 8 */
        {"{\"a\":" T("[0,0]", "[4294967296,4294967296]") "}", 0}, /* 2^64 elements */
        {"{\"a\":" T("[0,8]", "[99999999999999999999]") "}", 8},  /* past 63 bits */
        {"{\"a\":" T("[0,9223372036854775807]", "[2]") "}", 8},   /* ends far away */
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":7}", 8},
        {"{\"__metadata__\":7}", 0},
        {"{\"__metadata__\":{\"a\":7}}", 0},
        {"{\"__metadata__\":{\"a\":{}}}", 0},
        {"{\"__metadata__\":{\"a key that is longer than thirty-one\":\"x\"}}", 0},
        {"{\"__metadata__\":{\"xxh3\":\"0123456789abcdef\"},\"a\":" T("[0,8]", "[2]") "}", 8},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct yk_tensors t = {0};
        struct yk_error e = {0};
        if (parse(bad[i].header, bad[i].size, &t, &e) != YK_DATA)
            fail_msg("accepted: %s", bad[i].header);
        assert_non_null(strstr(e.text, "'it'"));
        assert_null(t.buffer);
    }
    struct yk_error e;
    parse("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8,
          &(struct yk_tensors){0}, &e);
    assert_string_equal(e.text, "'it': tensor 'a' is of type 'F64'; only F32 is read");
}

static void test_counts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value; /* UINT64_MAX: refused */
    } CASES[] = {
        {"0", 0},
        {"12", 12},
        {"007", 7},
        {"9007199254740992", (uint64_t)1 << 53},
        {"9007199254740993", UINT64_MAX},
        {"18446744073709551615", UINT64_MAX},
        {"36893488147419103233", UINT64_MAX}, /* 2^65 + 1 */
        {"", UINT64_MAX},
        {"-5", UINT64_MAX},
        {"+5", UINT64_MAX},
        {" 5", UINT64_MAX},
        {"5 ", UINT64_MAX},
        {"0x5", UINT64_MAX},
        {"5.0", UINT64_MAX},
        {"abc", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        uint64_t have;
        struct yk_meta word = {.key = "step"};
        const struct yk_tensors t = {.meta = &word, .metas = 1};
        snprintf(word.value, sizeof word.value, "%s", CASES[i].text);
        if (!yk_tensors_count(&t, "step", &have))
            have = UINT64_MAX;
        if (have != CASES[i].value)
            fail_msg("'%s' is %llu", CASES[i].text, (unsigned long long)have);
        assert_false(yk_tensors_count(&t, "examples", &have));
    }
}

static void test_views(void **state)
{
    struct yk_tensors t;
    struct yk_error e;
    const struct yk_tensor w = {
        .name = "a.w", .ndim = 2, .shape = {3, 2}, .count = 6, .data = weight};
    struct yk_view v = {.name = "w", .ndim = 2, .shape = {3, 2}, .count = 6};
    assert_int_equal(yk_tensors_write(in(state, "a"), &w, 1, NULL, 0, &e), YK_OK);
    assert_int_equal(yk_tensors_read(path, &t, &e), YK_OK);
    assert_ptr_equal(yk_tensors_view(&t, "a.", &v), &t.tensor[0]);
    assert_null(yk_tensors_view(&t, "", &v));
    static const struct yk_view OTHERS[] = {{.ndim = 2, .shape = {2, 3}}, /* all of six floats */
                                            {.ndim = 1, .shape = {6}},
                                            {.ndim = 3, .shape = {3, 2, 1}},
                                            {.ndim = 2, .shape = {6, 1}}};
    for (size_t i = 0; i < 4; i++) {
        v.ndim = OTHERS[i].ndim;
        memcpy(v.shape, OTHERS[i].shape, sizeof v.shape);
        assert_null(yk_tensors_view(&t, "a.", &v));
    }
    yk_tensors_release(&t);
}

static void test_refuses_long_names(void **state)
{
    (void)state;
    char name[400], header[8192];
    struct yk_tensors t;
    struct yk_error e;
    memset(name, 'n', sizeof name);
    name[127] = '\0';
    snprintf(header, sizeof header, "{\"%s\":" T("[0,8]", "[2]") "}", name);
    assert_int_equal(parse(header, 8, &t, &e), YK_OK);
    yk_tensors_release(&t);
    name[127] = 'n';
    name[128] = '\0';
    snprintf(header, sizeof header, "{\"%s\":" T("[0,8]", "[2]") "}", name);
    assert_int_equal(parse(header, 8, &t, &e), YK_DATA);
    char value[sizeof t.meta->value + 1];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    snprintf(header, sizeof header, "{\"__metadata__\":{\"a\":\"%s\"}}", value);
    assert_int_equal(parse(header, 0, &t, &e), YK_DATA);
}

static void test_header_lengths(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {3,          100,        (64 << 20) + 1, 1ull << 32,
                                       1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t file[10] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
        struct yk_tensors t;
        struct yk_error e;
        for (int k = 0; k < 8; k++)
            file[k] = (uint8_t)(lengths[i] >> (8 * k));
        assert_int_equal(yk_tensors_parse(file, sizeof file, "it", &t, &e), YK_DATA);
        assert_non_null(strstr(
            e.text, "its header claims")); /* refused for its length, not for what lies beyond it */
    }
}

/* Every truncation and every flipped bit of a real file is noticed, or does no harm if it is in
 * the name of the header's checksum. */
static void test_any_damage(void **state)
{
    struct yk_error e;
    struct yk_tensors t;
    char *file;
    size_t n, accepted = 0;
    /* In a file that yoke wrote, checksums cannot be switched off: every flip is noticed. */
    const struct yk_meta ours[] = {metas[0], metas[1], {"format", "yoke-1"}};
    assert_int_equal(yk_tensors_write(in(state, "a"), tensors, 2, ours, 3, &e), YK_OK);
    assert_int_equal(yk_file_read(path, 10000, &file, &n, &e), YK_OK);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(yk_tensors_parse(file, cut, "cut", &t, &e), YK_DATA);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        file[bit / 8] ^= (char)(1 << bit % 8);
        if (yk_tensors_parse(file, n, "flipped", &t, &e) == YK_OK) {
            assert_ours(&t);
            assert_string_equal(yk_tensors_meta(&t, "step"), "100");
            yk_tensors_release(&t);
            accepted++;
        } else {
            assert_int_equal(e.code, YK_DATA);
        }
        file[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(accepted, 0);
    assert_int_equal(yk_tensors_parse(file, n, "whole", &t, &e), YK_OK);
    assert_ours(&t);
    yk_tensors_release(&t);
    free(file);
}

static struct sigaction guarding; /* cmocka puts handlers of its own in its place for each test */

/* A large file is mapped. If it shrinks, the bytes that are gone are zeros, and that is noticed. */
static void test_shrunk(void **state)
{
    enum { COUNT = 3 << 20 };
    struct yk_error e;
    struct yk_tensors t;
    float *many = calloc(COUNT, sizeof *many);
    assert_non_null(many);
    many[COUNT - 1] = 7;
    const struct yk_tensor large = {
        .name = "w", .ndim = 1, .shape = {COUNT}, .count = COUNT, .data = many};
    assert_int_equal(yk_tensors_write(in(state, "large"), &large, 1, metas, 2, &e), YK_OK);
    sigaction(SIGBUS, &guarding, NULL);
    assert_int_equal(yk_tensors_read(path, &t, &e), YK_OK);
    assert_int_equal(yk_tensors_intact(&t, path, &e), YK_OK);
    assert_true(t.tensor[0].data[COUNT - 1] == 7);
    assert_int_equal(truncate(path, 4096), 0);
    assert_true(t.tensor[0].data[COUNT - 1] == 0);
    assert_int_equal(yk_tensors_intact(&t, path, &e), YK_DATA);
    assert_non_null(strstr(e.text, "changed while it was read"));
    yk_tensors_release(&t);
    free(many);
}

int main(void)
{
    char one[1];
    yk_unguard(yk_guard(one, sizeof one));
    sigaction(SIGBUS, NULL, &guarding);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_read_back, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_write_refuses, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_broken, testdir_setup, testdir_teardown),
        cmocka_unit_test(test_accepts_others),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_counts),
        cmocka_unit_test_setup_teardown(test_views, testdir_setup, testdir_teardown),
        cmocka_unit_test(test_refuses_long_names),
        cmocka_unit_test(test_header_lengths),
        cmocka_unit_test_setup_teardown(test_any_damage, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_shrunk, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
