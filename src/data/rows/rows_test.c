/* rows_test.c - opening sets of rows: lists, folders, gzip, pipes, broken files; by one thread and
 * many; the cache made, reused, made again, shared by processes; and everything written and read
 * back. */
#include "data/rows/rows.h"

#include "base/file.h"
#include "base/rng.h"
#include "tests/testdir.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>
#include <zlib.h>

#include <cmocka.h>

static char dir[64]; /* of this test; its cache is under it */
static char name_[YK_PATH_MAX];

static int setup(void **state)
{
    int rc = testdir_setup(state);
    if (rc != 0)
        return rc;
    snprintf(dir, sizeof dir, "%s", (char *)*state);
    snprintf(name_, sizeof name_, "%s/cache", dir);
    return setenv("XDG_CACHE_HOME", name_, 1);
}

static const char *at(const char *name)
{
    assert_int_equal(yk_path(name_, NULL, "%s/%s", dir, name), YK_OK);
    return name_;
}

static void put(const char *name, const char *text, size_t n)
{
    assert_int_equal(yk_file_write(at(name), text, n, NULL), YK_OK);
}

static void put_gz(const char *name, const char *mode, const char *text, size_t n)
{
    gzFile f = gzopen(at(name), mode);
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
}

static struct yk_rows *must_open(const char *what, const struct yk_reading *how)
{
    struct yk_rows *r = NULL;
    struct yk_error e = {0};
    if (yk_rows_open(&r, what, how, &e) != YK_OK)
        fail_msg("%s", e.text);
    return r;
}

/* Opening fails with YK_DATA and this message. */
static void expect_failure(const char *what, const struct yk_reading *how, const char *said)
{
    struct yk_rows *r = NULL;
    struct yk_error e = {0};
    assert_int_equal(yk_rows_open(&r, what, how, &e), YK_DATA);
    if (strstr(e.text, said) == NULL)
        fail_msg("said '%s', not '%s'", e.text, said);
}

static void expect_usage(const char *what, const struct yk_reading *how, const char *said)
{
    struct yk_rows *r = NULL;
    struct yk_error e = {0};
    assert_int_equal(yk_rows_open(&r, what, how, &e), YK_USAGE);
    assert_non_null(strstr(e.text, said));
}

/* Text of so many rows, and a key that tells which row it is. */
static char *many_rows(uint32_t rows, size_t *n)
{
    struct yk_rng rng;
    yk_rng_init(&rng, 21, 0, 0, 0);
    char *text = malloc((size_t)rows * 200 + 1), *p = text;
    assert_non_null(text);
    for (uint32_t r = 0; r < rows; r++) {
        p += sprintf(p, "%d %u:1", r % 3 == 0 ? 1 : -1, r);
        for (uint32_t i = yk_rng_below(&rng, 12); i > 0; i--)
            p += sprintf(p, " %u:%.7g", rows + yk_rng_below(&rng, 1000000), yk_rng_unit(&rng));
        *p++ = '\n';
    }
    *n = (size_t)(p - text);
    return text;
}

static void check_order(const struct yk_rows *r, uint32_t rows)
{
    assert_int_equal(r->rows, rows);
    for (uint32_t i = 0; i < rows; i++) {
        struct yk_row x = yk_row_at(r, i);
        if (x.n < 1 || x.key[0] != i || x.label != (i % 3 == 0))
            fail_msg("row %u is not where it was", i);
    }
}

static void order_is_kept_by_any_number_of_threads(void **state)
{
    (void)state;
    enum { ROWS = 60000 };
    size_t n;
    char *text = many_rows(ROWS, &n);
    assert_true(n > 4 << 20); /* several pieces */
    put("a", text, n);
    put_gz("a.gz", "wb1", text, n / 2);
    put_gz("a.gz", "ab1", text + n / 2, n - n / 2);
    uint64_t xxh3 = 0;
    for (unsigned threads = 1; threads <= 5; threads++) {
        struct yk_reading how = {.threads = threads, .no_cache = threads % 2 == 0};
        struct yk_rows *r = must_open(at(threads == 3 ? "a.gz" : "a"), &how);
        check_order(r, ROWS);
        assert_true(xxh3 == 0 || r->xxh3 == xxh3);
        xxh3 = r->xxh3;
        yk_rows_close(r);
    }
    free(text);
}

