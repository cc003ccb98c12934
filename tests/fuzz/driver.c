/* driver.c - main() for a fuzz target where libFuzzer is not: feeds it files, once each.
 *
 *     build/san-1/tests/fuzz/idx FILE|FOLDER...
 *
 * The tests replay every corpus this way in the gcc build, and it is how to look at a crash in gdb.
 * A folder means the files in it. Each input gets an allocation of exactly its size, so that
 * AddressSanitizer sees a read one byte past its end. Exit status: 0 if the target survived all
 * inputs, 1 if one could not be read; a crash is the target's own. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static int replay_file(const char *path, size_t size)
{
    uint8_t *bytes = malloc(size ? size : 1);
    FILE *f = fopen(path, "rb");
    int failed = 1;

    if (!bytes || !f || fread(bytes, 1, size, f) != size) {
        perror(path);
        goto out;
    }
    LLVMFuzzerTestOneInput(bytes, size);
    failed = 0;
out:
    if (f)
        fclose(f);
    free(bytes);
    return failed;
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, (size_t)st.st_size);

    DIR *dir = opendir(path);
    if (!dir) {
        perror(path);
        return 1;
    }
    int failed = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        char name[4096];
        int len = snprintf(name, sizeof name, "%s/%s", path, d->d_name);
        if (d->d_name[0] != '.' && len > 0 && (size_t)len < sizeof name)
            failed |= replay(name);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay(argv[i]);
    return failed;
}
