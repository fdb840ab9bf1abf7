/* test_inpaint_conditioning.c - what InpaintModelConditioning and InstructPixToPixConditioning put into a conditioning,
 * on tiny-sd1's autoencoder: the bytes of VAEEncodeForInpaint and VAEEncode, which are compared with others' elsewhere.
 */
#include "golden_kit.h"

#include "kiln/model.h"
#include "vae_family.h"
#include "vae_nodes.h"

enum {
    H = 21,
    W = 27,
    ROWS = 16,
    COLUMNS = 24,
    TOP = 2,
    LEFT = 1
}; /* of a picture, and of its middle that is encoded */

static kiln_weights *weights;
static kiln_value *vae;

static const kiln_value_api *values(void) { return rig_host()->ability(KILN_VALUE_ABILITY); }
static void drop(kiln_value *v) { rig_host()->unref(v); }

static kiln_tensor view_of(const kiln_value *v)
{
    kiln_tensor t = {.size = sizeof t};
    if (!CHECK(v && rig_host()->view(rig_ctx(), v, &t) == KILN_OK)) exit(1);
    return t;
}

static kiln_value *tensor_of(uint32_t rank, const int64_t *dim)
{
    kiln_value *v = rig_host()->tensor_new(NULL, KILN_F32, KILN_CPU, rank, dim);
    if (!CHECK(v != NULL)) exit(1);
    return v;
}

static kiln_value *picture(int64_t n)
{
    kiln_value *v = tensor_of(4, (const int64_t[]){n, H, W, 3});
    kiln_tensor t = view_of(v);
    for (int64_t i = 0; i < n * H * W * 3; i++) ((float *)t.data)[i] = (float)((i * 7919) % 256) / 255;
    return v;
}

/* n masks, of half the picture's height: soft from left to right, the second one from right to left. */
static kiln_value *mask(int64_t n)
{
    enum { MH = H / 2 };
    kiln_value *v = tensor_of(3, (const int64_t[]){n, MH, W});
    kiln_tensor t = view_of(v);
    for (int64_t i = 0; i < n * MH * W; i++) {
        float x = (float)(i % W) / (W - 1);
        ((float *)t.data)[i] = i / (MH * W) ? 1 - x : x;
    }
    return v;
}

static kiln_value *text(int64_t number)
{
    kiln_value *list = values()->new_list(NULL);
    for (int64_t i = 0; i < 2; i++) {
        kiln_value *entry = values()->new_map(NULL), *tokens = values()->new_int(NULL, number + i);
        values()->map_set(entry, "tokens", tokens), values()->list_push(list, entry);
        drop(tokens), drop(entry);
    }
    return list;
}

static kiln_status call(const kiln_node *node, const void *params, kiln_value *const *in, kiln_value **out)
{
    memset(out, 0, 3 * sizeof *out);
    kiln_call c = {.size = sizeof c,
                   .device = KILN_CPU,
                   .host = rig_host(),
                   .ctx = rig_ctx(),
                   .params = params,
                   .in = in,
                   .out = out};
    return node->run(&c);
}

static void open_all(void)
{
    if (vae) return;
    weights = open_weights("tests/golden/tiny-sd1");
    vae = weights ? vae_family.open(rig_host(), rig_ctx(), weights) : NULL;
    if (!CHECK_MSG(vae != NULL, "%s", rig_message())) exit(1);
}

static int same_tensor(const kiln_value *a, const kiln_value *b)
{
    kiln_tensor x = view_of(a), y = view_of(b);
    size_t n = sizeof(float);
    if (x.rank != y.rank || memcmp(x.dim, y.dim, x.rank * sizeof *x.dim) != 0) return 0;
    for (uint32_t i = 0; i < x.rank; i++) n *= (size_t)x.dim[i];
    return memcmp(x.data, y.data, n) == 0;
}

static const kiln_value *samples(const kiln_value *latent) { return values()->map_get(latent, "samples"); }

/* Both entries have what they had, and `item` under the key. */
static void check_entries(const kiln_value *list, int64_t tokens, const char *key, const kiln_value *item)
{
    int64_t number = 0;
    CHECK_EQ(values()->count(list), 2);
    for (size_t i = 0; i < 2; i++) {
        const kiln_value *entry = values()->list_at(list, i), *have = values()->map_get(entry, key);
        CHECK_EQ(values()->get_int(values()->map_get(entry, "tokens"), &number), KILN_OK);
        CHECK_EQ(number, tokens + (int64_t)i);
        CHECK_MSG(have && same_tensor(have, item), "entry %zu: '%s' is not what it should be", i, key);
    }
}

