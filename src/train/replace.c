/* replace.c - a new worker in the place of a lost one: owner 0 calls everybody together when all wait, the engine starts a process, and it
 * joins as a worker like any other. Where the engine cannot (a lost host, a launcher without spawning) the job goes on without.
 *
 * The new process gets every option that was given, from this run's own table, on its command line, so that it needs no file of ours.
 * THREADS: the thread that drives this rank: a worker's between two steps, an owner's message loop. */
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 160 };

static char nothing[] = ""; /* no program has this name */
static char *const NOTHING[] = {nothing, NULL};

struct words {
    char *word[WORDS];
    size_t n;
    bool failed;
};

static void add(struct words *w, const char *text)
{
    char *copy = w->n < WORDS - 1 ? strdup(text) : NULL;
    w->failed = w->failed || copy == NULL;
    if (copy != NULL)
        w->word[w->n++] = copy;
}

static void command_line(const struct yk_session *s, struct words *w)
{
    char value[YK_PATH_MAX], name[80];
    char *text =
        malloc(YK_NET_TEXT + 1); /* the longest value, and it may hold what is not a path */
    if (text == NULL) {
        w->failed = true;
        return;
    }
    ssize_t n = readlink("/proc/self/exe", value, sizeof value - 1);
    value[n > 0 ? n : 0] = '\0';
    add(w, value);
    add(w, "train");
    add(w, s->model_name);
    for (size_t i = 0; i < s->opts.n; i++) {
        const struct yk_opt *t = &s->opts.table[i];
        bool sized = strcmp(t->name, "batch") == 0 && s->o.global_batch > 0; /* told by the other */
        if (!(t->verbs & YK_VERB(train)) || (t->flags & YK_OPT_TRANSIENT) || !s->opts.given[i] ||
            sized)
            continue;
        yk_opt_text(&s->opts, i, text, YK_NET_TEXT + 1);
        if (text[0] == '\0')
            continue;
        snprintf(name, sizeof name, "--%.70s", t->name);
        add(w, name);
        if (t->type != YK_OPT_FLAG)
            add(w, text);
    }
    free(text);
    w->word[w->n] = NULL;
}

/* Owner 0: everybody who lives shall come. */
static void call(struct yk_session *s, unsigned worker)
{
    struct yk_comm *c = s->crew.comm;
    c->ops->lock(c, 0);
    for (int i = 1; i < c->owners + c->workers; i++) {
        struct yk_note n = {.kind = YK_REPLACE,
                            .from = 0,
                            .to = (uint16_t)i,
                            .first = worker,
                            .incarnation =
                                s->crew.clock.incarnation + 1}; /* the new one's, at least */
        if (i < c->owners || s->crew.clock.member[i - c->owners].alive)
            yk_comm_send(c, &n, NULL, 0, NULL);
    }
    c->ops->unlock(c, 0);
}

static void give_up(struct yk_crew *crew, bool owner)
{
    static const char WHY[] = "the ranks could not meet to start a new worker";
    if (crew->has_clock) {
        yk_server_fail(&crew->server[0], YK_LOST, WHY);
    } else if (owner) {
        crew->server[0].closed = crew->server[0].orphaned = true;
        snprintf(crew->server[0].why, sizeof crew->server[0].why, "%s", WHY);
    } else {
        crew->hand[0].worker.failed = YK_LOST;
        crew->hand[0].worker.orphaned = true;
        snprintf(crew->hand[0].worker.why, sizeof crew->hand[0].worker.why, "%s", WHY);
    }
}

yk_code yk_crew_replace(struct yk_session *s)
{
    struct yk_crew *crew = &s->crew;
    struct yk_comm *c = crew->comm;
    bool owner = crew->servers > 0;
    unsigned worker = owner ? crew->server[0].replace.worker : crew->hand[0].worker.newcomer;
    int endpoint = yk_worker_endpoint(c, (int)worker),
        me = owner ? (int)crew->first_server : yk_worker_endpoint(c, (int)crew->first_hand);
    struct words words = {0};
    struct yk_error e = {0};
    if (crew->has_clock) {
        command_line(s, &words);
        call(s, worker);
    }
    yk_code rc = yk_mpi_replace(c, endpoint, words.failed ? NOTHING : words.word, &e);
    for (size_t i = 0; i < words.n; i++)
        free(words.word[i]);
    c->ops->lock(c, me);
    if (rc == YK_LOST) /* the engine hangs in the middle of it: this process can only end */
        give_up(crew, owner);
    else if (owner)
        yk_server_replaced(&crew->server[0], worker, rc == YK_OK);
    else
        crew->hand[0].worker.meet = false;
    if (crew->has_clock && rc == YK_OK) {
        int rank = yk_comm_rank(c, endpoint);
        snprintf(s->job.host[endpoint], sizeof s->job.host[endpoint], "%s", yk_comm_host(c, rank));
        s->job.pid[endpoint] = yk_comm_pid(c, rank);
        yk_session_event(s, YK_INFO, "worker %u is replaced by process %d on '%s'", worker,
                         s->job.pid[endpoint], s->job.host[endpoint]);
        yk_session_ranks(s, NULL);
    } else if (crew->has_clock) {
        yk_session_event(s, YK_WARN,
                         rc == YK_LOST ? "worker %u cannot be replaced: %s"
                                       : "worker %u cannot be replaced: %s; going on without",
                         worker, e.text);
    }
    c->ops->unlock(c, me);
    return rc == YK_LOST ? YK_LOST : YK_OK;
}
