/* net_settings.h - checks the `train` lines of a net against the table of options. */
#ifndef YK_TRAIN_NET_SETTINGS_H
#define YK_TRAIN_NET_SETTINGS_H

#include "model/net/net.h"

/* YK_USAGE names the line of the first setting that is not an option of `yoke train`, has a value
 * that the option does not take, or concerns one call instead of the training (--run, --json,
 * --hosts). Messages call the net `what`. */
yk_code yk_net_settings_check(const char *what, const struct yk_net *n, struct yk_error *e);

#endif