static void test_inpaint(void)
{
    struct {
        int64_t grow;
    } none = {0};
    struct {
        int32_t from;
        uint64_t seed;
    } mean = {0};
    open_all();
    for (int64_t n = 1; n < 3; n++) {
        kiln_value *image = picture(n), *m = mask(n), *yes = text(5), *no = text(9), *hole[3], *whole[3], *out[3];
        kiln_value *in[] = {yes, no, vae, image, m}, *plain[] = {image, vae, m};
        if (!CHECK_MSG(call(&node_vae_encode_inpaint, &none, plain, hole) == KILN_OK, "%s", rig_message()) ||
            !CHECK_EQ(call(&node_vae_encode, &mean, plain, whole), KILN_OK))
            exit(1);
        for (int32_t with_mask = 0; with_mask < 2; with_mask++) {
            if (!CHECK_MSG(call(&node_inpaint_conditioning, &with_mask, in, out) == KILN_OK, "%s", rig_message()))
                exit(1);
            CHECK(!same_tensor(samples(hole[0]), samples(whole[0])));
            CHECK(same_tensor(samples(out[2]), samples(whole[0])));
            check_entries(out[0], 5, "concat_latent_image", samples(hole[0]));
            check_entries(out[1], 9, "concat_latent_image", samples(hole[0]));
            const kiln_value *given = values()->map_get(values()->list_at(out[0], 0), "concat_mask");
            check_entries(out[1], 9, "concat_mask", given);
            kiln_tensor t = view_of(given);
            CHECK(t.rank == 3 && t.dim[0] == n && t.dim[1] == ROWS && t.dim[2] == COLUMNS);
            for (int x = 0; x < COLUMNS; x++) /* soft, and the part that is encoded */
                CHECK_NEAR((double)((const float *)t.data)[x], (double)(x + LEFT) / (W - 1), 1e-6);
            const kiln_value *noise = values()->map_get(out[2], "noise_mask");
            CHECK_EQ(noise != NULL, with_mask);
            if (noise) CHECK(same_tensor(noise, given));
            drop(out[0]), drop(out[1]), drop(out[2]);
        }
        drop(hole[0]), drop(whole[0]), drop(image), drop(m), drop(yes), drop(no);
    }
}

static void test_instruct(void)
{
    struct {
        int32_t from;
        uint64_t seed;
    } mean = {0};
    open_all();
    kiln_value *image = picture(2), *yes = text(5), *no = text(9), *whole[3], *out[3];
    kiln_value *in[] = {yes, no, vae, image}, *plain[] = {image, vae};
    CHECK_EQ(call(&node_vae_encode, &mean, plain, whole), KILN_OK);
    if (!CHECK_MSG(call(&node_instruct_conditioning, NULL, in, out) == KILN_OK, "%s", rig_message())) exit(1);
    check_entries(out[0], 5, "concat_latent_image", samples(whole[0]));
    check_entries(out[1], 9, "concat_latent_image", samples(whole[0]));
    CHECK(!values()->map_get(values()->list_at(out[0], 0), "concat_mask"));
    kiln_tensor t = view_of(samples(out[2])), want = view_of(samples(whole[0]));
    CHECK(t.rank == 4 && memcmp(t.dim, want.dim, 4 * sizeof *t.dim) == 0);
    for (int64_t i = 0; i < t.dim[0] * t.dim[1] * t.dim[2] * t.dim[3]; i++) CHECK(((const float *)t.data)[i] == 0);
    drop(out[0]), drop(out[1]), drop(out[2]), drop(whole[0]), drop(image), drop(yes), drop(no);
}

static void test_masks_that_do_not_fit(void)
{
    int32_t with_mask = 1;
    open_all();
    kiln_value *image = picture(1), *m = mask(2), *yes = text(5), *no = text(9), *out[3];
    kiln_value *in[] = {yes, no, vae, image, m};
    CHECK_EQ(call(&node_inpaint_conditioning, &with_mask, in, out), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "2 masks for 1 pictures") != NULL, "%s", rig_message());
    CHECK(!out[0] && !out[1] && !out[2]);
    drop(image), drop(m), drop(yes), drop(no);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_inpaint), CASE(test_instruct), CASE(test_masks_that_do_not_fit)};
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    if (vae) drop(vae);
    weights_unref(weights);
    return status;
}
