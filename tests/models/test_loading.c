/* test_loading.c - "kiln.loading/1" as a plugin of somebody else uses it: one part or all of a folder, a set instead of
 * a path, what is refused, and check() of a value that a loader of its own has opened.
 */
#include "golden_kit.h"

#include "base/memory_alloc.h"
#include "kiln/loading.h"
#include "plugin/abilities.h"
#include "tensor/value.h"

#include <dlfcn.h>

static void load_plugin(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/plugins/kiln-%s.so", test_build(), name);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kiln_plugin *p = so ? dlsym(so, "kiln_plugin_v1") : NULL;
    if (!CHECK_MSG(p != NULL, "%s", dlerror())) return;
    registry_owner_set(name, NULL);
    if (p->open) CHECK_EQ(p->open(rig_host()), KILN_OK);
    registry_owner_set(NULL, NULL);
}

static const kiln_loading_api *loading(void) { return rig_host()->ability(KILN_LOADING_ABILITY); }

static kiln_call call_of(kiln_ctx *ctx)
{
    return (kiln_call){.size = sizeof(kiln_call), .device = KILN_CPU, .host = rig_host(), .ctx = ctx};
}

static const char *const all[] = {KILN_FAMILY_AUTOENCODER, KILN_FAMILY_DENOISER, KILN_FAMILY_TEXT_ENCODER};
enum { ALL = 3 };

static kiln_status load_from(kiln_weights *set, const char *path, uint32_t flags, kiln_value **out)
{
    kiln_call c = call_of(rig_ctx());
    const kiln_load what = {.size = sizeof what, .flags = flags, .path = path, .set = set, .kind = all, .n = ALL};
    for (size_t i = 0; i < ALL; i++) out[i] = (kiln_value *)1; /* is set in every case */
    return loading()->load(&c, &what, out);
}

static void drop(kiln_value **out)
{
    for (size_t i = 0; i < ALL; i++) rig_host()->unref(out[i]);
}

static const char *tiny_path(void)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/tiny-sd1", test_root());
    return path;
}

/* tiny-sd1 without the tensors that begin so: a rule comes first that gives them another name. */
static kiln_weights *tiny_without(const char *from)
{
    const kiln_weight_rule rules[] = {KILN_RULE(.from = from, .to = "gone/*"), KILN_RULE(.from = "*", .to = "*")};
    kiln_weights *all_of = weights_open(tiny_path(), NULL),
                 *view = all_of ? weights_view(all_of, rules, 2, NULL) : NULL;
    weights_unref(all_of);
    return view;
}

static void test_parts_in_the_order_asked_for(void)
{
    static const char *const types[] = {"VAE", "MODEL", "CLIP"};
    kiln_value *out[ALL];
    REQUIRE(loading());
    if (!CHECK_MSG(load_from(NULL, tiny_path(), 0, out) == KILN_OK, "%s", rig_message())) return;
    for (size_t i = 0; i < ALL; i++) CHECK_STR(value_api.object_type(out[i]), types[i]);
    for (size_t i = 0; i < ALL; i++) {
        kiln_call c = call_of(rig_ctx());
        CHECK_EQ(loading()->check(&c, all[i], out[i]), KILN_OK);
    }
    kiln_call c = call_of(rig_ctx());
    CHECK_EQ(loading()->check(&c, KILN_FAMILY_DENOISER, out[0]), KILN_ERR_INVALID);
    CHECK(strstr(rig_message(), "a value of kind 'denoiser' is a MODEL; this is a VAE") != NULL);
    drop(out);
}

static void test_a_part_that_is_not_there(void)
{
    kiln_value *out[ALL];
    kiln_weights *set = tiny_without("vae/*");
    REQUIRE(set);
    CHECK_EQ(load_from(set, NULL, 0, out), KILN_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(rig_message(), "no loaded plugin knows an autoencoder in it") != NULL, "%s", rig_message());
    CHECK(!out[0] && !out[1] && !out[2]);
    CHECK_EQ(load_from(set, NULL, KILN_LOAD_OPTIONAL, out), KILN_OK);
    CHECK(!out[0] && out[1] && out[2]);
    drop(out);
    weights_unref(set);
}

static void test_a_tensor_that_is_not_there(void)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *out[ALL];
    kiln_weights *set = tiny_without("unet/mid_block.resnets.0.conv1.weight*");
    REQUIRE(set);
    CHECK_EQ(load_from(set, NULL, KILN_LOAD_OPTIONAL, out), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "no tensor '") != NULL, "%s", rig_message());
    CHECK(!out[0] && !out[1] && !out[2]);

    /* A loader of somebody's own opens it without a look, and asks. */
    const kiln_model_family *f = models->detect(KILN_FAMILY_DENOISER, set);
    kiln_value *model = f ? f->open(rig_host(), rig_ctx(), set) : NULL;
    REQUIRE(model);
    kiln_call c = call_of(rig_ctx());
    CHECK_EQ(loading()->check(&c, KILN_FAMILY_DENOISER, model), KILN_ERR_INVALID);
    CHECK(strstr(rig_message(), "no tensor '") != NULL);
    rig_host()->unref(model);
    weights_unref(set);
}

/* A look that is short of memory says so, whichever allocation it is that fails. */
static void test_a_look_without_memory(void)
{
    kiln_value *out[ALL];
    REQUIRE(load_from(NULL, tiny_path(), 0, out) == KILN_OK);
    for (size_t i = 0; i < ALL; i++) {
        kiln_call c = call_of(rig_ctx());
        mem_fail_at(-1, 0);
        CHECK_EQ(loading()->check(&c, all[i], out[i]), KILN_OK);
        int64_t n = mem_count(), failed = 0;
        for (int64_t k = 0; k < n; k += 1 + k / 16) {
            c = call_of(rig_ctx());
            mem_fail_at(k, 0);
            kiln_status status = loading()->check(&c, all[i], out[i]);
            mem_fail_at(-1, 0);
            CHECK_MSG(status == KILN_OK || status == KILN_ERR_NOMEM, "allocation %lld: %d %s", (long long)k,
                      (int)status, rig_message());
            failed += status != KILN_OK;
        }
        CHECK_MSG(failed > 4, "%lld of %lld allocations failed", (long long)failed, (long long)n);
    }
    drop(out);
}

static void test_nothing_to_load_from(void)
{
    kiln_value *out[ALL];
    CHECK_EQ(load_from(NULL, NULL, 0, out), KILN_ERR_INVALID);
    CHECK(!out[0] && !out[1] && !out[2]);
    CHECK_EQ(load_from(NULL, tiny_path(), KILN_LOAD_EMA, out), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "there are no averaged weights") != NULL, "%s", rig_message());
}

static void test_tensors_that_nobody_misses(void)
{
    CHECK(loading()->needless("text_model.embeddings.position_ids") && loading()->needless("model_ema.decay"));
    CHECK(!loading()->needless("conv_in.weight") && !loading()->needless("model_emacs"));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_parts_in_the_order_asked_for), CASE(test_a_part_that_is_not_there),
        CASE(test_a_tensor_that_is_not_there),   CASE(test_nothing_to_load_from),
        CASE(test_tensors_that_nobody_misses),   CASE(test_a_look_without_memory),
    };
    static const char *const names[] = {"tokenizer", "clip", "unet", "vae", "loader"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) load_plugin(names[i]);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
