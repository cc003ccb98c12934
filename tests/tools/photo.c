/* photo.c - photo FILE HEIGHT WIDTH LEVEL: writes the test picture of tests/photo.h. */
#include "../photo.h"

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: photo FILE HEIGHT WIDTH LEVEL\n");
        return 2;
    }
    return photo_write(argv[1], atoi(argv[2]), atoi(argv[3]), (uint8_t)atoi(argv[4])) == 0 ? 0 : 1;
}
