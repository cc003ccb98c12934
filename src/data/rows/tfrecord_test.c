/* tfrecord_test.c - TFRecord files of tf.train.Example, read from their definition: a file that
 * another program wrote, messages put together by hand in every way that protocol buffers allow,
 * damage of every kind, and what we write ourselves. */
#include "base/crc32c.h"
#include "base/pb.h"
#include "tests/chunks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct yk_reading PLAIN = {0};
static const struct yk_rows_format *const F = &yk_rows_format_tfrecord;

/* Four examples, serialized by Google's own protobuf 4.21.12 for Python from the definition of
 * tf.train.Example, with a bit-by-bit crc32c in Python round them: (1; 0:1 5:0.5 300:-2.25
 * 33762577:1e-38 4294967000:3.1415927), (float label -1; 127:0.1, and bytes under another name),
 * (0; no entries, no values), (1; 128 16384 2097152, no values). */
static const uint8_t FOREIGN[] = {
    0x51, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9c, 0xa1, 0xd9, 0xbc, 0x0a, 0x4f, 0x0a, 0x0e,
    0x0a, 0x05, 0x6c, 0x61, 0x62, 0x65, 0x6c, 0x12, 0x05, 0x1a, 0x03, 0x0a, 0x01, 0x01, 0x0a, 0x1a,
    0x0a, 0x05, 0x69, 0x6e, 0x64, 0x65, 0x78, 0x12, 0x11, 0x1a, 0x0f, 0x0a, 0x0d, 0x00, 0x05, 0xac,
    0x02, 0x91, 0xda, 0x8c, 0x10, 0xd8, 0xfd, 0xff, 0xff, 0x0f, 0x0a, 0x21, 0x0a, 0x05, 0x76, 0x61,
    0x6c, 0x75, 0x65, 0x12, 0x18, 0x12, 0x16, 0x0a, 0x14, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00,
    0x3f, 0x00, 0x00, 0x10, 0xc0, 0xee, 0xe3, 0x6c, 0x00, 0xdb, 0x0f, 0x49, 0x40, 0xcc, 0x9a, 0x9b,
    0x97, 0x4b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x87, 0x09, 0x99, 0x96, 0x0a, 0x49, 0x0a,
    0x11, 0x0a, 0x05, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x12, 0x08, 0x12, 0x06, 0x0a, 0x04, 0xcd, 0xcc,
    0xcc, 0x3d, 0x0a, 0x11, 0x0a, 0x05, 0x6f, 0x74, 0x68, 0x65, 0x72, 0x12, 0x08, 0x0a, 0x06, 0x0a,
    0x02, 0x61, 0x64, 0x0a, 0x00, 0x0a, 0x11, 0x0a, 0x05, 0x6c, 0x61, 0x62, 0x65, 0x6c, 0x12, 0x08,
    0x12, 0x06, 0x0a, 0x04, 0x00, 0x00, 0x80, 0xbf, 0x0a, 0x0e, 0x0a, 0x05, 0x69, 0x6e, 0x64, 0x65,
    0x78, 0x12, 0x05, 0x1a, 0x03, 0x0a, 0x01, 0x7f, 0x51, 0x79, 0x9e, 0xbd, 0x1f, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x51, 0x4b, 0x44, 0x18, 0x0a, 0x1d, 0x0a, 0x0b, 0x0a, 0x05, 0x69, 0x6e,
    0x64, 0x65, 0x78, 0x12, 0x02, 0x1a, 0x00, 0x0a, 0x0e, 0x0a, 0x05, 0x6c, 0x61, 0x62, 0x65, 0x6c,
    0x12, 0x05, 0x1a, 0x03, 0x0a, 0x01, 0x00, 0xdf, 0xb8, 0xe2, 0x9e, 0x2a, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0xae, 0x8d, 0x91, 0xf5, 0x0a, 0x28, 0x0a, 0x16, 0x0a, 0x05, 0x69, 0x6e, 0x64,
    0x65, 0x78, 0x12, 0x0d, 0x1a, 0x0b, 0x0a, 0x09, 0x80, 0x01, 0x80, 0x80, 0x01, 0x80, 0x80, 0x80,
    0x01, 0x0a, 0x0e, 0x0a, 0x05, 0x6c, 0x61, 0x62, 0x65, 0x6c, 0x12, 0x05, 0x1a, 0x03, 0x0a, 0x01,
    0x01, 0x79, 0x39, 0x10, 0x8a,
};

