/* fuzz_gligen.c - any names and shapes as a GLIGEN's file (tensor_list.h): there is a value that is whole, or a
 * message. libFuzzer; `make fuzz`. */
/* longest input: 8192 */
#define LIST_TEXT_MAX 8192
#include "../../plugins/gligen/gligen_family.c"
#include "../../plugins/gligen/gligen_model.c"
#include "../../plugins/gligen/gligen_names.c"

#include "tensor_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    kiln_weights *set = list_open(data, size);
    if (set && gligen_family.detect(w, set)) {
        kiln_value *value = gligen_family.open(rig_host(), rig_ctx(), set);
        MUST(value || *rig_message());
        rig_host()->unref(value);
    }
    w->unref(set);
    return 0;
}
