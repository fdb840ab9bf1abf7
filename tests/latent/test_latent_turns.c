/* test_latent_turns.c - LatentRotate and LatentFlip on a latent of 2 x 3 cells, cell by cell, as torch.rot90 (k
 * quarters over the dims [3, 2]) and torch.flip turn ComfyUI's.
 */
#include "latent.h"
#include "node_kit.h"

enum { PICTURES = 2, H = 2, W = 3, C = 4 };

/* abc over def. */
static const struct {
    const kiln_node *node;
    const char *settings;
    int64_t h, w;
    const char *cells;
} rows[] = {{&node_latent_rotate, "rotation=none", 2, 3, "abcdef"},
            {&node_latent_rotate, "rotation=90 degrees", 3, 2, "daebfc"},
            {&node_latent_rotate, "rotation=180 degrees", 2, 3, "fedcba"},
            {&node_latent_rotate, "rotation=270 degrees", 3, 2, "cfbead"},
            {&node_latent_flip, "flip_method=x-axis: vertically", 2, 3, "defabc"},
            {&node_latent_flip, "flip_method=y-axis: horizontally", 2, 3, "cbafed"}};

static float number(int64_t picture, char cell, int64_t channel)
{
    return (float)(100 * picture + 10 * (cell - 'a') + channel);
}

static void test_every_turn(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float *x;
        kiln_value *map = value_map(), *samples = tensor_of(4, (const int64_t[]){PICTURES, H, W, C}, NULL, &x);
        for (int64_t k = 0; k < PICTURES * H * W * C; k++)
            x[k] = number(k / (H * W * C), (char)('a' + k / C % (H * W)), k % C);
        if (!CHECK_EQ(value_api.map_set(map, "samples", samples), KILN_OK)) exit(1);
        value_unref(samples);
        made m = node_with(rows[i].node, rows[i].settings, map, NULL, NULL);
        if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
            kiln_tensor t = view_of(value_api.map_get(m.out[0], "samples"));
            CHECK(t.rank == 4 && t.dim[0] == PICTURES && t.dim[1] == rows[i].h && t.dim[2] == rows[i].w &&
                  t.dim[3] == C);
            const float *got = t.data;
            for (int64_t k = 0; k < PICTURES * H * W * C; k++)
                CHECK_MSG(got[k] == number(k / (H * W * C), rows[i].cells[k / C % (H * W)], k % C),
                          "%s: number %d is %g", rows[i].settings, (int)k, (double)got[k]);
        }
        made_free(&m);
        value_unref(map);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_turn)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
