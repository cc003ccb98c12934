/* session_net.h - nets in a session: from a word of the command line to a model and its engine. */
#ifndef YK_TRAIN_SESSION_NET_H
#define YK_TRAIN_SESSION_NET_H

#include "base/error.h"

struct yk_session;

/* Metadata lines of a checkpoint for the text of a net, and the characters that fit in. */
enum { YK_NET_LINES = 16, YK_NET_TEXT = YK_NET_LINES * 4000 };

/* Reads the net. `word` is from the command line; NULL if the options have the text. */
yk_code yk_session_net_find(struct yk_session *s, const char *word, struct yk_error *e);
yk_code yk_session_net_open(struct yk_session *s, struct yk_error *e);
/* Once the ranks have agreed: chooses the engine, by measurement unless the user named one. */
yk_code yk_session_engine(struct yk_session *s, struct yk_error *e);
/* Prepares every worker, so that the first step takes no longer than the others. */
yk_code yk_session_prepare(struct yk_session *s, struct yk_error *e);

#endif
