/* yoke.h - train models from your own program.
 *
 * libyoke is what the yoke program is made of. A *config* holds options under the names of the command line; opening it checks
 * everything, loads the data and makes a run folder; training runs until a stop rule, a target or yoke_stop ends it; the
 * summary tells what happened, as JSON. A finished run can be loaded as a *model* and asked for class probabilities.
 *
 *     #include <yoke.h>
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *
 *     int main(void)
 *     {
 *         yoke_error error;
 *         yoke_config *config = yoke_config_new();
 *         yoke_config_set(config, "data", "mnist", &error);
 *         yoke_config_set(config, "target-loss", "0.35", &error);
 *         yoke_config_set(config, "quiet", "true", &error);
 *         yoke_run *run = yoke_open(config, "softmax", &error);
 *         if (run == NULL || yoke_train(run, &error) != YOKE_OK) {
 *             fprintf(stderr, "%s\n", error.text);
 *             return error.code;
 *         }
 *         char *summary = yoke_summary(run);
 *         puts(summary);
 *         free(summary);
 *         yoke_close(run);
 *         yoke_config_free(config);
 *         return 0;
 *     }
 *
 *     cc embed.c $(pkg-config --cflags --libs --static yoke)
 *
 * THREADS  A handle belongs to one thread at a time; different handles are independent. Only yoke_stop may be called from
 *          anywhere, a signal handler included.
 * ERRORS   Functions that can fail take a yoke_error, which may be NULL, and return its code, or NULL for a handle. The library never
 *          exits, never prints to standard output, and writes progress to standard error unless "quiet" is set.
 * MEMORY   Free what you were given with the function named for it; all of them accept NULL. */
#ifndef YOKE_H
#define YOKE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum yoke_code {
    YOKE_OK = 0,
    YOKE_FAILED = 1, /* the machine said no: a full disk, no memory */
    YOKE_USAGE = 2,  /* an option that cannot be */
    YOKE_DATA = 3,   /* a file that is missing, unreadable or malformed */
    YOKE_LOST = 4,   /* a process was lost beyond recovery */
};

typedef struct yoke_error {
    enum yoke_code code;
    char text[512]; /* one sentence */
    char hint[384]; /* what to do about it; "" if nobody knows */
} yoke_error;

typedef struct yoke_config yoke_config;
typedef struct yoke_run yoke_run;
typedef struct yoke_model yoke_model;

const char *yoke_version(void);

/* Options for a training run, at their defaults. NULL if there is no memory. */
yoke_config *yoke_config_new(void);
/* Set an option by its name on the command line, without the dashes: ("batch", "100"). */
enum yoke_code yoke_config_set(yoke_config *config, const char *name, const char *value,
                               yoke_error *error);
void yoke_config_free(yoke_config *config);

/* Check everything, load the data, make the run folder (or, with "resume" set, go on in an old one; `model` is then NULL). The
 * config may be freed or reused afterwards. */
yoke_run *yoke_open(const yoke_config *config, const char *model, yoke_error *error);

/* Train until a stop rule holds, then write the last checkpoint and summary.json. Blocks. Once per handle. */
enum yoke_code yoke_train(yoke_run *run, yoke_error *error);

/* Make yoke_train write a checkpoint and return soon. Safe in a signal handler. */
void yoke_stop(yoke_run *run);

/* Did yoke_stop end the training (1), or had a stop rule ended it before (0)? */
int yoke_was_stopped(const yoke_run *run);

/* The summary as JSON text; free() it. NULL if there is no memory. */
char *yoke_summary(const yoke_run *run);

/* What a person would like to see: the learning curve and the figures as a table; free() it. */
char *yoke_report(const yoke_run *run);

/* The run's folder; "" in a process of rank 1 and above, which has none. */
const char *yoke_folder(const yoke_run *run);

/* Started by mpirun or srun, a program opens and trains the same run in every process of the job. This is the process's rank in it, and how many
 * there are; 0 and 1 otherwise. Rank 0 alone has a folder, a summary and a report. */
int yoke_rank(const yoke_run *run);
int yoke_ranks(const yoke_run *run);

/* Updates so far, and those that the newest checkpoint on the disk holds (-1: there is none). */
long long yoke_step(const yoke_run *run);
long long yoke_saved(const yoke_run *run);
/* Call `saved` whenever a checkpoint is on the disk, from a thread of the library. Before yoke_train. */
void yoke_on_saved(yoke_run *run, void (*saved)(void *arg, long long step), void *arg);

/* 0; or 1 if a process of the job was lost: MPI cannot be closed then, and this process has to end by _exit. */
int yoke_close(yoke_run *run);

/* A trained model from a run folder or a .safetensors file of one. Of a folder it takes the newest checkpoint that is whole, passing
 * over damaged ones. */
yoke_model *yoke_load(const char *run_or_file, yoke_error *error);
/* What it wants to see: height, width and channels of an example, and how many classes it tells apart. */
void yoke_model_shape(const yoke_model *model, unsigned shape[3], unsigned *classes);
/* Class probabilities (n, classes) of `n` examples of 8-bit pixels (n, height, width, channels). */
enum yoke_code yoke_predict(yoke_model *model, const unsigned char *pixels, size_t n, float *prob,
                            yoke_error *error);
void yoke_model_free(yoke_model *model);

#ifdef __cplusplus
}
#endif

#endif