static struct parsed parse_file(const void *bytes, size_t n, const struct yk_reading *how)
{
    return parse_bytes(F, how, bytes, n, '\xff');
}

static void test_another_programs_file(void **state)
{
    (void)state;
    struct parsed p = parse_file(FOREIGN, sizeof FOREIGN, &PLAIN);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.rows, 4);
    assert_true(chunk_is_sound(&p.c));
    assert_true(chunk_has_row(&p.c, 0, 1, 5, (uint32_t[]){0, 5, 300, 33762577, 4294967000},
                              (float[]){1, .5f, -2.25f, 1e-38f, 3.1415927f}));
    assert_true(chunk_has_row(&p.c, 1, 0, 1, (uint32_t[]){127}, (float[]){.1f}));
    assert_true(chunk_has_row(&p.c, 2, 0, 0, (uint32_t[]){0}, (float[]){0}));
    assert_true(
        chunk_has_row(&p.c, 3, 1, 3, (uint32_t[]){128, 16384, 2097152}, (float[]){1, 1, 1}));
    parsed_release(&p);
    assert_true(F->sniff(FOREIGN, sizeof FOREIGN));
    assert_true(F->sniff(FOREIGN, 12));
    assert_false(F->sniff(FOREIGN, 11));
    assert_false(F->sniff(FOREIGN + 1, sizeof FOREIGN - 1));

    struct yk_reading bits = {.hash_bits = 10};
    p = parse_file(FOREIGN, sizeof FOREIGN, &bits);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.key[3], yk_key_hash(33762577, 10));
    parsed_release(&p);
}

/* --- messages by hand --- */

static void frame(struct yk_buf *out, const struct yk_buf *data)
{
    uint64_t n = data->len;
    uint32_t crc = yk_crc32c_masked(&n, 8);
    yk_buf_add(out, &n, 8);
    yk_buf_add(out, &crc, 4);
    yk_buf_add(out, data->data, data->len);
    crc = yk_crc32c_masked(data->data, data->len);
    yk_buf_add(out, &crc, 4);
}

/* A Feature with the given list in it. */
static struct yk_buf feature(unsigned kind, const struct yk_buf *list)
{
    struct yk_buf f = {0};
    yk_pb_message(&f, kind, list);
    return f;
}

static void entry(struct yk_buf *features, const char *name, const struct yk_buf *f,
                  bool value_first)
{
    struct yk_buf m = {0};
    if (!value_first)
        yk_pb_text(&m, 1, name);
    yk_pb_message(&m, 2, f);
    if (value_first)
        yk_pb_text(&m, 1, name);
    yk_pb_message(features, 1, &m);
    yk_buf_release(&m);
}

static void entry_ints(struct yk_buf *features, const char *name, int n, const int64_t *v,
                       bool packed)
{
    struct yk_buf list = {0}, run = {0};
    for (int i = 0; i < n; i++)
        yk_pb_varint(packed ? &run : &list, 1, (uint64_t)v[i]);
    if (packed) { /* without the tags, which are a byte each */
        struct yk_buf bare = {0};
        for (size_t at = 0; at < run.len;) {
            size_t from = ++at;
            while ((uint8_t)run.data[at++] >= 0x80) {
            }
            yk_buf_add(&bare, run.data + from, at - from);
        }
        yk_pb_message(&list, 1, &bare);
        yk_buf_release(&bare);
    }
    struct yk_buf f = feature(3, &list);
    entry(features, name, &f, !packed);
    yk_buf_release(&f);
    yk_buf_release(&run);
    yk_buf_release(&list);
}

