/* test_lora_control.c - LoraLoaderControlNet: W + strength * alpha / rank * (up x down) on the modules of a ControlNet
 * by every name that files have for them, and what is refused. */
#include "lora_rig.h"

enum { O = 3, I = 2, RANK = 2 };
static const double strength = 0.75, alpha = 1;

/* ---- a control of a few modules ---- */

static const char *const modules[] = {"controlnet_cond_embedding.conv_in",  "controlnet_cond_embedding.blocks.0",
                                      "controlnet_cond_embedding.blocks.1", "controlnet_cond_embedding.conv_out",
                                      "controlnet_down_blocks.2",           "controlnet_mid_block",
                                      "down_blocks.0.resnets.0.conv1",      "time_embedding.linear_1"};
enum { MODULES = sizeof modules / sizeof *modules };

static void no_record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                      const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    (void)n, (void)ops, (void)p, (void)w, (void)in, (void)n_in, (void)out;
}

static const kiln_net *over(const kiln_network *n, kiln_ctx *c, kiln_weights *own, kiln_weights *denoiser)
{
    (void)n, (void)c, (void)own, (void)denoiser;
    return NULL;
}

static kiln_network network = {.size = sizeof network, .family = "controlnet/test", .record = no_record},
                    control_lora = {
                        .size = sizeof control_lora, .family = "control-lora/test", .record = no_record, .over = over};

static kiln_value *control_of(const kiln_network *of)
{
    static float w[O * I];
    static const int64_t dim[] = {O, I};
    safetensors_source t[MODULES];
    char name[MODULES][100];
    error e = {0};
    for (int i = 0; i < O * I; i++) w[i] = (float)(i + 1) / 8;
    for (size_t i = 0; i < MODULES; i++) {
        snprintf(name[i], sizeof name[i], "%s.weight", modules[i]);
        t[i] = (safetensors_source){.name = name[i], .dtype = KILN_F32, .rank = 2, .dim = dim, .data = w};
    }
    kiln_weights *set = weights_open(put_tensors("control.safetensors", t, MODULES), &e);
    kiln_value *v = set ? models()->net_new(rig_ctx(), "CONTROL_NET",
                                            &(kiln_net){.size = sizeof(kiln_net), .network = of, .weights = set})
                        : NULL;
    if (!CHECK_MSG(v != NULL, "%s %s", e.message, rig_message())) exit(1);
    weights_unref(set);
    return v;
}

/* ---- files ---- */

static float up[O * RANK], down[RANK * I], alpha_number;

/* A pair under this stem, with these suffixes. */
static const char *lora_called(const char *stem, const char *up_suffix, const char *down_suffix, const char *beside)
{
    char name[4][200];
    safetensors_source t[4];
    for (int i = 0; i < O * RANK; i++) up[i] = (float)(i - 2) / 4;
    for (int i = 0; i < RANK * I; i++) down[i] = (float)(3 - i) / 2;
    alpha_number = (float)alpha;
    snprintf(name[0], sizeof *name, "%s%s", stem, up_suffix);
    snprintf(name[1], sizeof *name, "%s%s", stem, down_suffix);
    snprintf(name[2], sizeof *name, "%s.alpha", stem);
    snprintf(name[3], sizeof *name, "%s.diff_b", beside ? beside : stem);
    t[0] = (safetensors_source){.name = name[0], .dtype = KILN_F32, DIMS(O, RANK), .data = up};
    t[1] = (safetensors_source){.name = name[1], .dtype = KILN_F32, DIMS(RANK, I), .data = down};
    t[2] = (safetensors_source){.name = name[2], .dtype = KILN_F32, DIMS(1), .data = &alpha_number};
    t[3] = (safetensors_source){.name = name[3], .dtype = KILN_F32, DIMS(1), .data = &alpha_number};
    return put_tensors("pair.safetensors", t, beside ? 4 : 3);
}

typedef struct {
    kiln_status status;
    kiln_value *control;
    char why[1024];
} put_control;

static put_control put(const char *path, double how_much, kiln_value *on)
{
    const kiln_node *node = &node_lora_loader_control_net;
    static _Alignas(16) char params[64];
    put_control r = {0};
    error e = {0};
    kiln_value *in[] = {on}, *out[1] = {NULL};
    memcpy(params + node->param[0].offset, &path, sizeof path);
    memcpy(params + node->param[1].offset, &how_much, sizeof how_much);
    rig_ctx();
    r.status = ctx_call(&rig_environment, 0, node->type, "lora", node, NULL, params, in, out, &e);
    r.control = out[0];
    snprintf(r.why, sizeof r.why, "%s", e.message);
    return r;
}

