/* json.c - fuzz target: whatever the text, yk_json_parse gives an object or a sentence. */
#include "base/json.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    json_t *value = NULL;
    struct yk_error e;
    if (yk_json_parse((const char *)bytes, n, "fuzz", &value, &e) != YK_OK) {
        if (e.code == YK_OK || e.text[0] == '\0')
            abort();
        return 0;
    }
    if (!json_is_object(value))
        abort();
    json_decref(value);
    return 0;
}