static void entry_floats(struct yk_buf *features, const char *name, int n, const float *v,
                         bool packed)
{
    struct yk_buf list = {0};
    for (int i = 0; i < n && !packed; i++)
        yk_pb_float(&list, 1, v[i]);
    if (packed)
        yk_pb_bytes(&list, 1, v, (size_t)n * sizeof *v);
    struct yk_buf f = feature(2, &list);
    entry(features, name, &f, packed);
    yk_buf_release(&f);
    yk_buf_release(&list);
}

static void add_record(struct yk_buf *file, struct yk_buf *features)
{
    struct yk_buf example = {0};
    yk_pb_message(&example, 1, features);
    frame(file, &example);
    yk_buf_release(&example);
    yk_buf_release(features);
}

static void test_unpacked_any_order_unknown_fields(void **state)
{
    (void)state;
    struct yk_buf file = {0}, m = {0}, list = {0}, f;
    /* unknown fields everywhere: varint, fixed64, fixed32, bytes, and a group with something in
     * it */
    static const char GROUP[] = {(char)(9 << 3 | 3), 10 << 3, 5, (char)(9 << 3 | 4)};
    yk_pb_varint(&m, 5, 77);
    yk_pb_double(&m, 6, 1.5);
    yk_pb_float(&m, 7, 2);
    yk_pb_text(&m, 2, "x");
    yk_buf_add(&m, GROUP, sizeof GROUP);
    entry_floats(&m, "value", 3, (float[]){9, 8, 7}, true); /* replaced below */
    entry_floats(&m, "value", 2, (float[]){-.5f, 4}, false);
    entry_ints(&m, "index", 1, (int64_t[]){-1},
               true); /* malformed, but replaced by a list in two parts, one packed and one not */
    yk_pb_varint(&list, 1, 3);
    yk_pb_varint(&list, 2, 55); /* no value */
    yk_pb_bytes(&list, 1, "\xff\x01", 2);
    f = feature(3, &list);
    entry(&m, "index", &f, true);
    entry_ints(&m, "label", 1, (int64_t[]){-1}, false);
    add_record(&file, &m);
    yk_buf_release(&f);
    yk_buf_release(&list);
    struct parsed p = parse_file(file.data, file.len, &PLAIN);
    assert_int_equal(p.rc, YK_OK);
    assert_true(chunk_has_row(&p.c, 0, 0, 2, (uint32_t[]){3, 255}, (float[]){-.5f, 4}));
    parsed_release(&p);
    yk_buf_clear(&file);
    entry_ints(&m, "index", 1, (int64_t[]){7}, true);
    entry_ints(&m, "label", 1, (int64_t[]){1}, true);
    entry_floats(&m, "value", 1, (float[]){3}, true);
    entry(&m, "value", &(struct yk_buf){0},
          false); /* a Feature that is none of its lists: no values after all */
    add_record(&file, &m);
    p = parse_file(file.data, file.len, &PLAIN);
    assert_int_equal(p.rc, YK_OK);
    assert_true(chunk_has_row(&p.c, 0, 1, 1, (uint32_t[]){7}, (float[]){1}));
    parsed_release(&p);
    yk_buf_release(&file);
}

/* Varints of every length, side by side in every order: the fast paths must agree with the
 * definition. */
