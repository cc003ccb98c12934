/* save_test.c - a run that was stopped, killed, or lost its newest checkpoint ends with the bits of one that was not; and what
 * cannot be gone on with is refused. */
#include "tests/tiny.h"

#include "param/checkpoint.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

static void newest(const char *run, struct yk_tensors *t)
{
    char dir[YK_PATH_MAX], path[YK_PATH_MAX];
    int found;
    struct yk_error e;
    assert_int_equal(yk_path(dir, NULL, "%s/checkpoints", run), YK_OK);
    if (yk_checkpoint_newest(dir, t, path, &found, NULL, NULL, &e) != YK_OK)
        fail_msg("%s", e.text);
    assert_true(found);
}

static const char *meta(const struct yk_tensors *t, const char *key)
{
    const char *v = yk_tensors_meta(t, key);
    if (v == NULL)
        fail_msg("no '%s' in the checkpoint", key);
    return v;
}

/* The newest checkpoints of two runs hold the same: every tensor bit by bit, and every word but the time and
 * the checksum over it. */
static void assert_same_state(const char *a, const char *b)
{
    struct yk_tensors x, y;
    newest(a, &x);
    newest(b, &y);
    assert_int_equal(x.n, y.n);
    for (size_t i = 0; i < x.n; i++) {
        assert_string_equal(x.tensor[i].name, y.tensor[i].name);
        assert_int_equal(x.tensor[i].count, y.tensor[i].count);
        assert_memory_equal(x.tensor[i].data, y.tensor[i].data, x.tensor[i].count * sizeof(float));
    }
    assert_int_equal(x.metas, y.metas);
    for (size_t i = 0; i < x.metas; i++) {
        assert_string_equal(x.meta[i].key, y.meta[i].key);
        if (strcmp(x.meta[i].key, "seconds") != 0 && strcmp(x.meta[i].key, "xxh3_header") != 0)
            assert_string_equal(x.meta[i].value, y.meta[i].value);
    }
    yk_tensors_release(&x);
    yk_tensors_release(&y);
}

static void done(const char *options)
{
    yk_session_close(tiny_train(options));
}

/* Stopped at several places, in the middle and at the end of an epoch: the end is the same, for every optimizer of the list. */
static void test_resume(void **state)
{
    (void)state;
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++) {
        const char *name = yk_optimizer_at(i)->name;
        char options[128], straight[32], stopped[32];
        snprintf(straight, sizeof straight, "%s-straight", name);
        snprintf(stopped, sizeof stopped, "%s-stopped", name);
        snprintf(options, sizeof options,
                 "run=%s optimizer=%s batch=100 steps=40 schedule=warmup:10,cosine:50", straight,
                 name);
        done(options);
        snprintf(options, sizeof options,
                 "run=%s optimizer=%s batch=100 steps=5 schedule=warmup:10,cosine:50", stopped,
                 name);
        done(options);
        static const int STEPS[] = {6, 11, 22, 23, 40}; /* 11 steps are an epoch */
        for (size_t k = 0; k < sizeof STEPS / sizeof STEPS[0]; k++) {
            snprintf(options, sizeof options, "resume=%s steps=%d", stopped, STEPS[k]);
            done(options);
        }
        assert_same_state(straight, stopped);
        struct yk_tensors t;
        newest(stopped, &t);
        assert_int_equal(t.n, 2 * (1 + yk_optimizer_at(i)->slots)); /* its state is in there */
        yk_tensors_release(&t);
    }
}

