/* crash_test.c - the power is cut after any call that changes a file, the disk is full, or it
 * fails: the last checkpoint that a run has reported is there, loads, and goes on to the same bits.
 *
 * Killing a process proves less: the page cache outlives it, so a missing fsync goes unnoticed.
 * Here a run of several starts is traced by a model of the disk (tests/disk.h), and then its
 * folder is rebuilt in every state that POSIX allows at every moment. */
#include "tests/disk.h"
#include "tests/tiny.h"
#include "train/save.h"

#include "param/checkpoint.h"

#include <libgen.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { RESUMED = 47, FAULTS_RESUMED = 9 }; /* one state of so many is resumed to the end */
#else
enum { RESUMED = 19, FAULTS_RESUMED = 3 };
#endif
enum { END = 16 }; /* steps of the whole run */
#define RUN "batch=50 threads=1 optimizer=momentum eval-every=5 checkpoint-every=2"

static char straight[17]; /* what it comes to if nobody disturbs it */

/* In memory if there is such a folder: the disk is a model, and the rest is a few thousand small
 * files. */
static int crash_setup(void **state)
{
    char *dir = strdup(access("/dev/shm", W_OK) == 0 ? "/dev/shm/yoke-test-XXXXXX"
                                                     : "/tmp/yoke-test-XXXXXX");
    if (dir == NULL || mkdtemp(dir) == NULL || chdir(dir) != 0)
        return -1;
    *state = dir;
    tiny_write("data", "train", TINY_TRAIN, TINY_SIDE, 1);
    tiny_write("data", "t10k", TINY_TEST, TINY_SIDE, 2);
    tiny_hash(RUN " run=straight steps=16", straight);
    return 0;
}

/* ---- looking at what is left ---- */

struct looker {
    const char *what; /* happened to the run */
    unsigned moment;  /* after how many events */
    unsigned every;   /* one state of so many is resumed to the end */
    unsigned states, resumes, refused;
};

static void not_whole(void *arg, const struct yk_error *why)
{
    const struct looker *l = arg;
    fail_msg("%s, event %u: a checkpoint is not whole: %s", l->what, l->moment, why->text);
}

static void assert_sentence(const struct looker *l, yk_code rc, const struct yk_error *e)
{
    if (rc != e->code || strlen(e->text) < 10 || strchr(e->text, '\n') != NULL)
        fail_msg("%s, event %u: error %d is no sentence: '%s'", l->what, l->moment, (int)rc,
                 e->text);
}

/* Goes on from `folder`/run to the end. Before the first checkpoint has been reported there may
 * be no run to speak of; that is told. */
static void resume_in(struct looker *l, const char *folder, bool must)
{
    char here[YK_PATH_MAX], hash[17];
    struct yk_session *s;
    struct yk_error e;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    yk_code rc = tiny_open(&s, "resume=" DISK_ROOT " steps=16", &e);
    if (rc == YK_OK) {
        rc = yk_session_train(s, &e);
        yk_params_hash(&s->state.params, hash);
        yk_session_close(s);
        if (rc != YK_OK || strcmp(hash, straight) != 0)
            fail_msg("%s, event %u: resumed it ends with %s: %s, not %s", l->what, l->moment,
                     rc != YK_OK ? e.text : "", hash, straight);
        l->resumes++;
    } else {
        assert_sentence(l, rc, &e);
        if (must || rc != YK_DATA)
            fail_msg("%s, event %u: it cannot be resumed: %s", l->what, l->moment, e.text);
        l->refused++;
    }
    assert_int_equal(chdir(here), 0);
}

/* The newest checkpoint of `folder`/run is whole, and no older than the one that was reported
 * last; so is config.json. */
static void check_folder(struct looker *l, const char *folder, long long reported)
{
    char path[YK_PATH_MAX], newest[YK_PATH_MAX];
    struct yk_tensors t;
    struct yk_error e;
    int found;
    assert_int_equal(yk_path(path, NULL, "%s/" DISK_ROOT "/checkpoints", folder), YK_OK);
    yk_code rc = yk_checkpoint_newest(path, &t, newest, &found, not_whole, l, &e);
    if (rc != YK_OK)
        fail_msg("%s, event %u: %s", l->what, l->moment, e.text);
    long long step = found ? atoll(yk_tensors_meta(&t, "step")) : -1;
    if (found)
        yk_tensors_release(&t);
    if (step < reported)
        fail_msg("%s, event %u: the newest checkpoint is of step %lld, and %lld had been reported",
                 l->what, l->moment, step, reported);
    json_t *config;
    assert_int_equal(yk_path(path, NULL, "%s/" DISK_ROOT "/config.json", folder), YK_OK);
    if (reported >= 0 && (rc = yk_json_load(path, &config, &e)) != YK_OK)
        fail_msg("%s, event %u: %s", l->what, l->moment, e.text);
    if (reported >= 0)
        json_decref(config);
}

