/* report.h - the result of a run for a person: a learning curve and the figures that matter. */
#ifndef YK_TRAIN_REPORT_H
#define YK_TRAIN_REPORT_H

#include "base/buf.h"

struct yk_session;

void yk_report(const struct yk_session *s, struct yk_buf *out);

#endif
