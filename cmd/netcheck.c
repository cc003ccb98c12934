#include "cmd/cmd.h"
static yk_code run(struct call *call, struct yk_error *e)
{
    (void)call;
    return yk_fail(e, YK_FAILED, "being written");
}
const struct verb verb_netcheck = {
    .name = "netcheck", .args = "", .summary = "", .details = "", .examples = "", .most = 1, .takes_command = true, .run = run};