/* The module is patched, and no other one is. */
static void check_patched(const kiln_value *v, const char *module, const char *what)
{
    kiln_weights *set = models()->net(rig_ctx(), v, "CONTROL_NET")->weights;
    for (size_t m = 0; m < MODULES; m++) {
        char name[100];
        float got[O * I];
        error e = {0};
        snprintf(name, sizeof name, "%s.weight", modules[m]);
        if (!CHECK_MSG(weights_read_f32(set, name, got, &e) == KILN_OK, "%s", e.message)) return;
        for (int o = 0; o < O; o++)
            for (int i = 0; i < I; i++) {
                double sum = 0, w = (o * I + i + 1) / 8.0;
                for (int r = 0; r < RANK; r++) sum += (double)up[o * RANK + r] * (double)down[r * I + i];
                if (strcmp(modules[m], module) == 0) w += strength * alpha / RANK * sum;
                CHECK_MSG(fabs((double)got[o * I + i] - w) < 1e-6, "%s: %s[%d][%d] is %g and not %g", what, name, o, i,
                          (double)got[o * I + i], w);
            }
    }
}

static void test_every_name_of_a_module(void)
{
    static const struct {
        const char *stem, *up, *down, *module;
    } rows[] = {
        {"lora_controlnet_controlnet_cond_embedding_conv_in", ".lora_up.weight", ".lora_down.weight", modules[0]},
        {"lora_controlnet_input_hint_block_0", ".lora_up.weight", ".lora_down.weight", modules[0]},
        {"lora_unet_input_hint_block_2", ".lora_up.weight", ".lora_down.weight", modules[1]},
        {"controlnet.controlnet_cond_embedding.blocks.1", ".lora_B.weight", ".lora_A.weight", modules[2]},
        {"lora_controlnet_input_hint_block_6", ".lora_up.weight", ".lora_down.weight", modules[3]},
        {"base_model.model.controlnet_down_blocks.2", ".lora_B.weight", ".lora_A.weight", modules[4]},
        {"lora_controlnet_zero_convs_2_0", ".lora_up.weight", ".lora_down.weight", modules[4]},
        {"controlnet.base_model.model.controlnet_mid_block", ".lora_B.default.weight", ".lora_A.default.weight",
         modules[5]},
        {"lora_unet_middle_block_out_0", ".lora_up.weight", ".lora_down.weight", modules[5]},
        {"lora_unet_down_blocks_0_resnets_0_conv1", ".lora_up.weight", ".lora_down.weight", modules[6]},
        {"lora_controlnet_input_blocks_1_0_in_layers_2", ".lora_up.weight", ".lora_down.weight", modules[6]},
        {"diffusion_model.time_embed.0", ".lora_B.weight", ".lora_A.weight", modules[7]},
        {"unet.time_embedding.linear_1", ".lora_B.weight", ".lora_A.weight", modules[7]},
    };
    kiln_value *control = control_of(&network);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_control r = put(lora_called(rows[i].stem, rows[i].up, rows[i].down, NULL), strength, control);
        if (CHECK_MSG(r.status == KILN_OK, "%s: %s", rows[i].stem, r.why))
            check_patched(r.control, rows[i].module, rows[i].stem);
        value_unref(r.control);
    }
    put_control none = put(lora_called(rows[0].stem, rows[0].up, rows[0].down, NULL), 0, control);
    CHECK(none.control == control);
    value_unref(none.control);
    value_unref(control);
}

/* A file that names ControlNets has what it says of UNets for the UNet. */
static void test_what_is_for_the_unet_stays_there(void)
{
    kiln_value *control = control_of(&network);
    put_control r = put(lora_called("lora_controlnet_controlnet_mid_block", ".lora_up.weight", ".lora_down.weight",
                                    "lora_unet_time_embedding_linear_1"),
                        strength, control);
    if (CHECK_MSG(r.status == KILN_OK, "%s", r.why)) check_patched(r.control, "controlnet_mid_block", "both");
    value_unref(r.control);
    value_unref(control);
}

static void check_refused(put_control r, const char *part)
{
    CHECK_MSG(r.status != KILN_OK && strstr(r.why, part), "'%s' does not say '%s'", r.why, part);
    value_unref(r.control);
}

static void test_what_is_refused(void)
{
    kiln_value *control = control_of(&network), *change = control_of(&control_lora);
    check_refused(put(lora_called("lora_unet_nowhere", ".lora_up.weight", ".lora_down.weight", NULL), 1, control),
                  "fits this model; the first is 'lora_unet_nowhere.lora_up.weight'");
    check_refused(
        put(lora_called("lora_controlnet_controlnet_mid_block", ".lora_up.weight", ".nothing", NULL), 1, control),
        "lora_controlnet_controlnet_mid_block.lora_up.weight");
    check_refused(
        put(lora_called("lora_unet_controlnet_mid_block", ".lora_up.weight", ".lora_down.weight", NULL), 1, change),
        "is a Control-LoRA");
    value_unref(control), value_unref(change);
    if (!open_base()) return;
    lora_refused(
        put_lora(lora_called("lora_controlnet_controlnet_mid_block", ".lora_up.weight", ".lora_down.weight", NULL), 1,
                 1, base_model, base_clip),
        "it is for a ControlNet", "LoraLoaderControlNet");
    close_base();
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_name_of_a_module),
        CASE(test_what_is_for_the_unet_stays_there),
        CASE(test_what_is_refused),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
