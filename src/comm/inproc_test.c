/* inproc_test.c - endpoints as threads: a handler runs under its lock, on the sender's thread
 * and with the sender's buffer, messages of one sender stay in order, whoever waits is woken,
 * and every byte is counted. Also run under ThreadSanitizer. */
#include "comm/comm.h"

#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SENDERS = 6, MANY = 4000 };

/* Plain fields on purpose: if two handlers ran at once, counts would be lost and ThreadSanitizer
 * would say so. */
struct inbox {
    struct yk_comm *comm;
    int me;
    uint64_t messages, bytes, inside;
    uint64_t last[SENDERS + 4]; /* (endpoints) id of the sender's last message */
    bool disorder, crowded;
    const void *data;
    struct yk_note note;
};

static void arrive(void *arg, const struct yk_note *n, const void *data)
{
    struct inbox *in = arg;
    in->crowded = in->crowded || in->inside++ != 0;
    in->messages++;
    in->bytes += n->bytes;
    in->disorder = in->disorder || n->word[0] != in->last[n->from] + 1 || n->to != in->me;
    in->last[n->from] = n->word[0];
    in->data = data;
    in->note = *n;
    in->inside--;
}

static const struct yk_handler KEEP = {.arrive = arrive};

static struct yk_comm *comm_open(int owners, int workers)
{
    struct yk_comm *c;
    struct yk_error e;
    assert_int_equal(yk_comm_threads(&c, owners, workers, &e), YK_OK);
    assert_true(c->owners == owners && c->workers == workers && c->shared);
    assert_string_equal(c->ops->name, "threads");
    return c;
}

static void put(struct yk_comm *c, int from, int to, uint64_t id, const void *data, size_t bytes)
{
    struct yk_note n = {.from = (uint16_t)from, .to = (uint16_t)to, .word = {id}};
    atomic_uint pending = 0;
    yk_comm_send(c, &n, data, bytes, &pending);
    assert_int_equal(atomic_load(&pending), 0); /* nothing is ever under way */
}

static void test_a_call(void **state)
{
    (void)state;
    struct yk_comm *c = comm_open(2, 3);
    struct inbox in[5] = {0};
    struct yk_traffic t;
    char text[] = "hello";
    assert_int_equal(yk_owner_endpoint(1), 1);
    assert_int_equal(yk_worker_endpoint(c, 0), 2);
    assert_int_equal(yk_worker_endpoint(c, 2), 4);
    for (int i = 0; i < 5; i++) {
        in[i] = (struct inbox){.comm = c, .me = i};
        c->ops->attach(c, i, &KEEP, &in[i]);
    }
    put(c, 4, 1, 1, text, sizeof text);
    assert_ptr_equal(in[1].data, text); /* not a copy */
    assert_true(in[1].messages == 1 && in[1].note.bytes == sizeof text && in[1].note.from == 4 &&
                in[1].note.word[0] == 1);
    put(c, 1, 4, 1, NULL, 0);
    assert_true(in[4].messages == 1 && in[4].data == NULL && in[4].note.bytes == 0);
    put(c, 4, 0, 1, text, 2);
    put(c, 4, 1, 2, text, 3);
    assert_true(in[0].messages == 1 && in[1].messages == 2 && in[2].messages == 0 &&
                in[3].messages == 0);

    c->ops->traffic(c, 4, &t);
    assert_true(t.sent == 3 * 64 + 6 + 2 + 3 && t.messages_sent == 3 && t.received == 64 &&
                t.messages == 1);
    c->ops->traffic(c, 1, &t);
    assert_true(t.sent == 64 && t.messages_sent == 1 && t.received == 2 * 64 + 9 &&
                t.messages == 2);
    c->ops->traffic(c, 2, &t);
    assert_true(t.sent == 0 && t.messages_sent == 0 && t.received == 0 && t.messages == 0);
    c->ops->fence(c, 4); /* threads do not get lost */
    assert_true(c->ops->close(c, true));
}

static void *send_many(void *arg)
{
    struct inbox *in = arg; /* the sender's own */
    static const char data[64] = "";
    for (uint64_t i = 1; i <= MANY; i++) {
        struct yk_note n = {
            .from = (uint16_t)in->me, .to = (uint16_t)(i % 2), .word = {(i + 1) / 2}};
        yk_comm_send(in->comm, &n, data, i % sizeof data, NULL);
    }
    return NULL;
}

/* Many send to two at once: nothing is lost, nothing overtakes, nobody is in a handler twice. */
static void test_many_senders(void **state)
{
    (void)state;
    struct yk_comm *c = comm_open(2, SENDERS);
    struct inbox in[SENDERS + 2] = {0};
    struct yk_traffic t;
    pthread_t thread[SENDERS];
    uint64_t bytes = 0, received = 0, sent = 0;
    for (int i = 0; i < SENDERS + 2; i++) {
        in[i] = (struct inbox){.comm = c, .me = i};
        c->ops->attach(c, i, &KEEP, &in[i]);
    }
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, send_many, &in[2 + i]), 0);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(thread[i], NULL);
    for (uint64_t i = 1; i <= MANY; i++)
        bytes += SENDERS * (i % 64);
    for (int k = 0; k < 2; k++) {
        assert_true(in[k].messages == SENDERS * MANY / 2 && !in[k].disorder && !in[k].crowded);
        for (int i = 0; i < SENDERS; i++)
            assert_int_equal(in[k].last[2 + i], MANY / 2);
        assert_int_equal(c->ops->seen(c, k), SENDERS * MANY / 2);
        c->ops->traffic(c, k, &t);
        assert_int_equal(t.messages, in[k].messages);
        received += t.received;
    }
    for (int i = 0; i < SENDERS; i++) {
        c->ops->traffic(c, 2 + i, &t);
        assert_int_equal(t.messages_sent, MANY);
        sent += t.sent;
    }
    assert_int_equal(received, bytes + (uint64_t)SENDERS * MANY * 64);
    assert_int_equal(sent, received);
    assert_int_equal(in[0].bytes + in[1].bytes, bytes);
    c->ops->close(c, true);
}

