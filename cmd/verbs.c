/* verbs.c - the list of verbs, and their option tables made whole.
 *
 * Many options belong to several verbs, word for word. A verb's table names such an option together
 * with the verb's own field; type, range and help come from the verb that describes it in full. */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

#define DECLARE(name) extern const struct verb verb_##name;
YK_VERBS(DECLARE)

#define COLLECT(name) &verb_##name,
static const struct verb *const VERBS[] = {YK_VERBS(COLLECT)};
enum { N_VERBS = sizeof VERBS / sizeof VERBS[0] };

static struct yk_opt *rows; /* of all verbs, one table after the other */
static struct yk_opt_set sets[N_VERBS];
static const struct yk_opt_set *all[N_VERBS + 1]; /* the last one stays NULL */

/* The row `name` of a verb before verb v. */
static const struct yk_opt *described(size_t v, const char *name)
{
    for (size_t u = 0; u < v; u++)
        for (size_t i = 0; i < sets[u].n; i++)
            if (strcmp(sets[u].table[i].name, name) == 0)
                return &sets[u].table[i];
    return NULL;
}

yk_code verbs_open(struct yk_error *e)
{
    size_t total = 0;
    for (size_t v = 0; v < N_VERBS; v++) {
        while (VERBS[v]->options[sets[v].n].name != NULL)
            sets[v].n++;
        total += sets[v].n;
    }
    rows = calloc(total, sizeof *rows);
    if (rows == NULL)
        return yk_fail_memory(e, total * sizeof *rows);
    struct yk_opt *to = rows;
    for (size_t v = 0; v < N_VERBS; v++) {
        sets[v].verb = VERBS[v]->name;
        sets[v].table = to;
        all[v] = &sets[v];
        for (size_t i = 0; i < sets[v].n; i++, to++) {
            const struct yk_opt *row = &VERBS[v]->options[i], *from = row;
            if (row->help == NULL)
                from = described(v, row->name);
            if (from == NULL)
                return yk_fail(e, YK_FAILED, "no verb before '%s' describes --%s", VERBS[v]->name,
                               row->name);
            *to = *from;
            to->field = row->field;
        }
    }
    return YK_OK;
}

void verbs_close(void)
{
    free(rows);
    rows = NULL;
}

const struct verb *verb_at(unsigned i)
{
    return i < N_VERBS ? VERBS[i] : NULL;
}

const struct verb *verb_find(const char *name)
{
    for (unsigned i = 0; i < N_VERBS; i++)
        if (strcmp(VERBS[i]->name, name) == 0)
            return VERBS[i];
    return NULL;
}

const struct yk_opt_set *verb_options(const struct verb *v)
{
    size_t i = 0;
    while (VERBS[i] != v)
        i++;
    return &sets[i];
}

const struct yk_opt_set *const *all_options(void)
{
    return all;
}

yk_code unknown_verb(const char *name, struct yk_error *e)
{
    const char *near = yk_nearest(name, sets, N_VERBS, sizeof sets[0]);
    yk_fail(e, YK_USAGE, "'%.40s' is not a verb", name);
    if (near != NULL)
        yk_hint(e, "did you mean 'yoke %s'?", near);
    else
        yk_hint(e, "'yoke help' lists them");
    return YK_USAGE;
}
