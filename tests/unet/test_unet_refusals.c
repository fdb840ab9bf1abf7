/* test_unet_refusals.c - what is said of a UNet whose tensors do not fit one another, or its config.json. */
#include "unet_kinds_kit.h"

#include <jansson.h>

/* Nothing is computed here: names and shapes will do. */
static formula_file *holes_of(const char *kind)
{
    formula_file *f = tensors_of(kind);
    f->of = NULL;
    return f;
}

/* Records it with all inputs; the program's error, or "". */
static const char *recording_error(const kiln_model *m)
{
    static char text[1000];
    const kiln_denoiser *d = m->denoiser;
    const char *message = NULL;
    piece c = piece_new(KILN_F32);
    kiln_named_tensor named[12];
    kiln_denoise_inputs in = {.size = sizeof in, .input = named, .n_input = d->n_input};
    in.x = c.ops->input(c.p, "x", KILN_F32, 4, KILN_DIMS(1, 8, 8, 4));
    in.timestep = c.ops->input(c.p, "t", KILN_F32, 1, KILN_DIMS(1));
    for (uint32_t i = 0; i < d->n_input; i++) {
        kiln_input_spec s = kiln_input_spec_at(d->input, d->input_stride, i);
        uint32_t rank = s.kind == KILN_INPUT_SCALAR ? 1 : s.kind == KILN_INPUT_TOKENS ? 3 : 2;
        named[i] = (kiln_named_tensor){.size = sizeof *named, .name = s.name};
        named[i].tensor =
            c.ops->input(c.p, s.name, KILN_F32, rank, rank == 3 ? KILN_DIMS(1, 1, s.width) : KILN_DIMS(1, s.width, 0));
    }
    d->record(d, c.ops, c.p, m->weights, &in);
    c.ops->error(c.p, &message);
    snprintf(text, sizeof text, "%s", message ? message : "");
    c.ops->program_free(c.p);
    return text;
}

/* Opens and records; `wanted` stands in the first message there is. "": it works. */
static void check_says(kiln_weights *set, const char *what, const char *wanted)
{
    kiln_value *v = set ? unet_family.open(rig_host(), rig_ctx(), set) : NULL;
    char opened[1200];
    snprintf(opened, sizeof opened, "%s", v ? "" : rig_message());
    const char *said = v ? recording_error(model_of(v)) : opened;
    CHECK_MSG(*wanted ? strstr(said, wanted) != NULL : !*said, "%s: '%s' does not say '%s'", what, said, wanted);
    rig_host()->unref(v);
    weights_unref(set);
}

/* ---- tensors ---- */

static formula_tensor *find_tensor(formula_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensor[i].name, name) == 0) return &f->tensor[i];
    CHECK_MSG(0, "no %s", name);
    return &f->tensor[0];
}

static void test_M7_a_missing_tensor_is_named(void)
{
    static const char *const names[] = {"conv_in.bias",
                                        "add_embedding.linear_2.weight",
                                        "down_blocks.1.attentions.0.norm.weight",
                                        "down_blocks.2.attentions.0.transformer_blocks.1.norm1.weight",
                                        "down_blocks.2.attentions.1.transformer_blocks.1.attn2.to_k.weight",
                                        "up_blocks.0.attentions.2.transformer_blocks.0.ff.net.2.bias",
                                        "up_blocks.1.resnets.0.conv1.weight",
                                        "mid_block.resnets.1.conv2.bias",
                                        "down_blocks.1.resnets.0.conv1.weight",
                                        "up_blocks.0.upsamplers.0.conv.weight",
                                        "down_blocks.0.downsamplers.0.conv.bias"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        formula_file *f = holes_of("base");
        *find_tensor(f, names[i]) = f->tensor[f->n - 1];
        f->n--;
        check_says(open_kind("base", f), names[i], names[i]);
    }
}

