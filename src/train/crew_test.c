/* crew_test.c - whole runs with several workers in threads: the same bits where they are
 * promised, every example once an epoch where they are not, through stops, checkpoints and
 * changes of crew. */
#include "tests/tiny.h"

#include <dirent.h>

static const char *const BITS =
    "global-batch=100 shards=12 threads=1 schedule=warmup:10,cosine:50"; /* 11 steps an epoch */

static void options_of(char out[256], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, 256, fmt, ap);
    va_end(ap);
    assert_in_range(n, 1, 255);
}

/* local, sync and allreduce, 1 to 4 workers, 1 to 3 servers, every optimizer: one hash. The last
 * batch of an epoch has fewer examples than there are shards. */
static void test_same_bits(void **state)
{
    (void)state;
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++) {
        const char *name = yk_optimizer_at(i)->name;
        char options[256], expected[17], hash[17];
        options_of(options, "mode=local steps=40 optimizer=%s %s", name, BITS);
        tiny_hash(options, expected);
        for (unsigned workers = 1; workers <= 4; workers++) {
            for (unsigned ps = 1; ps <= 3; ps++) {
                options_of(options, "mode=sync workers=%u ps=%u steps=40 optimizer=%s %s", workers,
                           ps, name, BITS);
                tiny_hash(options, hash);
                assert_string_equal(hash, expected);
            }
            options_of(options, "mode=allreduce workers=%u steps=40 optimizer=%s %s", workers, name,
                       BITS);
            tiny_hash(options, hash);
            assert_string_equal(hash, expected);
        }
        options_of(options,
                   "mode=local steps=40 optimizer=%s global-batch=100 shards=11 threads=1 "
                   "schedule=warmup:10,cosine:50",
                   name);
        tiny_hash(options, hash);
        assert_string_not_equal(hash, expected); /* the order of the sums is what makes it so */
    }
}

static void nothing(struct yk_sink *s, size_t lo, size_t hi)
{
    (void)s, (void)lo, (void)hi;
}

/* The same training by hand: shard i of a batch of b is [i b/12, (i+1) b/12), the batch of 3 at
 * the end of an epoch too; the twelve sums are added over the tree, divided by b once, and
 * applied. */
static void test_by_hand(void **state)
{
    (void)state;
    enum { V = 12, STEPS = 25 };
    static float row[YK_SUM_DEPTH][YK_SUM_CHUNK];
    struct yk_session *s = tiny_train(
        "mode=sync workers=3 ps=2 global-batch=100 shards=12 threads=1 lr=0.5 steps=25 seed=3");
    struct yk_block block[V];
    struct yk_sink sink[V];
    struct yk_params params;
    struct yk_model *model;
    assert_int_equal(s->ops->open(&model, &s->input.train, NULL), YK_OK);
    assert_int_equal(s->ops->layout(model, &params, 3, NULL), YK_OK);
    assert_true(params.count <= YK_SUM_CHUNK);
    for (uint32_t i = 0; i < V; i++) {
        sink[i] = (struct yk_sink){.grad = yk_floats(params.count), .ready = nothing};
        assert_non_null(sink[i].grad);
        block[i] = (struct yk_block){.first = i, .last = i + 1, .sum = sink[i].grad};
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t b = step % 11 == 10 ? 3 : 100;
        uint64_t at = (uint64_t)(step / 11) * TINY_TRAIN + (uint64_t)(step % 11) * 100;
        for (uint32_t i = 0; i < V; i++) {
            struct yk_batch batch;
            uint32_t from = i * b / V, to = (i + 1) * b / V;
            yk_source_at(&s->input.source, at + from, to - from, UINT64_MAX, &batch);
            memset(sink[i].grad, 0, params.count * sizeof(float));
            if (batch.n > 0)
                s->ops->step(s->crew.local[0].work, &params, &batch, &sink[i]);
        }
        const float *sum = yk_tree_sum(block, V, 0, params.count, row);
        float rate = 0.5f * (1.0f / (float)b);
        for (size_t i = 0; i < params.count; i++)
            params.flat[i] -= rate * sum[i];
    }
    assert_memory_equal(params.flat, s->state.params.flat, params.count * sizeof(float));
    for (uint32_t i = 0; i < V; i++)
        yk_floats_free(sink[i].grad);
    yk_params_release(&params);
    s->ops->close(model);
    yk_session_close(s);
}

