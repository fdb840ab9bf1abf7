/* test_latent_ranks.c - the latent nodes on videos and sound: what is done to a picture is done to every frame alike,
 * arithmetic and batches take any rank, and a sound is refused where there is no height.
 */
#include "latent.h"
#include "node_kit.h"

/* A latent of these dimensions whose numbers all differ. */
static kiln_value *latent_of(uint32_t rank, const int64_t *dim, float first)
{
    float *cells;
    size_t n = 1;
    kiln_value *map = value_map(), *samples = tensor_of(rank, dim, NULL, &cells);
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    for (size_t i = 0; i < n; i++) cells[i] = first + (float)(i * 7919 % 1009) / 100;
    if (!CHECK_EQ(value_api.map_set(map, "samples", samples), KILN_OK)) exit(1);
    value_unref(samples);
    return map;
}
#define LATENT(first, ...)                                                                                             \
    latent_of((uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}, first)

static kiln_tensor samples_of(const made *m) { return view_of(value_api.map_get(m->out[0], "samples")); }

static int same_numbers(const kiln_tensor *a, const kiln_tensor *b)
{
    size_t n = 1, k = 1;
    for (uint32_t i = 0; i < a->rank; i++) n *= (size_t)a->dim[i];
    for (uint32_t i = 0; i < b->rank; i++) k *= (size_t)b->dim[i];
    return n == k && memcmp(a->data, b->data, n * sizeof(float)) == 0;
}

/* Two videos of three frames are, in memory, six pictures: the node has to make the same numbers of both. */
static void test_frames_are_treated_as_pictures(void)
{
    static const struct {
        const kiln_node *node;
        const char *settings;
        int64_t h, w;
    } rows[] = {
        {&node_latent_upscale, "upscale_method=bilinear; width=96; height=88; crop=center", 11, 12},
        {&node_latent_upscale, "upscale_method=bislerp; width=96; height=0", 9, 12},
        {&node_latent_upscale_by, "upscale_method=bicubic; scale_by=1.5", 14, 18},
        {&node_latent_flip, "flip_method=y-axis: horizontally", 9, 12},
        {&node_latent_rotate, "rotation=90 degrees", 12, 9},
        {&node_latent_crop, "width=64; height=64; x=16; y=8", 8, 8},
        {&node_latent_multiply, "multiplier=0.7", 9, 12},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_value *video = LATENT(0, 2, 3, 9, 12, 4), *pictures = LATENT(0, 6, 9, 12, 4);
        made of_video = node_with(rows[i].node, rows[i].settings, video, NULL, NULL);
        made of_pictures = node_with(rows[i].node, rows[i].settings, pictures, NULL, NULL);
        if (CHECK_MSG(of_video.status == KILN_OK && of_pictures.status == KILN_OK, "%s", of_video.why.message)) {
            kiln_tensor v = samples_of(&of_video), p = samples_of(&of_pictures);
            CHECK_MSG(v.rank == 5 && v.dim[0] == 2 && v.dim[1] == 3 && v.dim[2] == rows[i].h && v.dim[3] == rows[i].w &&
                          v.dim[4] == 4,
                      "%s %s: %lldx%lld", rows[i].node->type, rows[i].settings, (long long)v.dim[3],
                      (long long)v.dim[2]);
            CHECK_MSG(same_numbers(&v, &p), "%s %s: other numbers", rows[i].node->type, rows[i].settings);
        }
        made_free(&of_video), made_free(&of_pictures);
        value_unref(video), value_unref(pictures);
    }
}

static void test_arithmetic_of_any_rank(void)
{
    static const struct {
        const kiln_node *node;
        const char *settings;
    } rows[] = {{&node_latent_add, ""},
                {&node_latent_subtract, ""},
                {&node_latent_blend, "blend_factor=0.3"},
                {&node_latent_interpolate, "ratio=0.4"}};
    for (size_t i = 0; i < 4; i++) {
        kiln_value *a = LATENT(1, 2, 3, 4, 5, 4), *b = LATENT(9, 1, 3, 4, 5, 4), *c = LATENT(1, 2, 60, 4),
                   *d = LATENT(9, 1, 60, 4);
        made video = node_with(rows[i].node, rows[i].settings, a, b, NULL);
        made sound = node_with(rows[i].node, rows[i].settings, c, d, NULL);
        if (CHECK_MSG(video.status == KILN_OK && sound.status == KILN_OK, "%s", video.why.message)) {
            kiln_tensor v = samples_of(&video), s = samples_of(&sound);
            CHECK(v.rank == 5 && s.rank == 3 && same_numbers(&v, &s));
        }
        made_free(&video), made_free(&sound);
        made wrong = node_with(rows[i].node, rows[i].settings, a, c, NULL);
        CHECK(
            wrong.status == KILN_ERR_INVALID &&
            strstr(wrong.why.message, "samples1 is 2 of 3 frames of 5x4 cells, 4 channels and samples2 2 of 60 cells"));
        made_free(&wrong);
        value_unref(a), value_unref(b), value_unref(c), value_unref(d);
    }
}

static kiln_value *with_mask(kiln_value *latent, int64_t masks)
{
    float *cells;
    kiln_value *mask = tensor_of(3, (const int64_t[]){masks, 2, 2}, NULL, &cells);
    for (int64_t i = 0; i < masks * 4; i++) cells[i] = (float)i;
    CHECK_EQ(value_api.map_set(latent, "noise_mask", mask), KILN_OK);
    value_unref(mask);
    return latent;
}