static void lists_and_folders(void **state)
{
    (void)state;
    char what[3 * YK_PATH_MAX];
    assert_int_equal(mkdir(at("f"), 0777), 0);
    assert_int_equal(mkdir(at("f/inner"), 0777), 0);
    put("f/b", "1 2:1\n", 6);
    put_gz("f/a", "wb", "0 1:1", 5);
    put("f/c", "", 0);
    put("f/_SUCCESS", "x", 1);
    put("f/.hidden", "x", 1);
    put("x,y", "1 9:1\n", 6);
    struct yk_rows *r = must_open(at("f"), NULL);
    assert_int_equal(r->rows, 2);
    assert_int_equal(yk_row_at(r, 0).key[0], 1);
    assert_int_equal(yk_row_at(r, 1).key[0], 2);
    yk_rows_close(r);
    snprintf(what, sizeof what, "%s/f/b,%s/f,%s/f/b", dir, dir, dir);
    r = must_open(what, NULL);
    assert_int_equal(r->rows, 4);
    assert_int_equal(yk_row_at(r, 0).key[0], 2);
    assert_int_equal(yk_row_at(r, 1).key[0], 1);
    assert_int_equal(yk_row_at(r, 3).label, 1);
    yk_rows_close(r);
    r = must_open(at("x,y"), NULL);
    assert_int_equal(r->features, 10);
    yk_rows_close(r);
    expect_failure(at("f/inner"), NULL, "holds no files");
    expect_failure(at("f/c"), NULL, "no rows");
    expect_failure(at("nothing"), NULL, "no such file");
    snprintf(what, sizeof what, "%s/f/b,,%s/f/b", dir, dir);
    expect_failure(what, NULL, "is empty");
    assert_true(yk_rows_sniff(at("f"), NULL));
    assert_true(yk_rows_sniff(at("f/b"), NULL));
    assert_true(yk_rows_sniff("synth-criteo:10", NULL));
    assert_false(yk_rows_sniff(at("nothing"), NULL));
    assert_false(yk_rows_sniff(at("f/_SUCCESS"), NULL));
}

static void a_bad_row_names_its_line(void **state)
{
    (void)state;
    enum { ROWS = 50000 };
    size_t n;
    char *text = many_rows(ROWS, &n), *third = text;
    for (int i = 0; i < 40000 - 1; i++)
        third = strchr(third, '\n') + 1;
    *third = 'x';
    put("a", text, n);
    char said[64];
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct yk_reading how = {.threads = threads};
        snprintf(said, sizeof said, "/a' line 40000: expected a label");
        expect_failure(at("a"), &how, said);
    }
    /* a second one, further up: it is the first that counts, and both can be left out */
    char *second = text;
    for (int i = 0; i < 1234 - 1; i++)
        second = strchr(second, '\n') + 1;
    *second = 'y';
    put("a", text, n);
    struct yk_reading how = {.threads = 3};
    expect_failure(at("a"), &how, "line 1234:");
    how.skip_bad = 1;
    expect_failure(at("a"), &how, "line 40000:");
    how.skip_bad = 2;
    struct yk_rows *r = must_open(at("a"), &how);
    assert_int_equal(r->bad, 2);
    assert_int_equal(r->rows, ROWS - 2);
    yk_rows_close(r);
    n = 1500000;
    memset(text, 'x',
           n); /* nothing but malformed rows: none of them costs a look at all before it */
    for (size_t i = 1; i < n; i += 2)
        text[i] = '\n';
    put("b", text, n);
    how.format = "libsvm";
    how.skip_bad = n;
    expect_failure(at("b"), &how, "no rows");
    how.skip_bad = n / 2 - 1;
    expect_failure(at("b"), &how, "/b' line 750000:");
    how.format = NULL;
    how.skip_bad = 1; /* the cache that has just been made does not hide it */
    expect_failure(at("a"), &how, "line 40000:");
    free(text);
}

static void refuses_what_it_cannot_read(void **state)
{
    (void)state;
    size_t n;
    char *text = many_rows(5000, &n), *packed;
    put("garbage", "\x7f\x00\x01garbage\xff", 11);
    expect_failure(at("garbage"), NULL, "in no format that yoke knows");
    struct yk_reading how = {.format = "libsvm"};
    expect_failure(at("garbage"), &how, "line 1: expected a label");
    how.format = "parquet";
    struct yk_rows *r;
    struct yk_error e = {0};
    assert_int_equal(yk_rows_open(&r, at("garbage"), &how, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "'parquet'"));
    how = (struct yk_reading){.hash_bits = 32};
    assert_int_equal(yk_rows_open(&r, at("garbage"), &how, &e), YK_USAGE);
    put_gz("a.gz", "wb", text, n);
    size_t k;
    assert_int_equal(yk_file_read(at("a.gz"), 1 << 30, &packed, &k, NULL), YK_OK);
    put("cut.gz", packed, k - 100);
    expect_failure(at("cut.gz"), NULL, "is cut off");
    packed[k / 2] ^= 0x55;
    packed[k / 2 + 1] ^= 0x55;
    put("broken.gz", packed, k);
    assert_int_equal(yk_rows_open(&r, at("broken.gz"), NULL, &e), YK_DATA);
    free(packed);
    free(text);
}

