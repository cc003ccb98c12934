/* server_bucket_test.c - whole batches bucket by bucket, over an office between real servers and workers: owners apply what is complete
 * while the rest is on its way, workers begin with the parameters that are there, and the bits are those of one process, also when
 * workers are lost in the middle of it. */
#include "tests/office.h"

enum { STEPS = 25, BUCKET = 16 };
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 200 };
#else
enum { SEEDS = 600 };
#endif

static const size_t LAYER[RIG_PIECES + 1] = {0, 20, 37, 64, 90, RIG_ROWS}; /* as rig.h cuts them */

static struct yk_rule rule_of(unsigned workers, unsigned owners)
{
    struct yk_rule rule = rig_batches(workers, owners, STEPS);
    rule.held = true; /* as between processes, of one worker too */
    rule.codec.piece = BUCKET;
    return rule;
}

/* The weights after all steps of one process without buckets. */
static void alone(float *w)
{
    struct yk_rule rule = rig_batches(1, 1, STEPS);
    struct rig r;
    rig_open(&r, &rule, yk_optimizer_find("adam"), NULL);
    r.touch = rig_some;
    rig_start(&r, true);
    rig_play(&r, 1, false);
    memcpy(w, r.params.flat, RIG_ROWS * sizeof *w);
    rig_close(&r);
}

static struct {
    float seen[RIG_WORKERS][RIG_ROWS]; /* what the forward pass of each has read, */
    unsigned layers[RIG_WORKERS];      /* and how far it is */
    unsigned early, guessed,
        given_up; /* passes that began before all was there; before they were ordered; that came to nothing */
} forward;

static bool all_here(const struct yk_worker *w, size_t lo, size_t hi)
{
    for (unsigned k = 0; k < w->rule->owners; k++) {
        size_t first = yk_owner_at(k, w->rule->owners, w->params.count),
               last = yk_owner_at(k + 1, w->rule->owners, w->params.count);
        for (size_t i = lo > first ? lo : first; i < hi && i < last; i++)
            if (!w->pieces.come[w->pieces.at[k] + (i - first) / BUCKET])
                return false;
    }
    return true;
}

static bool is_over(const struct yk_worker *w)
{
    return w->fenced || w->meet || w->again || w->failed != YK_OK;
}

/* A guess may be computed, not pushed. */
static bool waits_for_word(const struct yk_worker *w)
{
    return w->guessed && !w->ordered && !w->abandoned && !is_over(w);
}

/* The next layer of a worker's forward pass, if it need not wait for it. */
static void read_layer(struct rig *r, unsigned w)
{
    struct yk_worker *me = &r->worker[w];
    struct rig_hand *h = &r->hand[w];
    unsigned k = forward.layers[w];
    size_t lo = LAYER[k], hi = k + 1 < RIG_PIECES ? LAYER[k + 1] : me->params.count;
    if (me->early && !is_over(me) && !all_here(me, lo, hi))
        return;
    forward.early += me->early && k == 0;
    forward.guessed += me->guessed && k == 0;
    if (!me->sink.need(&me->sink, lo, hi)) {
        yk_worker_commit(me, 0); /* as the loop does; nothing leaves */
        h->busy = false;
        forward.given_up++;
        return;
    }
    hi = hi < RIG_ROWS ? hi : RIG_ROWS;
    memcpy(forward.seen[w] + lo, me->params.flat + lo, (hi - lo) * sizeof(float));
    if (++forward.layers[w] == RIG_PIECES) {
        assert_true(!me->early || me->guessed);
        assert_memory_equal(forward.seen[w], me->params.flat,
                            RIG_ROWS * sizeof(float)); /* nothing came over what was read */
    }
}

static bool may_pull(const struct yk_worker *w)
{
    bool guess = w->eager && !w->early && w->task.examples > 0 && w->task.ahead != YK_NO_PART;
    return guess || w->again || yk_worker_answered(w) || (w->ordered && w->task.examples > 0) ||
           w->abandoned || w->stop || w->fenced || w->meet || w->failed != YK_OK;
}

static void event(struct office *o, struct yk_rng *rng)
{
    struct rig *r = o->rig;
    unsigned w = yk_rng_below(rng, r->rule.workers);
    struct rig_hand *h = &r->hand[w];
    if (yk_rng_below(rng, 4) > 0) {
        int ends = r->comm->owners + r->comm->workers;
        office_move(o, (int)yk_rng_below(rng, (uint32_t)ends),
                    (int)yk_rng_below(rng, (uint32_t)ends), rng);
    } else if (o->end[yk_worker_endpoint(r->comm, (int)w)].gone || h->stopped) {
        return;
    } else if (!h->busy && may_pull(&r->worker[w])) {
        h->busy = yk_worker_pull(&r->worker[w], &h->task);
        h->stopped = !h->busy;
        h->stage = forward.layers[w] = 0;
    } else if (h->busy && forward.layers[w] < RIG_PIECES) {
        read_layer(r, w);
    } else if (h->busy && !waits_for_word(&r->worker[w])) {
        rig_push_piece(r, w);
    }
}

static void open_early(struct office *o, struct rig *r, const struct yk_rule *rule)
{
    memset(&forward, 0, sizeof forward);
    rig_open(r, rule, yk_optimizer_find("adam"), NULL);
    r->touch = rig_some;
    office_open(o, r);
    for (unsigned w = 0; w < rule->workers; w++)
        r->worker[w].eager = true;
    rig_start(r, true);
}