/* Left alone, --shards is the number of workers, and --batch is one worker's: three times 20 is
 * the global 60 of three shards. */
static void test_defaults(void **state)
{
    (void)state;
    char a[17], b[17];
    tiny_hash("workers=3 batch=20 threads=1 steps=30", a); /* sync is what several workers do */
    tiny_hash("mode=local global-batch=60 shards=3 threads=1 steps=30", b);
    assert_string_equal(a, b);
    struct yk_session *s = tiny_train("workers=3 batch=20 steps=2 run=a");
    assert_true(s->crew.rule.shards == 3 && s->crew.rule.batch == 60 && s->now.examples == 120);
    yk_session_close(s);
    s = tiny_train(
        "mode=allreduce workers=2 global-batch=61 steps=2"); /* no multiple of anything */
    assert_true(s->now.examples == 122 && s->o.batch == 30);
    yk_session_close(s);
}

/* Stopped and gone on by other crews: the end is that of the run that one worker did alone. */
static void test_resume(void **state)
{
    (void)state;
    static const char *const CREWS[] = {"mode=sync workers=3 ps=2", "mode=allreduce workers=4",
                                        "mode=local workers=1", "mode=sync workers=2 ps=3"};
    static const int STEPS[] = {11, 23, 27, 40};
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++) {
        const char *name = yk_optimizer_at(i)->name;
        char options[256], expected[17], hash[17] = "";
        options_of(options, "mode=local steps=40 optimizer=%s %s", name, BITS);
        tiny_hash(options, expected);
        options_of(options, "mode=sync workers=4 steps=6 run=%s optimizer=%s %s", name, name, BITS);
        tiny_hash(options, hash);
        for (size_t k = 0; k < 4; k++) {
            assert_string_not_equal(hash, expected);
            options_of(options, "resume=%s steps=%d %s", name, STEPS[k], CREWS[k]);
            tiny_hash(options, hash);
        }
        assert_string_equal(hash, expected);
    }
    struct yk_session *s;
    struct yk_error e;
    assert_int_equal(tiny_open(&s, "resume=sgd steps=60 mode=sync workers=13", &e), YK_USAGE);
    assert_non_null(
        strstr(e.text, "13 workers are more than")); /* its twelve shards are for ever */
    assert_int_equal(tiny_open(&s, "resume=sgd steps=60 shards=13", &e), YK_USAGE);
}

static double detail_sum(const json_t *summary, const char *key)
{
    const json_t *w, *list = json_object_get(summary, "workers_detail");
    double sum = 0;
    size_t i;
    json_array_foreach(list, i, w)
    {
        sum += tiny_number(w, key);
    }
    return sum;
}

static const struct crew {
    const char *options;
    unsigned need; /* parts of a step */
} POOLED[] = {
    {"mode=async workers=1", 1},
    {"mode=async workers=3 ps=2", 1},
    {"mode=async workers=4", 1},
    {"mode=ssp workers=4 staleness=0", 1},
    {"mode=ssp workers=3 ps=3", 1},
    {"mode=ssp workers=3 staleness=100", 1},
    {"mode=sync workers=3 backup=1", 2},
    {"mode=sync workers=4 backup=3 ps=2", 1},
    {"mode=sync workers=4 backup=1 ps=3", 3},
};
enum { CREWS = sizeof POOLED / sizeof POOLED[0] };

/* Parts of 100 (eleven an epoch), whoever does them: steps and examples are exact, at the end of
 * an epoch and inside one, and the accounts of the workers add up to them. */