/* 80 MB without a newline: refused before it is all in memory. It is a file with a hole, which
 * costs nothing. */
static void refuses_an_endless_line(void **state)
{
    (void)state;
    put("long", "1 2:1\n1 ", 8);
    assert_int_equal(truncate(at("long"), 80 << 20), 0);
    expect_failure(at("long"), NULL, "byte 6: a line is longer than 64 MB");
    put("long", "1 2:1\n1 ", 8); /* and one that is long, but not too long, is only malformed */
    assert_int_equal(truncate(at("long"), 20 << 20), 0);
    expect_failure(at("long"), NULL,
                   "line 2: expected index:value, found '????????????????????...'");
}

/* The modification time of the one .rows file in the cache, in ns; 0: there is none. */
static int64_t cache_time(void)
{
    int64_t ns = 0;
    char path[2 * YK_PATH_MAX];
    DIR *d = opendir(at("cache/yoke/rows"));
    for (struct dirent *entry; d != NULL && (entry = readdir(d)) != NULL;) {
        size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 5, ".rows") != 0)
            continue;
        struct stat st;
        snprintf(path, sizeof path, "%s/cache/yoke/rows/%s", dir, entry->d_name);
        assert_int_equal(stat(path, &st), 0);
        ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        snprintf(name_, sizeof name_, "%.*s", YK_PATH_MAX - 1, path);
    }
    if (d != NULL)
        closedir(d);
    return ns;
}

static void pause_a_tick(void)
{
    const struct timespec t = {.tv_nsec = 30 * 1000 * 1000};
    nanosleep(&t, NULL);
}

static void the_cache_is_reused_until_something_changes(void **state)
{
    (void)state;
    put("a", "1 2:1\n0 3:1\n", 12);
    struct yk_rows *r = must_open(at("a"), NULL);
    assert_non_null(r->backing);
    assert_string_equal(r->note, "");
    yk_rows_close(r);
    int64_t made = cache_time();
    assert_true(made > 0);
    pause_a_tick();
    r = must_open(at("a"), NULL);
    assert_int_equal(cache_time(), made);
    assert_int_equal(r->features, 4);
    /* the same length, a moment later: while the old one is still in use */
    put("a", "1 2:1\n0 9:1\n", 12);
    struct yk_rows *other = must_open(at("a"), NULL);
    assert_int_equal(other->features, 10);
    assert_int_equal(r->features, 4);
    assert_int_equal(yk_row_at(r, 1).key[0], 3);
    yk_rows_close(r);
    yk_rows_close(other);
    made = cache_time();
    /* damaged in every single byte that matters, or cut: made again without a word */
    for (int i = 0; i < 5; i++) {
        assert_true(cache_time() != 0);
        if (i == 0)
            assert_int_equal(truncate(name_, 100), 0);
        FILE *f = fopen(name_, "r+b");
        assert_non_null(f);
        static const long where[] = {0, 20, 130, 260, 90};
        assert_int_equal(fseek(f, where[i], SEEK_SET), 0);
        fputc(0x7e, f);
        fclose(f);
        r = must_open(at("a"), NULL);
        assert_int_equal(r->rows, 2);
        assert_int_equal(r->features, 10);
        assert_int_equal(yk_row_at(r, 1).key[0], 9);
        yk_rows_close(r);
    }
    /* another way to read makes another set */
    struct yk_reading how = {.hash_bits = 4};
    r = must_open(at("a"), &how);
    assert_in_range(r->features, 1, 16);
    yk_rows_close(r);
    r = must_open(at("a"), NULL);
    assert_int_equal(r->features, 10);
    yk_rows_close(r);
}

static void changes_within_a_tick_are_seen(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) { /* as fast as it goes: the time of the file alone may not tell */
        char text[32];
        int n = sprintf(text, "1 2:1\n0 %d:1\n", 10 + i);
        FILE *f = fopen(at("a"), "wb");
        assert_non_null(f);
        fwrite(text, 1, (size_t)n, f);
        fclose(f);
        struct yk_rows *r = must_open(at("a"), NULL);
        assert_int_equal(r->features, 11 + i);
        yk_rows_close(r);
    }
}