static void test_long_varints(void **state)
{
    (void)state;
    enum { N = 400 };
    int64_t v[N];
    struct yk_reading hashed = {.hash_bits = 20};
    uint64_t x = 1;
    for (int n = 0; n < N; n += n < 40 ? 1 : 36) {
        struct yk_buf file = {0}, m = {0};
        uint64_t largest = 0;
        for (int i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            v[i] =
                (int64_t)(x >> (n % 2 ? x >> 58 : 32 + (x >> 59))); /* up to 64 bits, or up to 32 */
            largest = (uint64_t)v[i] > largest ? (uint64_t)v[i] : largest;
        }
        entry_ints(&m, "index", n, v, true);
        entry_ints(&m, "label", 1, (int64_t[]){1}, true);
        add_record(&file, &m);
        struct parsed p = parse_file(file.data, file.len, &PLAIN);
        assert_int_equal(p.rc, largest > YK_KEY_MAX ? YK_DATA : YK_OK);
        for (int i = 0; i < n && p.rc == YK_OK; i++)
            assert_int_equal(p.c.key[i], v[i]);
        parsed_release(&p);
        p = parse_file(file.data, file.len, &hashed);
        assert_int_equal(p.rc, YK_OK);
        assert_int_equal(p.c.entries, n);
        for (int i = 0; i < n; i++)
            assert_int_equal(p.c.key[i], yk_key_hash((uint64_t)v[i], 20));
        parsed_release(&p);
        yk_buf_release(&file);
    }
}

static void test_other_names(void **state)
{
    (void)state;
    struct yk_buf file = {0}, m = {0};
    struct yk_reading how = {.label = "click", .index = "ids", .value = ""};
    entry_ints(&m, "ids", 2, (int64_t[]){1, 2}, true);
    entry_floats(&m, "click", 1, (float[]){1}, true);
    entry_floats(&m, "value", 1, (float[]){5}, true); /* not ours then */
    add_record(&file, &m);
    struct parsed p = parse_file(file.data, file.len, &how);
    assert_int_equal(p.rc, YK_OK);
    assert_true(chunk_has_row(&p.c, 0, 1, 2, (uint32_t[]){1, 2}, (float[]){1, 1}));
    parsed_release(&p);
    p = parse_file(file.data, file.len, &PLAIN);
    assert_int_equal(p.rc, YK_DATA);
    assert_string_equal(
        p.e.text,
        "'rows.txt' byte 1000: expected a feature 'label', found only 'ids', 'click', 'value'");
    parsed_release(&p);
    yk_buf_release(&file);
}

/* One malformed record, then a good one. */
static void expect_bad(struct yk_buf *features, const char *why)
{
    struct yk_buf file = {0}, good = {0};
    struct yk_reading lenient = {.skip_bad = 1};
    add_record(&file, features);
    entry_ints(&good, "index", 1, (int64_t[]){4}, true);
    entry_ints(&good, "label", 1, (int64_t[]){1}, true);
    add_record(&file, &good);
    struct parsed p = parse_file(file.data, file.len, &PLAIN);
    if (p.rc != YK_DATA || strstr(p.e.text, why) == NULL)
        fail_msg("%d '%s', not '%s'", p.rc, p.e.text, why);
    parsed_release(&p);
    p = parse_file(file.data, file.len, &lenient);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.bad, 1);
    assert_int_equal(p.c.rows, 1);
    assert_true(chunk_has_row(&p.c, 0, 1, 1, (uint32_t[]){4}, (float[]){1}));
    parsed_release(&p);
    yk_buf_release(&file);
}