static void test_counts(void **state)
{
    (void)state;
    static const char *const STOP[] = {"epochs=1", "epochs=5", "steps=1", "steps=10", "steps=30"};
    for (size_t c = 0; c < CREWS; c++)
        for (size_t k = 0; k < sizeof STOP / sizeof STOP[0]; k++) {
            char options[256];
            unsigned need = POOLED[c].need, per_epoch = (11 + need - 1) / need,
                     n = (unsigned)atoi(strchr(STOP[k], '=') + 1);
            unsigned steps = STOP[k][0] == 'e' ? n * per_epoch : n, rest = steps % per_epoch;
            bool backup = strstr(POOLED[c].options, "backup") != NULL;
            options_of(options, "%s %s batch=100 threads=1 eval-every=7 checkpoint-every=3",
                       POOLED[c].options, STOP[k]);
            struct yk_session *s = tiny_train(options);
            uint64_t most =
                (uint64_t)(steps / per_epoch) * TINY_TRAIN + (uint64_t)rest * need * 100;
            uint64_t least =
                most -
                (backup && rest > 0 ? 97 : 0); /* the part of 3 may have come before a late one */
            if (s->now.step != steps || s->now.examples < least || s->now.examples > most)
                fail_msg("%s: %d steps, %d examples", options, (int)s->now.step,
                         (int)s->now.examples);
            assert_int_equal(s->stop, STOP[k][0] == 'e' ? YK_STOP_EPOCHS : YK_STOP_STEPS);
            json_t *j = yk_session_summary(s);
            assert_true(detail_sum(j, "examples") == (double)s->now.examples);
            assert_true(need > 1 || detail_sum(j, "steps") == steps);
            if (s->crew.rule.workers > 1) {
                assert_true(fabs(detail_sum(j, "share") - 1) < 1e-9);
                assert_true(detail_sum(j, "stale_dropped") == tiny_number(j, "stale_dropped"));
            }
            assert_true(backup || tiny_number(j, "stale_dropped") == 0);
            assert_true(json_is_false(json_object_get(j, "reproducible")));
            if (s->crew.rule.mode == YK_MODE_ssp)
                assert_true(s->crew.clock.most_lead <= (uint64_t)s->crew.rule.staleness);
            json_decref(j);
            yk_session_close(s);
        }
}

/* What is told about each worker, and where: figures that add up, a curve of its own, its rank. */
static void test_records(void **state)
{
    (void)state;
    static const struct {
        const char *crew;
        unsigned ps, workers;
    } RUN[] = {{"mode=sync workers=3 ps=2", 2, 3},
               {"mode=async workers=2", 1, 2},
               {"mode=allreduce workers=3", 0, 3},
               {"mode=local", 0, 1},
               {"mode=sync workers=1", 1, 1}};
    for (size_t i = 0; i < sizeof RUN / sizeof RUN[0]; i++) {
        char options[256], run[16], path[64];
        snprintf(run, sizeof run, "run%zu", i);
        options_of(options, "%s batch=50 steps=60 eval-every=10 threads=1 run=%s", RUN[i].crew,
                   run);
        struct yk_session *s = tiny_train(options);
        json_t *j = yk_session_summary(s), *ranks;
        const json_t *list = json_object_get(j, "workers_detail");
        assert_int_equal(json_array_size(list), RUN[i].workers);
        assert_true(tiny_number(j, "ps") == RUN[i].ps &&
                    tiny_number(j, "workers") == RUN[i].workers);
        assert_true(detail_sum(j, "examples") == tiny_number(j, "examples"));
        assert_true(
            detail_sum(j, "steps") ==
            60 * (s->crew.rule.pooled ? 1 : RUN[i].workers)); /* sync: everybody every step */
        for (size_t w = 0; w < RUN[i].workers; w++) {
            const json_t *d = json_array_get(list, w), *p = json_object_get(d, "phases");
            assert_true(tiny_number(d, "rank") == RUN[i].ps + (double)w &&
                        tiny_number(d, "seconds") > 0);
            double sum = tiny_number(p, "input") + tiny_number(p, "compute") +
                         tiny_number(p, "push") + tiny_number(p, "pull") + tiny_number(p, "wait");
            double waited = RUN[i].workers == 1 ? tiny_number(p, "wait")
                                                : 0; /* for evaluations: beside the training */
            if (tiny_number(d, "steps") >
                2) /* its second step is the first that is timed, unless it begins an epoch */
                assert_true(fabs(sum - waited - tiny_number(d, "seconds")) <
                            0.01 * tiny_number(d, "seconds"));
            if (RUN[i].workers > 1)
                assert_true(tiny_number(d, "bytes_sent") > 0 &&
                            tiny_number(d, "bytes_received") > 0);
            snprintf(path, sizeof path, "%s/events/worker-%zu", run, w);
            assert_true(yk_is_dir(path));
        }
        snprintf(path, sizeof path, "%s/events/worker-%u", run, RUN[i].workers);
        assert_false(yk_exists(path));
        snprintf(path, sizeof path, "%s/events/ps-0", run);
        assert_int_equal(yk_is_dir(path), RUN[i].ps > 0);
        assert_int_equal(yk_run_load(&s->run, "ranks.json", &ranks, NULL), YK_OK);
        list = json_object_get(ranks, "ranks");
        assert_int_equal(json_array_size(list), RUN[i].ps + RUN[i].workers);
        for (size_t r = 0; r < json_array_size(list); r++)
            assert_string_equal(tiny_text(json_array_get(list, r), "role"),
                                r < RUN[i].ps ? "ps" : "worker");
        json_decref(ranks);
        json_decref(j);
        yk_session_close(s);
    }
}

