/* exchange_bucket_test.c - whole batches bucket by bucket, over a simulated network between real
 * servers and workers: owners apply complete buckets while the rest is on its way, workers begin
 * with the parameters that are here, and the bits are those of one process, also when workers
 * are lost. */
#include "tests/sim_network.h"

enum { STEPS = 25, BUCKET = 16 };
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 200 };
#else
enum { SEEDS = 600 };
#endif

/* as sim_cluster.h cuts them */
static const size_t LAYER[CLUSTER_PIECES + 1] = {0, 20, 37, 64, 90, CLUSTER_ROWS};

static struct yk_rule rule_of(unsigned workers, unsigned owners)
{
    struct yk_rule rule = cluster_batches(workers, owners, STEPS);
    rule.held = true; /* as between processes, of one worker too */
    rule.codec.piece = BUCKET;
    return rule;
}

/* The weights after all steps of one process without buckets. */
static void alone(float *w)
{
    struct yk_rule rule = cluster_batches(1, 1, STEPS);
    struct cluster r;
    cluster_open(&r, &rule, yk_optimizer_find("adam"), NULL);
    r.touch = cluster_some;
    cluster_start(&r, true);
    cluster_play(&r, 1, false);
    memcpy(w, r.params.flat, CLUSTER_ROWS * sizeof *w);
    cluster_close(&r);
}

static struct {
    float seen[CLUSTER_WORKERS][CLUSTER_ROWS]; /* parameters that each forward pass has read */
    unsigned layers[CLUSTER_WORKERS];          /* layers that it has done */
    unsigned early;                            /* passes that began before all parameters came */
    unsigned guessed;                          /* passes that began before owner 0 named the task */
    unsigned given_up;                         /* passes that were given up */
} forward;

static bool all_here(const struct yk_worker *w, size_t lo, size_t hi)
{
    for (unsigned k = 0; k < w->rule->owners; k++) {
        size_t first = yk_owner_at(k, w->rule->owners, w->params.count),
               last = yk_owner_at(k + 1, w->rule->owners, w->params.count);
        for (size_t i = lo > first ? lo : first; i < hi && i < last; i++)
            if (!w->buckets.come[w->buckets.at[k] + (i - first) / BUCKET])
                return false;
    }
    return true;
}

static bool is_over(const struct yk_worker *w)
{
    return yk_worker_is_over(w) || w->again;
}

/* A guess may be computed, not pushed. */
static bool waits_for_word(const struct yk_worker *w)
{
    return w->buckets.task == YK_TASK_GUESSED && !w->ordered && !w->buckets.abandoned &&
           !is_over(w);
}

/* The next layer of a worker's forward pass, if it need not wait for it. */
static void read_layer(struct cluster *r, unsigned w)
{
    struct yk_worker *me = &r->worker[w];
    struct cluster_driver *h = &r->driver[w];
    unsigned k = forward.layers[w];
    size_t lo = LAYER[k], hi = k + 1 < CLUSTER_PIECES ? LAYER[k + 1] : me->params.count;
    if (me->buckets.task != YK_TASK_WHOLE && !is_over(me) && !all_here(me, lo, hi))
        return;
    forward.early += me->buckets.task != YK_TASK_WHOLE && k == 0;
    forward.guessed += me->buckets.task == YK_TASK_GUESSED && k == 0;
    if (!me->sink.need(&me->sink, lo, hi)) {
        yk_worker_commit(me, 0); /* as the loop does; nothing leaves */
        h->busy = false;
        forward.given_up++;
        return;
    }
    hi = hi < CLUSTER_ROWS ? hi : CLUSTER_ROWS;
    memcpy(forward.seen[w] + lo, me->params.flat + lo, (hi - lo) * sizeof(float));
    if (++forward.layers[w] == CLUSTER_PIECES) {
        assert_true(me->buckets.task != YK_TASK_EARLY);
        assert_memory_equal(forward.seen[w], me->params.flat,
                            CLUSTER_ROWS * sizeof(float)); /* nothing came over what was read */
    }
}

static bool may_pull(const struct yk_worker *w)
{
    bool guess = w->eager && w->buckets.task == YK_TASK_WHOLE && w->task.examples > 0 &&
                 w->task.ahead != YK_NO_PART;
    return guess || w->again || w->exchange->answered(w) || (w->ordered && w->task.examples > 0) ||
           w->buckets.abandoned || yk_worker_is_over(w);
}

