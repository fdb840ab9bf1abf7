/* test_conditions.c - what an entry of a conditioning weighs per latent cell: fading edges, rounding of shares, batches
 * of masks.
 *
 * Weights are worked out by hand from ComfyUI's rule: over the n = min(8, side / 4) cells next to an edge inside the
 * picture the weight is 1/n, 2/n, ... n/n, sides by themselves; shares of the picture are rounded to cells, halves to
 * even.
 */
#include "sampling_kit.h"

#include "conditions.h"

enum { HEIGHT = 48, WIDTH = 40 };

/* A call that never ends while the test runs: scratch lives as long. */
static kiln_call reading(void)
{
    return (kiln_call){.size = sizeof(kiln_call), .device = KILN_CPU, .host = rig_host(), .ctx = rig_ctx()};
}

static kiln_value *with_box(const char *key, const double box[4])
{
    kiln_value *list = positive(), *entry = values()->map_copy(NULL, values()->list_at(list, 0)),
               *four = values()->new_list(NULL), *out = values()->new_list(NULL);
    for (int i = 0; i < 4; i++) {
        kiln_value *v = values()->new_float(NULL, box[i]);
        values()->list_push(four, v), drop(v);
    }
    values()->map_set(entry, key, four), values()->list_push(out, entry);
    drop(four), drop(entry), drop(list);
    return out;
}

typedef struct {
    int64_t batch, height, width;
} latent_size; /* pictures; cells */

static condition_reading reading_of(const kiln_call *c, const kiln_value *model, latent_size size)
{
    const kiln_model *m = ((const kiln_model_api *)rig_host()->ability(KILN_MODEL_ABILITY))->model(rig_ctx(), model);
    return (condition_reading){.call = c,
                               .model = m,
                               .counted = model_sampling_of(m),
                               .shape = {size.batch, 1, size.height, size.width, CHANNELS, 4},
                               .what = "positive"};
}

static condition read_one(const kiln_value *list, latent_size size)
{
    kiln_value *model = network_model();
    kiln_call c = reading();
    condition_reading r = reading_of(&c, model, size);
    conditions found = {0};
    if (!CHECK_MSG(conditions_read(&r, list, &found) == KILN_OK && found.n == 1, "%s", rig_message())) exit(1);
    drop(model);
    return found.entry[0];
}

static void check_place(const condition *e, int64_t h, int64_t w, int64_t y, int64_t x)
{
    CHECK_MSG(e->h == h && e->w == w && e->y == y && e->x == x, "%lldx%lld at %lld,%lld, wanted %lldx%lld at %lld,%lld",
              (long long)e->w, (long long)e->h, (long long)e->x, (long long)e->y, (long long)w, (long long)h,
              (long long)x, (long long)y);
}

/* ---- areas ---- */

/* The share of the weight that `at` cells inside an edge have where n cells fade. */
static double share(int64_t at, int64_t n) { return at < n ? (double)(at + 1) / (double)n : 1; }

static void check_fade(const double box[4], int64_t rows, int64_t columns)
{
    kiln_value *list = with_box("area", box);
    condition e = read_one(list, (latent_size){1, HEIGHT, WIDTH});
    check_place(&e, (int64_t)box[0], (int64_t)box[1], (int64_t)box[2], (int64_t)box[3]);
    for (int64_t y = 0; y < e.h; y++)
        for (int64_t x = 0; x < e.w; x++) {
            double want = e.y ? share(y, rows) : 1;
            want *= e.y + e.h < HEIGHT ? share(e.h - 1 - y, rows) : 1;
            want *= e.x ? share(x, columns) : 1;
            want *= e.x + e.w < WIDTH ? share(e.w - 1 - x, columns) : 1;
            CHECK_MSG(fabs((double)e.weight[y * e.w + x] - want) < 2e-7, "%lldx%lld, cell %lld,%lld: %g, wanted %g",
                      (long long)e.w, (long long)e.h, (long long)x, (long long)y, (double)e.weight[y * e.w + x], want);
        }
    drop(list);
}

static void test_small_areas_fade_over_a_quarter_of_their_side(void)
{
    check_fade((const double[]){8, 12, 3, 2}, 2, 3);
    check_fade((const double[]){31, 5, 1, 1}, 7, 1); /* one cell: all of it */
    check_fade((const double[]){3, 36, 4, 1}, 0, 8); /* a side below 4 does not fade */
    check_fade((const double[]){32, 40, 16, 0}, 8, 8);
    check_fade((const double[]){16, 16, 0, 24}, 4, 4); /* edges of the picture do not fade */
}

/* 0.5 of 13 is 6.5, of 15 7.5: the even neighbours are 6 and 8. */
static void test_halves_of_cells_go_to_the_even_one(void)
{
    static const double quarter[4] = {0.5, 0.5, 0.5, 0.5}, thin[4] = {0.01, 0.1, 0.1, 0.5};
    kiln_value *list = with_box("area_percent", quarter), *other = with_box("area_percent", thin);
    condition e = read_one(list, (latent_size){1, 13, 15});
    check_place(&e, 6, 7, 6, 8); /* 8 cells from 8 on would be one too many */
    e = read_one(other, (latent_size){1, 25, 25});
    check_place(&e, 1, 2, 2, 12); /* at least one cell; 2.5 is 2, 12.5 is 12 */
    drop(list), drop(other);
}