/* Checkpoints of a run, oldest first, at most `max` steps. */
static unsigned checkpoints(const char *run, uint64_t *step, unsigned max)
{
    char folder[64];
    unsigned n = 0;
    snprintf(folder, sizeof folder, "%s/checkpoints", run);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *d; n < max && (d = readdir(dir)) != NULL;)
        if (strncmp(d->d_name, "step-", 5) == 0) {
            unsigned at = n++;
            uint64_t s = strtoull(d->d_name + 5, NULL, 10);
            for (; at > 0 && step[at - 1] > s; at--)
                step[at] = step[at - 1];
            step[at] = s;
        }
    closedir(dir);
    return n;
}

/* The run went on from step `step`, in the middle of an epoch: the parts that it lists are what
 * its position is ahead of its examples. */
static void check_pool(const struct yk_session *s)
{
    uint64_t missing = 0;
    for (unsigned i = 0; i < s->resume.pooled; i++) {
        uint64_t id = s->resume.pool[i], in_epoch = id % TINY_TRAIN;
        assert_true(id < s->now.position && in_epoch % 10 == 0 &&
                    id / TINY_TRAIN + 1 >= (s->now.position - 1) / TINY_TRAIN);
        for (unsigned k = 0; k < i; k++)
            assert_int_not_equal(s->resume.pool[k], id);
        missing += in_epoch == 1000 ? 3 : 10;
    }
    assert_int_equal(s->now.position - missing, s->now.examples);
}

/* Killed after a checkpoint in the middle of an asynchronous epoch: the next start trains on
 * exactly what is missing, by whatever crew. */
static void test_pool(void **state)
{
    (void)state;
    static const char *const NEXT[][2] = {
        {"", ""},
        {"workers=2", "workers=4 backup=2"},
        {"mode=ssp workers=3 staleness=1", "mode=ssp workers=3 staleness=0"},
        {"mode=sync workers=3 backup=1", "mode=async workers=4"},
        {"mode=async workers=1", "mode=async workers=1"}};
    unsigned with_parts = 0;
    for (size_t k = 0; k < sizeof NEXT / sizeof NEXT[0]; k++)
        for (unsigned first = 0; first < 2; first++) {
            char options[256], run[16], path[96];
            struct yk_session *s;
            struct yk_error e;
            uint64_t step[128];
            snprintf(run, sizeof run, "run%zu-%u", k, first);
            options_of(options, "%s batch=10 threads=1 epochs=3 checkpoint-every=5 keep=100 run=%s",
                       first == 0 ? "mode=async workers=4 ps=2" : "mode=sync workers=3 backup=1",
                       run);
            yk_session_close(tiny_train(options));
            unsigned n = checkpoints(run, step, 128), keep = n / 2;
            assert_true(n >= 2);
            for (unsigned i = keep; i < n; i++) { /* as if it had been killed then */
                snprintf(path, sizeof path, "%s/checkpoints/step-%012llu.safetensors", run,
                         (unsigned long long)step[i]);
                assert_int_equal(unlink(path), 0);
            }
            options_of(options, "resume=%s mode=%s", run,
                       first == 0 ? "sync backup=0" : "allreduce");
            yk_code rc = tiny_open(&s, options, &e);
            if (rc ==
                YK_OK) { /* everything had come in at that moment, or it was the end of an epoch */
                assert_int_equal(s->resume.pooled, 0);
                yk_session_close(s);
                continue;
            }
            with_parts++;
            assert_int_equal(rc, YK_USAGE);
            assert_non_null(strstr(e.text, "in the middle of an asynchronous epoch"));
            if (first == 1) { /* a step of four parts, not two */
                options_of(options, "resume=%s workers=5 backup=1", run);
                assert_int_equal(tiny_open(&s, options, &e), YK_USAGE);
                assert_non_null(strstr(e.text, "in parts of 10 examples, not 5"));
            }
            options_of(options, "resume=%s %s", run, NEXT[k][first]);
            if (tiny_open(&s, options, &e) != YK_OK)
                fail_msg("%s: %s", options, e.text);
            assert_int_equal(s->now.step, step[keep - 1]);
            check_pool(s);
            if (yk_session_train(s, &e) != YK_OK)
                fail_msg("%s: %s", options, e.text);
            if (s->now.examples != 3 * TINY_TRAIN || s->stop != YK_STOP_EPOCHS)
                fail_msg("%s: %d examples", options, (int)s->now.examples);
            yk_session_close(s);
        }
    assert_true(with_parts > 4);
}

