/* test_latent_frames.c - EmptySD3LatentImage, LatentCutToBatch, ReplaceVideoLatentFrames: numbers that say where they
 * were, and where they are then. */
#include "node_kit.h"

#include "latent.h"

/* A latent of these samples, each number its place: 10000 picture + 1000 frame + 100 row + 10 column + channel. */
static kiln_value *latent_of(uint32_t rank, const int64_t *dim, int plus)
{
    float *v;
    kiln_value *samples = tensor_of(rank, dim, NULL, &v), *latent = value_api.new_map(NULL);
    int64_t d[5] = {dim[0], rank > 4 ? dim[1] : 1, rank > 3 ? dim[rank - 3] : 1, dim[rank - 2], dim[rank - 1]};
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3] * d[4]; i++) {
        int64_t ch = i % d[4], x = i / d[4] % d[3], y = i / d[4] / d[3] % d[2], t = i / d[4] / d[3] / d[2] % d[1],
                n = i / d[4] / d[3] / d[2] / d[1];
        v[i] = (float)(plus + 10000 * n + 1000 * t + 100 * y + 10 * x + ch);
    }
    value_api.map_set(latent, "samples", samples);
    value_unref(samples);
    return latent;
}

static kiln_tensor samples_of(const made *m)
{
    return view_of((kiln_value *)(size_t)value_api.map_get(m->out[0], "samples"));
}

static void test_empty(void)
{
    made m = node_with(&node_empty_sd3_latent, "width=64; height=48; batch_size=2", NULL, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    kiln_tensor t = samples_of(&m);
    CHECK(t.rank == 4 && t.dim[0] == 2 && t.dim[1] == 6 && t.dim[2] == 8 && t.dim[3] == 16);
    for (int i = 0; i < 2 * 6 * 8 * 16; i++) CHECK(((const float *)t.data)[i] == 0);
    made_free(&m);
}

static void test_cut(void)
{
    const int64_t video[] = {2, 5, 3, 4, 2}, picture[] = {2, 3, 4, 2};
    kiln_value *v = latent_of(5, video, 0), *p = latent_of(4, picture, 0);
    made m = node_with(&node_latent_cut_to_batch, "dim=t; slice_size=2", v, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    kiln_tensor t = samples_of(&m);
    CHECK(t.rank == 5 && t.dim[0] == 4 && t.dim[1] == 2 && t.dim[2] == 3); /* the fifth frame goes */
    CHECK(((const float *)t.data)[0] == 0 && ((const float *)t.data)[2 * 24] == 2000 &&
          ((const float *)t.data)[4 * 24] == 10000 && ((const float *)t.data)[7 * 24 + 3] == 13011);
    made_free(&m);
    m = node_with(&node_latent_cut_to_batch, "dim=x; slice_size=1", p, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    t = samples_of(&m);
    CHECK(t.rank == 4 && t.dim[0] == 8 && t.dim[1] == 3 && t.dim[2] == 1 && t.dim[3] == 2);
    CHECK(((const float *)t.data)[6 * 3 + 4] == 10 * 3 + 200); /* slice 3 of the first, its last row */
    made_free(&m);
    m = node_with(&node_latent_cut_to_batch, "dim=y; slice_size=9", p, NULL, NULL);
    t = samples_of(&m);
    CHECK(m.status == KILN_OK && t.dim[0] == 2 && t.dim[1] == 3);
    made_free(&m);
    m = node_with(&node_latent_cut_to_batch, "dim=t", p, NULL, NULL);
    CHECK(m.status == KILN_OK && m.out[0] == p); /* a picture has no frames */
    made_free(&m);
    value_unref(v), value_unref(p);
}

static void replaced_at(const char *index, int64_t first)
{
    const int64_t long_[] = {2, 5, 2, 2, 1}, short_[] = {2, 2, 2, 2, 1};
    kiln_value *a = latent_of(5, long_, 0), *b = latent_of(5, short_, 500000);
    made m = node_with(&node_replace_video_frames, index, a, b, NULL);
    REQUIRE(m.status == KILN_OK);
    kiln_tensor t = samples_of(&m);
    CHECK_EQ(t.dim[1], 5);
    for (int64_t n = 0; n < 2; n++)
        for (int64_t f = 0; f < 5; f++) {
            int64_t in = f - first;
            float wanted = (float)(10000 * n + (first >= 0 && in >= 0 && in < 2 ? 500000 + 1000 * in : 1000 * f));
            CHECK(((const float *)t.data)[(n * 5 + f) * 4] == wanted);
        }
    made_free(&m);
    value_unref(a), value_unref(b);
}

static void test_replace(void)
{
    const int64_t video[] = {1, 3, 2, 2, 1}, wide[] = {1, 1, 2, 3, 1}, picture[] = {1, 2, 2, 1};
    replaced_at("index=1", 1);
    replaced_at("index=-2", 3);
    replaced_at("index=4", -1); /* they do not fit */
    replaced_at("index=-9", -1);
    kiln_value *v = latent_of(5, video, 0), *w = latent_of(5, wide, 0), *p = latent_of(4, picture, 0);
    made m = node_with(&node_replace_video_frames, "", v, w, NULL);
    CHECK(m.status == KILN_ERR_INVALID && strstr(m.why.message, "differ in more than frames"));
    made_free(&m);
    m = node_with(&node_replace_video_frames, "", v, p, NULL);
    CHECK(m.status == KILN_ERR_INVALID && strstr(m.why.message, "source has no frames"));
    made_free(&m);
    m = node_with(&node_replace_video_frames, "", v, NULL, NULL);
    CHECK(m.status == KILN_OK && m.out[0] == v);
    made_free(&m);
    value_unref(v), value_unref(w), value_unref(p);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_empty), CASE(test_cut), CASE(test_replace)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