static void test_batches_of_videos(void)
{
    kiln_value *several = with_mask(LATENT(0, 3, 2, 4, 5, 4), 6), *other = LATENT(50, 1, 2, 4, 5, 4);
    made part = node_with(&node_latent_from_batch, "batch_index=1; length=2", several, NULL, NULL);
    if (CHECK_MSG(part.status == KILN_OK, "%s", part.why.message)) {
        kiln_tensor all = view_of(value_api.map_get(several, "samples")), t = samples_of(&part);
        kiln_tensor mask = view_of(value_api.map_get(part.out[0], "noise_mask"));
        CHECK(t.rank == 5 && t.dim[0] == 2 && t.dim[1] == 2 &&
              memcmp(t.data, (float *)all.data + 160, 320 * sizeof(float)) == 0);
        CHECK(mask.dim[0] == 4 && ((float *)mask.data)[0] == 8); /* the frames' masks from the second video on */
    }
    made both = node_with(&node_latent_batch, "", several, other, NULL);
    CHECK(both.status == KILN_OK && samples_of(&both).dim[0] == 4 && samples_of(&both).rank == 5);
    made twice = node_with(&node_repeat_latent_batch, "amount=2", other, NULL, NULL);
    CHECK(twice.status == KILN_OK && samples_of(&twice).dim[0] == 2 && samples_of(&twice).dim[1] == 2);
    made_free(&part), made_free(&both), made_free(&twice);
    value_unref(several), value_unref(other);
}

static void test_pasting_onto_a_video(void)
{
    kiln_value *video = LATENT(0, 1, 3, 9, 9, 4), *frame = LATENT(50, 1, 1, 4, 4, 4), *two = LATENT(0, 1, 2, 4, 4, 4);
    made m = node_with(&node_latent_composite, "x=16; y=8", video, frame, NULL);
    if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
        kiln_tensor t = samples_of(&m), f = view_of(value_api.map_get(frame, "samples"));
        for (int64_t i = 0; i < 3; i++)
            CHECK(memcmp((float *)t.data + ((i * 9 + 1) * 9 + 2) * 4, f.data, 16 * sizeof(float)) == 0);
    }
    made wrong = node_with(&node_latent_composite, "", video, two, NULL);
    CHECK(wrong.status == KILN_ERR_INVALID && strstr(wrong.why.message, "a video of one frame or of as many"));
    made_free(&m), made_free(&wrong);
    value_unref(video), value_unref(frame), value_unref(two);
}

static void test_joining_and_cutting(void)
{
    kiln_value *a = LATENT(0, 2, 3, 4, 5, 4), *b = LATENT(50, 1, 2, 4, 5, 4), *picture = LATENT(0, 1, 4, 5, 4);
    made m = node_with(&node_latent_concat, "dim=-t", a, b, NULL);
    kiln_tensor whole = view_of(value_api.map_get(a, "samples")), added = view_of(value_api.map_get(b, "samples"));
    if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
        kiln_tensor t = samples_of(&m);
        CHECK(t.dim[0] == 2 && t.dim[1] == 5);
        CHECK(memcmp((float *)t.data + 400, added.data, 160 * sizeof(float)) == 0); /* repeated for the second video */
        CHECK(memcmp((float *)t.data + 560, (float *)whole.data + 240, 240 * sizeof(float)) == 0);
        made back = node_with(&node_latent_cut, "dim=t; index=-3; amount=9", m.out[0], NULL, NULL);
        kiln_tensor cut = samples_of(&back);
        CHECK(back.status == KILN_OK && same_numbers(&cut, &whole));
        made_free(&back);
    }
    made_free(&m);
    m = node_with(&node_latent_concat, "dim=x", picture, picture, NULL);
    CHECK(m.status == KILN_OK && samples_of(&m).dim[2] == 10 && ((float *)samples_of(&m).data)[20] == 0);
    made_free(&m);
    m = node_with(&node_latent_concat, "dim=x", a, picture, NULL);
    CHECK(m.status == KILN_ERR_INVALID && strstr(m.why.message, "alike but for what they are joined along"));
    made_free(&m);
    m = node_with(&node_latent_cut, "dim=t", picture, NULL, NULL);
    CHECK(m.status == KILN_ERR_INVALID &&
          strstr(m.why.message, "(1 of 5x4 cells, 4 channels) has no time to go along"));
    made_free(&m);
    value_unref(a), value_unref(b), value_unref(picture);
}

static void test_a_sound_has_no_height(void)
{
    const kiln_node *const nodes[] = {&node_latent_upscale, &node_latent_upscale_by, &node_latent_flip,
                                      &node_latent_rotate,  &node_latent_crop,       &node_latent_composite};
    kiln_value *sound = LATENT(0, 1, 60, 8);
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        made m = node_with(nodes[i], "", sound, sound, NULL);
        CHECK_MSG(m.status == KILN_ERR_INVALID && strstr(m.why.message, "the latent has no height"), "%s: %s",
                  nodes[i]->type, m.why.message);
        made_free(&m);
    }
    value_unref(sound);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_frames_are_treated_as_pictures), CASE(test_arithmetic_of_any_rank), CASE(test_batches_of_videos),
        CASE(test_pasting_onto_a_video),           CASE(test_joining_and_cutting),    CASE(test_a_sound_has_no_height),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