/* Stopped by hand, again and again: together the starts make the epochs that were asked for, not
 * an example more or less. */
static void test_stopped(void **state)
{
    (void)state;
    for (size_t c = 0; c < CREWS; c++) {
        char options[256], run[16];
        struct yk_session *s;
        struct yk_error e;
        uint64_t examples = 0;
        snprintf(run, sizeof run, "run%zu", c);
        options_of(options, "%s batch=10 threads=1 epochs=100000 eval-every=1e9 run=%s",
                   POOLED[c].options, run);
        for (int starts = 0; starts < 3; starts++) {
            pthread_t thread;
            if (tiny_open(&s, options, &e) != YK_OK)
                fail_msg("%s: %s", options, e.text);
            assert_int_equal(s->now.examples, examples);
            check_pool(s);
            struct tiny_stop stop = {s, s->now.step + 40};
            if (starts < 2) /* the third one is let be */
                assert_int_equal(pthread_create(&thread, NULL, tiny_stop_at, &stop), 0);
            assert_int_equal(yk_session_train(s, &e), YK_OK);
            if (starts < 2)
                pthread_join(thread, NULL);
            assert_int_equal(s->stop, starts < 2 ? YK_STOP_SIGNAL : YK_STOP_EPOCHS);
            assert_true(s->now.examples > examples);
            examples = s->now.examples;
            yk_session_close(s);
            options_of(options, "resume=%s epochs=%d", run,
                       starts < 1 ? 100000 : (int)(examples / TINY_TRAIN) + 2);
        }
        assert_int_equal(examples % TINY_TRAIN, 0);
    }
}

/* A run may go on in another mode at the end of an epoch, with steps of another size: --epochs
 * means epochs. */
static void test_other_mode(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        unsigned epochs;
    } START[] = {
        {"mode=local global-batch=60 shards=6 epochs=1 threads=1 run=a", 1},
        {"resume=a mode=sync workers=3 epochs=2", 2},
        {"resume=a mode=async workers=2 epochs=3", 3},
        {"resume=a mode=sync workers=4 backup=1 epochs=4", 4},
        {"resume=a mode=ssp workers=2 epochs=6", 6},
        {"resume=a mode=allreduce workers=2 epochs=7", 7},
        {"resume=a mode=local workers=1 epochs=9", 9},
    };
    for (size_t i = 0; i < sizeof START / sizeof START[0]; i++) {
        struct yk_session *s = tiny_train(START[i].options);
        if (s->now.examples != (uint64_t)START[i].epochs * TINY_TRAIN ||
            s->now.position != s->now.examples)
            fail_msg("%s: %d examples", START[i].options, (int)s->now.examples);
        assert_int_equal(s->stop, YK_STOP_EPOCHS);
        yk_session_close(s);
    }
}

/* A target ends an asynchronous run, too, with the snapshot that reached it, and the parts that
 * it had not seen are not lost. */
