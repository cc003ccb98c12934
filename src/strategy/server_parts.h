/* server_parts.h - what the two files of a server share; nobody else's business. All under the owner's lock. */
#ifndef YK_STRATEGY_SERVER_PARTS_H
#define YK_STRATEGY_SERVER_PARTS_H

#include "strategy/server.h"

/* server.c */
unsigned yk_server_worker(const struct yk_server *s, int endpoint); /* number of the worker at an endpoint */
void yk_server_send(struct yk_server *s, int endpoint, struct yk_note *n, const void *data, size_t bytes);
void yk_server_tell(struct yk_server *s, struct yk_note *n, const void *data, size_t bytes); /* all other owners */
/* Whole batches: a new incarnation is one of everybody; what has come for the open step is forgotten and comes again. */
void yk_server_see(struct yk_server *s, uint32_t incarnation);
void yk_server_reply_owed(struct yk_server *s); /* another owner: parameters to all who wait for them */
/* Owner 0: everybody who waits and may go on gets its next task; at the end, the word that it is over. */
void yk_server_go_on(struct yk_server *s);
void yk_server_look(struct yk_server *s, enum yk_verdict verdict); /* act on the watcher's answer */
void yk_server_try_set(struct yk_server *s);                       /* with backups: close the step if its set is complete */

/* server_job.c */
float *yk_server_state(const struct yk_server *s, unsigned which); /* 0: weights, 1..: the optimizer's */
void yk_server_gather(struct yk_server *s);                        /* owner 0: ask the others for their state */
void yk_server_answer(struct yk_server *s);                        /* another owner: give it, if the step has come */
void yk_server_take_state(struct yk_server *s, const struct yk_note *n);
void yk_server_take_count(struct yk_server *s, const struct yk_note *n); /* what another owner has of a lost worker */
void yk_server_lost(void *arg, int endpoint, const char *why);

#endif