/* The same length and, as an unpacked archive or a copy with its times may have, the same mtime. */
static void changes_under_an_old_time_are_seen(void **state)
{
    (void)state;
    const struct utimbuf old = {.actime = 1000000000, .modtime = 1000000000};
    for (unsigned i = 3; i < 6; i++) {
        char text[32];
        put("a", text, (size_t)sprintf(text, "1 2:1\n0 %u:1\n", i));
        assert_int_equal(utime(at("a"), &old), 0);
        struct yk_rows *r = must_open(at("a"), NULL);
        assert_int_equal(r->features, i + 1);
        yk_rows_close(r);
    }
}

static void without_a_place_for_the_cache_rows_stay_in_memory(void **state)
{
    (void)state;
    put("a", "1 2:1\n0 3:1\n", 12);
    put("cache", "a file where a folder should be", 5);
    struct yk_rows *r = must_open(at("a"), NULL);
    assert_int_equal(r->rows, 2);
    assert_non_null(strstr(r->note, "cannot make the folder"));
    yk_rows_close(r);
    struct yk_reading how = {.no_cache = true};
    r = must_open(at("a"), &how);
    assert_string_equal(r->note, "");
    yk_rows_close(r);
}

static void pipes_are_read_once(void **state)
{
    (void)state;
    enum { ROWS = 50000 };
    size_t n;
    char *text = many_rows(ROWS, &n);
    assert_int_equal(mkfifo(at("pipe"), 0666), 0);
    assert_true(yk_rows_sniff(at("pipe"), NULL)); /* without looking at it */
    pid_t child = fork();
    if (child == 0) {
        pause_a_tick(); /* the reader is there first, and waits */
        int fd = open(at("pipe"), O_WRONLY);
        for (size_t done = 0; done < n;) {
            ssize_t k = write(fd, text + done, n - done < 1000 ? n - done : 1000);
            if (k <= 0)
                _exit(1);
            done += (size_t)k;
        }
        _exit(0);
    }
    struct yk_rows *r = must_open(at("pipe"), NULL);
    check_order(r, ROWS);
    assert_int_equal(cache_time(), 0);
    assert_string_equal(r->note, "the input cannot be read twice");
    yk_rows_close(r);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    free(text);
}

static yk_code open_input(const char *path, struct yk_rows **r, struct yk_error *e)
{
    int keep = dup(STDIN_FILENO), fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    dup2(fd, STDIN_FILENO);
    close(fd);
    yk_code rc = yk_rows_open(r, "-", NULL, e);
    dup2(keep, STDIN_FILENO);
    close(keep);
    return rc;
}

static void standard_input(void **state)
{
    (void)state;
    struct yk_rows *r;
    struct yk_error e = {0};
    put_gz("a.gz", "wb", "1 2:1\n0 3:1", 11);
    assert_int_equal(open_input(at("a.gz"), &r, &e), YK_OK);
    assert_int_equal(r->rows, 2);
    yk_rows_close(r);
    assert_int_equal(open_input("/dev/null", &r, &e),
                     YK_DATA); /* a run that is resumed without its input */
    assert_non_null(strstr(e.hint, "standard input can be read only once"));
    expect_usage("-", &(struct yk_reading){.format = "cache"},
                 "'standard input' cannot be a cache");
}