/* ---- masks ---- */

/* What ConditioningSetMask makes of `list` (taken). */
static kiln_value *masked(kiln_value *list, int64_t n, int64_t h, int64_t w, const float *cells, double strength,
                          int bounds)
{
    kiln_value *mask = tensor_value(3, (const int64_t[]){n, h, w}, cells),
               *entry = values()->map_copy(NULL, values()->list_at(list, 0)), *out = values()->new_list(NULL),
               *s = values()->new_float(NULL, strength), *b = values()->new_bool(NULL, bounds);
    values()->map_set(entry, "mask", mask), values()->map_set(entry, "mask_strength", s),
        values()->map_set(entry, "set_area_to_bounds", b);
    CHECK_EQ(values()->list_push(out, entry), KILN_OK);
    drop(list), drop(mask), drop(entry), drop(s), drop(b);
    return out;
}

static kiln_value *with_masks(int64_t n, const float *cells) { return masked(positive(), n, 2, 2, cells, 0.5, 0); }

static const float three[12] = {1, 0, 0, 0, 0, 0.5f, 0, 0, 0, 0, 0.25f, 1};

static void test_each_picture_has_its_mask(void)
{
    static const struct {
        int64_t masks, pictures, used;
    } cases[] = {{1, 3, 1}, {3, 3, 3}, {3, 2, 2}, {3, 1, 1}, {2, 4, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        kiln_value *list = with_masks(cases[k].masks, three);
        condition e = read_one(list, (latent_size){cases[k].pictures, 2, 2});
        CHECK_EQ(e.weights, cases[k].used);
        for (int64_t i = 0; e.weights == cases[k].used && i < 4 * e.weights; i++)
            CHECK_EQ(e.weight[i], three[i] * 0.5f);
        drop(list);
    }
}

static void test_masks_that_do_not_divide_are_refused(void)
{
    kiln_value *model = network_model(), *list = with_masks(2, three);
    kiln_call c = reading();
    condition_reading r = reading_of(&c, model, (latent_size){3, 2, 2});
    conditions found;
    CHECK(conditions_read(&r, list, &found) == KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "2 masks for 3 pictures") != NULL, "%s", rig_message());
    drop(list), drop(model);
}

/* The box holds every mask of the batch, those that no picture has among them, and is 8 cells a side at least. */
static void test_bounds_are_those_of_the_whole_batch(void)
{
    static float cells[3 * 20 * 20];
    cells[400 + 3 * 20 + 5] = 1, cells[800 + 14 * 20 + 6] = 1;
    kiln_value *list = masked(positive(), 3, 20, 20, cells, 1, 1);
    condition e = read_one(list, (latent_size){2, 20, 20});
    check_place(&e, 12, 8, 3, 5);
    CHECK_EQ(e.weights, 2);
    CHECK_EQ(e.weight[0], 0), CHECK_EQ(e.weight[12 * 8], 1);
    drop(list);
}

static kiln_value *sampled(int64_t n, const float *cells)
{
    kiln_value *m = network_model(), *yes = positive(), *no = negative(), *part = masked(third(), n, 2, 2, cells, 2, 0),
               *guider[1] = {NULL}, *out[2] = {NULL};
    values()->list_push(yes, values()->list_at(part, 0));
    CHECK_EQ(call(&node_cfg_guider, "cfg=3", (kiln_value *[]){m, yes, no}, guider), KILN_OK);
    CHECK_MSG(sample((parts){.model = m, .guider = guider[0]}, out) == KILN_OK, "%s", call_why.message);
    drop(yes), drop(no), drop(part), drop(out[1]);
    return out[0];
}

/* Two pictures with a mask each are what each is with its mask alone. */
static void test_pictures_with_masks_of_their_own(void)
{
    static const float pair[8] = {1, 0, 0, 0, 0, 0.5f, 0, 1};
    kiln_value *both = sampled(2, pair), *first = sampled(1, pair), *second = sampled(1, pair + 4);
    size_t half = NUMBERS / PICTURES;
    CHECK(memcmp(samples_of(both), samples_of(first), half * sizeof(float)) == 0);
    CHECK(memcmp(samples_of(both) + half, samples_of(second) + half, half * sizeof(float)) == 0);
    CHECK(memcmp(samples_of(first) + half, samples_of(second) + half, half * sizeof(float)) !=
          0); /* the masks matter */
    drop(both), drop(first), drop(second);
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_small_areas_fade_over_a_quarter_of_their_side),
        CASE(test_halves_of_cells_go_to_the_even_one),
        CASE(test_each_picture_has_its_mask),
        CASE(test_masks_that_do_not_divide_are_refused),
        CASE(test_bounds_are_those_of_the_whole_batch),
        CASE(test_pictures_with_masks_of_their_own),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
