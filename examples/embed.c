/* embed.c - a program that trains a model with libyoke, then classifies some images with it.
 *
 *     cc embed.c $(pkg-config --cflags --libs --static yoke) -o embed
 *     ./embed [FOLDER]        (default: a new folder below runs/)
 *
 * Softmax regression learns MNIST to a test loss of 0.35, and the program prints three figures of
 * the summary. Then it loads the model from the run's folder, as another program would, and
 * classifies ten images, each blank except for one upright stroke that moves to the right from
 * image to image. A stroke in the middle looks like a 1. Ctrl-C saves and stops. */
#include <yoke.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static yoke_run *running;

static void on_interrupt(int number)
{
    (void)number;
    yoke_stop(running); /* the only function that is safe in a signal handler */
}

static int fail(const yoke_error *error)
{
    fprintf(stderr, "embed: %s\n", error->text);
    if (error->hint[0] != '\0')
        fprintf(stderr, "hint: %s\n", error->hint);
    return error->code;
}

/* Prints the line of the summary that begins with "key". A real program would use a JSON
 * library. */
static void show(const char *summary, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *value = strstr(summary, quoted);
    if (value != NULL) {
        value += strlen(quoted);
        printf("%s %.*s\n", key, (int)strcspn(value, ",\n"), value);
    }
}

static int train(const yoke_config *config, char folder[1024])
{
    yoke_error error;
    /* Checks everything, loads the data and makes the folder. */
    running = yoke_open(config, "softmax", &error);
    if (running == NULL)
        return fail(&error);
    signal(SIGINT, on_interrupt);
    int code = yoke_train(running, &error) == YOKE_OK ? 0 : fail(&error);
    signal(SIGINT, SIG_DFL);
    char *summary = code == 0 ? yoke_summary(running) : NULL;
    if (summary != NULL) {
        show(summary, "global_steps");
        show(summary, "test_accuracy");
        show(summary, "params_xxh3");
    }
    free(summary);
    snprintf(folder, 1024, "%s", yoke_folder(running));
    yoke_close(running);
    return code;
}

/* Image i is blank except for an upright stroke, which moves to the right with i. */
static void draw(unsigned char *pixels, unsigned i, const unsigned shape[3])
{
    unsigned column = 4 + 2 * i;
    for (unsigned y = shape[0] / 5; y < shape[0] - shape[0] / 5; y++)
        for (unsigned x = column; x < column + 3 && x < shape[1]; x++)
            pixels[(y * shape[1] + x) * shape[2]] = 255;
}

static int predict(const char *folder)
{
    enum { IMAGES = 10 };
    yoke_error error;
    yoke_model *model = yoke_load(folder, &error);
    if (model == NULL)
        return fail(&error);
    unsigned shape[3], classes; /* height, width, channels */
    yoke_model_shape(model, shape, &classes);
    size_t size = (size_t)shape[0] * shape[1] * shape[2];
    unsigned char *pixels = calloc(IMAGES, size);
    float *prob = calloc(IMAGES, classes * sizeof *prob); /* (IMAGES, classes) */
    int code = YOKE_FAILED;
    if (pixels == NULL || prob == NULL)
        goto out;
    for (unsigned i = 0; i < IMAGES; i++)
        draw(pixels + i * size, i, shape);
    code = yoke_predict(model, pixels, IMAGES, prob, &error) == YOKE_OK ? 0 : fail(&error);
    if (code != 0)
        goto out;
    for (unsigned i = 0; i < IMAGES; i++) {
        const float *p = prob + (size_t)i * classes;
        unsigned best = 0;
        for (unsigned c = 1; c < classes; c++)
            best = p[c] > p[best] ? c : best;
        printf("stroke %u: looks like a %u (%.0f %%)\n", i, best, (double)p[best] * 100);
    }
out:
    free(prob);
    free(pixels);
    yoke_model_free(model);
    return code;
}

int main(int argc, char **argv)
{
    static const char *const options[][2] = {
        {"data", "mnist"}, {"batch", "100"}, {"target-loss", "0.35"}, {"quiet", "true"}};
    yoke_error error;
    char folder[1024];
    yoke_config *config = yoke_config_new();
    if (config == NULL)
        return YOKE_FAILED;
    int code = 0;
    for (size_t i = 0; i < sizeof options / sizeof options[0] && code == 0; i++)
        if (yoke_config_set(config, options[i][0], options[i][1], &error) != YOKE_OK)
            code = fail(&error);
    if (code == 0 && argc > 1 && yoke_config_set(config, "run", argv[1], &error) != YOKE_OK)
        code = fail(&error);
    printf("yoke %s\n", yoke_version());
    if (code == 0)
        code = train(config, folder);
    if (code == 0)
        code = predict(folder);
    yoke_config_free(config);
    return code;
}
