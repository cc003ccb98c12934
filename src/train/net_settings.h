/* net_settings.h - the `train` lines of a net, checked against the options that there are. */
#ifndef YK_TRAIN_NET_SETTINGS_H
#define YK_TRAIN_NET_SETTINGS_H

#include "model/net.h"

/* YK_USAGE names the place of the first setting that is no option of `yoke train`, has a value that the option does not take, or is
 * about a call rather than about what is learnt and how (--run, --json, --hosts). `what` is how messages call the net. */
yk_code yk_net_settings_check(const char *what, const struct yk_net *n, struct yk_error *e);

#endif
