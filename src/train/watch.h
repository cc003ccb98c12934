/* watch.h - watches the training from owner 0's place: checks, checkpoints, stop rules, losses. */
#ifndef YK_TRAIN_WATCH_H
#define YK_TRAIN_WATCH_H

#include "base/log.h"
#include "strategy/server.h"

struct yk_session;
struct yk_watch; /* watch.c */

/* An event in the life of the job: a rank was lost or replaced, the job was restarted. */
struct yk_incident {
    double seconds; /* seconds of training */
    uint64_t step;
    char text[160];
};
enum { YK_INCIDENTS = 64 };

struct yk_incidents {
    struct yk_incident event[YK_INCIDENTS];
    unsigned events;
    unsigned lost;     /* lost workers */
    unsigned restarts; /* earlier starts of this command that ended by a loss */
};

yk_code yk_watch_open(struct yk_session *s, struct yk_error *e);
void yk_watch_close(struct yk_session *s);
/* Before the first step: sets what is due when. In owner 0's process also looks round once. */
yk_code yk_watch_begin(struct yk_session *s, struct yk_error *e);
/* After the last step: clears the progress line and returns the error that ended the training. */
yk_code yk_watch_end(struct yk_session *s, struct yk_error *e);
/* Evaluates the present parameters. `last`: training has ended, no target is reached any more. */
yk_code yk_watch_check(struct yk_session *s, bool last, struct yk_error *e);
/* The step at which the watcher looks round next. */
uint64_t yk_watch_next(const struct yk_session *s);

/* Called by owner 0, under its lock. */
enum yk_verdict yk_watch_stepped(void *arg, const struct yk_stepped *st);
bool yk_watch_lost(void *arg, int worker, const char *why);
/* Called by the engine, on any thread: MPI keeps this rank waiting, or answers again (`over`). */
void yk_watch_stalled(void *arg, const char *text, double seconds, bool over);
/* Turns stalls into incidents, under owner 0's lock. */
void yk_watch_note_stalls(struct yk_session *s);
/* Ends the training after yoke_stop was called while no step came. */
void yk_watch_signal(struct yk_session *s);

/* Records an incident in log.txt, on the screen and in the summary. */
void yk_incident(struct yk_session *s, enum yk_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