static void test_metadata(void **state)
{
    (void)state;
    struct yk_tensors t;
    char hash[17];
    struct yk_session *s = tiny_train("run=a batch=100 steps=14 seed=77 optimizer=momentum");
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->train.xxh3);
    newest("a", &t);
    assert_string_equal(meta(&t, "step"), "14");
    assert_string_equal(meta(&t, "examples"), "1303"); /* 1003 and three hundred more */
    assert_string_equal(meta(&t, "epoch"), "1");
    assert_string_equal(meta(&t, "epoch_at"), "300");
    assert_string_equal(meta(&t, "seed"), "77");
    assert_string_equal(meta(&t, "batch"), "100");
    assert_string_equal(meta(&t, "optimizer"), "momentum");
    assert_string_equal(meta(&t, "shape"), "8x8x1");
    assert_string_equal(meta(&t, "classes"), "4");
    assert_string_equal(meta(&t, "model"), "softmax");
    assert_string_equal(meta(&t, "data_xxh3"), hash);
    assert_non_null(yk_tensors_find(&t, "softmax.weight"));
    assert_non_null(yk_tensors_find(&t, "optimizer.velocity.softmax.weight"));
    const struct yk_view *v = yk_params_find(&s->params, "softmax.weight");
    assert_memory_equal(yk_tensors_find(&t, v->name)->data, s->params.flat + v->at,
                        v->count * sizeof(float));
    assert_memory_equal(yk_tensors_find(&t, "optimizer.velocity.softmax.weight")->data,
                        s->slot[0] + v->at, v->count * sizeof(float));
    yk_tensors_release(&t);
    yk_session_close(s);
}

static void spoil(const char *path, bool cut)
{
    char *bytes;
    size_t n;
    assert_int_equal(yk_file_read(path, 1 << 20, &bytes, &n, NULL), YK_OK);
    bytes[n - 5] ^= 1;
    assert_int_equal(yk_file_write(path, bytes, cut ? n / 2 : n, NULL), YK_OK);
    free(bytes);
}

/* A damaged newest one: said, passed over, and the lost steps are done again to the same end. */
static void test_damaged(void **state)
{
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        char run[16], options[64], path[YK_PATH_MAX], *log;
        size_t n;
        struct yk_session *s;
        struct yk_error e;
        snprintf(run, sizeof run, "run%d", cut);
        snprintf(options, sizeof options, "run=%s-straight batch=50 steps=30 optimizer=adam", run);
        done(options);
        snprintf(options, sizeof options, "run=%s batch=50 steps=12 optimizer=adam", run);
        done(options);
        snprintf(options, sizeof options, "resume=%s steps=20", run);
        done(options);
        assert_int_equal(yk_path(path, NULL, "%s/checkpoints/step-000000000020.safetensors", run),
                         YK_OK);
        spoil(path, cut);
        snprintf(options, sizeof options, "resume=%s steps=30", run);
        assert_int_equal(tiny_open(&s, options, &e), YK_OK);
        assert_int_equal(s->now.step, 12);
        assert_int_equal(yk_session_train(s, &e), YK_OK);
        yk_session_close(s);
        assert_int_equal(yk_path(path, NULL, "%s/log.txt", run), YK_OK);
        assert_int_equal(yk_file_read(path, 1 << 20, &log, &n, NULL), YK_OK);
        assert_non_null(strstr(log, "step-000000000020.safetensors"));
        assert_non_null(strstr(log, "falling back"));
        free(log);
        snprintf(path, sizeof path, "%s-straight", run);
        assert_same_state(path, run);
    }
    struct yk_session *s; /* and if none is whole */
    struct yk_error e;
    spoil("run0/checkpoints/step-000000000030.safetensors", true);
    spoil("run0/checkpoints/step-000000000012.safetensors", true);
    if (yk_exists("run0/checkpoints/step-000000000020.safetensors"))
        spoil("run0/checkpoints/step-000000000020.safetensors", true);
    assert_int_equal(tiny_open(&s, "resume=run0 steps=40", &e), YK_DATA);
}

static void test_other_data(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    done("run=a steps=3");
    spoil("data/train-images-idx3-ubyte", false); /* one pixel */
    assert_int_equal(tiny_open(&s, "resume=a steps=5", &e), YK_DATA);
    assert_non_null(strstr(e.text, "has changed"));
    assert_non_null(strstr(e.hint, "without --resume"));
    tiny_write("data", "train", TINY_TRAIN, TINY_SIDE, 1);
    assert_int_equal(tiny_open(&s, "resume=a steps=5", &e), YK_OK);
    yk_session_close(s);
}

