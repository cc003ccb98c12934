/* resume.h - what a start of a run takes over from the starts before it. */
#ifndef YK_TRAIN_RESUME_H
#define YK_TRAIN_RESUME_H

#include "base/opt.h"
#include "param/safetensors.h"

#include <jansson.h>

struct yk_session;

enum yk_start {
    YK_START_NEW,     /* a new run begins */
    YK_START_RESUMED, /* a run goes on from its newest checkpoint */
    YK_START_DONE,    /* the run to be resumed has nothing left to do */
};

enum { YK_POOL_MOST = 4096 };

struct yk_resume {
    enum yk_start start;
    char run_id[17];       /* 16 hex digits; "" if an older yoke began the run */
    long long first_saved; /* step of the first checkpoint, as in config.json; -1 before it */
    json_t *old_summary;   /* summary of the resumed run, if it had ended */
    /* Parts that were not trained on before the checkpoint: they are dealt again. */
    uint64_t pool[YK_POOL_MOST];
    unsigned pooled;
    /* State of a sparse model whose owners are in other processes; empty otherwise. */
    struct yk_tensors state;
};

/* Opens the run named by --resume and takes its configuration over. */
yk_code yk_resume_load(struct yk_session *s, struct yk_error *e);
/* Opens the checkpoint, if there is one (*found), and checks that the run can go on from it. */
yk_code yk_resume_open(struct yk_session *s, bool *found, struct yk_error *e);
/* Draws an id for a run that has none. */
yk_code yk_resume_draw_id(struct yk_session *s, struct yk_error *e);
/* Does the user want lost workers replaced? MPI must know before there are options of a run. */
bool yk_resume_replaces(const struct yk_session *s);

#endif
