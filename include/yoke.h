/* yoke.h - train models from your own program.
 *
 * libyoke is the library behind the yoke program. A *config* holds options under the names of the
 * command line. Opening it checks everything, loads the data and makes a run folder. Training goes
 * on until a stop rule, a target or yoke_stop ends it, and the summary reports the result as JSON.
 * A finished run can be loaded as a *model*, which gives class probabilities.
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
 * THREADS  A handle belongs to one thread at a time; different handles are independent. Only
 *          yoke_stop may be called from any thread, and from a signal handler.
 * SIGNALS  Sparse rows and large checkpoints are mapped files. With the first of them the library
 *          installs a SIGBUS handler, so a file that shrinks is an error (YOKE_DATA) and not a
 *          crash. The handler passes any other SIGBUS to the previous handler, and stays installed;
 *          a handler that the program installs later should call it in turn. The library touches no
 *          other signal.
 * ERRORS   Functions that can fail take a yoke_error, which may be NULL, and return its code, or
 *          NULL instead of a handle. The library never exits and never prints to standard output.
 *          It writes progress to standard error unless "quiet" is set.
 * MEMORY   Each handle has a function that frees it. These functions accept NULL. */
#ifndef YOKE_H
#define YOKE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum yoke_code {
    YOKE_OK = 0,
    YOKE_FAILED = 1, /* the machine refused: a full disk, no memory */
    YOKE_USAGE = 2,  /* an impossible option */
    YOKE_DATA = 3,   /* a file is missing, unreadable or malformed */
    YOKE_LOST = 4,   /* a process was lost beyond recovery */
};

typedef struct yoke_error {
    enum yoke_code code;
    char text[512]; /* one sentence */
    char hint[384]; /* the cure, if it is known; else "" */
} yoke_error;

typedef struct yoke_config yoke_config;
typedef struct yoke_run yoke_run;
typedef struct yoke_model yoke_model;

const char *yoke_version(void);

/* The options of a training run with their defaults. NULL if there is no memory. */
yoke_config *yoke_config_new(void);
/* Sets an option by its name on the command line, without the dashes: ("batch", "100"). */
enum yoke_code yoke_config_set(yoke_config *config, const char *name, const char *value,
                               yoke_error *error);
void yoke_config_free(yoke_config *config);

/* Checks everything, loads the data and makes the run folder. With "resume" set it continues in an
 * existing folder, and `model` is NULL. The config may be freed or reused afterwards. */
yoke_run *yoke_open(const yoke_config *config, const char *model, yoke_error *error);

/* Trains until a stop rule holds, then writes the last checkpoint and summary.json. Blocks. To be
 * called once per handle. */
enum yoke_code yoke_train(yoke_run *run, yoke_error *error);

/* Makes yoke_train write a checkpoint and return soon. Safe in a signal handler. */
void yoke_stop(yoke_run *run);

/* 1 if yoke_stop ended the training, 0 if a stop rule had ended it before. */
int yoke_was_stopped(const yoke_run *run);

/* The summary as JSON text, to be freed with free(). NULL if there is no memory. */
char *yoke_summary(const yoke_run *run);

/* The learning curve and the figures as tables for people, to be freed with free(). */
char *yoke_report(const yoke_run *run);

/* The folder of the run; "" in a process of rank 1 and above, which has none. */
const char *yoke_folder(const yoke_run *run);

/* Under mpirun or srun, a program opens and trains the same run in every process of the job. These
 * are the rank of this process and the number of processes; otherwise 0 and 1. Only rank 0 has a
 * folder, a summary and a report. */
int yoke_rank(const yoke_run *run);
int yoke_ranks(const yoke_run *run);

/* The number of updates so far. */
long long yoke_step(const yoke_run *run);
/* The number of updates in the newest checkpoint on the disk; -1 if there is none. */
long long yoke_saved(const yoke_run *run);
/* From now on `saved` is called, from a thread of the library, whenever a checkpoint is on the
 * disk. To be called before yoke_train. */
void yoke_on_saved(yoke_run *run, void (*saved)(void *arg, long long step), void *arg);

/* Returns 0, or 1 if a process of the job was lost: then MPI cannot be closed, and this process
 * must end by _exit. */
int yoke_close(yoke_run *run);

/* Loads a trained model from a run folder or from one of its .safetensors files. In a folder it
 * takes the newest whole checkpoint and skips damaged ones. */
yoke_model *yoke_load(const char *run_or_file, yoke_error *error);
/* The height, width and channels of an example, and the number of classes. */
void yoke_model_shape(const yoke_model *model, unsigned shape[3], unsigned *classes);
/* Computes the class probabilities (n, classes) of `n` examples of 8-bit pixels (n, height, width,
 * channels). */
enum yoke_code yoke_predict(yoke_model *model, const unsigned char *pixels, size_t n, float *prob,
                            yoke_error *error);
void yoke_model_free(yoke_model *model);

#ifdef __cplusplus
}
#endif

#endif