/* A handler that sends on, as owners do: to a worker, and from the clock to another owner, while
 * it holds its own lock. */
static void arrive_and_answer(void *arg, const struct yk_note *n, const void *data)
{
    struct inbox *in = arg;
    struct yk_note answer = {.from = (uint16_t)in->me, .to = n->from, .word = {n->word[0]}},
                   order = {.from = 0, .to = 1, .word = {n->word[0]}};
    arrive(arg, n, data);
    yk_comm_send(in->comm, &order, NULL, 0, NULL);
    yk_comm_send(in->comm, &answer, NULL, 0, NULL);
}

static const struct yk_handler ANSWER = {.arrive = arrive_and_answer};

struct caller {
    struct inbox *in;
    unsigned failed;
};

/* Ask, wait for the answer, ask again. */
static void *ask_many(void *arg)
{
    struct caller *a = arg;
    struct yk_comm *c = a->in->comm;
    for (uint64_t i = 1; i <= MANY / 4; i++) {
        struct yk_note n = {.from = (uint16_t)a->in->me, .to = 0, .word = {i}};
        unsigned before = c->ops->seen(c, a->in->me);
        yk_comm_send(c, &n, NULL, 0, NULL);
        for (double end = yk_now() + 20; c->ops->seen(c, a->in->me) == before && yk_now() < end;)
            c->ops->wait(c, a->in->me, before, 1);
        c->ops->lock(c, a->in->me);
        a->failed += a->in->messages != i || a->in->last[0] != i;
        c->ops->unlock(c, a->in->me);
    }
    return NULL;
}

static void test_answers(void **state)
{
    (void)state;
    struct yk_comm *c = comm_open(2, SENDERS);
    struct inbox in[SENDERS + 2] = {0};
    struct caller caller[SENDERS];
    pthread_t thread[SENDERS];
    for (int i = 0; i < SENDERS + 2; i++) {
        in[i] = (struct inbox){.comm = c, .me = i};
        c->ops->attach(c, i, i == 0 ? &ANSWER : &KEEP, &in[i]);
    }
    for (int i = 0; i < SENDERS; i++) {
        caller[i] = (struct caller){.in = &in[2 + i]};
        assert_int_equal(pthread_create(&thread[i], NULL, ask_many, &caller[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(caller[i].failed, 0);
        assert_false(in[2 + i].disorder);
    }
    assert_true(in[0].messages == SENDERS * MANY / 4 && !in[0].disorder && !in[0].crowded);
    assert_true(in[1].messages == SENDERS * MANY / 4 && !in[1].crowded);
    c->ops->close(c, true);
}

static void *send_later(void *arg)
{
    struct inbox *in = arg;
    struct yk_note n = {.from = 1, .to = 0, .word = {1}};
    usleep(50000); /* long after the yields */
    yk_comm_send(in->comm, &n, NULL, 0, NULL);
    return NULL;
}

/* Waiting ends with an arrival, with the time, or at once if it is too late already. */
static void test_wait(void **state)
{
    (void)state;
    struct yk_comm *c = comm_open(1, 1);
    struct inbox in[2] = {{.comm = c, .me = 0}, {.comm = c, .me = 1}};
    pthread_t thread;
    c->ops->attach(c, 0, &KEEP, &in[0]);
    c->ops->attach(c, 1, &KEEP, &in[1]);
    unsigned before = c->ops->seen(c, 0);
    double start = yk_now();
    c->ops->wait(c, 0, before, 0.05); /* nobody comes */
    assert_true(yk_now() - start >= 0.045 && yk_now() - start < 30);
    start = yk_now();
    assert_int_equal(pthread_create(&thread, NULL, send_later, &in[1]), 0);
    for (int i = 0; i < 10 && c->ops->seen(c, 0) == before; i++)
        c->ops->wait(c, 0, before, 20);
    assert_true(c->ops->seen(c, 0) == before + 1 && yk_now() - start < 30);
    pthread_join(thread, NULL);
    assert_int_equal(in[0].messages, 1);
    start = yk_now();
    c->ops->wait(c, 0, before, 20);
    assert_true(yk_now() - start < 30);
    c->ops->close(c, true);
}

/* Who holds an endpoint's lock keeps its handler out, however long. */
static void test_lock(void **state)
{
    (void)state;
    struct yk_comm *c = comm_open(1, 1);
    struct inbox in[2] = {{.comm = c, .me = 0}, {.comm = c, .me = 1}};
    pthread_t thread;
    c->ops->attach(c, 0, &KEEP, &in[0]);
    c->ops->attach(c, 1, &KEEP, &in[1]);
    c->ops->lock(c, 0);
    assert_int_equal(pthread_create(&thread, NULL, send_later, &in[1]), 0);
    for (int i = 0; i < 20; i++) {
        usleep(10000);
        assert_int_equal(in[0].messages, 0);
    }
    assert_int_equal(c->ops->seen(c, 0), 0);
    c->ops->unlock(c, 0);
    pthread_join(thread, NULL);
    assert_int_equal(in[0].messages, 1);
    c->ops->close(c, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call),  cmocka_unit_test(test_many_senders),
        cmocka_unit_test(test_answers), cmocka_unit_test(test_wait),
        cmocka_unit_test(test_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