static void test_target(void **state)
{
    (void)state;
    static const char *const RUN[] = {"mode=async workers=3 ps=2", "mode=sync workers=3 ps=2",
                                      "mode=sync workers=3 backup=1", "mode=ssp workers=2"};
    for (size_t i = 0; i < sizeof RUN / sizeof RUN[0]; i++) {
        char options[256], hash[17], again[17];
        struct yk_error e;
        options_of(options,
                   "%s batch=10 lr=0.1 threads=1 eval-every=8 target-loss=1 steps=5000 run=run%zu",
                   RUN[i], i);
        struct yk_session *s = tiny_train(options);
        assert_int_equal(s->stop, YK_STOP_TARGET_LOSS);
        assert_true(s->curve.test_loss <= 1 && s->curve.tested_step == s->now.step &&
                    s->now.step < 5000);
        struct yk_score score = {0};
        struct yk_work *work;
        uint32_t *rows = tiny_test_rows(s);
        assert_int_equal(s->ops->work_open(&work, s->model, 1, s->o.isa, &e), YK_OK);
        assert_int_equal(yk_evaluate(s->ops, work, &s->state.params, NULL, &s->input.test, rows,
                                     100, &score, NULL, &e),
                         YK_OK);
        s->ops->work_close(work);
        free(rows);
        assert_true(fabs(score.loss / TINY_TEST - s->curve.test_loss) <
                    1e-12); /* these parameters, not later ones */
        yk_params_hash(&s->state.params, hash);
        uint64_t step = s->now.step, examples = s->now.examples;
        yk_session_close(s);
        options_of(options, "resume=run%zu steps=6000 target-loss=0.0001", i);
        assert_int_equal(tiny_open(&s, options, &e), YK_OK);
        yk_params_hash(&s->state.params, again);
        assert_string_equal(hash, again);
        assert_true(s->now.step == step && s->now.examples == examples);
        if (s->crew.rule.pooled)
            check_pool(s);
        yk_session_close(s);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *options, *text, *hint;
    } BAD[] = {
        {"mode=local workers=2", "--mode local has one worker, not 2", "sync"},
        {"ps=2", "--ps means nothing to --mode local", "sync or async or ssp"},
        {"mode=allreduce workers=2 ps=2", "--ps means nothing to --mode allreduce", "sync"},
        {"mode=async workers=3 backup=1", "--backup means nothing to --mode async", "sync"},
        {"mode=sync workers=3 staleness=1", "--staleness means nothing to --mode sync", "ssp"},
        {"workers=3 staleness=1", "--staleness means nothing to --mode sync", "ssp"},
        {"mode=async workers=3 shards=3", "--shards means nothing to --mode async",
         "local or sync or allreduce"},
        {"mode=ssp workers=3 global-batch=30", "--global-batch means nothing to --mode ssp",
         "local or sync or allreduce"},
        {"mode=sync workers=3 backup=3", "--backup 3 leaves none of 3 workers",
         "workers - backups"},
        {"mode=sync workers=3 backup=1 shards=3",
         "--shards fixes the order of every sum and --backup", ""},
        {"workers=13 shards=12", "13 workers are more than --shards 12",
         "each worker needs a shard"},
        {"batch=10 global-batch=20", "--batch and --global-batch exclude each other",
         "for each worker"},
        {"workers=3 backup=1 global-batch=31",
         "--global-batch 31 is not a multiple of the 2 pushes", ""},
        {"workers=4 batch=1000000", "a global batch of 4000000 examples is more than 1000000", ""},
        {"workers=4 batch=251", "a global batch of 1004 is more than the 1003 examples", ""},
        {"workers=2 ps=18", "18 owners are too many for the 260 parameters", "at most 17"},
        {"mode=allreduce workers=18 batch=10", "18 owners are too many", "at most 17"},
        {"workers=2 heartbeat=3", "--heartbeat means nothing to workers that are threads",
         "--hosts"},
        {"workers=2 on-worker-loss=fail",
         "--on-worker-loss means nothing to workers that are threads", "--hosts"},
        {"workers=2 restarts=2", "--restarts means nothing to workers that are threads", "--hosts"},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct yk_session *s;
        struct yk_error e;
        yk_code rc = tiny_open(&s, BAD[i].options, &e);
        if (rc != YK_USAGE || strstr(e.text, BAD[i].text) == NULL ||
            strstr(e.hint, BAD[i].hint) == NULL)
            fail_msg("%s: %d '%s' '%s'", BAD[i].options, rc, e.text, e.hint);
        assert_false(yk_exists("runs"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_bits, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_by_hand, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_defaults, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_resume, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_counts, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_records, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_pool, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_stopped, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_other_mode, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_target, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_refuses, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
