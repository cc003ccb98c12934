/* team.h - a few threads that do one job together and meet again at its end.
 *
 * A team of N is the caller and N-1 helpers. `yk_team_run(t, job, arg)` calls job(arg, 0) on the caller and job(arg, i) on
 * helper i, and returns when all have. A helper that waits spins a little, yields, then sleeps, because steps follow each
 * other within microseconds while a run trains, and not at all while it evaluates.
 * THREADS: a team belongs to one caller at a time. */
#ifndef YK_BASE_TEAM_H
#define YK_BASE_TEAM_H

#include "base/error.h"

struct yk_team;

yk_code yk_team_open(struct yk_team **out, unsigned threads, struct yk_error *e);
void yk_team_close(struct yk_team *t); /* NULL is fine */
unsigned yk_team_size(const struct yk_team *t);

/* Run job(arg, part) for part = 0 .. parts-1, parts <= the team's size. One part costs no synchronisation at all. */
void yk_team_run(struct yk_team *t, unsigned parts, void (*job)(void *arg, unsigned part),
                 void *arg);

/* CPUs this process may use (its affinity mask, not the machine's count). */
unsigned yk_cpus(void);

#endif