static void test_malformed_examples(void **state)
{
    (void)state;
    const int64_t one[] = {1, 2}, big[] = {4294967001}, negative[] = {-1}, three[] = {3};
    const float two[] = {1, 2}, infinite[] = {1.0f / 0.0f};
    struct yk_buf m = {0}, list = {0}, f;

    expect_bad(&m, "expected a feature 'label', found an example without features");
    entry_ints(&m, "label", 1, one, true);
    expect_bad(&m, "expected a feature 'index', found only 'label'");
    entry_ints(&m, "a\033[2Jb", 1, one, true);
    /* no control characters to the terminal */
    expect_bad(&m, "expected a feature 'label', found only 'a?[2Jb'");
    entry_ints(&m, "label", 2, one, true), entry_ints(&m, "index", 1, one, true);
    expect_bad(&m, "expected one label, found 2");
    entry_ints(&m, "label", 1, three, false), entry_ints(&m, "index", 1, one, true);
    expect_bad(&m, "expected a label of 0, 1 or -1, found 3");
    entry_ints(&m, "label", 1, one, true), entry_ints(&m, "index", 1, big, true);
    expect_bad(&m,
               "expected indices from 0 to 4294967000, found 4294967001 (--hash-bits folds them)");
    entry_ints(&m, "label", 1, one, true), entry_ints(&m, "index", 1, negative, false);
    expect_bad(&m, "expected indices from 0 to 4294967000, found -1");
    entry_ints(&m, "label", 1, one, true), entry_floats(&m, "index", 2, two, true);
    expect_bad(&m, "expected int64s in feature 'index', found floats");
    entry_ints(&m, "label", 1, one, true), entry_ints(&m, "index", 2, one, true),
        entry_ints(&m, "value", 2, one, true);
    expect_bad(&m, "expected floats in feature 'value', found int64s");
    entry_ints(&m, "label", 1, one, true), entry_ints(&m, "index", 1, one, true),
        entry_floats(&m, "value", 2, two, true);
    expect_bad(&m, "expected as many values as indices, found 2 and 1");
    entry_ints(&m, "label", 1, one, true), entry_ints(&m, "index", 1, one, true),
        entry_floats(&m, "value", 1, infinite, true);
    expect_bad(&m, "expected finite values");
    yk_pb_text(&list, 1, "click");
    f = feature(1, &list);
    entry(&m, "label", &f, false), entry_ints(&m, "index", 1, one, true);
    expect_bad(&m, "expected an int64 or a float in feature 'label', found bytes");
    yk_buf_release(&f);
    yk_buf_release(&list);
    yk_buf_add(&m, "\x0a\x7f", 2); /* a length beyond the end */
    expect_bad(&m, "the record is no tf.train.Example: its features are cut off");
    yk_buf_add(&m, "\x0f", 1); /* wire type 7 */
    expect_bad(&m, "the record is no tf.train.Example");
    yk_buf_add(&m, "\x0b\x0b\x0b", 3); /* groups without end */
    expect_bad(&m, "the record is no tf.train.Example");
    yk_buf_add(&m, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
               12); /* a varint of 12 bytes */
    expect_bad(&m, "the record is no tf.train.Example");
}

/* --- frames --- */

/* Every byte of the file wrong in turn: never a row that is not there, and with --skip-bad all the
 * others. */
static void test_every_damaged_byte_is_noticed(void **state)
{
    (void)state;
    uint8_t file[sizeof FOREIGN];
    struct yk_reading lenient = {.skip_bad = 9};
    for (size_t i = 0; i < sizeof file; i++) {
        memcpy(file, FOREIGN, sizeof file);
        file[i] ^= (uint8_t)(1u << i % 8);
        struct parsed p = parse_file(file, sizeof file, &PLAIN);
        assert_int_equal(p.rc, YK_DATA);
        assert_non_null(strstr(p.e.text, "checksum"));
        parsed_release(&p);
        p = parse_file(file, sizeof file, &lenient);
        assert_int_equal(p.rc, YK_OK);
        assert_int_equal(p.c.rows, 3);
        assert_int_equal(p.c.bad, 1);
        parsed_release(&p);
    }
}

static void test_cut_and_truncation(void **state)
{
    (void)state;
    size_t end[4], at = 0;
    for (int i = 0; i < 4; i++) {
        at += 16 + FOREIGN[at]; /* lengths below 256 */
        end[i] = at;
    }
    assert_int_equal(at, sizeof FOREIGN);
    for (size_t n = 0; n <= sizeof FOREIGN; n++) {
        size_t whole = 0;
        char *exact = malloc(n + 1);
        assert_non_null(exact);
        memcpy(exact, FOREIGN, n);
        for (int i = 0; i < 4; i++)
            whole = end[i] <= n ? end[i] : whole;
        assert_int_equal(F->cut(exact, n, false), whole);
        assert_int_equal(F->cut(exact, n, true), n);
        free(exact);
        struct parsed p = parse_file(FOREIGN, n, &PLAIN);
        assert_int_equal(p.rc, n == whole ? YK_OK : YK_DATA);
        assert_true(n == whole || strstr(p.e.text, "found the end of the file") != NULL);
        parsed_release(&p);
    }
    uint8_t damaged[sizeof FOREIGN];
    memcpy(damaged, FOREIGN, sizeof damaged);
    damaged[end[0]] ^= 1; /* the second length: cut goes on at the third record */
    assert_int_equal(F->cut((const char *)damaged, end[2] + 20, false), end[2]);
    /* cut within the damage: it stays in one piece, and counts once */
    assert_int_equal(F->cut((const char *)damaged, end[1] + 5, false), end[0]);
    memset(damaged, 0xaa, sizeof damaged);
    assert_int_equal(F->cut((const char *)damaged, sizeof damaged, false),
                     sizeof damaged - 11); /* nothing to be found: go on */
}

