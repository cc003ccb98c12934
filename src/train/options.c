/* options.c - the options of training: their table, the model's defaults, and checks across
 * options. A default of NULL means that the model has one, or that the option is off until it is
 * given. */
#include "train/options.h"

#include "data/images/prefetch.h"
#include "data/rows/rows_format.h"
#include "kernel/kernel.h"
#include "optim/optim.h"
#include "strategy/codec.h"
#include "strategy/rule.h"

#include <stdio.h>
#include <string.h>

#define AT(f) offsetof(struct yk_options, f)
#define FEW 1e6
#define OR_NAME(name) "|" #name
#define OPTIMIZER_NAMES (&(YK_OPTIMIZERS(OR_NAME))[1]) /* "sgd|momentum|..." from the one list */
#define MODE_NAMES (&(YK_MODES(OR_NAME))[1])
#define MANY 9e15 /* integers up to here are exact in a double */

const struct yk_opt yk_option_table[] = {
    /* name, letter, type, field, default, min, max, choices, meta, flags, help */
    {"data", 0, YK_OPT_TEXT, AT(data), NULL, 0, 0, NULL, "DATA", 0,
     "mnist, fashion-mnist, IDX or CIFAR-10 files, class folders of JPEG files, "
     "fake:HxWxC:CLASSES[:ROWS[:SEED]]; "
     "logreg: files of sparse rows (a,b,c), a folder, - or synth-criteo:ROWS"},
    {"test-data", 0, YK_OPT_TEXT, AT(test_data), NULL, 0, 0, NULL, "DATA", 0,
     "evaluate on this instead of the test part of --data"},
    {"holdout", 0, YK_OPT_REAL, AT(holdout), NULL, 1e-6, 0.9, NULL, "X", 0,
     "logreg, class folders: evaluate on this share of the rows, evenly spread, and train on the "
     "others"},
    {"test-batch", 0, YK_OPT_INT, AT(test_batch), "1024", 1, FEW, NULL, "N", YK_OPT_ON_RESUME,
     "examples that are evaluated at a time: bounds the memory of evaluation"},
    {"shuffle-buffer", 0, YK_OPT_INT, AT(shuffle_buffer), NULL, 1, 4e9, NULL, "N", 0,
     "shuffle within windows of N rows of the file; 1: file order (default: all rows together)"},
    {"data-local", 0, YK_OPT_FLAG, AT(data_local), NULL, 0, 0, NULL, "", 0,
     "each host trains on its own files: --data is their name there, and %h in it stands for the "
     "host's name"},
    {"augment", 0, YK_OPT_CHOICE, AT(augment), "both", 0, 0, "none|crop|flip|both", "WHAT", 0,
     "class folders: crop photos at a random place for training, flip half of them, both or none"},
    {"progressive", 0, YK_OPT_FLAG, AT(progressive), NULL, 0, 0, NULL, "", YK_OPT_ON_RESUME,
     "log the loss on rows before they are learnt, at 1, 2, 4, 8, ... rows (logreg: unless there "
     "is test data)"},
    {"batch", 'b', YK_OPT_INT, AT(batch), NULL, 1, FEW, NULL, "N", 0, "examples per step"},
    {"global-batch", 0, YK_OPT_INT, AT(global_batch), NULL, 1, FEW, NULL, "N", 0,
     "examples of one synchronous step over all workers, instead of --batch"},
    {"seed", 0, YK_OPT_INT, AT(seed), "1", 0, MANY, NULL, "N", 0,
     "seed of the shuffle and of starting values (data synth: of the rows and the true model; "
     "matmul: of the matrices of --n)"},

    {"mode", 'm', YK_OPT_CHOICE, AT(mode), NULL, 0, 0, MODE_NAMES, "MODE", YK_OPT_ON_RESUME,
     "local, sync, async, ssp or allreduce (default: local for one worker, else sync)"},
    {"workers", 'w', YK_OPT_INT, AT(workers), NULL, 1, 1024, NULL, "N", YK_OPT_ON_RESUME,
     "workers: threads of this process, or processes with --hosts, mpirun or srun (matmul, "
     "netcheck: processes)"},
    {"ps", 0, YK_OPT_INT, AT(ps), NULL, 1, 256, NULL, "N", YK_OPT_ON_RESUME,
     "parameter servers; each owns one contiguous range (default 1)"},
    {"backup", 0, YK_OPT_INT, AT(backup), NULL, 0, 1023, NULL, "N", YK_OPT_ON_RESUME,
     "sync: go on without the N slowest workers of a step"},
    {"staleness", 0, YK_OPT_INT, AT(staleness), NULL, 0, FEW, NULL, "S", YK_OPT_ON_RESUME,
     "ssp: batches that a worker may be ahead of the slowest (default 3)"},
    {"shards", 0, YK_OPT_INT, AT(shards), NULL, 1, 4096, NULL, "V", 0,
     "slices of a global batch; the same V gives the same bits for any number of workers (default: "
     "the workers)"},
    {"hosts", 'H', YK_OPT_TEXT, AT(hosts), NULL, 0, 0, NULL, "LIST", YK_OPT_ON_RESUME | YK_OPT_FAR,
     "a worker on each of these hosts: a,b,c or a:2,b (testbed: how many hosts to make); refused "
     "in ./yoke.ini"},
    {"hostfile", 0, YK_OPT_TEXT, AT(hostfile), NULL, 0, 0, NULL, "FILE",
     YK_OPT_ON_RESUME | YK_OPT_FAR, "the hosts from a file, one 'host slots=n' per line"},
    {"ps-hosts", 0, YK_OPT_TEXT, AT(ps_hosts), NULL, 0, 0, NULL, "LIST",
     YK_OPT_ON_RESUME | YK_OPT_FAR,
     "hosts of the parameter servers (default: the first of --hosts)"},
    {"compress", 0, YK_OPT_TEXT, AT(compress), "none", 0, 0, NULL, "HOW", YK_OPT_ON_RESUME,
     "compression between processes: none, bf16, fp16, int8, or topk:F, which sends only the "
     "fraction F of gradients that is largest; what is rounded off or left out is sent later"},
    {"heartbeat", 0, YK_OPT_REAL, AT(heartbeat), NULL, 0.2, 3600, NULL, "X", YK_OPT_ON_RESUME,
     "seconds of silence after which a worker counts as lost (default: 2 on one host, else 5)"},
    {"on-worker-loss", 0, YK_OPT_CHOICE, AT(on_worker_loss), "continue", 0, 0,
     "continue|replace|restart|fail", "WHAT", YK_OPT_ON_RESUME,
     "continue without it, replace it, restart from the checkpoint, or fail"},
    {"restarts", 0, YK_OPT_INT, AT(restarts), "0", 0, 1000, NULL, "N", YK_OPT_ON_RESUME,
     "restart from the checkpoint after a loss that ends the job, at most N times"},

    {"optimizer", 0, YK_OPT_CHOICE, AT(optimizer), NULL, 0, 0, OPTIMIZER_NAMES, "NAME", 0,
     "how gradients change parameters"},
    {"lr", 0, YK_OPT_REAL, AT(lr), NULL, 1e-12, 1e6, NULL, "X", 0,
     "learning rate; if none is given, the model's for its own optimizer, else the optimizer's"},
    {"momentum", 0, YK_OPT_REAL, AT(momentum), "0.9", 0, 0.999999, NULL, "X", 0,
     "mu of momentum, beta1 of adam"},
    {"beta2", 0, YK_OPT_REAL, AT(beta2), "0.999", 0, 0.999999, NULL, "X", 0,
     "decay of adam's second moment"},
    {"eps", 0, YK_OPT_REAL, AT(eps), "1e-8", 1e-30, 1, NULL, "X", 0,
     "keeps adagrad and adam from dividing by zero"},
    {"l1", 0, YK_OPT_REAL, AT(l1), "0", 0, 1e6, NULL, "X", 0,
     "sgd, adagrad, ftrl: penalty of X times a parameter's size; makes many of them zero"},
    {"l2", 0, YK_OPT_REAL, AT(l2), "0", 0, 1e6, NULL, "X", 0,
     "penalty of X/2 times a parameter's square (weight decay)"},
    {"ftrl-beta", 0, YK_OPT_REAL, AT(ftrl_beta), "1", 1e-6, 1e6, NULL, "X", 0,
     "beta of ftrl: the larger, the slower it begins"},
    {"schedule", 0, YK_OPT_TEXT, AT(schedule), "constant", 0, 0, NULL, "SHAPE", 0,
     "rate over steps: constant, staircase:RATE:STEPS, stairs:N:FALL:STEPS, "
     "exponential:RATE:STEPS, cosine:STEPS[:LAST], "
     "warmup:STEPS,SHAPE"},
    {"weight-decay", 0, YK_OPT_REAL, AT(weight_decay), "0", 0, 1e6, NULL, "X", 0,
     "sgd, momentum, adagrad, adam: add X times the parameter to its gradient"},
    {"bias-lr", 0, YK_OPT_REAL, AT(bias_lr), NULL, 1e-12, 1e6, NULL, "X", 0,
     "learning rate of the biases (default: that of the weights)"},
    {"bias-momentum", 0, YK_OPT_REAL, AT(bias_momentum), NULL, 0, 0.999999, NULL, "X", 0,
     "--momentum of the biases (default: that of the weights)"},
    {"bias-weight-decay", 0, YK_OPT_REAL, AT(bias_weight_decay), NULL, 0, 1e6, NULL, "X", 0,
     "--weight-decay of the biases (default: that of the weights)"},
    {"bias-schedule", 0, YK_OPT_TEXT, AT(bias_schedule), NULL, 0, 0, NULL, "SHAPE", 0,
     "--schedule of the biases (default: that of the weights)"},
    {"clip", 0, YK_OPT_REAL, AT(clip), NULL, 1e-12, 1e12, NULL, "X", 0,
     "limit each number of the mean gradient to between -X and X"},
    {"init", 0, YK_OPT_CHOICE, AT(init), "auto", 0, 0, "auto|he|glorot", "NAME", 0,
     "nets: starting weights of layers whose line does not set them (auto: he before relu, else "
     "glorot)"},

    {"steps", 0, YK_OPT_INT, AT(steps), NULL, 1, MANY, NULL, "N", YK_OPT_ON_RESUME | YK_OPT_STOP,
     "stop after N global steps"},
    {"epochs", 0, YK_OPT_INT, AT(epochs), NULL, 1, MANY, NULL, "N", YK_OPT_ON_RESUME | YK_OPT_STOP,
     "stop after N passes over the data"},
    {"target-loss", 0, YK_OPT_REAL, AT(target_loss), NULL, 1e-12, 1e6, NULL, "X",
     YK_OPT_ON_RESUME | YK_OPT_STOP, "stop when the test loss is X or less"},
    {"target-accuracy", 0, YK_OPT_REAL, AT(target_accuracy), NULL, 1e-6, 1, NULL, "X",
     YK_OPT_ON_RESUME | YK_OPT_STOP, "stop when the test accuracy is X or more (a fraction)"},
    {"max-seconds", 0, YK_OPT_REAL, AT(max_seconds), NULL, 1e-3, 1e9, NULL, "X",
     YK_OPT_ON_RESUME | YK_OPT_STOP, "stop after X seconds of training since this start"},

    {"eval-every", 0, YK_OPT_EVERY, AT(eval_every), "100", 0, 0, NULL, "N", YK_OPT_ON_RESUME,
     "evaluate every N steps, Nex examples or Ns seconds"},
    {"checkpoint-every", 0, YK_OPT_EVERY, AT(checkpoint_every), "10s", 0, 0, NULL, "N",
     YK_OPT_ON_RESUME, "save every N steps, Nex examples or Ns seconds (and at the end)"},
    {"keep", 0, YK_OPT_INT, AT(keep), "3", 1, 1e6, NULL, "N", YK_OPT_ON_RESUME,
     "checkpoints to keep"},
    {"run", 0, YK_OPT_TEXT, AT(run), NULL, 0, 0, NULL, "DIR", YK_OPT_TRANSIENT,
     "the run's folder (default: a new one below runs/, to which runs/latest then links)"},
    {"resume", 0, YK_OPT_TEXT, AT(resume), NULL, 0, 0, NULL, "RUN", YK_OPT_TRANSIENT,
     "continue RUN from its last checkpoint, in its own folder"},

    {"threads", 't', YK_OPT_INT, AT(threads), NULL, 1, 256, NULL, "N", YK_OPT_ON_RESUME,
     "threads that compute, and at most as many that parse rows (default: one per core; "
     "logreg computes with 1)"},
    {"isa", 0, YK_OPT_CHOICE, AT(isa), "auto", 0, 0, "auto" YK_ISAS(OR_NAME), "NAME",
     YK_OPT_ON_RESUME, "instruction set; the same one gives the same bits on other machines"},
    {"engine", 0, YK_OPT_TEXT, AT(engine), "auto", 0, 0, NULL, "NAME", YK_OPT_ON_RESUME,
     "what computes a net: onednn, lanes, lanes:4 (only its first 4 layers), or auto, the fastest "
     "here; bits depend on it"},
    {"label-smoothing", 0, YK_OPT_REAL, AT(label_smoothing), "0", 0, 0.9, NULL, "X", 0,
     "nets: take X of the label's weight and give it to all classes evenly"},
    {"net", 0, YK_OPT_TEXT, AT(net), NULL, 0, 0, NULL, "TEXT", 0,
     "set by the run itself: the text of its .net file"},

    {"format", 0, YK_OPT_CHOICE, AT(format), NULL, 0, 0, &(YK_ROW_FORMATS(OR_NAME) "|cache")[1],
     "FORMAT", 0, "format of sparse rows (default: detected from their beginning)"},
    {"hash-bits", 0, YK_OPT_INT, AT(hash_bits), NULL, 1, 31, NULL, "N", 0,
     "hash the keys of rows to N bits (default: keep numbers as they are, hash names to 22 bits)"},
    {"skip-bad", 0, YK_OPT_INT, AT(skip_bad), "0", 0, MANY, NULL, "N", 0,
     "leave out up to N malformed rows, and count them"},
    {"label-name", 0, YK_OPT_TEXT, AT(label_name), "label", 0, 0, NULL, "NAME", 0,
     "tfrecord: the feature that is the label"},
    {"index-name", 0, YK_OPT_TEXT, AT(index_name), "index", 0, 0, NULL, "NAME", 0,
     "tfrecord: the feature that has the keys"},
    {"value-name", 0, YK_OPT_TEXT, AT(value_name), "value", 0, 0, NULL, "NAME", 0,
     "tfrecord: the feature that has the values; if a row has none, all are 1"},
    {"features", 0, YK_OPT_INT, AT(features), NULL, 1, YK_KEY_MAX + 1.0, NULL, "N", 0,
     "logreg: number of weights (default: as many as the data needs); data synth: number of keys "
     "(default 33762578)"},

    {"config", 0, YK_OPT_TEXT, AT(config), NULL, 0, 0, NULL, "FILE",
     YK_OPT_TRANSIENT | YK_OPT_SHARED, "read options from FILE too, over ./yoke.ini"},
    {"json", 0, YK_OPT_FLAG, AT(json), NULL, 0, 0, NULL, "", YK_OPT_TRANSIENT | YK_OPT_SHARED,
     "print the result as one JSON object"},
    {"quiet", 'q', YK_OPT_FLAG, AT(quiet), NULL, 0, 0, NULL, "", YK_OPT_TRANSIENT | YK_OPT_SHARED,
     "print only warnings and the result"},
    {"verbose", 'v', YK_OPT_FLAG, AT(verbose), NULL, 0, 0, NULL, "",
     YK_OPT_TRANSIENT | YK_OPT_SHARED, "print more messages"},
    {"dry-run", 0, YK_OPT_FLAG, AT(dry_run), NULL, 0, 0, NULL, "", YK_OPT_TRANSIENT | YK_OPT_SHARED,
     "check everything, on --hosts too, show the plan, and stop there"},
    {0},
};