/* Several processes want one cache at once: all get it, and nothing but it and its lock is left. */
static void processes_share_the_work(void **state)
{
    (void)state;
    enum { ROWS = 50000, PROCESSES = 4 };
    size_t n;
    char *text = many_rows(ROWS, &n);
    put("a", text, n);
    free(text);
    pid_t child[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            struct yk_rows *r;
            bool fine = yk_rows_open(&r, at("a"), NULL, NULL) == YK_OK && r->rows == ROWS &&
                        r->note[0] == '\0';
            _exit(fine ? 0 : 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    DIR *d = opendir(at("cache/yoke/rows"));
    int files = 0;
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        files += entry->d_name[0] != '.';
    closedir(d);
    assert_int_equal(files, 2);
}

static void expect_same(const struct yk_rows *a, const struct yk_rows *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->entries, b->entries);
    assert_int_equal(a->features, b->features);
    assert_int_equal(a->positives, b->positives);
    assert_int_equal(a->xxh3, b->xxh3);
}

/* libsvm -> cache -> libsvm, plain and compressed, byte for byte; a cache that the user names is
 * checked to the last bit. */
static void what_is_written_is_read_again(void **state)
{
    (void)state;
    enum { ROWS = 40000 };
    size_t n, k;
    struct yk_error e = {0};
    char *text = many_rows(ROWS, &n), *back;
    put("a", text, n);
    struct yk_reading how = {.no_cache = true, .threads = 3};
    struct yk_rows *r = must_open(at("a"), &how);
    assert_int_equal(yk_rows_write(r, at("a.cache"), "cache", &how, &e), YK_OK);
    struct yk_rows *c = must_open(at("a.cache"), &how);
    expect_same(r, c);
    assert_true(yk_rows_sniff(at("a.cache"), NULL));
    assert_int_equal(yk_rows_write(c, at("b"), "libsvm", &how, &e), YK_OK);
    assert_int_equal(yk_rows_write(c, at("b.gz"), "libsvm", &how, &e), YK_OK);
    struct yk_rows *b = must_open(at("b"), &how), *gz = must_open(at("b.gz"), NULL);
    expect_same(r, b);
    expect_same(r, gz);
    assert_int_equal(yk_rows_write(b, at("c"), "libsvm", NULL, &e), YK_OK);
    char *again;
    size_t m;
    assert_int_equal(yk_file_read(at("b"), 1 << 30, &back, &k, NULL), YK_OK);
    assert_int_equal(yk_file_read(at("c"), 1 << 30, &again, &m, NULL), YK_OK);
    assert_int_equal(k, m);
    assert_memory_equal(back, again, k);
    gzFile f =
        gzopen(at("b.gz"), "rb"); /* as zlib itself sees it: one member, its sum and length right */
    char *inflated = malloc(k + 1);
    assert_non_null(inflated);
    assert_int_equal(gzread(f, inflated, (unsigned)k + 1), k);
    assert_memory_equal(inflated, back, k);
    assert_int_equal(gzclose(f), Z_OK);
    assert_int_equal(yk_rows_write(r, at("x.gz"), "cache", NULL, &e), YK_USAGE);
    assert_int_equal(yk_rows_write(r, "-", "cache", NULL, &e), YK_USAGE);
    assert_int_equal(yk_rows_write(r, at("x"), "parquet", NULL, &e), YK_USAGE);
    assert_int_equal(yk_rows_write(r, at("no/such/folder"), "libsvm", NULL, &e), YK_FAILED);
    struct yk_reading hashed = {.hash_bits = 10};
    struct yk_rows *none;
    assert_int_equal(yk_rows_open(&none, at("a.cache"), &hashed, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "cannot be hashed to 10 bits"));
    FILE *cache = fopen(at("a.cache"), "r+b");
    assert_non_null(cache);
    assert_int_equal(fseek(cache, 500000, SEEK_SET), 0);
    int byte = fgetc(cache);
    assert_int_equal(fseek(cache, 500000, SEEK_SET), 0);
    fputc(byte ^ 1, cache);
    fclose(cache);
    expect_failure(at("a.cache"), &how, "is damaged");
    char both[3 * YK_PATH_MAX];
    snprintf(both, sizeof both, "%s/a,%s/a.cache", dir, dir);
    expect_failure(both, &how, "is a cache of rows");
    yk_rows_close(r);
    yk_rows_close(c);
    yk_rows_close(b);
    yk_rows_close(gz);
    free(text);
    free(back);
    free(again);
    free(inflated);
}

static void made_up_rows_are_a_set_like_others(void **state)
{
    (void)state;
    struct yk_reading one = {.threads = 1, .no_cache = true}, three = {.threads = 3};
    struct yk_rows *a = must_open("synth-criteo:40000:100000:7", &one),
                   *b = must_open("synth-criteo:40000:100000:7", &three);
    expect_same(a, b);
    assert_int_equal(a->rows, 40000);
    assert_in_range(a->features, 1000, 100000);
    yk_rows_close(b);
    int64_t made = cache_time();
    assert_true(made > 0);
    b = must_open("synth-criteo:40000:100000:7", &three);
    assert_int_equal(cache_time(), made);
    expect_same(a, b);
    yk_rows_close(b);
    b = must_open("synth-criteo:40000:100000:8", &one);
    assert_true(a->xxh3 != b->xxh3);
    yk_rows_close(a);
    yk_rows_close(b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, testdir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(order_is_kept_by_any_number_of_threads),
        TEST(lists_and_folders),
        TEST(a_bad_row_names_its_line),
        TEST(refuses_what_it_cannot_read),
        TEST(refuses_an_endless_line),
        TEST(the_cache_is_reused_until_something_changes),
        TEST(changes_within_a_tick_are_seen),
        TEST(changes_under_an_old_time_are_seen),
        TEST(without_a_place_for_the_cache_rows_stay_in_memory),
        TEST(pipes_are_read_once),
        TEST(standard_input),
        TEST(processes_share_the_work),
        TEST(what_is_written_is_read_again),
        TEST(made_up_rows_are_a_set_like_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
