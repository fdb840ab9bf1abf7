/* fuzz_controlnet.c - any names and shapes as a file of a ControlNet, a Control-LoRA, a T2I-Adapter or a UNet
 * (tensor_list.h): there is a value that is whole, or a message. libFuzzer; `make fuzz`. */
/* with: plugins/unet */
/* longest input: 32768 */
#define LIST_TEXT_MAX 32768
#include "../../plugins/control/t2i_adapter.c"
#include "../../plugins/control/t2i_family.c"
#include "../../plugins/control/t2i_names.c"

#include "../../plugins/unet/controlnet_family.h"
#include "../../plugins/unet/unet_family.h"
#include "tensor_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const kiln_model_family *const families[] = {&controlnet_family, &t2i_family, &unet_family};
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    kiln_weights *set = list_open(data, size);
    for (size_t i = 0; set && i < COUNT(families); i++) {
        if (!families[i]->detect(w, set)) continue;
        kiln_value *value = families[i]->open(rig_host(), rig_ctx(), set);
        MUST(value || *rig_message());
        rig_host()->unref(value);
    }
    w->unref(set);
    return 0;
}