const size_t yk_option_count = sizeof yk_option_table / sizeof yk_option_table[0] - 1;

unsigned yk_options_augment(const struct yk_options *o)
{
    bool both = strcmp(o->augment, "both") == 0;
    return (both || strcmp(o->augment, "crop") == 0 ? YK_AUGMENT_CROP : 0u) |
           (both || strcmp(o->augment, "flip") == 0 ? YK_AUGMENT_FLIP : 0u);
}

void yk_options_reading(const struct yk_opts *opts, struct yk_reading *out)
{
    const struct yk_options *o = opts->values;
    enum yk_origin who = yk_opts_origin(opts, "threads");
    bool asked = who != YK_BUILT_IN && who != YK_FROM_MODEL && who != YK_RESUMED;
    *out = (struct yk_reading){.format = o->format,
                               .hash_bits = (unsigned)o->hash_bits,
                               .skip_bad = (uint64_t)o->skip_bad,
                               .label = o->label_name,
                               .index = o->index_name,
                               .value = o->value_name,
                               .threads = asked ? (unsigned)o->threads : 0};
}

yk_code yk_options_model(struct yk_opts *o, const char *const *defaults, struct yk_error *e)
{
    const struct yk_options *v = o->values;
    bool ends = yk_opts_any(o, YK_OPT_STOP, false);
    bool own_optimizer = !yk_opts_given(o, "optimizer");
    yk_code rc = YK_OK;
    for (size_t i = 0; defaults[i] != NULL && rc == YK_OK; i += 2) {
        bool length = strcmp(defaults[i], "epochs") == 0 || strcmp(defaults[i], "steps") == 0;
        /* A rate goes with the model's optimizer; another one brings its own. */
        bool rate = strcmp(defaults[i], "lr") == 0 || strcmp(defaults[i], "bias-lr") == 0;
        if (!yk_opts_given(o, defaults[i]) && !(length && ends) && !(rate && !own_optimizer))
            rc = yk_opts_set(o, defaults[i], defaults[i + 1], YK_FROM_MODEL, e);
    }
    const struct yk_optimizer_ops *optimizer =
        v->optimizer != NULL ? yk_optimizer_find(v->optimizer) : NULL;
    if (rc == YK_OK && optimizer != NULL && v->lr == 0) {
        char text[32];
        snprintf(text, sizeof text, "%.17g", optimizer->lr);
        rc = yk_opts_set(o, "lr", text, YK_FROM_MODEL, e);
    }
    return rc;
}