static void test_a_misshapen_tensor_is_named(void)
{
    static const struct {
        const char *name, *wanted;
        int64_t dim;
    } rows[] = {{"down_blocks.0.resnets.0.conv1.weight", "'block_out_channels' says 64, and the weights have 32", 32},
                {"down_blocks.2.resnets.1.conv1.weight", "down_blocks.2.resnets.1.conv1.weight", 32},
                {"mid_block.attentions.0.transformer_blocks.0.attn1.to_q.weight", "attn1.to_q.weight", 32},
                {"add_embedding.linear_1.weight", "add_embedding.linear_1.weight", 32}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        formula_file *f = holes_of("base");
        find_tensor(f, rows[i].name)->dim[0] = rows[i].dim;
        check_says(open_kind("base", f), rows[i].name, rows[i].wanted);
    }
    formula_file *f = holes_of("base");
    find_tensor(f, "conv_in.weight")->dim[1] = 6;
    check_says(open_kind("base", f), "conv_in", "6 channels in and 4 out");
}

/* A tensor that is not a UNet's own: blocks that nothing leads to. */
static void test_counts_that_do_not_fit(void)
{
    static const struct {
        const char *more, *wanted;
    } rows[] = {
        {"up_blocks.3.resnets.0.norm1.weight 64", "3 down blocks and 4 up blocks"},
        {"up_blocks.1.resnets.3.norm1.weight 64", "up block 1 has 4 resnets"},
        {"down_blocks.2.attentions.2.norm.weight 64", "down block 2 has attention 2 without transformer blocks"},
        {"down_blocks.12.resnets.0.norm1.weight 64", "larger than this plugin reads"},
        {"down_blocks.0.attentions.0.transformer_blocks.0.norm1.weight 64",
         "entry 0 of 'down_block_types' is DownBlock2D"},
        {"mid_block.resnets.2.norm1.weight 64", "the middle block has 3 resnets"},
        {"class_embedding.weight 10 256", "both classes and sizes"},
        {"down_blocks.2.attentions.1.transformer_blocks.2.norm1.weight 128",
         "'transformer_layers_per_block' says 2, and the weights have 3"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        formula_file *f = holes_of("base");
        formula_add(f, rows[i].more);
        check_says(open_kind("base", f), rows[i].more, rows[i].wanted);
    }
}

/* ---- config.json ---- */

/* Opens the kind with one entry of a file set to `json`. */
static kiln_weights *open_changed(const char *kind, const char *file, const char *key, const char *json)
{
    char folder[300], path[400];
    error e = {0};
    kiln_weights *first = open_kind(kind, holes_of(kind));
    kiln_weight_info info = {.size = sizeof info};
    weights_at(first, 0, &info);
    snprintf(folder, sizeof folder, "%.*s", (int)(strstr(info.file, "/unet/") - info.file), info.file);
    weights_unref(first);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    json_t *root = json_load_file(path, 0, NULL);
    json_object_set_new(root, key, json_loads(json, JSON_DECODE_ANY, NULL));
    CHECK_EQ(json_dump_file(root, path, 0), 0);
    json_decref(root);
    kiln_weights *w = weights_open(folder, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static void test_a_config_that_contradicts_the_weights(void)
{
    static const struct {
        const char *kind, *key, *json, *wanted;
    } rows[] = {
        {"base", "cross_attention_dim", "64", "'cross_attention_dim' says 64, and the weights have 96"},
        {"base", "layers_per_block", "1", "'layers_per_block' says 1, and the weights have 2"},
        {"base", "block_out_channels", "[64,128]", "'block_out_channels' says 2, and the weights have 3"},
        {"base", "transformer_layers_per_block", "[1,1,3]", "'transformer_layers_per_block' says 3"},
        {"base", "in_channels", "9", "'in_channels' says 9, and the weights have 4"},
        {"base", "addition_embed_type", "null", "'addition_embed_type' says 0"},
        {"base", "addition_embed_type", "\"image\"", "only text_time is supported"},
        {"base", "projection_class_embeddings_input_dim", "100", "'projection_class_embeddings_input_dim' says 100"},
        {"base", "addition_time_embed_dim", "300", "leaves nothing for the prompt"},
        {"base", "attention_head_dim", "[1,1,3]", "no multiple of its 3 heads"},
        {"base", "norm_num_groups", "48", "no multiple of its 48 groups"},
        {"base", "mid_block_type", "\"UNetMidBlock2DSimpleCrossAttn\"", "'mid_block_type' is"},
        {"base", "down_block_types", "[\"DownBlock2D\",\"CrossAttnDownBlock2D\",\"AttnDownBlock2D\"]",
         "entry 2 of 'down_block_types' is 'AttnDownBlock2D'"},
        {"base", "act_fn", "\"gelu\"", "'act_fn' is \"gelu\""},
        {"base", "encoder_hid_dim", "5", "'encoder_hid_dim' is 5"},
        {"base", "class_embed_type", "\"timestep\"", "only projection is supported"},
        {"base", "time_cond_proj_dim", "5", "'time_cond_proj_dim' says 5"},
        {"base", "only_cross_attention", "true", "'only_cross_attention' says 1"},
        {"ssd", "reverse_transformer_layers_per_block", "null", "'transformer_layers_per_block' says"},
        {"ssd", "mid_block_type", "\"UNetMidBlock2DCrossAttn\"", "'mid_block_type' is"},
        {"sd2", "num_class_embeds", "10", "'num_class_embeds' says 10"},
        {"sd2", "upcast_attention", "true", ""},
        {"sd2", "use_linear_projection", "false", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_says(open_changed(rows[i].kind, "unet/config.json", rows[i].key, rows[i].json), rows[i].key,
                   rows[i].wanted);
}

static void test_a_scheduler_that_cannot_be(void)
{
    static const struct {
        const char *key, *json, *wanted;
    } rows[] = {{"prediction_type", "\"flow_prediction\"", "'prediction_type' is 'flow_prediction'"},
                {"rescale_betas_zero_snr", "true", ""},
                {"beta_schedule", "\"squaredcos_cap_v2\"", "'beta_schedule' is 'squaredcos_cap_v2'"},
                {"trained_betas", "[0.1]", "'trained_betas'"},
                {"beta_end", "0.0001", "'beta_end' is below"},
                {"timestep_spacing", "\"trailing\"", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_says(open_changed("sd2", "scheduler/scheduler_config.json", rows[i].key, rows[i].json), rows[i].key,
                   rows[i].wanted);
    check_says(open_changed("base", "scheduler/scheduler_config.json", "rescale_betas_zero_snr", "true"), "zsnr of eps",
               "the noise tells nothing");
}

/* A single file of another size than those that were released brings its config.json in its metadata. */
static void test_M9_a_single_file_may_bring_its_config(void)
{
    static const struct {
        const char *metadata, *wanted;
    } rows[] = {
        {NULL, "level 0 has 32 channels, which heads as released models have them do not divide"},
        {"\"__metadata__\":{\"unet_config\":\"{\\\"attention_head_dim\\\": 8}\"}", ""},
        {"\"__metadata__\":{\"unet_config\":\"{\\\"attention_head_dim\\\": 5}\"}", "no multiple of its 5 heads"},
        {"\"__metadata__\":{\"unet_config\":\"{\"}", "not valid JSON"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        formula_file *f = holes_of("lcm");
        for (size_t k = 0; k < f->n; k++) { /* linear projections, as SD2 has */
            formula_tensor *t = &f->tensor[k];
            if (strstr(t->name, ".proj_") && t->rank == 4) t->rank = 2;
            formula_rename(t, "unet.");
        }
        check_says(open_single("small", f, rows[i].metadata), "unet_config", rows[i].wanted);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_M7_a_missing_tensor_is_named), CASE(test_a_misshapen_tensor_is_named),
        CASE(test_counts_that_do_not_fit),       CASE(test_a_config_that_contradicts_the_weights),
        CASE(test_a_scheduler_that_cannot_be),   CASE(test_M9_a_single_file_may_bring_its_config)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
