/* team.h - a few threads that do one job together and meet again at its end.
 *
 * A team of N is the caller and N-1 helpers. yk_team_run calls job(arg, 0) on the caller and
 * job(arg, i) on helper i, and returns when all calls have. A waiting helper spins a little,
 * yields, then sleeps: steps follow each other within microseconds while a run trains, and not at
 * all while it evaluates.
 * THREADS: a team belongs to one caller at a time. */
#ifndef YK_BASE_TEAM_H
#define YK_BASE_TEAM_H

#include "base/error.h"

struct yk_team;

yk_code yk_team_open(struct yk_team **out, unsigned threads, struct yk_error *e);
/* NULL is fine. */
void yk_team_close(struct yk_team *t);
unsigned yk_team_size(const struct yk_team *t);

/* Runs job(arg, part) for part = 0 .. parts-1; `parts` is at most the team's size. A single part
 * costs no synchronisation. */
void yk_team_run(struct yk_team *t, unsigned parts, void (*job)(void *arg, unsigned part),
                 void *arg);

/* The number of CPUs this process may use: those of its affinity mask, not of the machine. */
unsigned yk_cpus(void);

#endif
