/* test_nearest.c - nearest-exact where a pixel's centre falls on the border of two: torch 2.15's choice, which is that
 * of its floats. From torch.nn.functional.interpolate(mode="nearest-exact") of 0, 1, 2, ... on a processor with fused
 * products.
 */
#include "harness.h"

#include "kiln/resize.h"

/* In exact numbers each of these is the pixel after it. */
static const struct {
    int64_t from, to, at, pixel;
} below[] = {
    {2, 61, 30, 0},    {4, 109, 54, 1},   {8, 47, 23, 3},    {8, 110, 27, 1}, {12, 79, 39, 5},  {16, 55, 27, 7},
    {16, 115, 57, 7},  {18, 139, 69, 8},  {24, 74, 18, 5},   {28, 46, 11, 6}, {30, 81, 40, 14}, {32, 55, 27, 15},
    {36, 111, 92, 29}, {40, 108, 40, 14}, {48, 37, 18, 23},  {52, 11, 5, 25}, {54, 89, 44, 26}, {56, 135, 67, 27},
    {60, 43, 21, 29},  {62, 107, 53, 30}, {64, 107, 53, 31},
};

static void test_ties_go_where_torch_puts_them(void)
{
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        int64_t got = resize_axis(below[i].at, below[i].from, below[i].to, RESIZE_NEAREST).at[0];
        CHECK_MSG(got == below[i].pixel, "%lld of %lld to %lld: pixel %lld, wanted %lld", (long long)below[i].at,
                  (long long)below[i].from, (long long)below[i].to, (long long)got, (long long)below[i].pixel);
    }
}

/* Whole factors have no doubtful places: each pixel so many times, or the middle one of so many. */
static void test_whole_factors(void)
{
    for (int64_t k = 1; k <= 9; k++)
        for (int64_t i = 0; i < 64 * k; i++) CHECK_EQ(resize_axis(i, 64, 64 * k, RESIZE_NEAREST).at[0], i / k);
    for (int64_t k = 1; k <= 9; k += 2)
        for (int64_t i = 0; i < 64; i++) CHECK_EQ(resize_axis(i, 64 * k, 64, RESIZE_NEAREST).at[0], i * k + k / 2);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_ties_go_where_torch_puts_them), CASE(test_whole_factors)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