static void test_bits(void **state)
{
    (void)state;
    float expected[RIG_ROWS];
    alone(expected);
    for (unsigned workers = 1; workers <= 4; workers++)
        for (unsigned owners = 1; owners <= 3; owners++)
            for (uint64_t seed = 0; seed < 10; seed++) {
                const struct yk_rule rule = rule_of(workers, owners);
                struct office o;
                struct rig r;
                struct yk_rng rng;
                open_early(&o, &r, &rule);
                yk_rng_init(&rng, seed, workers, owners, 0);
                for (uint64_t i = 0; !r.server[0].ended || o.under_way > 0; i++) {
                    if (i > 3000000)
                        fail_msg("%u workers, %u owners: nobody goes on at step %d", workers,
                                 owners, (int)r.steps);
                    event(&o, &rng);
                }
                assert_memory_equal(r.params.flat, expected, sizeof expected);
                assert_true(forward.early > STEPS / 4 && forward.guessed > STEPS / 4);
                assert_true(forward.given_up <= workers); /* behind the last step */
                office_close(&o);
            }
}

/* After every step owner 0 wants to look at all parameters: the others wait meanwhile, and a loss then finds workers between two steps. */
static enum yk_verdict look(void *arg, const struct yk_stepped *st)
{
    const struct rig *r = arg;
    enum yk_verdict v = st != NULL ? rig_stepped(arg, st) : YK_GO;
    return st != NULL && v == YK_GO && r->rule.owners > 1 ? YK_LOOK : v;
}

/* Two of four are lost at any moment. */
static void test_losses(void **state)
{
    (void)state;
    float expected[RIG_ROWS];
    unsigned given_up = 0;
    alone(expected);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct yk_rule rule = rule_of(4, 1 + (unsigned)seed % 3);
        struct office o;
        struct rig r;
        struct yk_rng rng;
        open_early(&o, &r, &rule);
        if (seed % 2 == 0)
            r.server[0].watcher.stepped = look;
        yk_rng_init(&rng, seed, 3, 0, 0);
        uint64_t first = 100 + yk_rng_below(&rng, 12000), second = first + yk_rng_below(&rng, 600);
        for (uint64_t i = 0; !r.server[0].ended || o.under_way > 0; i++) {
            if (i > 3000000)
                fail_msg("seed %d: nobody goes on at step %d", (int)seed, (int)r.steps);
            if ((i == first || i == second) && !r.server[0].ended)
                office_lose(&o, i == first ? 1 : 3, &rng);
            event(&o, &rng);
        }
        assert_int_equal(r.server[0].failed, YK_OK);
        assert_int_equal(r.steps, STEPS);
        assert_memory_equal(r.params.flat, expected, sizeof expected);
        given_up += forward.given_up;
        office_close(&o);
    }
    assert_true(given_up > 20); /* or the way back was not tried */
}

/* A bucket is applied and sent as soon as the last shard has sent it, and not before; what the next forward pass reads first goes first,
 * behind the gradients. */
static void test_order(void **state)
{
    (void)state;
    struct yk_rule rule = rule_of(2, 1);
    struct office o;
    struct rig r;
    struct yk_rng rng;
    rule.shards = 2;
    open_early(&o, &r, &rule);
    yk_rng_init(&rng, 1, 2, 3, 4);
    for (unsigned i = 0; i < 1000; i++) /* to everybody's first task */
        office_move(&o, (int)yk_rng_below(&rng, 3), (int)yk_rng_below(&rng, 3), &rng);
    for (unsigned w = 0; w < 2; w++) {
        assert_true(rig_pull(&r, w));
        rig_push_piece(&r, w); /* the last 13 of 103, and what fills the line */
        rig_push_piece(&r, w);
    }
    /* nothing has left yet that arrives by itself */
    assert_null(o.first[0][1]);
    while (o.first[1][0] != NULL)
        office_move(&o, 1, 0, &rng);
    for (unsigned i = 0; i < r.server[0].buckets.n; i++)
        assert_false(r.server[0].buckets.applied[i]); /* one of two shards */
    /* of the second what it finished last goes first, if it has not gone yet */
    assert_true(o.first[2][0] != NULL && o.first[2][0]->note.lo < 90);
    while (o.first[2][0] != NULL)
        office_move(&o, 2, 0, &rng);
    assert_int_equal(r.server[0].owner.step, 0);
    assert_int_equal(r.server[0].buckets.n, 7);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(r.server[0].buckets.applied[i], i * BUCKET >= LAYER[3]);
    size_t before = 0;
    unsigned pieces = 0;
    for (const struct office_letter *l = o.first[0][1]; l != NULL; l = l->next, pieces++) {
        assert_int_equal(l->note.kind, YK_PIECE);
        assert_int_equal(l->note.step, 1);
        assert_true(pieces == 0 || l->note.urgency < before);
        assert_true(l->note.urgency > yk_urgency(1000, true) && l->note.urgency < YK_AT_ONCE);
        before = l->note.urgency;
    }
    assert_int_equal(pieces, 3);
    office_close(&o);
}

/* The gradients of a step, then its parameters, then the gradients that are computed with these; the next task before all, the rest after. */
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
        cmocka_unit_test(test_overtakes),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
