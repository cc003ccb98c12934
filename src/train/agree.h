/* agree.h - over MPI, the ranks agree before they train. Every rank calls these functions at the
 * same places; `rc` and `e` say how this rank fared, the result says how all did. */
#ifndef YK_TRAIN_AGREE_H
#define YK_TRAIN_AGREE_H

#include "base/error.h"

#include <stdint.h>

struct yk_session;

/* XXH3 of the program file; 0 if it cannot be read. */
uint64_t yk_agree_binary(void);
/* All ranks got this far, with the same program, options and data. */
yk_code yk_agree(struct yk_session *s, yk_code rc, struct yk_error *e);
/* A resumed run: rank 0 has read its configuration and all ranks take it over. A rank that replaces
 * a lost one has got it already. */
yk_code yk_agree_config(struct yk_session *s, yk_code rc, struct yk_error *e);
/* Rank 0's configuration as text; the caller frees it. NULL: out of memory. */
char *yk_agree_config_text(const struct yk_session *s);

#endif
