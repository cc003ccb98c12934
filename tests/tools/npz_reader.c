/* npz_reader.c - reads NumPy's .npz archive as NumPy's own reader does: through the central
 * directory of the zip file.
 *
 *     npz_reader FILE          one line per array, its name, dtype, order and shape:
 *                              softmax.bias <f4 C (10,)
 *     npz_reader FILE NAME     the array's bytes
 *
 * It was written from the definitions of zip and npy, without yoke's code; zlib's crc32 checks
 * every member. Exit status 1, with a sentence on standard error, at the first error.
 * LIMITS: stored members only, no zip64. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint8_t data[16 << 20];
static size_t size;

static void die(const char *why)
{
    fprintf(stderr, "bad npz: %s\n", why);
    exit(1);
}

static const uint8_t *at(size_t offset, size_t n)
{
    if (offset > size || n > size - offset)
        die("an offset points outside");
    return data + offset;
}

static uint32_t little(size_t offset, unsigned n)
{
    const uint8_t *p = at(offset, n);
    uint32_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint32_t)p[i] << 8 * i;
    return v;
}

/* The value of a key in an npy header, up to the next comma outside parentheses. */
static void value_of(const char *header, const char *key, char out[64])
{
    const char *p = strstr(header, key);
    int depth = 0, n = 0;
    if (p == NULL)
        die("an npy header lacks a key");
    for (p += strlen(key) + 2; *p == ' '; p++)
        ;
    for (; *p != '\0' && *p != '}' && (*p != ',' || depth > 0) && n < 63; p++) {
        depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        out[n++] = *p;
    }
    out[n] = '\0';
}

static void show_array(const char *name, size_t npy, size_t length, int bytes)
{
    char header[4096], descr[64], fortran[64], shape[64];
    if (length < 10 || memcmp(at(npy, 8), "\x93NUMPY\x01\x00", 8) != 0)
        die("a member is no npy file, version 1.0");
    size_t n = little(npy + 8, 2);
    if (n >= sizeof header || (10 + n) % 64 != 0 || 10 + n > length)
        die("an npy header of a wrong length");
    memcpy(header, at(npy + 10, n), n);
    header[n] = '\0';
    if (n == 0 || header[n - 1] != '\n')
        die("an npy header without its newline");
    value_of(header, "'descr'", descr);
    value_of(header, "'fortran_order'", fortran);
    value_of(header, "'shape'", shape);
    size_t count = 1;
    for (const char *p = shape; *p != '\0'; p++)
        if (*p >= '0' && *p <= '9')
            count *= strtoul(p, (char **)&p, 10);
    if (strcmp(descr, "'<f4'") != 0 || length != 10 + n + 4 * count)
        die("an array whose bytes are not what its header says");
    if (bytes)
        fwrite(at(npy + 10 + n, 4 * count), 4, count, stdout);
    else
        printf("%s <f4 %s %s\n", name, strcmp(fortran, "False") == 0 ? "C" : "F", shape);
}

int main(int argc, char **argv)
{
    FILE *file = argc >= 2 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL)
        die("cannot open it");
    size = fread(data, 1, sizeof data, file);
    fclose(file);
    if (size < 22 || little(size - 22, 4) != 0x06054b50)
        die("no end record");
    unsigned members = little(size - 22 + 10, 2), found = 0;
    size_t entry = little(size - 22 + 16, 4);
    for (unsigned i = 0; i < members; i++) {
        if (little(entry, 4) != 0x02014b50)
            die("no central directory where the end record says");
        uint32_t method = little(entry + 10, 2), crc = little(entry + 16, 4),
                 length = little(entry + 24, 4);
        uint32_t name_length = little(entry + 28, 2), local = little(entry + 42, 4);
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)name_length,
                 (const char *)at(entry + 46, name_length));
        if (little(local, 4) != 0x04034b50 || little(local + 14, 4) != crc ||
            little(local + 22, 4) != length)
            die("a local header differs from the central one");
        size_t start = local + 30 + little(local + 26, 2) + little(local + 28, 2);
        if (method != 0 || little(entry + 20, 4) != length)
            die("a member that is not stored");
        if (crc32(0, at(start, length), length) != crc)
            die("a member whose crc is wrong");
        char *suffix = strstr(name, ".npy");
        if (suffix == NULL || suffix[4] != '\0')
            die("a member that is not called .npy");
        *suffix = '\0';
        if (argc < 3 || strcmp(argv[2], name) == 0) {
            show_array(name, start, length, argc >= 3);
            found++;
        }
        entry += 46 + name_length + little(entry + 30, 2) + little(entry + 32, 2);
    }
    if (entry != size - 22)
        die("bytes between the directory and its end");
    if (found == 0)
        die("no such array");
    return 0;
}