static void event(struct network *o, struct yk_rng *rng)
{
    struct cluster *r = o->cluster;
    unsigned w = yk_rng_below(rng, r->rule.workers);
    struct cluster_driver *h = &r->driver[w];
    if (yk_rng_below(rng, 4) > 0) {
        int ends = r->comm->owners + r->comm->workers;
        network_move(o, (int)yk_rng_below(rng, (uint32_t)ends),
                     (int)yk_rng_below(rng, (uint32_t)ends), rng);
    } else if (o->end[yk_worker_endpoint(r->comm, (int)w)].gone || h->stopped) {
        return;
    } else if (!h->busy && may_pull(&r->worker[w])) {
        h->busy = yk_worker_pull(&r->worker[w], &h->task);
        h->stopped = !h->busy;
        h->stage = forward.layers[w] = 0;
    } else if (h->busy && forward.layers[w] < CLUSTER_PIECES) {
        read_layer(r, w);
    } else if (h->busy && !waits_for_word(&r->worker[w])) {
        cluster_push_piece(r, w);
    }
}

static void open_early(struct network *o, struct cluster *r, const struct yk_rule *rule)
{
    memset(&forward, 0, sizeof forward);
    cluster_open(r, rule, yk_optimizer_find("adam"), NULL);
    r->touch = cluster_some;
    network_open(o, r);
    for (unsigned w = 0; w < rule->workers; w++)
        r->worker[w].eager = true;
    cluster_start(r, true);
}

static void test_bits(void **state)
{
    (void)state;
    float expected[CLUSTER_ROWS];
    alone(expected);
    for (unsigned workers = 1; workers <= 4; workers++)
        for (unsigned owners = 1; owners <= 3; owners++)
            for (uint64_t seed = 0; seed < 10; seed++) {
                const struct yk_rule rule = rule_of(workers, owners);
                struct network o;
                struct cluster r;
                struct yk_rng rng;
                open_early(&o, &r, &rule);
                yk_rng_init(&rng, seed, workers, owners, 0);
                for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
                    if (i > 3000000)
                        fail_msg("%u workers, %u owners: nobody goes on at step %d", workers,
                                 owners, (int)r.steps);
                    event(&o, &rng);
                }
                assert_memory_equal(r.params.flat, expected, sizeof expected);
                assert_true(forward.early > STEPS / 4 && forward.guessed > STEPS / 4);
                assert_true(forward.given_up <= workers); /* behind the last step */
                network_close(&o);
            }
}

/* After every step owner 0 wants to look at all parameters: the others wait meanwhile, and a
 * loss then finds workers between two steps. */
static enum yk_verdict look(void *arg, const struct yk_stepped *st)
{
    const struct cluster *r = arg;
    enum yk_verdict v = st != NULL ? cluster_stepped(arg, st) : YK_GO;
    return st != NULL && v == YK_GO && r->rule.owners > 1 ? YK_LOOK : v;
}

/* Two of four are lost at any moment. */
static void test_losses(void **state)
{
    (void)state;
    float expected[CLUSTER_ROWS];
    unsigned given_up = 0;
    alone(expected);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct yk_rule rule = rule_of(4, 1 + (unsigned)seed % 3);
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        open_early(&o, &r, &rule);
        if (seed % 2 == 0)
            r.server[0].watcher.stepped = look;
        yk_rng_init(&rng, seed, 3, 0, 0);
        uint64_t first = 100 + yk_rng_below(&rng, 12000), second = first + yk_rng_below(&rng, 600);
        for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
            if (i > 3000000)
                fail_msg("seed %d: nobody goes on at step %d", (int)seed, (int)r.steps);
            if ((i == first || i == second) && r.server[0].state < YK_SERVER_ENDED)
                network_lose_worker(&o, i == first ? 1 : 3, &rng);
            event(&o, &rng);
        }
        assert_int_equal(r.server[0].failed, YK_OK);
        assert_int_equal(r.steps, STEPS);
        assert_memory_equal(r.params.flat, expected, sizeof expected);
        given_up += forward.given_up;
        network_close(&o);
    }
    assert_true(given_up > 20); /* or the way back was not tried */
}

