/* forge.c - changes a checkpoint and makes its checksums right again, as somebody who means harm
 * would. It knows the format from where it is drawn (src/param/safetensors.c), and uses none of
 * yoke's code.
 *
 *     forge FILE meta KEY VALUE       sets a word of the metadata
 *     forge FILE drop KEY             removes one, also the checksums "xxh3" and "xxh3_header"
 *     forge FILE shape NAME N[,N...]  claims another shape for a tensor
 *     forge FILE value NAME I FLOAT   sets element I of a tensor; FLOAT may be nan or inf */
#define XXH_INLINE_ALL
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "forge: %s\n", what);
    exit(1);
}

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0)
        die(strerror(errno));
    *n = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*n + 1);
    if (bytes == NULL || fread(bytes, 1, *n, f) != *n)
        die("cannot read the file");
    fclose(f);
    return bytes;
}

static json_t *tensor_of(json_t *head, const char *name)
{
    json_t *entry = json_object_get(head, name);
    if (entry == NULL)
        die("there is no such tensor");
    return entry;
}

static void change(json_t *head, char *data, int argc, char **argv)
{
    json_t *meta = json_object_get(head, "__metadata__");
    const char *how = argv[2];
    if (strcmp(how, "meta") == 0 && argc == 5) {
        json_object_set_new(meta, argv[3], json_string(argv[4]));
    } else if (strcmp(how, "drop") == 0 && argc == 4) {
        if (json_object_del(meta, argv[3]) != 0)
            die("there is no such word");
    } else if (strcmp(how, "shape") == 0 && argc == 5) {
        json_t *shape = json_array();
        for (char *p = strtok(argv[4], ","); p != NULL; p = strtok(NULL, ","))
            json_array_append_new(shape, json_integer(strtoll(p, NULL, 10)));
        json_object_set_new(tensor_of(head, argv[3]), "shape", shape);
    } else if (strcmp(how, "value") == 0 && argc == 6) {
        const json_t *range = json_object_get(tensor_of(head, argv[3]), "data_offsets");
        long long begin = json_integer_value(json_array_get(range, 0));
        long long end = json_integer_value(json_array_get(range, 1));
        long long at = begin + strtoll(argv[4], NULL, 10) * (long long)sizeof(float);
        float v = strtof(argv[5], NULL);
        if (at < begin || at + (long long)sizeof v > end)
            die("the tensor has no such element");
        memcpy(data + at, &v, sizeof v);
    } else {
        die("see the head of tests/tools/forge.c");
    }
}

int main(int argc, char **argv)
{
    size_t n;
    uint64_t length = 0;
    json_error_t why;
    char sum[17];
    if (argc < 4)
        die("see the head of tests/tools/forge.c");
    char *bytes = read_all(argv[1], &n);
    for (int i = 0; i < 8 && n >= 8; i++)
        length |= (uint64_t)(uint8_t)bytes[i] << (8 * i);
    if (n < 8 || length > n - 8)
        die("that is no safetensors file");
    json_t *head = json_loadb(bytes + 8, length, 0, &why);
    if (head == NULL)
        die(why.text);
    char *data = bytes + 8 + length;
    size_t size = n - 8 - length;
    change(head, data, argc, argv);

    json_t *meta = json_object_get(head, "__metadata__");
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(data, size));
    if (json_object_get(meta, "xxh3") != NULL)
        json_object_set_new(meta, "xxh3", json_string(sum));
    if (json_object_get(meta, "xxh3_header") != NULL)
        json_object_set_new(meta, "xxh3_header", json_string("0000000000000000"));
    char *text = json_dumps(head, JSON_COMPACT);
    if (text == NULL)
        die("no memory");
    size_t used = strlen(text), padded = (used + 7) / 8 * 8;
    char *header = malloc(padded + 1);
    if (header == NULL)
        die("no memory");
    memset(header, ' ', padded);
    memcpy(header, text, used);
    char *place = memmem(header, used, "\"xxh3_header\":\"", 15);
    if (place != NULL) {
        snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(header, padded));
        memcpy(place + 15, sum, 16);
    }
    FILE *f = fopen(argv[1], "wb");
    if (f == NULL)
        die(strerror(errno));
    for (int i = 0; i < 8; i++)
        fputc((int)(padded >> (8 * i) & 255), f);
    fwrite(header, 1, padded, f);
    fwrite(data, 1, size, f);
    if (fclose(f) != 0)
        die("cannot write the file");
    json_decref(head);
    free(text);
    free(header);
    free(bytes);
    return 0;
}
