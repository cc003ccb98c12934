/* criteo.h - what Criteo's text can say; most rows of other origin it cannot. */
#ifndef YK_DATA_CRITEO_H
#define YK_DATA_CRITEO_H

#include "data/rows.h"

/* Can the row be written: 13 entries whose values are log1p of positive integers, then 26 of value 1? Made-up rows (synth.h) can. */
bool yk_criteo_fits(const struct yk_row *row);

#endif