/* A bucket is applied and sent as soon as the last shard has sent it, and not before; what the
 * next forward pass reads first goes first, behind the gradients. */
static void test_order(void **state)
{
    (void)state;
    struct yk_rule rule = rule_of(2, 1);
    struct network o;
    struct cluster r;
    struct yk_rng rng;
    rule.shards = 2;
    open_early(&o, &r, &rule);
    yk_rng_init(&rng, 1, 2, 3, 4);
    for (unsigned i = 0; i < 1000; i++) /* to everybody's first task */
        network_move(&o, (int)yk_rng_below(&rng, 3), (int)yk_rng_below(&rng, 3), &rng);
    for (unsigned w = 0; w < 2; w++) {
        assert_true(cluster_pull(&r, w));
        cluster_push_piece(&r, w); /* the last 13 of 103, and what fills the line */
        cluster_push_piece(&r, w);
    }
    /* nothing has left yet that arrives by itself */
    assert_null(o.first[0][1]);
    while (o.first[1][0] != NULL)
        network_move(&o, 1, 0, &rng);
    for (unsigned i = 0; i < r.server[0].buckets.n; i++)
        assert_false(r.server[0].buckets.applied[i]); /* one of two shards */
    /* of the second what it finished last goes first, if it has not gone yet */
    assert_true(o.first[2][0] != NULL && o.first[2][0]->note.task.lo < 90);
    while (o.first[2][0] != NULL)
        network_move(&o, 2, 0, &rng);
    assert_int_equal(r.server[0].owner.step, 0);
    assert_int_equal(r.server[0].buckets.n, 7);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(r.server[0].buckets.applied[i], i * BUCKET >= LAYER[3]);
    size_t before = 0;
    unsigned pieces = 0;
    for (const struct network_letter *l = o.first[0][1]; l != NULL; l = l->next, pieces++) {
        assert_int_equal(l->note.kind, YK_PIECE);
        assert_int_equal(l->note.step, 1);
        assert_true(pieces == 0 || l->note.urgency < before);
        assert_true(l->note.urgency > yk_urgency(1000, true) && l->note.urgency < YK_AT_ONCE);
        before = l->note.urgency;
    }
    assert_int_equal(pieces, 3);
    network_close(&o);
}

static float after_step[CLUSTER_ROWS];

static void note_step(struct cluster *r, const struct yk_stepped *st)
{
    (void)st;
    memcpy(after_step, r->params.flat, sizeof after_step);
}

/* At any moment the owner can tell whether its state is that of a whole step, as it is asked
 * when a job is lost. */
static void test_even(void **state)
{
    (void)state;
    unsigned odd = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct yk_rule rule = rule_of(3, 1);
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        open_early(&o, &r, &rule);
        r.stepped = note_step;
        note_step(&r, NULL);
        yk_rng_init(&rng, seed, 5, 0, 0);
        for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
            assert_true(i < 3000000);
            event(&o, &rng);
            if (yk_servers_even(&r.server[0], 1))
                assert_memory_equal(r.params.flat, after_step, sizeof after_step);
            else
                odd++;
        }
        network_close(&o);
    }
    assert_true(odd > 100);
}

/* The gradients of a step, then its parameters, then the gradients that are computed with these;
 * the next task before all, the rest after. */
static void test_overtakes(void **state)
{
    (void)state;
    const struct yk_note queue[] = {
        {.urgency = YK_AT_ONCE, .step = 8},           {.urgency = yk_urgency(5, true), .step = 7},
        {.urgency = yk_urgency(0, true), .step = 7},  {.urgency = yk_urgency(9, false), .step = 8},
        {.urgency = yk_urgency(0, false), .step = 8}, {.urgency = yk_urgency(300, true), .step = 8},
        {.urgency = yk_urgency(0, true), .step = 8},  {.urgency = 0, .step = 1},
    };
    for (size_t i = 0; i < sizeof queue / sizeof queue[0]; i++)
        for (size_t k = 0; k < sizeof queue / sizeof queue[0]; k++)
            assert_int_equal(yk_note_overtakes(&queue[i], &queue[k]), i < k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overtakes), cmocka_unit_test(test_bits),
        cmocka_unit_test(test_losses),    cmocka_unit_test(test_order),
        cmocka_unit_test(test_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