static void look(void *arg, const struct disk_state *s)
{
    struct looker *l = arg;
    assert_int_equal(__real_mkdir("state", 0777), 0);
    assert_int_equal(__real_symlink("../data", "state/data"), 0);
    disk_build(s, 0, "state");
    check_folder(l, "state", s->reported);
    if (++l->states % l->every == 0 || s->reported < 0)
        resume_in(l, "state", s->reported >= 0);
    assert_int_equal(nftw("state", testdir_unlink, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Every moment of the trace, or its end only. */
static void look_at_trace(struct looker *l, bool all)
{
    struct yk_rng r;
    yk_rng_init(&r, 3, disk.events, 0, 0);
    for (l->moment = all ? 0 : disk.events; l->moment <= disk.events; l->moment++)
        disk_states(l->moment, &r, look, l);
}

/* ---- runs ---- */

static yk_code start(const char *options, struct yk_error *e)
{
    struct yk_session *s;
    yk_code rc = tiny_open(&s, options, e);
    if (rc != YK_OK)
        return rc;
    yk_saver_notify(s, disk_report, NULL);
    rc = yk_session_train(s, e);
    yk_session_close(s);
    return rc;
}

static void must_start(const char *options)
{
    struct yk_error e;
    if (start(options, &e) != YK_OK)
        fail_msg("%s: %s", options, e.text);
}

static void remove_run(void)
{
    assert_int_equal(nftw(DISK_ROOT, testdir_unlink, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Three starts, with old checkpoints that go. A summary is there in between, as after a run of
 * the program. */
static void test_power_cut(void **state)
{
    (void)state;
    static const char *const KEEP[] = {"keep=1", "keep=2"};
    unsigned resumes = 0, refused = 0, states = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct looker l = {.what = KEEP[i], .every = RESUMED};
        char options[128];
        disk_begin(DISK_SOUND, 0);
        snprintf(options, sizeof options, RUN " run=" DISK_ROOT " steps=6 %s", KEEP[i]);
        must_start(options);
        assert_int_equal(yk_file_write(DISK_ROOT "/summary.json", "{}\n", 3, NULL), YK_OK);
        must_start("resume=" DISK_ROOT " steps=11");
        must_start("resume=" DISK_ROOT " steps=16");
        disk_end();
        look_at_trace(&l, true);
        states += l.states;
        resumes += l.resumes;
        refused += l.refused;
        remove_run();
    }
    assert_true(states > 200 && resumes > 10);
    print_message("             %u states of the disk, %u resumed to the end, %u told\n", states,
                  resumes, refused);
}

static long long last_reported(void)
{
    long long step = -1;
    for (unsigned i = 0; i < disk.events; i++)
        if (disk.event[i].what == DISK_REPORTED)
            step = disk.event[i].step;
    return step;
}

/* Each call in turn fails: the error is one sentence, what was reported stands, also after a
 * power cut then, and goes on. */
static void fail_everywhere(enum disk_fault fault, bool resumed)
{
    struct looker l = {.every = UINT_MAX};
    unsigned failures = 0, n = 0;
    char what[64];
    l.what = what;
    for (bool reached = true; reached; n++) {
        struct yk_error e = {0};
        assert_true(n < 1000);
        snprintf(what, sizeof what, "%s at call %u%s", fault == DISK_EIO ? "EIO" : "a full disk", n,
                 resumed ? " of a resumed run" : "");
        disk_begin(DISK_SOUND, 0);
        if (resumed) {
            must_start(RUN " run=" DISK_ROOT " steps=4 keep=1");
            assert_int_equal(yk_file_write(DISK_ROOT "/summary.json", "{}\n", 3, NULL), YK_OK);
        }
        disk.fault = fault;
        disk.fail_at = n;
        yk_code rc = start(
            resumed ? "resume=" DISK_ROOT " steps=8" : RUN " run=" DISK_ROOT " steps=8 keep=1", &e);
        disk_end();
        reached = disk.failed;
        long long reported = last_reported();
        l.moment = disk.events;
        if (rc != YK_OK) {
            assert_sentence(&l, rc, &e);
            if (rc != YK_FAILED ||
                (strcasestr(e.text, strerror(fault == DISK_EIO ? EIO : ENOSPC)) == NULL))
                fail_msg("%s: %d, '%s'", what, (int)rc, e.text);
            failures++;
        } else {
            assert_int_equal(reported, 8);
        }
        look_at_trace(&l, false);
        if (yk_is_dir(DISK_ROOT)) {
            check_folder(&l, ".", reported);
            if (n % FAULTS_RESUMED == 0)
                resume_in(&l, ".", reported >= 0);
            remove_run();
        }
    }
    print_message("             %u calls, %u errors\n", n, failures);
    assert_true(n > 20 && failures > n / 3);
}

static void test_eio(void **state)
{
    (void)state;
    fail_everywhere(DISK_EIO, false);
    fail_everywhere(DISK_EIO, true);
}

static void test_full(void **state)
{
    (void)state;
    fail_everywhere(DISK_FULL, false);
    fail_everywhere(DISK_FULL, true);
}

/* ---- the model sees everything ---- */

/* Calls of libc that change files. */
static const char *const CHANGES[] = {
    "open",      "open64",      "__open_2",  "openat",          "openat64",
    "creat",     "creat64",     "fopen",     "fopen64",         "fdopen",
    "freopen",   "write",       "writev",    "pwrite",          "pwrite64",
    "pwritev",   "fwrite",      "fputs",     "fputc",           "putc",
    "fprintf",   "vfprintf",    "dprintf",   "vdprintf",        "__fprintf_chk",
    "fsync",     "fdatasync",   "sync",      "syncfs",          "sync_file_range",
    "rename",    "renameat",    "renameat2", "unlink",          "unlinkat",
    "remove",    "rmdir",       "mkdir",     "mkdirat",         "symlink",
    "symlinkat", "link",        "linkat",    "truncate",        "truncate64",
    "ftruncate", "ftruncate64", "fallocate", "posix_fallocate", "copy_file_range",
    "sendfile",  "msync",       "mkstemp",   "mkostemp",        "mkdtemp",
    "mkfifo",    "mknod",       "close",
};
/* What is called beside the model, and why that does no harm. */
static const struct {
    const char *object, *call;
} HARMLESS[] = {
    {"memory.o", "fopen"},  /* reads files of /proc and /sys */
    {"file.o", "unlinkat"}, /* removes temporary files of dead processes, never those of this one */
};

static bool among(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0)
            return true;
    return false;
}

/* The objects that write below a run's folder call nothing that changes a file but what is
 * wrapped. */
static void test_calls(void **state)
{
    (void)state;
#define NAME(call) #call,
    static const char *const WRAPPED[] = {DISK_CALLS(NAME)};
    char exe[YK_PATH_MAX], command[YK_PATH_MAX + 256], line[1024];
    unsigned seen = 0;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(n > 0);
    exe[n] = '\0';
    snprintf(command, sizeof command,
             "cd '%s/../../obj/src' && nm -A -u base/*.o param/*.o record/*.o train/*.o",
             dirname(exe));
    FILE *nm = popen(command, "r");
    assert_non_null(nm);
    while (fgets(line, sizeof line, nm) != NULL) {
        char object[256], call[256]; /* base/file.o:                 U close */
        bool fine = false;
        if (sscanf(line, "%*[^/]/%255[^:]: U %255s", object, call) != 2)
            continue;
        if (!among(call, CHANGES, sizeof CHANGES / sizeof CHANGES[0]))
            continue;
        for (size_t i = 0; i < sizeof HARMLESS / sizeof HARMLESS[0]; i++)
            fine = fine ||
                   (strcmp(object, HARMLESS[i].object) == 0 && strcmp(call, HARMLESS[i].call) == 0);
        if (!fine && !among(call, WRAPPED, sizeof WRAPPED / sizeof WRAPPED[0]))
            fail_msg("%s calls %s, of which tests/disk.h knows nothing", object, call);
        seen++;
    }
    assert_int_equal(pclose(nm), 0);
    assert_true(seen > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test_setup_teardown(test_power_cut, crash_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_eio, crash_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_full, crash_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