static void test_a_length_beyond_belief(void **state)
{
    (void)state;
    uint64_t n = UINT64_C(1) << 60;
    uint8_t file[200] = {0};
    memcpy(file, &n, 8);
    uint32_t crc = yk_crc32c_masked(file, 8);
    memcpy(file + 8, &crc, 4);
    struct parsed p = parse_file(file, sizeof file, &PLAIN);
    assert_int_equal(p.rc, YK_DATA);
    assert_non_null(strstr(p.e.text, "a record is longer than 64 MB"));
    parsed_release(&p);
    assert_true(F->cut((const char *)file, sizeof file, false) > 0); /* no waiting for the rest */
}

static void test_round_trip(void **state)
{
    (void)state;
    enum { N = 300 };
    uint32_t key[N];
    float value[N];
    struct yk_buf file = {0}, again = {0};
    for (uint32_t i = 0; i < N; i++) {
        key[i] = UINT32_C(1) << i % 32 >> 1 ^ i;
        uint32_t bits = i * 2654435761u & 0xbf7fffff;
        memcpy(&value[i], &bits, sizeof bits);
    }
    for (uint32_t n = 0; n <= N; n++) {
        struct yk_row row = {
            .key = key, .value = n % 3 == 0 ? NULL : value, .n = n, .label = n % 2};
        F->write(&file, &row, &PLAIN);
    }
    assert_false(file.failed);
    struct parsed p = parse_file(file.data, file.len, &PLAIN);
    assert_int_equal(p.rc, YK_OK);
    assert_int_equal(p.c.rows, N + 1);
    for (uint32_t n = 0; n <= N; n++) {
        struct yk_row row = chunk_row(&p.c, n);
        assert_int_equal(row.n, n);
        assert_int_equal(row.label, n % 2);
        assert_memory_equal(row.key, key, n * sizeof *key);
        for (uint32_t i = 0; i < n && n % 3 == 0; i++)
            assert_true(row.value[i] == 1);
        if (n % 3 != 0)
            assert_memory_equal(row.value, value, n * sizeof *value);
        F->write(&again, &row, &PLAIN);
    }
    assert_int_equal(again.len, file.len); /* values left out and ones are the same bytes */
    assert_memory_equal(again.data, file.data, file.len);
    parsed_release(&p);
    struct yk_reading how = {
        .label = "y", .index = "a-name-of-more-than-a-few-bytes", .value = "v"};
    yk_buf_clear(&file);
    F->write(&file, &(struct yk_row){.key = key, .n = 2, .label = 1}, &how);
    p = parse_file(file.data, file.len, &how);
    assert_int_equal(p.rc, YK_OK);
    assert_true(chunk_has_row(&p.c, 0, 1, 2, key, (float[]){1, 1}));
    parsed_release(&p);
    yk_buf_release(&file);
    yk_buf_release(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_programs_file),
        cmocka_unit_test(test_unpacked_any_order_unknown_fields),
        cmocka_unit_test(test_long_varints),
        cmocka_unit_test(test_other_names),
        cmocka_unit_test(test_malformed_examples),
        cmocka_unit_test(test_every_damaged_byte_is_noticed),
        cmocka_unit_test(test_cut_and_truncation),
        cmocka_unit_test(test_a_length_beyond_belief),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