/* A constant that the chosen optimizer does not have would be parsed and ignored. */
static yk_code check_constants(const struct yk_opts *o, struct yk_error *e)
{
    static const struct {
        const char *option, *needs;
    } CONSTANTS[] = {{"momentum", "momentum"},
                     {"beta2", "beta2"},
                     {"eps", "eps"},
                     {"l1", "l1"},
                     {"l2", "l2"},
                     {"ftrl-beta", "ftrl-beta"},
                     {"weight-decay", "weight-decay"},
                     {"bias-momentum", "momentum"},
                     {"bias-weight-decay", "weight-decay"}};
    const struct yk_options *v = o->values;
    const struct yk_optimizer_ops *optimizer =
        v->optimizer != NULL ? yk_optimizer_find(v->optimizer) : NULL;
    if (optimizer != NULL)
        for (size_t i = 0; i < sizeof CONSTANTS / sizeof CONSTANTS[0]; i++)
            if (yk_opts_typed(o, CONSTANTS[i].option) &&
                !yk_choice_has(optimizer->uses, CONSTANTS[i].needs)) {
                yk_fail(e, YK_USAGE, "--%s means nothing to --optimizer %s", CONSTANTS[i].option,
                        optimizer->name);
                yk_hint(e, "'yoke help train' says which optimizer it is for");
                return YK_USAGE;
            }
    if ((v->weight_decay > 0 || v->bias_weight_decay > 0) && (v->l1 > 0 || v->l2 > 0)) {
        yk_fail(e, YK_USAGE, "--weight-decay and --%s exclude each other", v->l2 > 0 ? "l2" : "l1");
        yk_hint(e, "--weight-decay is part of the gradient, --l1 and --l2 of sgd and adagrad act "
                   "after it");
        return YK_USAGE;
    }
    return YK_OK;
}

