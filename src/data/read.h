/* read.h - inputs through the parsers into a builder, by several threads, in order. */
#ifndef YK_DATA_READ_H
#define YK_DATA_READ_H

#include "data/builder.h"
#include "data/rows_format.h"

struct yk_synth;

/* Read `paths` one after the other ("-": standard input), or all of `synth` if that is not NULL, of so many rows. `bytes` is about how
 * much there is, to start no more threads than it is worth; 0: unknown. The first malformed row, in the order of the input, that
 * `how` does not tolerate is YK_DATA, whoever met it first. */
yk_code yk_read(const char *const *paths, uint32_t n, const struct yk_synth *synth,
                uint64_t synth_rows, uint64_t bytes, const struct yk_reading *how,
                struct yk_builder *to, struct yk_error *e);

#endif
