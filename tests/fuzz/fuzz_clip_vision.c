/* fuzz_clip_vision.c - any names and shapes as a vision encoder's file (tensor_list.h): there is a value whose network
 * is recorded, or a message. libFuzzer; `make fuzz`. */
#include "../../plugins/vision/clip_vision.c"
#include "../../plugins/vision/clip_vision_family.c"
#include "../../plugins/vision/clip_vision_names.c"
#include "../../plugins/vision/clip_vision_settings.c"
#include "../../plugins/vision/vision_recorder.c"

#include "tensor_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

static void ignore_output(const kiln_outputs *out, const char *name, kiln_t t) { (void)out, (void)name, (void)t; }

static void record_it(const kiln_net *net)
{
    const kiln_ops *o = rig_host()->ability(KILN_OPS_ABILITY);
    const kiln_value_api *v = rig_host()->ability(KILN_VALUE_ABILITY);
    const kiln_program_options options = {.size = sizeof options, .name = "fuzz"};
    const kiln_outputs out = {.size = sizeof out, .add = ignore_output};
    const char *message = NULL;
    int64_t pixels = 0;
    MUST(v->get_int(v->map_get(net->network->facts, "image_size"), &pixels) == KILN_OK && pixels > 0);
    kiln_program *p = o->program_new(rig_ctx(), &options);
    kiln_named_tensor in = {.size = sizeof in, .name = "pixels"};
    in.tensor = o->input(p, "pixels", KILN_F32, 4, KILN_DIMS(1, pixels, pixels, 3));
    net->network->record(net->network, o, p, net->weights, &in, 1, &out);
    MUST(o->error(p, &message) == KILN_OK || (message && *message));
    o->program_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_weights *set = list_open(data, size);
    if (set && clip_vision_family.detect(w, set)) {
        kiln_value *value = clip_vision_family.open(rig_host(), rig_ctx(), set);
        MUST(value || *rig_message());
        if (value) record_it(models->net(rig_ctx(), value, "CLIP_VISION"));
        rig_host()->unref(value);
    }
    w->unref(set);
    return 0;
}