/* A whole file that is not this run's. */
static void test_other_checkpoint(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    done("run=plain steps=3");
    done("run=adam steps=3 optimizer=adam");
    assert_int_equal(rename("plain/checkpoints/step-000000000003.safetensors",
                            "adam/checkpoints/step-000000000003.safetensors"),
                     0);
    assert_int_equal(tiny_open(&s, "resume=adam steps=5", &e), YK_DATA);
    assert_non_null(strstr(e.text, "does not fit this run"));
}

/* A disk that says no is an error of the run, and the checkpoint before it stays. */
static void test_cannot_write(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    assert_int_equal(tiny_open(&s, "run=a steps=3", &e), YK_OK);
    rmdir("a/checkpoints");
    assert_int_equal(yk_file_write("a/checkpoints", "in the way", 10, NULL), YK_OK);
    assert_int_not_equal(yk_session_train(s, &e), YK_OK);
    assert_non_null(strstr(e.text, "a/checkpoints"));
    yk_session_close(s);
}

/* Snapshots are copies: training on does not change them, and they bring everything back. */
static void test_snapshot(void **state)
{
    (void)state;
    struct yk_session *s = tiny_train("steps=7 optimizer=adam batch=100"),
                      *other = tiny_train("steps=3 optimizer=adam batch=100");
    struct yk_snapshot snap = {0};
    char seven[17], hash[17];
    size_t bytes = s->params.count * sizeof(float);
    assert_int_equal(yk_snapshot_init(&snap, s, true, NULL), YK_OK);
    yk_snapshot_take(&snap, s);
    yk_params_hash(&s->params, seven);
    assert_int_equal(snap.at.step, 7);
    memset(s->params.flat, 0, bytes);
    memset(s->slot[1], 0, bytes);
    yk_params_hash(&snap.params, hash);
    assert_string_equal(hash, seven);
    yk_snapshot_restore(&snap, other);
    yk_params_hash(&other->params, hash);
    assert_string_equal(hash, seven);
    assert_true(other->now.step == 7 && other->crew.server[0].owner.step == 7 &&
                other->now.examples == 700 && other->now.position == 700);
    assert_memory_equal(other->slot[1], snap.slot[1], bytes);
    bool any = false;
    for (size_t i = 0; i < s->params.count; i++)
        any |= snap.slot[1][i] > 0;
    assert_true(any);
    yk_snapshot_release(&snap);
    yk_snapshot_release(&snap);
    yk_session_close(s);
    yk_session_close(other);
}

/* kill -9 while it trains and writes: what was saved last is whole, and from there the bits are the same. */
static void test_killed(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct yk_session *s;
        struct yk_error e;
        if (tiny_open(
                &s, "run=a steps=1000000000 batch=10 checkpoint-every=20 optimizer=momentum keep=2",
                &e) == YK_OK)
            yk_session_train(s, &e);
        _exit(1);
    }
    unsigned files = 0;
    for (int tries = 0; files < 2 && tries < 2000;
         tries++) { /* at least two have come, whatever the machine is doing */
        usleep(5000);
        files = 0;
        DIR *dir = opendir("a/checkpoints");
        for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
            files += strstr(d->d_name, ".safetensors") != NULL && strstr(d->d_name, ".tmp") == NULL;
        if (dir != NULL)
            closedir(dir);
    }
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && files >= 2);

    struct yk_tensors t;
    newest("a", &t);
    unsigned long long step = strtoull(meta(&t, "step"), NULL, 10);
    yk_tensors_release(&t);
    char options[96];
    snprintf(options, sizeof options, "resume=a steps=%llu", step + 33);
    done(options);
    snprintf(options, sizeof options, "run=straight steps=%llu batch=10 optimizer=momentum",
             step + 33);
    done(options);
    assert_same_state("a", "straight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed, tiny_setup,
                                        tiny_teardown), /* first: no thread has been started yet */
        cmocka_unit_test_setup_teardown(test_resume, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_metadata, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_damaged, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_other_data, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_other_checkpoint, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_cannot_write, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_snapshot, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
