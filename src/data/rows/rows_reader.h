/* rows_reader.h - reads inputs through parsers into a builder, with several threads, in order. */
#ifndef YK_DATA_ROWS_ROWS_READER_H
#define YK_DATA_ROWS_ROWS_READER_H

#include "data/rows/builder.h"
#include "data/rows/rows_format.h"

struct yk_synth;

/* Reads `paths` one after the other ("-": standard input), or makes `synth_rows` rows of `synth` if
 * that is not NULL. `bytes` is about the size of the input, which limits the threads; 0: unknown.
 * The first malformed row in the order of the input that `how` does not tolerate is YK_DATA. */
yk_code yk_rows_read(const char *const *paths, uint32_t n, const struct yk_synth *synth,
                     uint64_t synth_rows, uint64_t bytes, const struct yk_reading *how,
                     struct yk_builder *to, struct yk_error *e);

#endif