static yk_code check_schedule(const char *option, const char *text, struct yk_error *e)
{
    struct yk_schedule schedule;
    struct yk_error why = {0};
    if (yk_schedule_parse(text, &schedule, &why) == YK_OK)
        return YK_OK;
    yk_fail(e, YK_USAGE, "--%s: %.300s", option, why.text);
    yk_hint(e, "%s", why.hint);
    return YK_USAGE;
}

yk_code yk_options_check(const struct yk_opts *o, struct yk_error *e)
{
    const struct yk_options *v = o->values;
    if (v->quiet && v->verbose)
        return yk_fail(e, YK_USAGE, "--quiet and --verbose exclude each other");
    if (v->resume != NULL && v->run != NULL) {
        yk_fail(e, YK_USAGE, "--run and --resume exclude each other");
        yk_hint(e, "--resume RUN goes on in RUN itself");
        return YK_USAGE;
    }
    struct yk_codec codec;
    yk_code rc = check_schedule("schedule", v->schedule, e);
    if (rc == YK_OK && v->bias_schedule != NULL)
        rc = check_schedule("bias-schedule", v->bias_schedule, e);
    if (rc == YK_OK)
        rc = yk_codec_parse(v->compress, &codec, e);
    return rc == YK_OK ? check_constants(o, e) : rc;
}
